"""What the processes tell Prometheus, read from their own collectors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from tests.unit.repository.test_layout import ROOT, SOURCE_ROOTS
from tests.unit.store.one_node import OneNode
from zonequake_load.pod.tally import OperationTally
from zonequake_operator.controller import metrics
from zonequake_store.serving.metrics import CommitTimes, NodeCollector
from zonequake_tls.credentials import Credentials
from zonequake_tls.metrics import CertificateCollector, ConnectionCollector

MODULES = {
    "operator/zonequake_operator/controller/metrics.py",
    "workloads/zonequake_load/pod/tally.py",
    "workloads/zonequake_store/serving/metrics.py",
    "workloads/zonequake_tls/metrics.py",
}
"""The modules that `exported` asks."""

_KINDS = ("Counter", "Enum", "Gauge", "Histogram", "Info", "Summary")


def modules_with_metrics() -> set[str]:
    """Returns the product's modules that import a kind of metric from prometheus_client."""
    return {
        path.relative_to(ROOT).as_posix()
        for root in SOURCE_ROOTS
        for path in (ROOT / root).rglob("*.py")
        if any(name.removesuffix("MetricFamily") in _KINDS for name in _imported(path))
    }


def _imported(path: Path) -> Iterator[str]:
    text = path.read_text()
    if "prometheus_client" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prometheus_client"):
            yield from (each.name for each in node.names)


async def exported(folder: Path) -> dict[str, tuple[str, ...]]:
    """Returns each metric's name, as a query gives it, with its labels."""
    registry = CollectorRegistry()
    CommitTimes(registry)
    OperationTally(registry)
    credentials = SimpleNamespace(
        expiry_s=2.0, start_s=1.0, problem=None, identity="operator", trust="0a"
    )
    families = [
        *CertificateCollector(cast("Credentials", credentials)).collect(),
        *ConnectionCollector([]).collect(),
    ]
    async with OneNode(folder) as node:
        families += NodeCollector(node.host, list).collect()
    made = [
        *(each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)),
        *(cast("MetricWrapperBase", each) for each in registry._collector_to_names),
    ]
    told = [(one._name, one._type, one._labelnames) for one in made]
    told += [(one.name, one.type, vars(one)["_labelnames"]) for one in families]
    # What a query asks for: the name of a counter has an end of its own.
    return {
        f"{name}_total" if kind == "counter" else name: tuple(labels) for name, kind, labels in told
    }
