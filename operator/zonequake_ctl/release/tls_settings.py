"""The location of a release's certificates: the TLS part of its harness ConfigMap (docs/tls.md).

Pure; `kv.credentials` fetches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zonequake_tls.identity import TlsRole


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPlace:
    """Secrets and ConfigMaps of a release that has TLS. `authorities`: the ConfigMap with what is
    trusted, if that isn't in the Secrets."""

    release: str
    domain: str
    renew_s: int
    authorities: str
    authorities_key: str

    @classmethod
    def of(cls, harness: Mapping[str, str]) -> TlsPlace | None:
        """Returns the settings in the data of the ConfigMap `<release>-harness`; None: no TLS."""
        if not harness.get("tlsDomain"):
            return None
        return cls(
            release=harness["release"],
            domain=harness["tlsDomain"],
            renew_s=int(harness["tlsRenewSeconds"]),
            authorities=harness["tlsAuthorities"],
            authorities_key=harness["tlsAuthoritiesKey"],
        )

    def secret(self, role: TlsRole) -> str:
        """Returns the name of the Secret with a role's certificate."""
        return f"{self.release}-tls-{role}"

    def environment(self, folder: str) -> list[dict[str, str]]:
        """Returns the environment of a container that has the files in `folder`."""
        return [
            {"name": "ZQ_TLS_DIR", "value": folder},
            {"name": "ZQ_TLS_DOMAIN", "value": self.domain},
            {"name": "ZQ_TLS_RENEW_SECONDS", "value": str(self.renew_s)},
        ]

    def volume(self, role: TlsRole) -> dict[str, Any]:
        """Renders a pod's volume `tls` with the files of a role."""
        keys = ["tls.crt", "tls.key"] if self.authorities else ["tls.crt", "tls.key", "ca.crt"]
        sources: list[dict[str, Any]] = [
            {
                "secret": {
                    "name": self.secret(role),
                    "items": [{"key": key, "path": key} for key in keys],
                }
            }
        ]
        if self.authorities:
            item = {"key": self.authorities_key, "path": "ca.crt"}
            sources.append({"configMap": {"name": self.authorities, "items": [item]}})
        return {"name": "tls", "projected": {"defaultMode": 0o440, "sources": sources}}
