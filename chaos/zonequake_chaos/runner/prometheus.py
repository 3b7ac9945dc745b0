"""Fetches the run's Prometheus samples, and its alert rules, through the API server's proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError
from zonequake_kube.retries import retried

PROMETHEUS_PORT = 9090
_TIMEOUT_S = 60.0
_ATTEMPTS = 3
_PAUSE_S = 1.0
_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
"""A query that Prometheus can't evaluate."""


async def pull_metrics(
    kube: Kube, service: str, folder: Path, *, start_ms: int, end_ms: int
) -> list[str]:
    """Writes the samples of the run's time to `folder`, and where its alert rules held; returns
    problems.

    An installation without Prometheus is no problem: metrics explain a run, they don't judge it.
    """
    if not service:
        return []
    # Imported only here: it brings pyarrow and protobuf, which a dry run doesn't need.
    try:
        from zonequake_analysis import errors
        from zonequake_analysis.inputs.prometheus import remote_read
        from zonequake_analysis.metrics import alert_rules
    except ImportError as error:
        return [f"metrics: {error}; pip install 'zonequake[analysis]'"]

    loop = asyncio.get_running_loop()

    def ask(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        call = partial(
            kube.service_proxy,
            service,
            PROMETHEUS_PORT,
            path,
            method=method,
            body=body,
            headers=headers,
            timeout_s=_TIMEOUT_S,
        )
        asked = retried(call, attempts=_ATTEMPTS, pause_s=_PAUSE_S, is_final=_is_refusal)
        return asyncio.run_coroutine_threadsafe(asked, loop).result()

    def fetch(path: str, form: Mapping[str, str] | None) -> bytes:
        if form is None:
            return ask("GET", path, None, {})
        try:
            return ask("POST", path, urlencode(form).encode(), remote_read.FORM)
        except ClusterError as error:
            if error.status in _REFUSED:
                raise errors.PrometheusError(error.words or str(error)) from error
            raise

    def pull() -> None:
        remote_read.pull(partial(ask, "POST"), start_ms, end_ms, [], folder)
        rules = alert_rules.pull_rules(fetch, start_ms, end_ms)
        (folder / alert_rules.FILE).write_bytes(alert_rules.encoded(rules))

    try:
        await asyncio.to_thread(pull)
    except (ClusterError, errors.PrometheusError) as error:
        return [f"metrics: {error}"]
    return []


def _is_refusal(error: ClusterError) -> bool:
    """Returns whether the server answered, and would answer the same again."""
    return 400 <= error.status < 500
