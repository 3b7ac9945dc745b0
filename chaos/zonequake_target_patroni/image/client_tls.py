"""TLS to members: by addresses that change, verified by the names that don't."""

from __future__ import annotations

import ssl
from pathlib import Path

from zonequake_load.errors import TargetError


class NamedContext(ssl.SSLContext):
    """Verifies a server by `name`, wherever the connection goes: asyncpg knows only the address."""

    name: str

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.name, session)


def context_of(folder: Path, name: str) -> NamedContext:
    """Reads a Secret's `ca.crt`, and `tls.crt` and `tls.key` where they are. Raises TargetError."""
    authority, certificate, key = (folder / each for each in ("ca.crt", "tls.crt", "tls.key"))
    context = NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.name = name
    try:
        context.load_verify_locations(authority)
        if certificate.exists() or key.exists():
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise TargetError(
            f"the Secret of target.clientSecret, in {folder}, can't be used: {error}; expected "
            "ca.crt, and if members demand a certificate of clients, tls.crt and its tls.key"
        ) from error
    return context
