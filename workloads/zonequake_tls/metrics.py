"""The metrics of a process's certificate and of the connections that it refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from zonequake_tls.connection_limits import ConnectionLimits
from zonequake_tls.credentials import Credentials


class CertificateCollector(Collector):
    """`refused`: by port and reason, as `Admission` counts it."""

    def __init__(
        self, credentials: Credentials, refused: Mapping[tuple[str, str], int] | None = None
    ) -> None:
        self._credentials = credentials
        self._refused = refused if refused is not None else Counter()

    def collect(self) -> Iterator[Metric]:
        credentials = self._credentials
        for name, text, value in (
            (
                "expiry_timestamp_seconds",
                "Expiry of the certificate in use.",
                credentials.expiry_s,
            ),
            ("start_timestamp_seconds", "Start of its validity.", credentials.start_s),
            (
                "problem",
                "1 while the files hold something that can't be used, and the old stays in use.",
                int(credentials.problem is not None),
            ),
        ):
            family = GaugeMetricFamily(f"zonequake_certificate_{name}", text, labels=("identity",))
            family.add_metric((credentials.identity,), value)
            yield family
        trust = GaugeMetricFamily(
            "zonequake_certificate_trust_info",
            "1 for the digest of the trusted authorities (ca.crt).",
            labels=("identity", "authorities"),
        )
        trust.add_metric((credentials.identity, credentials.trust), 1)
        yield trust
        refused = CounterMetricFamily(
            "zonequake_connections_refused",
            "Connections that ended in their handshake, by port and reason.",
            labels=("port", "reason"),
        )
        for (port, reason), count in sorted(self._refused.items()):
            refused.add_metric((port, reason), count)
        yield refused


class ConnectionCollector(Collector):
    """Collects the connections of each port, and those that were cut."""

    def __init__(self, limits: Sequence[ConnectionLimits]) -> None:
        self._limits = limits

    def collect(self) -> Iterator[Metric]:
        there = GaugeMetricFamily(
            "zonequake_connections", "Connections that are open, by port.", labels=("port",)
        )
        cut = CounterMetricFamily(
            "zonequake_connections_cut",
            "Connections that were cut: the port was full, no frame or half a frame came for too "
            "long, or too many bytes were incomplete or unread.",
            labels=("port", "reason"),
        )
        for limits in self._limits:
            there.add_metric((limits.name,), len(limits))
            for reason, count in sorted(limits.cut.items()):
                cut.add_metric((limits.name, reason), count)
        yield there
        yield cut
