"""Secrets with certificates, for targets whose members and clients speak TLS."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from zonequake_cluster.supply.certificate_authority import Authority, Credential
from zonequake_ctl.context import ReleasePlace


def hosts_of(target: str, place: ReleasePlace) -> list[str]:
    """The names that three members have for each other, and for clients."""
    service = f"zq-target.{place.namespace}.svc"
    return [f"zq-{target}-default-{ordinal}.{service}" for ordinal in range(3)]


async def make_secrets(
    place: ReleasePlace, authority: Authority, signed: Mapping[str, Credential]
) -> None:
    """Makes a Secret of each name, with the authority's certificate, too."""
    async with await place.connect() as kube:
        for name, credential in signed.items():
            files = {
                "tls.crt": credential.certificate,
                "tls.key": credential.key,
                "ca.crt": authority.certificate,
            }
            data = {key: base64.b64encode(text).decode() for key, text in files.items()}
            metadata = {"name": name}
            await kube.apply(
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
            )
