"""The two timelines of the document `distribution-zones`, to the second, and its gaps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.made_up_nodes import topology_node
from zonequake_operator.nodes.data_nodes import advance, deadline_down_ms, deadline_up_ms
from zonequake_operator.resources.model import DataNodes, Timers, Topology


class Timeline:
    """A zone over time. Times are seconds, as in the document."""

    def __init__(self, timers: Timers, nodes: str) -> None:
        self.timers = timers
        self.topology = Topology()
        self.accepted: set[str] | None = None
        self.state: DataNodes | None = None
        for name in nodes:
            self.topology = self._with(name)
        self.at(-1)

    def _with(self, name: str) -> Topology:
        version = self.topology.version + 1
        node = topology_node(name, version, process_incarnation=f"{version:016x}")
        return Topology(version=version, nodes={**self.topology.nodes, name: node})

    def at(self, second: float, *, filter_text: str | None = None) -> str:
        self.state = advance(
            self.state,
            timers=self.timers,
            filter_text=filter_text,
            matches=lambda name, _: self.accepted is None or name in self.accepted,
            topology=self.topology,
            now_ms=int(second * 1000),
        )
        return "".join(sorted(self.state.nodes))

    def start(self, second: float, name: str) -> str:
        self.topology = self._with(name)
        return self.at(second)

    def stop(self, second: float, name: str) -> str:
        left = {k: v for k, v in self.topology.nodes.items() if k != name}
        self.topology = Topology(version=self.topology.version + 1, nodes=left)
        return self.at(second)

    def deadlines(self) -> tuple[int | None, int | None]:
        assert self.state is not None
        both = deadline_up_ms(self.state, self.timers), deadline_down_ms(self.state, self.timers)
        return tuple(None if at is None else at // 1000 for at in both)  # type: ignore[return-value]

    def armed(self) -> tuple[str, str]:
        """The nodes that the scale-up timer will add, and those that the other will remove."""
        assert self.state is not None
        up, down = (
            "".join(sorted(timer.nodes)) if timer else ""
            for timer in (self.state.up, self.state.down)
        )
        return up, down


def test_the_scale_up_timeline_of_the_document() -> None:
    zone = Timeline(Timers(scale_up_s=300, scale_down_s=None), "ABC")
    assert zone.at(-1) == "ABC"
    assert zone.start(0, "D") == "ABC"
    assert (zone.deadlines(), zone.armed()) == ((300, None), ("D", ""))
    assert zone.start(250, "E") == "ABC"
    assert (zone.deadlines(), zone.armed()) == ((550, None), ("DE", ""))
    assert zone.at(549.999) == "ABC"
    assert zone.at(550) == "ABCDE"
    assert zone.deadlines() == (None, None)
    assert zone.start(600, "F") == "ABCDE"
    assert zone.deadlines() == (900, None)


def test_the_scale_up_and_scale_down_timeline_of_the_document() -> None:
    zone = Timeline(Timers(scale_up_s=300, scale_down_s=300_000), "ABC")
    assert zone.start(0, "D") == "ABC"
    assert zone.stop(100, "C") == "ABC"
    assert zone.deadlines() == (300, 300_100), "a node that left doesn't touch the scale up timer"
    assert zone.start(250, "E") == "ABC"
    assert zone.deadlines() == (550, 300_100), "a node that joined doesn't touch the other timer"
    assert zone.at(550) == "ABCDE", "C still takes its place"
    assert zone.at(300_099.999) == "ABCDE"
    assert zone.at(300_100) == "ABDE"


def test_auto_adjust_is_one_timer_and_one_recalculation() -> None:
    zone = Timeline(Timers(scale_up_s=100, scale_down_s=100, joint=True), "ABC")
    zone.start(0, "D")
    zone.stop(50, "A")
    assert zone.deadlines() == (150, 150)
    assert zone.at(149) == "ABC"
    assert zone.at(150) == "BCD"


def test_a_node_that_comes_back_leaves_the_down_set() -> None:
    zone = Timeline(Timers(scale_up_s=0, scale_down_s=100), "ABC")
    zone.stop(0, "C")
    zone.start(50, "C")
    assert zone.deadlines() == (None, None)
    assert zone.at(1000) == "ABC"


def test_a_node_that_goes_leaves_the_up_set() -> None:
    zone = Timeline(Timers(scale_up_s=100, scale_down_s=None), "ABC")
    zone.start(0, "D")
    assert zone.armed() == ("D", "")
    zone.stop(50, "D")
    assert zone.armed() == ("", "")
    assert zone.at(1000) == "ABC"


def test_a_node_that_is_still_a_data_node_arms_the_up_timer_when_it_joins_again() -> None:
    zone = Timeline(Timers(scale_up_s=100, scale_down_s=None), "ABC")
    zone.stop(0, "C")
    zone.start(10, "C")
    assert zone.deadlines()[0] == 110


def test_a_deadline_that_passed_unseen_fires_before_a_later_event() -> None:
    zone = Timeline(Timers(scale_up_s=300, scale_down_s=None), "ABC")
    zone.start(0, "D")
    assert zone.start(400, "E") == "ABCD"
    assert zone.deadlines()[0] == 700


def test_a_changed_time_out_keeps_the_armed_start_and_zero_fires_at_once() -> None:
    zone = Timeline(Timers(scale_up_s=300, scale_down_s=None), "ABC")
    zone.start(100, "D")
    zone.timers = Timers(scale_up_s=500, scale_down_s=None)
    zone.at(150)
    assert zone.deadlines()[0] == 600
    zone.timers = Timers(scale_up_s=0, scale_down_s=None)
    assert zone.at(151) == "ABCD"


def test_a_wall_clock_that_was_set_back_lets_a_timer_wait_once_more_and_no_longer() -> None:
    zone = Timeline(Timers(scale_up_s=300, scale_down_s=600), "ABC")
    zone.start(10_000, "D")
    zone.stop(10_100, "A")
    assert zone.at(1_000) == "ABC"
    assert zone.deadlines() == (1_300, 1_600)
    assert zone.at(1_299) == "ABC"
    assert zone.at(1_300) == "ABCD"
    assert zone.at(1_600) == "BCD"


def test_an_infinite_timer_never_fires_and_remembers_its_nodes() -> None:
    zone = Timeline(Timers(scale_up_s=None, scale_down_s=None), "ABC")
    zone.start(0, "D")
    assert zone.at(10**9) == "ABC"
    zone.timers = Timers(scale_up_s=5, scale_down_s=None)
    assert zone.at(10**9) == "ABCD"


def test_a_changed_filter_recomputes_at_once_and_voids_both_timers() -> None:
    zone = Timeline(Timers(scale_up_s=300, scale_down_s=300), "ABC")
    zone.start(0, "D")
    zone.stop(1, "A")
    zone.accepted = {"B", "D"}
    assert zone.at(2, filter_text="x") == "BD"
    assert zone.deadlines() == (None, None)


def test_the_filter_applies_when_the_timer_fires() -> None:
    zone = Timeline(Timers(scale_up_s=10, scale_down_s=None), "ABC")
    zone.accepted = {"A", "B", "C", "E"}
    zone.start(0, "D")
    zone.start(1, "E")
    assert zone.at(11) == "ABCE"


events = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from("ABCDEF"), st.booleans()), max_size=25
)
waits = st.one_of(st.none(), st.integers(0, 40))


@given(events=events, up=waits, down=waits, joint=st.booleans())
def test_once_all_timers_have_fired_the_data_nodes_are_those_the_time_outs_allow(
    events: list[tuple[int, str, bool]], up: int | None, down: int | None, joint: bool
) -> None:
    timers = Timers(scale_up_s=up, scale_down_s=up if joint else down, joint=joint)
    zone = Timeline(timers, "ABC")
    ever = set("ABC")
    for second, (_, name, joins) in zip(
        itertools.accumulate(e[0] for e in events), events, strict=True
    ):
        present = name in zone.topology.nodes
        if joins:
            zone.start(second, name)
            ever.add(name)
        elif present:
            zone.stop(second, name)
    final = set(zone.at(10**6))
    left = set(zone.topology.nodes)
    assert final <= ever
    if timers.scale_up_s is not None:
        assert left <= final
    if timers.scale_down_s is not None:
        assert final <= left
    if timers.scale_up_s is not None and timers.scale_down_s is not None:
        assert zone.deadlines() == (None, None)


@given(events=events, wait=st.integers(0, 40))
def test_looking_again_changes_nothing(events: list[tuple[int, str, bool]], wait: int) -> None:
    zone = Timeline(Timers(scale_up_s=wait, scale_down_s=wait), "ABC")
    for second, name, joins in sorted(events):
        if joins:
            zone.start(second, name)
        zone.at(second)
        before = zone.state
        zone.at(second)
        assert zone.state == before


@pytest.mark.parametrize("joint", [False, True])
def test_a_restart_of_the_operator_keeps_the_deadline(joint: bool) -> None:
    zone = Timeline(Timers(scale_up_s=100, scale_down_s=100, joint=joint), "ABC")
    zone.start(0, "D")
    zone.state = DataNodes(
        nodes=zone.state.nodes,  # type: ignore[union-attr]
        up=zone.state.up,  # type: ignore[union-attr]
        topology_version=zone.state.topology_version,  # type: ignore[union-attr]
    )
    assert zone.at(99) == "ABC"
    assert zone.at(100) == "ABCD"
