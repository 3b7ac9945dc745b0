"""Fetches the run's Prometheus samples through the API server's service proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError

PROMETHEUS_PORT = 9090
_TIMEOUT_S = 60.0


async def pull_metrics(
    kube: Kube, service: str, folder: Path, *, start_ms: int, end_ms: int
) -> list[str]:
    """Writes the samples of the run's time to `folder`; returns problems.

    An installation without Prometheus is no problem: metrics explain a run, they don't judge it.
    """
    if not service:
        return []
    # Imported only here: it brings pyarrow and protobuf, which a dry run doesn't need.
    try:
        from zonequake_analysis import errors
        from zonequake_analysis.inputs import remote_read
    except ImportError as error:
        return [f"metrics: {error}; pip install 'zonequake[analysis]'"]

    loop = asyncio.get_running_loop()

    def post(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        call = kube.service_proxy(
            service,
            PROMETHEUS_PORT,
            path,
            method="POST",
            body=body,
            headers=headers,
            timeout_s=_TIMEOUT_S,
        )
        return asyncio.run_coroutine_threadsafe(call, loop).result(timeout=_TIMEOUT_S)

    try:
        await asyncio.to_thread(remote_read.pull, post, start_ms, end_ms, [], folder)
    except (ClusterError, errors.PrometheusError) as error:
        return [f"metrics: {error}"]
    return []
