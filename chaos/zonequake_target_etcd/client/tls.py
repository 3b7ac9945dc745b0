"""TLS to members: what the client trusts and shows, and why a connection was refused."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from zonequake_load.targets.secret_tls import AUTHORITY, CERTIFICATE, KEY, load_secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """The certificates of one client; `shows` whether it has one of its own."""

    credentials: grpc.ChannelCredentials
    context: ssl.SSLContext
    shows: bool

    @classmethod
    def read(cls, folder: Path) -> ClientTls:
        """Reads `ca.crt`, and `tls.crt` and `tls.key` where they are. Raises TargetError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["h2"])
        shows = load_secret(context, folder)
        credentials = grpc.ssl_channel_credentials(
            (folder / AUTHORITY).read_bytes(),
            (folder / KEY).read_bytes() if shows else None,
            (folder / CERTIFICATE).read_bytes() if shows else None,
        )
        return cls(credentials=credentials, context=context, shows=shows)

    async def refusal(self, address: str, name: str, timeout_s: float) -> str:
        """Returns why a member, or this client, ends a connection, which gRPC doesn't say. Sends
        nothing but a handshake. Raises TimeoutError.
        """
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(
                    host.strip("[]"), int(port), ssl=self.context, server_hostname=name
                )
                try:
                    # With TLS 1.3 a client's handshake is over before the server has judged it.
                    if await reader.read(1):
                        return "refused at first, and taken when asked again"
                finally:
                    writer.close()
        except TimeoutError:  # which is an OSError, too
            raise
        except OSError as error:
            why = str(error)
            if "alert" not in why.lower():  # an alert is the refusal of the member
                return why
        else:
            why = "the member ended the connection"
        if not self.shows:
            return f"{why}; the client shows no certificate, as its Secret has no tls.crt"
        return f"{why}; check the dates and the authority of the client's tls.crt"
