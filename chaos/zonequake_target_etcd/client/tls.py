"""TLS to members: what the client trusts and shows, and why a connection was refused."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from zonequake_load.errors import TargetError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """The certificates of one client; `shows` whether it has one of its own."""

    credentials: grpc.ChannelCredentials
    context: ssl.SSLContext
    shows: bool

    @classmethod
    def read(cls, folder: Path) -> ClientTls:
        """Reads `ca.crt`, and `tls.crt` and `tls.key` where they are. Raises TargetError."""
        authority, certificate, key = (folder / name for name in ("ca.crt", "tls.crt", "tls.key"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["h2"])
        try:
            context.load_verify_locations(authority)
            shows = certificate.exists() or key.exists()
            if shows:
                context.load_cert_chain(certificate, key)
            credentials = grpc.ssl_channel_credentials(
                authority.read_bytes(),
                key.read_bytes() if shows else None,
                certificate.read_bytes() if shows else None,
            )
        except (OSError, ValueError) as error:
            raise TargetError(
                f"the Secret of target.clientSecret, in {folder}, can't be used: {error}; expected "
                "ca.crt, and if members demand a certificate of clients, tls.crt and its tls.key"
            ) from error
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
