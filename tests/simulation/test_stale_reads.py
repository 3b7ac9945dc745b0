"""What the API server may answer from its watch cache, and what an operator that asked for that
would do.

`NamespaceApi` asks for the most recent in every call (docs/operator.md), so staleness of
reads is no fault of the simulation's; what remains are answers and watch events that come late.
"""

from __future__ import annotations

from typing import Any

import pytest

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_simulation import SCENARIOS, simulate

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]


def test_who_asks_for_any_version_counts_nodes_as_left_that_may_still_act(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In random schedules one seed in 200 shows it; without the fault this one breaks no rule."""
    real = NamespaceApi._call

    async def from_the_watch_cache(self: Any, method: str, path: str, **more: Any) -> Any:
        if method == "GET":
            more["query"] = {**(more.get("query") or {}), "resourceVersion": "0"}
        return await real(self, method, path, **more)

    monkeypatch.setattr(NamespaceApi, "_call", from_the_watch_cache)
    report = simulate(910_328, SCENARIOS["operated-available"])
    assert report.rule == "a node that may still act has not left"
