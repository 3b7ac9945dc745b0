"""Zones over time, through the whole planner and the stored resource, with restarted operators.

What a restart is: only what was stored survives, as JSON. A kill may also take a plan with it that
was decided and not written; the successor decides again, at the same second or later.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.made_up_nodes import topology_node
from zonequake_operator.api_server.rendering import render_zone_status
from zonequake_operator.planning.plan import CreatePartition, WriteZone, ZonePlan, plan
from zonequake_operator.resources.model import Topology, Zone, ZoneSnapshot, ZoneSpec
from zonequake_operator.resources.overrides import AUTO_ADJUST, SCALE_DOWN, SCALE_UP, override
from zonequake_operator.resources.parsing import parse_zone

EPOCH_MS = 1_700_000_000_000
FILTER = "dataNodesFilter"


class Nodes:
    """The logical topology over time."""

    def __init__(self, names: str) -> None:
        self.topology = Topology()
        for name in names:
            self.change(join=name)

    def change(self, *, join: str = "", leave: str = "", tags: str = "SSD") -> None:
        """One event: all of it in one version."""
        version = self.topology.version + 1
        nodes = {n: v for n, v in self.topology.nodes.items() if n not in leave}
        for name in join:
            nodes[name] = topology_node(
                name, version, process_incarnation=f"{version:016x}", attributes={"tags": tags}
            )
        self.topology = Topology(version=version, nodes=nodes)


class OverTime:
    """A zone's stored resource, and the operators that come and go."""

    def __init__(self, nodes: Nodes, spec: Mapping[str, Any]) -> None:
        self.nodes = nodes
        self.stored: dict[str, Any] = {
            "metadata": {
                "name": "z",
                "namespace": "n",
                "uid": "0123456789",
                "generation": 1,
                "resourceVersion": "1",
            },
            "spec": {"partitions": 1, **spec},
        }
        self._zone: Zone | None = None

    def alter(self, **changes: Any) -> None:
        self.stored["spec"] = override(self.stored["spec"], changes)
        self.stored["metadata"]["generation"] += 1
        self._zone = None  # every operator reads the changed resource

    def restart(self) -> None:
        """What was stored, from its text."""
        self.stored = json.loads(json.dumps(self.stored))
        self._zone = None

    def decide(self, second: float) -> ZonePlan:
        """What an operator decides now; nothing is written."""
        if self._zone is None:
            self._zone = parse_zone(self.stored)
        return plan(
            ZoneSnapshot(
                now_ms=EPOCH_MS + round(second * 1000),
                zone=self._zone,
                partitions={},
                topology=self.nodes.topology,
                reports={},
            )
        )

    def at(self, second: float) -> str:
        """The data nodes once an operator has looked at this second."""
        for _ in range(5):
            writes = [a for a in self.decide(second).writes if isinstance(a, WriteZone)]
            if not writes:
                break
            self._write(writes[0], second)
        return self.data_nodes

    def _write(self, write: WriteZone, second: float) -> None:
        spec = parse_zone(self.stored).spec
        assert isinstance(spec, ZoneSpec)
        self.stored["status"] = render_zone_status(
            write.status,
            spec=spec,
            conditions=write.conditions,
            summary=write.summary,
            previous=self.stored.get("status", {}),
            now_ms=EPOCH_MS + round(second * 1000),
        )
        self._zone = None

    @property
    def data_nodes(self) -> str:
        return "".join(sorted(self.stored["status"].get("dataNodes", [])))

    @property
    def shown(self) -> tuple[Any, ...]:
        """What people and the next operator see."""
        status = self.stored["status"]
        return tuple(
            status.get(key) for key in ("dataNodes", "scaleUp", "scaleDown", "revision", "filter")
        )

    def wakes_at(self, second: float) -> float | None:
        at_ms = self.decide(second).wake_at_ms
        return None if at_ms is None else (at_ms - EPOCH_MS) / 1000


Step = tuple[int, str, str, str]
"""A second, who joins, who leaves, and the data nodes from then on."""

SCALE_UP_TIMELINE: list[Step] = [
    (0, "D", "", "ABC"),
    (250, "E", "", "ABC"),
    (549, "", "", "ABC"),
    (550, "", "", "ABCDE"),
    (600, "F", "", "ABCDE"),
    (899, "", "", "ABCDE"),
    (900, "", "", "ABCDEF"),
]
BOTH_TIMELINE: list[Step] = [
    (0, "D", "", "ABC"),
    (100, "", "C", "ABC"),
    (250, "E", "", "ABC"),
    (549, "", "", "ABC"),
    (550, "", "", "ABCDE"),
    (300_099, "", "", "ABCDE"),
    (300_100, "", "", "ABDE"),
]
AUTO_ADJUST_TIMELINE: list[Step] = [
    (0, "D", "", "ABC"),
    (50, "", "A", "ABC"),
    (149, "", "", "ABC"),
    (150, "", "", "BCD"),
]
TIMELINES = {
    "scale up": ({SCALE_UP: 300}, SCALE_UP_TIMELINE),
    "scale up and down": ({SCALE_UP: 300, SCALE_DOWN: 300_000}, BOTH_TIMELINE),
    "auto adjust": ({AUTO_ADJUST: 100}, AUTO_ADJUST_TIMELINE),
}


@pytest.mark.parametrize("way", ["before", "unwritten", "after"])
@pytest.mark.parametrize(
    ("timeline", "killed_at"),
    [(name, at) for name, (_, steps) in TIMELINES.items() for at in range(len(steps))],
)
def test_a_timeline_goes_on_wherever_the_operator_is_restarted(
    timeline: str, killed_at: int, way: str
) -> None:
    spec, steps = TIMELINES[timeline]
    nodes = Nodes("ABC")
    zone = OverTime(nodes, spec)
    assert zone.at(-1) == "ABC"
    for number, (second, join, leave, expected) in enumerate(steps):
        if join or leave:
            nodes.change(join=join, leave=leave)
        if number == killed_at:
            if way == "before":
                zone.restart()
            elif way == "unwritten":
                zone.decide(second)
                zone.restart()
        assert zone.at(second) == expected, second
        if number == killed_at and way == "after":
            zone.restart()
            assert zone.at(second) == expected, second


@pytest.mark.parametrize("timeline", TIMELINES)
def test_the_operator_wakes_by_itself_at_the_very_second(timeline: str) -> None:
    spec, steps = TIMELINES[timeline]
    nodes = Nodes("ABC")
    zone = OverTime(nodes, spec)
    zone.at(-1)
    for second, join, leave, expected in steps:
        if not (join or leave):
            due = zone.wakes_at(second - 1)
            if zone.data_nodes != expected:
                assert due == second
            elif due is not None:
                assert due > second
        else:
            nodes.change(join=join, leave=leave)
        assert zone.at(second) == expected


def test_a_deadline_that_passes_while_no_operator_runs_counts_from_its_event() -> None:
    nodes = Nodes("ABC")
    zone = OverTime(nodes, {SCALE_UP: 300, SCALE_DOWN: 1000})
    zone.at(-1)
    nodes.change(join="D", leave="A")
    assert zone.at(0) == "ABC"
    zone.restart()
    assert zone.at(700) == "ABCD"
    assert zone.wakes_at(700) == 1000
    zone.restart()
    assert zone.at(5000) == "BCD"


CHANGES = st.one_of(
    st.builds(lambda n: ("join", n), st.sets(st.sampled_from("ABCDEF"), min_size=1, max_size=2)),
    st.builds(lambda n: ("leave", n), st.sets(st.sampled_from("ABCDEF"), min_size=1, max_size=2)),
    st.builds(
        lambda both: ("leap", both),
        st.tuples(st.sampled_from("ABC"), st.sampled_from("DEF")),
    ),
    st.builds(lambda s: ("alter", {SCALE_UP: s}), st.sampled_from([0, 3, 20, "Infinite"])),
    st.builds(lambda s: ("alter", {SCALE_DOWN: s}), st.sampled_from([0, 3, 20, "Infinite"])),
    st.builds(lambda s: ("alter", {AUTO_ADJUST: s}), st.sampled_from([0, 5, 30])),
    st.builds(
        lambda f: ("alter", {FILTER: f}), st.sampled_from([None, '"SSD"', '!"B"', '"nobody"', '"'])
    ),
    st.builds(lambda p: ("alter", {"paused": p}), st.booleans()),
    st.just(("time", None)),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 12), CHANGES), max_size=20)


def happen(nodes: Nodes, zones: Iterable[OverTime], change: tuple[str, Any]) -> None:
    kind, value = change
    present = set(nodes.topology.nodes)
    if kind == "join" and (joining := sorted(value - present)):
        nodes.change(join="".join(joining), tags="SSD" if "D" in value else "HDD")
    elif kind == "leave" and (leaving := sorted(value & present)):
        nodes.change(leave="".join(leaving))
    elif kind == "leap":
        nodes.change(leave=value[0], join=value[1])
    elif kind == "alter":
        for zone in zones:
            zone.alter(**value)


@settings(deadline=None)
@given(history=HISTORIES, restarts=st.lists(st.integers(0, 2), min_size=20, max_size=20))
def test_restarts_at_any_point_change_nothing(
    history: list[tuple[int, tuple[str, Any]]], restarts: list[int]
) -> None:
    nodes = Nodes("ABC")
    zones = [OverTime(nodes, {SCALE_UP: 4, SCALE_DOWN: 7}) for _ in range(2)]
    undisturbed, disturbed = zones
    seconds = itertools.accumulate(pause for pause, _ in history)
    for second, (_, change), restart in zip(seconds, history, restarts, strict=False):
        happen(nodes, zones, change)
        undisturbed.at(second)
        if restart == 1:
            disturbed.restart()
        elif restart == 2:
            disturbed.decide(second)
            disturbed.restart()
            disturbed.at(second)
            disturbed.restart()
        disturbed.at(second)
        assert disturbed.shown == undisturbed.shown
        assert disturbed.wakes_at(second) == undisturbed.wakes_at(second)


ONE_WAY = st.lists(
    st.tuples(
        st.integers(0, 12),
        CHANGES.filter(
            lambda change: (
                (change[0] != "join" or not change[1] & set("ABC"))
                and (change[0] != "leave" or not change[1] & set("DEF"))
            )
        ),
    ),
    max_size=20,
)
"""No node goes while it waits to be added: it is a member or not, as an operator ran or not."""


@settings(deadline=None)
@given(history=ONE_WAY)
def test_an_operator_that_looks_only_at_events_sees_the_timers_that_ran_out_between(
    history: list[tuple[int, tuple[str, Any]]],
) -> None:
    """So a timer doesn't depend on an operator that runs at its deadline."""
    nodes = Nodes("ABC")
    zones = [OverTime(nodes, {SCALE_UP: 4, SCALE_DOWN: 7}) for _ in range(2)]
    attentive, rare = zones
    for zone in zones:
        zone.at(0)
    last = 0
    for second, (_, change) in zip(
        itertools.accumulate(pause for pause, _ in history), history, strict=True
    ):
        for between in range(last, second):
            attentive.at(between)
        if change[0] == "alter":
            # An altered time-out judges an armed timer by its start: the old one's due first.
            rare.at(second - 1 if second > last else second)
            attentive.at(second - 1 if second > last else second)
        last = second
        happen(nodes, zones, change)
        rare.at(second)
        attentive.at(second)
        assert rare.data_nodes == attentive.data_nodes
        assert rare.wakes_at(second) == attentive.wakes_at(second)


@settings(deadline=None)
@given(
    history=HISTORIES,
    specs=st.lists(
        st.sampled_from(
            [
                {SCALE_UP: 4, SCALE_DOWN: 7},
                {AUTO_ADJUST: 5},
                {SCALE_UP: 0, FILTER: '"SSD"'},
                {FILTER: '"nobody"'},
            ]
        ),
        min_size=2,
        max_size=3,
    ),
)
def test_zones_over_the_same_nodes_are_each_as_if_alone(
    history: list[tuple[int, tuple[str, Any]]], specs: list[dict[str, Any]]
) -> None:
    together = Nodes("ABC")
    zones = [OverTime(together, spec) for spec in specs]
    alone = [OverTime(Nodes("ABC"), spec) for spec in specs]
    for second, (_, change) in zip(
        itertools.accumulate(pause for pause, _ in history), history, strict=True
    ):
        altered = zones[:1] if change[0] == "alter" else zones
        happen(together, altered, change)
        for number, (zone, single) in enumerate(zip(zones, alone, strict=True)):
            if change[0] != "alter" or number == 0:
                happen(single.nodes, [single], change)
            zone.at(second)
            single.at(second)
            assert zone.shown == single.shown


def test_a_filter_that_matches_nothing_leaves_no_data_nodes_and_says_so() -> None:
    nodes = Nodes("ABC")
    zone = OverTime(nodes, {FILTER: '"GPU"', SCALE_UP: 5})
    assert zone.at(0) == ""
    ready = next(c for c in zone.stored["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoDataNodes")
    assert '"GPU"' in ready["message"]
    assert not [a for a in zone.decide(1).writes if not isinstance(a, CreatePartition)]
    nodes.change(join="D", tags="GPU")
    assert zone.at(10) == ""
    assert zone.at(15) == "D"


def test_a_zone_that_is_dropped_while_timers_are_armed_does_nothing_any_more() -> None:
    nodes = Nodes("ABC")
    zone = OverTime(nodes, {SCALE_UP: 5, SCALE_DOWN: 5})
    zone.at(0)
    nodes.change(join="D", leave="A")
    zone.at(1)
    assert zone.wakes_at(1) == 6
    zone.stored["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    zone.restart()
    assert zone.decide(1).wake_at_ms is None
    assert (zone.decide(100).writes, zone.decide(100).orders) == ([], [])
    assert not zone.decide(100).orders
