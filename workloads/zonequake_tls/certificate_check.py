"""A TLS context that checks the other side's identity at the end of each handshake.

The check stands inside the handshake, so that no protocol, server or client library above it ever
sees a connection of an identity that isn't allowed.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from zonequake_tls.identity import names_in


class IdentityRefused(ssl.SSLCertVerificationError):
    """The certificate is of our authority, but its identity is not allowed here."""


class _Examined(ssl.SSLObject):
    def do_handshake(self) -> None:
        super().do_handshake()
        context = self.context
        assert isinstance(context, ExaminingContext)
        context.examine(self.getpeercert())


class ExaminingContext(ssl.SSLContext):
    """TLS 1.3 alone; both sides show a certificate. `allowed`: identities, one of which the other
    side must have."""

    sslobject_class = _Examined
    allowed: frozenset[str] = frozenset()

    def examine(self, certificate: Mapping[str, object] | None) -> None:
        """Raises IdentityRefused."""
        names = names_in(certificate)
        if self.allowed.isdisjoint(names):
            found = " and ".join(names) or "a certificate without a DNS name"
            expected = " or ".join(sorted(self.allowed)) or "no identity: none is allowed here"
            raise IdentityRefused(ssl.SSL_ERROR_SSL, f"found {found}, expected {expected}")


def context_for(
    protocol: int,
    *,
    certificate: Path,
    key: Path,
    authorities: str,
    allowed: frozenset[str],
) -> ExaminingContext:
    """Makes a context of one side (`ssl.PROTOCOL_TLS_SERVER` or `_CLIENT`). Raises OSError
    (ssl.SSLError is one).
    """
    context = ExaminingContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # A resumed session isn't verified again, neither its date nor its authority.
        context.num_tickets = 0
    context.load_verify_locations(cadata=authorities)
    context.load_cert_chain(certificate, key)
    context.allowed = allowed
    return context
