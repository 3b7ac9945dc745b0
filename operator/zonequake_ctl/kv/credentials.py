"""The harness's certificate for `zonequake kv`: out of the release's Secret, or out of a folder."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.release.tls_settings import TlsPlace
from zonequake_kube.errors import ClusterError, UsageError
from zonequake_kube.objects import Json
from zonequake_tls.credentials import Credentials, UnusableCredentials
from zonequake_tls.identity import TlsRole
from zonequake_tls.settings import TlsSettings, TlsSettingsError, tls_from

if TYPE_CHECKING:
    from zonequake_kube.client import Kube


def own_credentials(environment: Mapping[str, str]) -> Credentials | None:
    """Returns the credentials that ZQ_TLS_DIR and ZQ_TLS_DOMAIN name; None: no TLS. Raises
    UsageError.
    """
    try:
        settings = tls_from(environment)
        return None if settings is None else Credentials(settings, TlsRole.HARNESS)
    except (TlsSettingsError, UnusableCredentials) as error:
        raise UsageError(str(error)) from error


async def release_credentials(place: ReleasePlace, folder: Path) -> Credentials | None:
    """Writes a release's credentials into an empty folder and returns them; None: it has no TLS.
    Raises ClusterError.
    """
    async with await place.connect() as kube:
        harness = await _read(kube, "ConfigMap", f"{place.release}-harness", place)
        tls = TlsPlace.of(harness["data"])
        if tls is None:
            return None
        name = tls.secret(TlsRole.HARNESS)
        secret = await _read(kube, "Secret", name, place)
        files = {key: base64.b64decode(value) for key, value in secret["data"].items()}
        if tls.authorities:
            trusted = await _read(kube, "ConfigMap", tls.authorities, place)
            files["ca.crt"] = trusted["data"].get(tls.authorities_key, "").encode()
    for key, content in files.items():
        descriptor = os.open(folder / key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    try:
        return Credentials(TlsSettings(directory=folder, domain=tls.domain), TlsRole.HARNESS)
    except UnusableCredentials as error:
        raise ClusterError(f"Secret {name}: {error}") from error


async def _read(kube: Kube, kind: str, name: str, place: ReleasePlace) -> Json:
    try:
        return await kube.get(kind, name)
    except ClusterError as error:
        raise ClusterError(
            f"cannot read {kind} {name} of {place.namespace}: {error}; is release {place.release} "
            f"installed there, and do you have its role {place.release}-kv?",
            status=error.status,
        ) from error
