"""Certificates of a release of its own, in folders as the kubelet mounts a Secret."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from zonequake_cluster.supply.certificate_authority import Authority, Credential
from zonequake_tls.credentials import Credentials
from zonequake_tls.identity import TlsRole, identity_of
from zonequake_tls.settings import TlsSettings

DOMAIN = "zq.test.zonequake.internal"


class Certificates:
    """One authority, and a folder `<directory>/<role>` for each role."""

    def __init__(
        self, directory: Path, *, renew_s: int = 300, clients: str = "load,harness"
    ) -> None:
        self.directory = directory
        self.renew_s = renew_s
        self.clients = clients
        self.authority = Authority.made("a test's authority", datetime.now(UTC))
        self.trusted = self.authority.certificate
        self._versions = itertools.count()
        for role in TlsRole:
            self.write(role)

    def write(
        self,
        folder: str,
        *,
        identity: str | None = None,
        authority: Authority | None = None,
        lifetime: timedelta = timedelta(days=1),
    ) -> Path:
        """Another certificate into a folder; returns the folder."""
        name = identity or identity_of(folder, DOMAIN)
        signed = (authority or self.authority).sign(name, hosts=[name], lifetime=lifetime)
        return self.place(folder, signed)

    def place(self, folder: str, credential: Credential) -> Path:
        """Replace all files of a folder at once."""
        target = self.directory / folder
        version = f"..{next(self._versions)}"
        (target / version).mkdir(parents=True)
        (target / version / "tls.crt").write_bytes(credential.certificate)
        (target / version / "tls.key").write_bytes(credential.key)
        (target / version / "ca.crt").write_bytes(self.trusted)
        fresh = target / "..data_tmp"
        fresh.symlink_to(version)
        os.replace(fresh, target / "..data")
        for name in ("tls.crt", "tls.key", "ca.crt"):
            if not (target / name).is_symlink():
                (target / name).symlink_to(f"..data/{name}")
        return target

    def environment(self, folder: str) -> dict[str, str]:
        return {
            "ZQ_TLS_DIR": str(self.directory / folder),
            "ZQ_TLS_DOMAIN": DOMAIN,
            "ZQ_TLS_CLIENTS": self.clients,
            "ZQ_TLS_RENEW_SECONDS": str(self.renew_s),
        }

    def credentials(self, role: TlsRole) -> Credentials:
        settings = TlsSettings(
            directory=self.directory / role, domain=DOMAIN, renew_s=float(self.renew_s)
        )
        return Credentials(settings, role)

    def to_store(self, role: TlsRole) -> dict[str, Any]:
        """Words for a request of aiohttp's to a data node."""
        credentials = self.credentials(role)
        return {
            "ssl": credentials.for_connecting(TlsRole.STORE),
            "server_hostname": credentials.name_of(TlsRole.STORE),
        }
