"""Identities: one DNS name per role and release, in the certificate's subject alternative names.

`operator.zq.shop.zonequake.internal` is the operator of the release `zq` in the namespace `shop`.
`internal` is kept for private use: no name below it can be registered.

A DNS name and not a URI, because the library itself then verifies the server that a client has
reached, and because helm's own functions can write nothing else into a certificate. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping


class TlsRole(enum.StrEnum):
    """The role of a process in a release."""

    STORE = "store"
    OPERATOR = "operator"
    LOAD = "load"
    HARNESS = "harness"


def identity_of(role: str, domain: str) -> str:
    """Returns the identity of a role; `domain` is the suffix of all identities of a release."""
    return f"{role}.{domain}"


def allowed_by(words: Iterable[str], domain: str) -> frozenset[str]:
    """Identities that a list of words allows: a word without a dot is a role of this release, one
    with a dot is a whole identity, signed by the same authority.
    """
    return frozenset(word if "." in word else identity_of(word, domain) for word in words)


def names_in(certificate: Mapping[str, object] | None) -> tuple[str, ...]:
    """Returns the DNS names of a certificate as `SSLSocket.getpeercert` gives it."""
    alternatives = (certificate or {}).get("subjectAltName", ())
    assert isinstance(alternatives, tuple)
    return tuple(str(value) for kind, value in alternatives if kind == "DNS")
