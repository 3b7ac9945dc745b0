"""TLS to members: by addresses that change, verified by the names that don't."""

from __future__ import annotations

import ssl
from pathlib import Path

from zonequake_load.targets.secret_tls import load_secret


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
    """Reads a Secret for a connection to the member of that name. Raises TargetError."""
    context = NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.name = name
    load_secret(context, folder)
    return context
