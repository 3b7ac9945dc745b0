"""A group is lost once every node that may hold its data has said that it doesn't."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.analysis.judged_lines import judged, operation, written
from tests.unit.analysis.made_up_evidence import evidence
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.run_folder import (
    Expectations,
    RecordedEvent,
    read_description,
)
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.measures.lost_groups import (
    LostGroup,
    leaderless,
    lost_groups,
    with_writes,
)
from zonequake_analysis.spark_pass.bucket import Known
from zonequake_analysis.tables.check_findings import check_findings
from zonequake_analysis.verdict import Check, Verdict

PLACE = ("z1", 0)
SHORT = "the stored state is that of index 90, but the log holds 1 to 40"


def event(kind: str, at_ns: int, *, node: str | None = None, **data: object) -> RecordedEvent:
    placed = kind != "node.started"
    return RecordedEvent(
        kind=kind,
        time=at_ns,
        zone=PLACE[0] if placed else None,
        partition=PLACE[1] if placed else None,
        node=node,
        data=data,
    )


def started(at_ns: int, node: str, process: int) -> RecordedEvent:
    return event("node.started", at_ns, node=node, process_incarnation=f"{node}-{process}")


def lost(node: str, process: int = 2) -> dict[str, object]:
    """A replica that its second process could not start."""
    return {
        "process_incarnation": f"{node}-{process}",
        "role": "broken",
        "lost": True,
        "reason": SHORT,
    }


def nothing(node: str) -> dict[str, object]:
    return {"process_incarnation": f"{node}-2", "role": None, "lost": False, "reason": None}


def role(node: str, name: str, reason: str | None = None) -> dict[str, object]:
    return {**nothing(node), "role": name, "reason": reason}


STABLE = event("partition.changed", 1, stable=["a", "b", "c"], pending=[])
RESTARTED = [started(50, node, 2) for node in "abc"]
ALL = {node: lost(node) for node in "abc"}


def seen(replicas: Mapping[str, object], at_ns: int = 90) -> RecordedEvent:
    return event("replicas.seen", at_ns, replicas=dict(replicas))


def found(
    replicas: Mapping[str, object] | None = None,
    *more: RecordedEvent,
    before: RecordedEvent = STABLE,
    volatile: frozenset[str] = frozenset(),
) -> dict[tuple[str, int], LostGroup]:
    events = [before, *RESTARTED, seen(ALL if replicas is None else replicas), *more]
    return lost_groups(sorted(events, key=lambda one: one.time), volatile)


def test_a_group_is_lost_if_all_its_replicas_say_so() -> None:
    (group,) = found().values()
    assert (group.zone, group.partition, group.at_ns) == ("z1", 0, 90)
    assert group.said == dict.fromkeys("abc", SHORT)


def test_a_node_that_holds_no_replica_any_more_says_so_too() -> None:
    (group,) = found({**ALL, "b": nothing("b"), "d": nothing("d")}).values()
    assert group.said == {"a": SHORT, "b": "it holds no replica", "c": SHORT}


@pytest.mark.parametrize(
    "one",
    [
        role("b", "follower"),
        role("b", "waiting"),
        role("b", "broken", "what is stored is not to be trusted: EIO"),
    ],
)
def test_one_replica_that_may_hold_the_data_is_enough(one: dict[str, object]) -> None:
    assert found({**ALL, "b": one}) == {}
    assert found({**ALL, "d": one}) == {}, "on a node that no key names"


def test_a_node_that_was_not_seen_may_hold_the_data() -> None:
    assert found({node: ALL[node] for node in "ac"}) == {}


def test_so_may_a_node_that_was_to_hold_it_before() -> None:
    moved = event("partition.changed", 5, stable=["a", "b", "c"], pending=["b", "c", "d"])
    assert found(None, moved) == {}
    link = {"nodes": ["d"], "term": 1, "index": 1}
    assert found(None, event("partition.changed", 5, chain=[link])) == {}
    assert len(found({**ALL, "d": nothing("d")}, moved)) == 1


def test_what_was_seen_before_a_restart_is_no_word_of_the_next_process() -> None:
    assert found(None, started(95, "b", 3)) == {}
    assert found({**ALL, "b": lost("b", process=1)}) == {}


def test_a_node_whose_journal_has_no_start_has_not_been_restarted() -> None:
    assert len(lost_groups([STABLE, seen(ALL)], frozenset())) == 1


def test_the_last_sight_counts() -> None:
    assert found(None, seen({**ALL, "b": role("b", "follower")}, at_ns=99)) == {}


def test_a_reset_is_judged_by_itself() -> None:
    assert found(None, event("group.reset", 60, node="a", lineage=3)) == {}


def test_a_volatile_zone_loses_its_data_by_design(tmp_path: Path) -> None:
    zones = "[{name: z1, storage: Volatile}, {name: z2, storage: Persistent}, {name: z3}]"
    (tmp_path / "run.yaml").write_text(f"plan: {{spec: {{zones: {zones}}}}}")
    volatile = read_description(tmp_path).volatile_zones
    assert volatile == {"z1"}
    assert found(volatile=volatile) == {}


def test_a_partition_of_which_no_set_is_known_is_not_judged() -> None:
    assert found(before=event("replica.audit", 1)) == {}


def test_a_healthy_run_has_no_sight_and_one_without_a_leader_has_one() -> None:
    assert leaderless([STABLE, *RESTARTED]) == 0
    assert leaderless([STABLE, seen(ALL), seen(ALL, at_ns=99)]) == 1


@pytest.mark.parametrize("by_key", [False, True])
def test_acknowledged_writes_are_counted_and_the_last_one_is_named(
    tmp_path: Path, by_key: bool
) -> None:
    lines = [
        *operation(1, key="k1", node="a"),
        *operation(2, key="k2", node="b", f="cas", expected=1, applied=True),
        *operation(3, key="k3", node="c"),
        *operation(4, key="k3", f="read"),
        *operation(5, key="k4", f="cas", expected=1, applied=False, found=9),
        *operation(6, key="k5", partition=1),
        *operation(7, key="k6", type="info"),
    ]
    groups = found()
    known = Known(
        lineages={},
        without_majority={},
        one_clock=True,
        lost_groups=frozenset({name_id("z1", "0")}),
    )
    buckets, _ = judged(written(tmp_path, lines), tmp_path / "ops", known=known, by_key=by_key)
    parts = [one for bucket in buckets for one in bucket.of_lost_groups]
    (group,) = with_writes(groups, parts)
    assert (group.acknowledged, group.last_write) == (3, "3-1, write of k3 by c")


def test_a_group_without_acknowledged_writes_has_lost_none() -> None:
    assert with_writes(found(), []) == ()


def checked(*groups: LostGroup, without_leader: int = 1, allowed: int = 0) -> Check:
    e = evidence(lost_groups=groups, leaderless=without_leader)
    e = replace(e, description=replace(e.description, expectations=Expectations(lost=allowed)))
    return next(check for check in judge(e) if check.name == "lost-groups")


GROUP = replace(next(iter(found().values())), acknowledged=7, last_write="3-1, write of k3 by c")


def test_a_lost_group_is_a_violation_that_names_what_was_said_and_a_write() -> None:
    other = replace(GROUP, partition=3, acknowledged=5)
    check = checked(GROUP, other, without_leader=3)
    assert (check.verdict, check.violations) == (Verdict.VIOLATED, 12)
    assert (check.checked, check.excluded) == (2, 1)
    assert check.summary.startswith("2 groups lost their data, and 12 acknowledged writes with it")
    assert f"z1/0: after the quiet time all of its replicas said so (a: {SHORT}; b:" in (
        check.summary
    )
    assert check.summary.endswith("7 acknowledged writes to it is 3-1, write of k3 by c")


def test_a_run_may_allow_so_many_lost_writes() -> None:
    assert checked(GROUP, allowed=7).verdict is Verdict.PASSED
    assert checked(GROUP, allowed=6).verdict is Verdict.VIOLATED


def test_a_run_without_a_lost_group_says_why_it_was_not_judged() -> None:
    for without_leader, words in ((0, "no partition was seen"), (2, "2 partitions had no leader")):
        check = checked(without_leader=without_leader)
        assert (check.verdict, check.judged) == (Verdict.PASSED, False)
        assert words in check.summary


def test_it_comes_right_after_diverged_and_has_a_finding_for_each_group() -> None:
    e = evidence(lost_groups=(GROUP,), leaderless=1, uncovered=9)
    checks = judge(e)
    assert checks[0].name == "lost-groups"
    (row,) = (one for one in check_findings(e, checks, set()) if one.check == "lost-groups")
    assert (row.zone, row.partition, row.at_ns, row.count) == ("z1", 0, 90, 7)
    assert row.text == GROUP.in_words
