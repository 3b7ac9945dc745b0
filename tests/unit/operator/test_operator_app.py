"""What the handlers leave behind when a zone goes, and when the process counts as stuck."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from zonequake_operator.controller.app import App, OperatorOptions, _Running
from zonequake_operator.fleet.fleet import FleetView


class Fleet:
    """No node is ever heard."""

    view = FleetView()

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.heard_s = self.ended_s = time.monotonic()

    async def next_view(self, *_: object) -> FleetView:
        never: asyncio.Future[FleetView] = asyncio.get_running_loop().create_future()
        return await never

    def forget(self, zone: str) -> None:
        self.forgotten.append(zone)


class Stopped:
    """As kopf's, which cancels a daemon that doesn't look at it."""

    def __bool__(self) -> bool:
        return False


def app() -> tuple[App, _Running, Fleet]:
    made = App(OperatorOptions(namespace="n", release="r", resync_s=5.0, view_period_s=5.0), None)
    fleet = Fleet()
    edges: dict[str, Any] = dict.fromkeys(("kube", "store", "events", "tables"))
    running = made._running = _Running(fleet=fleet, **edges)  # type: ignore[arg-type]
    return made, running, fleet


async def test_a_zone_that_was_let_go_by_force_is_forgotten_behind_a_cancelled_daemon() -> None:
    """What it last said of nodes that are behind kept their gates closed forever."""
    made, running, fleet = app()
    stopped: Any = Stopped()
    daemon = asyncio.create_task(made.watch_zone("z", "u", stopped))
    await asyncio.sleep(0)
    assert list(running.reconcilers) == ["u"]
    daemon.cancel()
    await asyncio.gather(daemon, return_exceptions=True)
    assert (running.reconcilers, fleet.forgotten) == ({}, ["z"])


def test_what_is_known_of_a_zone_by_name_is_its_namesakes() -> None:
    made, _, fleet = app()
    for uid in ("old", "new"):
        made._reconciler("z", uid)
    made._forget("z", "old")
    assert fleet.forgotten == []
    made._forget("z", "new")
    assert fleet.forgotten == ["z"]


@pytest.mark.parametrize(
    ("good_ago_s", "ended_ago_s", "status"),
    [(1.0, 1.0, 200), (300.0, 1.0, 200), (601.0, 1.0, 500), (61.0, 61.0, 500)],
)
async def test_an_api_server_that_is_away_for_minutes_is_no_reason_to_be_restarted(
    good_ago_s: float, ended_ago_s: float, status: int
) -> None:
    """Restarted again and again, it sat in a back-off of minutes when the API server came back."""
    made, _, fleet = app()
    fleet.heard_s -= good_ago_s
    fleet.ended_s -= ended_ago_s
    request: Any = web.Request
    assert (await made._healthz(request)).status == status


async def test_a_background_task_that_ended_is_logged_and_a_reason_to_be_restarted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Events, or the look for missing rights, had stopped for good, and nothing said so."""

    async def fail() -> None:
        raise ValueError("unexpected")

    async def last() -> None:
        await asyncio.Event().wait()

    made, running, _ = app()
    request: Any = web.Request
    running.begin("rights", last())
    running.begin("events", fail())
    assert (await made._healthz(request)).status == 200
    await asyncio.wait(running.tasks, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0)
    answer = await made._healthz(request)
    assert (answer.status, answer.text) == (500, "ended by an error: events")
    assert "the task events ended" in caplog.text
    assert "unexpected" in caplog.text
    running.tasks[0].cancel()


class Heard:
    """Views in which `a` answers or not, and a reconciler that finds its replica while it does."""

    def __init__(self, answers: list[bool], *, member: bool) -> None:
        self.answers, self.member = answers, member
        self.number = 0
        self.erased = False
        self.partitions_gone = False

    name = "z"

    def forget(self, _: str) -> None:
        """Nothing is remembered here."""

    async def next_view(self, *_: object) -> FleetView:
        self.number += 1
        answers = self.answers[min(self.number, len(self.answers)) - 1]
        reports: dict[str, Any] = {"a": None} if answers else {}
        return FleetView(edition=self.number, number=self.number, reports=reports)

    async def erase(self, view: FleetView) -> tuple[set[str], set[str]]:
        if "a" not in view.reports:
            return set(), {"a"} if self.member else set()
        # The first orders fail: its disk did, and it must be started again.
        self.erased = self.erased or (False in self.answers[: view.number - 1])
        return (set() if self.erased else {"a"}), set()

    async def delete_partitions(self) -> None:
        self.partitions_gone = True


@pytest.mark.parametrize("member", [True, False])
async def test_a_node_that_restarts_before_it_could_erase_is_waited_for(
    member: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It had been heard for longer than the patience lasts; and it may have left meanwhile."""
    heard = Heard([True, True, False, False, True], member=member)
    times = iter([0.0, 29.0, 58.0, 61.0, 66.0, 70.0, 74.0])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("zonequake_operator.controller.app.time", clock)
    made, running, _ = app()
    edges: Any = heard
    running.fleet = edges
    await made._erase(edges)
    assert heard.erased
    assert heard.partitions_gone
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "the deletion of zone z waits for a, which still hold replicas, and no node, which don't "
        "answer",
        "the deletion of zone z waits for a, which still hold replicas, and no node, which don't "
        "answer",
    ], "at 29 and 58 s; 61 and 66 s are too soon after that"
