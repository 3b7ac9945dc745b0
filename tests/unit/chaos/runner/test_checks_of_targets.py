"""A whole conformance suite against an etcd in a made-up cluster."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from rich.console import Console

from tests.unit.chaos.runner.etcd_model import NAME, ClusterWithEtcd, text
from tests.unit.targets.made_up_store import Store
from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.commands.run import RunOptions, run_once
from zonequake_chaos.conformance.runner import SCENARIO, ConformanceRunner, conformance_plan
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import UsageError
from zonequake_load.pod.control import OperationRequest
from zonequake_target_etcd.package import EtcdPackage


class ClusterWithClient(ClusterWithEtcd):
    """The load pod carries operations out, in a store that is made up."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.store.member = f"{NAME}-0"

    async def _load(self, request: web.Request, pod: str, path: str) -> web.Response:
        if path != "operation":
            return await super()._load(request, pod, path)
        asked = msgspec.json.decode(await request.read(), type=OperationRequest)
        return web.Response(body=msgspec.json.encode(await self.store.execute(asked)))

    def _answer(self, pod: str, path: str) -> dict[str, Any]:
        answer = super()._answer(pod, path)
        if path == "v3/kv/range":
            registers = {key: value for key, value in self.store.keys.items() if type(value) is int}
            answer["kvs"] = [
                {"key": text(f"check/k/{key}"), "value": text(str(value)), "mod_revision": "9"}
                for key, value in sorted(registers.items())
            ]
        return answer

    async def _exec(self, request: web.Request) -> web.WebSocketResponse:
        """Operations stay under way from before a signal until somewhat after it."""
        self.store.free.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self.store.until_asked(1)
        answer = await super()._exec(request)
        asyncio.get_running_loop().call_later(0.5, self.store.free.set)
        return answer


@pytest.fixture
def cluster_type() -> type:
    return ClusterWithClient


async def check(
    place: ReleasePlace, out: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str
) -> tuple[HarnessReport, str]:
    """The suite's report, and what it showed."""
    monkeypatch.setattr(EtcdPackage, "alters", None)  # the members that are made up have no files
    shown = io.StringIO()
    options = RunOptions(
        scenario=str(SCENARIO),
        overrides=list(overrides),
        seed=0,
        out=out,
        analyze=False,
        target="etcd",
        image="some/etcd:1",
    )
    console = Console(file=shown, width=300)
    _, report = await run_once(
        options, place, console, runner_type=ConformanceRunner, plan_of=conformance_plan
    )
    return report, shown.getvalue()


async def test_a_suite_deploys_kills_dumps_and_leaves_nothing(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, said = await check(place, tmp_path / "run", monkeypatch)
    lost, dumps = sorted(report.problems, reverse=True)
    assert lost.startswith("lost-answers: links can't be cut here")
    assert dumps.startswith("dumps: whether a dump shows what its member holds")
    assert report.verdict is Verdict.UNKNOWN
    assert "✓ 2 Operations do what they say — 7 operations" in said, said
    assert "✓ 6 A leader is killed" in said, said
    assert "; the kill met " in said
    assert "no member was altered" in said, said
    dumped = sorted(path.name for path in (tmp_path / "run" / "dumps" / "before").iterdir())
    assert dumped == [f"0-zq-etcd-default-{n}.jsonl" for n in range(3)]
    assert CleanupJournal(tmp_path / "run").debts == []
    assert not any(kind == "statefulsets" for kind, _ in cluster.objects)


async def test_what_a_target_does_not_keep_is_a_violation(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.store.places = False
    report, _ = await check(place, tmp_path / "run", monkeypatch)
    assert report.verdict is Verdict.VIOLATED
    assert any("answers: write" in one and "without a place" in one for one in report.problems)
    assert CleanupJournal(tmp_path / "run").debts == []


async def test_members_that_dump_different_states_are_a_violation(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.hashes["zq-etcd-default-1"] = 78
    report, _ = await check(place, tmp_path / "run", monkeypatch)
    assert report.verdict is Verdict.VIOLATED
    assert any("dumps: members that applied 9 have digests" in one for one in report.problems)


async def test_a_suite_over_more_than_one_group_is_refused(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="expected one zone with one partition"):
        await check(place, tmp_path / "run", monkeypatch, "zones.0.partitions=2")
    assert not any(kind == "statefulsets" for kind, _ in cluster.objects)
