"""A plan names the function that builds its client; what can't be loaded is said."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import msgspec
import pytest

from zonequake_load.errors import PlanError
from zonequake_load.pod.clients import client_for
from zonequake_load.pod.control import LoadPlan, ReadsAt


def plan_with(client: str) -> LoadPlan:
    return LoadPlan(client=client, zone="z", seeds=["127.0.0.1:1"], reads_at=ReadsAt.ANY)


def test_the_function_gets_what_the_plan_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_client_of_a_test.py").write_text(
        "def connect(context):\n    return context\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    plan = plan_with("some_client_of_a_test:connect")
    context = client_for(plan, random.Random(1), None)
    try:
        assert (context.zone, context.seeds) == ("z", ["127.0.0.1:1"])  # type: ignore[attr-defined]
        assert context.reads_at is ReadsAt.ANY  # type: ignore[attr-defined]
    finally:
        del sys.modules["some_client_of_a_test"]


@pytest.mark.parametrize("client", ["zookeeper_client:connect", "json:no_such_function"])
def test_a_client_that_is_not_there_is_named(client: str) -> None:
    with pytest.raises(PlanError, match=f"found client '{client}'.*expected MODULE:FUNCTION"):
        client_for(plan_with(client), random.Random(1), None)


@pytest.mark.parametrize("client", ["", "zookeeper", "a b:connect", "a:b:c"])
def test_a_plan_without_such_a_name_is_refused(client: str) -> None:
    raw = {"client": client, "zone": "z", "seeds": ["127.0.0.1:1"]}
    with pytest.raises(msgspec.ValidationError, match="client"):
        msgspec.convert(raw, LoadPlan)
