"""The certificates that the chart made, replaced in place with nothing restarted (docs/tls.md).

Each step waits until every process says in its metrics that it goes by what was written. What a
command that was broken off has done stays, and the next one goes on from there.
"""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509

from zonequake_cluster.supply.certificate_authority import Authority, Credential
from zonequake_ctl.release.tls_settings import TlsPlace
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, NotFound, UsageError, WaitExpired
from zonequake_kube.objects import Json
from zonequake_tls.credentials import trust_of
from zonequake_tls.identity import TlsRole, identity_of

DAYS = 365
#: As the chart has it: an upgrade signs again after that.
RENEW_AFTER = "zonequake.io/renew-after"
_PORTS = {"store": 8080, "operator": 8080, "load": 8081}
_NEXT = ("next.crt", "next.key")
_POLL_S = 2.0
#: Tells processes apart that show a certificate made in the same second.
_SLACK_S = 1.0

_TRUST = re.compile(r'^zonequake_certificate_trust_info\{.*authorities="(\w+)"', flags=re.MULTILINE)
_EXPIRY = re.compile(
    r"^zonequake_certificate_expiry_timestamp_seconds\{[^}]*\} (\S+)", flags=re.MULTILINE
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedCertificate:
    """The certificate that a process reports to use."""

    trust: str
    expiry_s: float


def in_use(metrics: str) -> UsedCertificate | None:
    """Out of a process's metrics; None: it knows of no certificate."""
    trust = _TRUST.search(metrics)
    expiry = _EXPIRY.search(metrics)
    if trust is None or expiry is None:
        return None
    return UsedCertificate(trust=trust[1], expiry_s=float(expiry[1]))


class Certificates:
    """The certificates of one release. Raises ClusterError where the API server refuses."""

    def __init__(self, kube: Kube, place: TlsPlace, *, tell: Tell, patience_s: float) -> None:
        self._kube = kube
        self._place = place
        self._tell = tell
        self._patience_s = patience_s

    @property
    def _authority_secret(self) -> str:
        return f"{self._place.release}-tls-authority"

    async def show(self) -> list[str]:
        """Returns a line for each certificate."""
        lines = []
        for name in (self._authority_secret, *(self._place.secret(role) for role in TlsRole)):
            data = await self._data(name)
            found = x509.load_pem_x509_certificate(data["tls.crt"])
            lines.append(
                f"{name}: {found.subject.rfc4514_string()}, by {found.issuer.rfc4514_string()}, "
                f"until {found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
            )
        return lines

    async def renew(self) -> None:
        """Sign all certificates again. Raises WaitExpired, UsageError."""
        data = await self._own_authority()
        await self._sign(_credential(data, "tls"))

    async def replace_authority(self) -> None:
        """Put a new authority in the old one's place. Raises WaitExpired, UsageError."""
        if self._place.authorities:
            raise UsageError(
                f"found the trusted authorities in the ConfigMap {self._place.authorities}, "
                "expected "
                "them in the Secrets: write both authorities to that ConfigMap first"
            )
        data = await self._own_authority()
        if "next.crt" not in data:
            name = f"zonequake {secrets.token_hex(4)}"
            lifetime = timedelta(days=10 * DAYS)
            made = Authority.made(name, datetime.now(UTC), lifetime=lifetime).credential
            data |= {"next.crt": made.certificate, "next.key": made.key}
            await self._write(self._authority_secret, data)
        old, fresh = _credential(data, "tls"), _credential(data, "next")
        self._tell("1 of 3: the new authority is trusted beside the old one")
        await self._trust(old.certificate + fresh.certificate)
        self._tell("2 of 3: certificates are signed by the new one")
        await self._sign(fresh)
        self._tell("3 of 3: the old authority is no longer trusted")
        await self._trust(fresh.certificate)
        await self._write(
            self._authority_secret,
            {"tls.crt": fresh.certificate, "tls.key": fresh.key, **dict.fromkeys(_NEXT)},
        )

    async def _own_authority(self) -> dict[str, bytes]:
        try:
            return await self._data(self._authority_secret)
        except NotFound as error:
            raise UsageError(
                f"found no Secret {self._authority_secret}: the certificates of this release are "
                "not the chart's own, but cert-manager's or yours; renew them there"
            ) from error

    async def _sign(self, by: Credential) -> None:
        now = datetime.now(UTC)
        authority = Authority.read(by, now)
        for role in TlsRole:
            name = identity_of(role, self._place.domain)
            signed = authority.sign(role, hosts=[name], lifetime=timedelta(days=DAYS))
            after = int((now + timedelta(days=DAYS * 2 / 3)).timestamp())
            await self._write(
                self._place.secret(role),
                {"tls.crt": signed.certificate, "tls.key": signed.key},
                annotations={RENEW_AFTER: str(after)},
            )
        expiry_s = (now + timedelta(days=DAYS)).timestamp() - _SLACK_S
        await self._until_used("its new certificate", lambda used: used.expiry_s >= expiry_s)

    async def _trust(self, authorities: bytes) -> None:
        for role in TlsRole:
            await self._write(self._place.secret(role), {"ca.crt": authorities})
        wanted = trust_of(authorities)
        await self._until_used("these authorities", lambda used: used.trust == wanted)

    async def _until_used(self, what: str, holds: Callable[[UsedCertificate], bool]) -> None:
        end_s = time.monotonic() + self._patience_s
        while waiting := await self._unlike(holds):
            if time.monotonic() > end_s:
                raise WaitExpired(
                    f"{', '.join(waiting)} didn't use {what} within {self._patience_s:.0f} s; "
                    "their logs show whether they refuse it. Nothing is broken: the same command "
                    "goes on from here"
                )
            await asyncio.sleep(_POLL_S)

    async def _unlike(self, holds: Callable[[UsedCertificate], bool]) -> list[str]:
        """Pods of which it doesn't hold, or that don't say."""
        unlike = []
        labels = f"app.kubernetes.io/instance={self._place.release}"
        for pod in await self._kube.find("Pod", labels):
            port = _PORTS.get(pod["metadata"]["labels"].get("app.kubernetes.io/component", ""))
            if port is None or pod["status"].get("phase") != "Running":
                continue
            name = pod["metadata"]["name"]
            try:
                used = in_use((await self._kube.pod_proxy(name, port, "/metrics")).decode())
            except ClusterError:
                used = None
            if used is None or not holds(used):
                unlike.append(name)
        return unlike

    async def _data(self, name: str) -> dict[str, bytes]:
        found = await self._kube.get("Secret", name)
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}

    async def _write(
        self,
        name: str,
        data: Mapping[str, bytes | None],
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        encoded = {
            key: None if value is None else base64.b64encode(value).decode()
            for key, value in data.items()
        }
        change: Json = {"data": encoded}
        if annotations is not None:
            change["metadata"] = {"annotations": dict(annotations)}
        await self._kube.patch("Secret", name, change)


def _credential(data: Mapping[str, bytes], name: str) -> Credential:
    return Credential(certificate=data[f"{name}.crt"], key=data[f"{name}.key"])
