"""The TLS settings from the environment; the same for data nodes, operator and load. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_RENEW_S = 300
DEFAULT_CLIENTS = ("load", "harness")
_LEAST_RENEW_S, _MOST_RENEW_S = 1, 86_400
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class TlsSettingsError(Exception):
    """The variable, what was found and what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """`directory` holds `tls.crt`, `tls.key` and `ca.crt`. The side that opened a connection renews
    it after `renew_s` at most; the side that accepted it ends it after twice as long.
    """

    directory: Path
    domain: str
    renew_s: float = DEFAULT_RENEW_S
    clients: tuple[str, ...] = DEFAULT_CLIENTS

    @property
    def longest_s(self) -> float:
        """The longest duration of an accepted connection, in seconds."""
        return 2.0 * self.renew_s


def tls_from(environment: Mapping[str, str]) -> TlsSettings | None:
    """Read the settings; None: no TLS. Raises TlsSettingsError."""
    directory = environment.get("ZQ_TLS_DIR", "")
    if not directory:
        return None
    domain = environment.get("ZQ_TLS_DOMAIN", "")
    if not _NAME.fullmatch(domain) or "." not in domain:
        raise TlsSettingsError(
            f"ZQ_TLS_DOMAIN is {domain!r}; expected <release>.<namespace>.zonequake.internal"
        )
    text = environment.get("ZQ_TLS_RENEW_SECONDS", "") or str(DEFAULT_RENEW_S)
    if not text.isdecimal() or not _LEAST_RENEW_S <= int(text) <= _MOST_RENEW_S:
        raise TlsSettingsError(
            f"ZQ_TLS_RENEW_SECONDS is {text!r}; expected an integer from {_LEAST_RENEW_S} to "
            f"{_MOST_RENEW_S}"
        )
    words = environment.get("ZQ_TLS_CLIENTS", ",".join(DEFAULT_CLIENTS)).split(",")
    clients = tuple(word for word in words if word)
    for word in clients:
        if not _NAME.fullmatch(word):
            raise TlsSettingsError(
                f"ZQ_TLS_CLIENTS names {word!r}; expected roles (load, harness) or whole "
                "identities, separated by commas"
            )
    return TlsSettings(
        directory=Path(directory), domain=domain, renew_s=float(text), clients=clients
    )
