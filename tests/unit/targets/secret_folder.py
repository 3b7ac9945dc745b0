"""The folder of a client's Secret, as a load pod has it."""

from __future__ import annotations

from pathlib import Path

from zonequake_cluster.supply.certificate_authority import Authority, Credential


def secret_in(folder: Path, authority: Authority, certificate: Credential | None = None) -> Path:
    folder.mkdir()
    (folder / "ca.crt").write_bytes(authority.certificate)
    if certificate is not None:
        (folder / "tls.crt").write_bytes(certificate.certificate)
        (folder / "tls.key").write_bytes(certificate.key)
    return folder
