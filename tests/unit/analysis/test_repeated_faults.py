"""A fault that is repeated counts as often as it had to land, and as often as it did."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.run_folder import RecordedEvent, read_description
from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.judgement.sufficiency import fault_check
from zonequake_analysis.measures.rebalances import FaultLanding, fault_landings
from zonequake_analysis.report.summary import faults_in_words
from zonequake_analysis.verdict import Check, Verdict


def landed(name: str, times: int, *, effective: int | None = None) -> list[RecordedEvent]:
    def event(kind: str, at: int, **data: object) -> RecordedEvent:
        return RecordedEvent(kind=kind, time=at, data={"fault": name, "type": "pod_kill", **data})

    proven = times if effective is None else effective
    return [event("fault.start", 2 * n) for n in range(times)] + [
        event("fault.effective", 2 * n + 1) for n in range(proven)
    ]


def checked(run: Path, text: str, events: list[RecordedEvent]) -> Check:
    (run / "run.yaml").write_text(text)
    evidence = SimpleNamespace(description=read_description(run), faults=fault_landings(events))
    return fault_check(cast("Evidence", evidence))


PLAN = "plan: {spec: {faults: [{name: grow}, {name: kill, times: 18}]}}"


def test_a_fault_of_18_times_is_18_faults(tmp_path: Path) -> None:
    check = checked(tmp_path, PLAN, [*landed("grow", 1), *landed("kill", 18)])
    assert (check.verdict, check.checked) == (Verdict.PASSED, 19)
    assert check.summary == "19 faults had to land, and all did as asked"


def test_a_fault_that_landed_less_often_than_planned_is_unknown(tmp_path: Path) -> None:
    check = checked(tmp_path, PLAN, [*landed("grow", 1), *landed("kill", 18, effective=17)])
    assert check.verdict is Verdict.UNKNOWN
    assert check.summary == "kill had a proven effect 17 of 18 times"
    check = checked(tmp_path, PLAN, landed("kill", 18))
    assert check.summary == "grow was not installed"


def test_a_fault_that_missed_says_how_often_it_took_effect_before(tmp_path: Path) -> None:
    missed = RecordedEvent(
        kind="fault.missed", time=99, data={"fault": "kill", "reason": "no target"}
    )
    check = checked(tmp_path, PLAN, [*landed("grow", 1), *landed("kill", 3), missed])
    assert check.summary == "kill missed after it had taken effect 3 of 18 times: no target"


@pytest.mark.parametrize("plan", ["", f"{PLAN}\n"])
def test_an_empty_list_of_faults_asks_for_none_and_no_list_for_each(
    tmp_path: Path, plan: str
) -> None:
    landed_once = [*landed("grow", 1), *landed("kill", 18, effective=0)]
    check = checked(tmp_path, f"{plan}expectations: {{faults: []}}", landed_once)
    assert (check.verdict, check.checked) == (Verdict.PASSED, 0)
    assert check.summary == "not judged: no fault had to land"
    check = checked(tmp_path, plan, landed_once)
    assert (check.verdict, check.checked) == (Verdict.UNKNOWN, 19)


def test_the_nodes_of_a_rolling_restart_are_one_fault() -> None:
    def event(kind: str, type_: str) -> RecordedEvent:
        return RecordedEvent(kind=kind, time=1, data={"fault": "roll", "type": type_})

    steps = [event(kind, "graceful_delete") for kind in ("fault.start", "fault.effective")] * 3
    whole = [event("fault.start", "rolling_restart"), *steps]
    (landing,) = fault_landings([*whole, event("fault.effective", "rolling_restart")])
    assert (landing.times, landing.effective, landing.over_ns) == (1, 1, None)
    (landing,) = fault_landings([*whole, event("fault.recovered", "rolling_restart")])
    assert landing.over_ns == 1  # though no step says that it has recovered


@pytest.mark.parametrize(
    ("told", "recovered_ns"),
    [
        # A step has recovered, and the whole has not; and then it has.
        ([(1, "start", "roll"), (2, "start", "step"), (4, "recovered", "step")], None),
        ([(1, "start", "roll"), (4, "recovered", "step"), (9, "recovered", "roll")], 9),
        # The second time never ended; or both did, one of them without being waited for.
        ([(1, "start", "kill"), (2, "recovered", "kill"), (5, "start", "kill")], None),
        ([(1, "start", "kill"), (2, "recovered", "kill"), (5, "start", "kill"),
          (9, "recovered", "")], 9),
        ([(9, "recovered", "kill")], 9),
    ],
)  # fmt: skip
def test_a_fault_that_lasts_has_not_recovered(
    told: list[tuple[int, str, str]], recovered_ns: int | None
) -> None:
    events = [
        RecordedEvent(kind=f"fault.{kind}", time=at, data={"fault": "f", "type": type_})
        for at, kind, type_ in told
    ]
    (landing,) = fault_landings(events)
    assert landing.recovered_ns == recovered_ns


def test_each_time_that_a_fault_began_has_its_own_end_and_targets() -> None:
    def event(at: int, kind: str, node: str = "", type_: str = "kill") -> RecordedEvent:
        data: dict[str, object] = {"fault": "f", "type": type_, "targets": [node] if node else []}
        return RecordedEvent(kind=f"fault.{kind}", time=at, data=data)

    events = [
        event(1, "start", "a"),
        event(2, "effective", "a"),
        event(4, "recovered", "a"),
        event(5, "start", "b"),
        event(6, "start", "s", "step"),
        event(7, "recovered", "s", "step"),
        event(8, "missed"),
        event(9, "start", "c"),
        event(10, "effective", "c"),
    ]
    (landing,) = fault_landings(events)
    assert [(one.start_ns, one.over_ns, one.targets) for one in landing.each] == [
        (1, 4, ("a",)),
        (5, 8, ("b",)),
        (9, None, ("c",)),
    ]
    assert (landing.times, landing.effective, landing.over_ns) == (3, 2, None)
    (landing,) = fault_landings([event(8, "missed")])
    assert (landing.each, landing.times) == ((), 1)


def test_the_headline_counts_repetitions() -> None:
    def faults(*pairs: tuple[str, int]) -> list[FaultLanding]:
        return fault_landings([event for name, times in pairs for event in landed(name, times)])

    assert faults_in_words(faults(("grow", 1), ("kill", 18))) == "19 faults: grow, kill (18 times)"
    assert faults_in_words(faults(("grow", 1), ("kill", 1))) == "grow, kill"


def test_times_of_a_plan_are_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("faults: [{name: kill, times: often}]")
    with pytest.raises(RunFolderError, match=r"field `faults\[0\]\.times`: found often"):
        read_description(tmp_path)


def test_two_planned_faults_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("faults: [{name: kill}, {name: cut}, {name: kill}]")
    with pytest.raises(RunFolderError, match=r"field `faults\[2\]\.name`: found kill again"):
        read_description(tmp_path)
