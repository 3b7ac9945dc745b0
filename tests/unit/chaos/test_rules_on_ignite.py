"""Which of our rules the runs on Ignite and on our store show to be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from benchmarks.evidence_ignite import evidence
from benchmarks.evidence_ignite.page import page
from benchmarks.evidence_ignite.rows import Bad, Done, Row, System, read_rows
from benchmarks.evidence_ignite.rules_table import (
    Holds,
    Mapped,
    MappedRules,
    Stated,
    read_rules,
    rule_by_rule,
    shown,
)
from tests.rules_audit.rules_table import PAGE
from tests.rules_audit.rules_table import rows as stated_rows

IGNITE, OURS = System.IGNITE, System.OURS
ROW = Row(name="kill", asks="a kill", rule="rebalance", scenario="leader-kill", runs=2)
RESET = msgspec.structs.replace(ROW, name="lost", expected=["lost-writes"])
MOVE, WAIT, KEY = (Stated("rebalance", rule) for rule in ("it moves", "it waits", "a key"))
ENTRY = Mapped(rules=[MOVE.rule], rows=["kill"], sees="the move")


def run(
    *violated: str,
    verdict: str = "",
    system: System = IGNITE,
    row: str = "kill",
    seed: int = 1,
    others: dict[str, str] | None = None,
    certain_ms: float | None = 1500.0,
) -> Done:
    return Done(
        name=row,
        system=system,
        version="",
        seed=seed,
        verdict=verdict or ("violated" if violated else "passed"),
        headline="",
        violated=[Bad(check=check, summary="") for check in violated],
        others=others,
        certain_ms=certain_ms,
    )


def mapped(*entries: Mapped, stated: Sequence[Stated] = (MOVE,)) -> MappedRules:
    text = msgspec.json.encode(entries).decode()
    return read_rules(text, [ROW, RESET], stated)


def entry(**changed: Any) -> Mapped:
    return msgspec.structs.replace(ENTRY, **changed)


def test_a_run_that_passed_keeps_a_rule() -> None:
    assert shown(ENTRY, ROW, run()) == (Holds.KEPT, [])


def test_a_check_that_failed_or_missed_its_objective_violates_a_rule() -> None:
    bad = run("lost-writes", others={"rebalances-end": "slo-breached"})
    assert shown(ENTRY, ROW, bad) == (Holds.VIOLATED, ["`lost-writes`", "`rebalances-end`"])
    slow = run(verdict="slo-breached", others={"rebalances-end": "slo-breached"})
    assert shown(ENTRY, ROW, slow) == (Holds.VIOLATED, ["`rebalances-end`"])


def test_a_check_that_does_not_bear_on_a_rule_leaves_it_kept_if_all_else_passed() -> None:
    other = entry(checks=["lost-writes"])
    assert shown(other, ROW, run("flicker", others={})) == (Holds.KEPT, [])
    unknown = run("flicker", others={"faults": "unknown"})
    assert shown(other, ROW, unknown) == (Holds.NOT_DECIDED, ["`faults`"])
    holds, _ = shown(other, ROW, run("flicker"))  # a line that keeps no other checks
    assert holds is Holds.NOT_DECIDED
    assert shown(other, ROW, run("flicker", "lost-writes"))[0] is Holds.VIOLATED


def test_a_run_that_showed_too_little_decides_nothing() -> None:
    unknown = run(verdict="unknown", others={"faults": "unknown"})
    assert shown(ENTRY, ROW, unknown) == (Holds.NOT_DECIDED, ["the run is unknown"])


def test_what_a_row_expects_of_ignite_violates_no_rule_there() -> None:
    lost = run("lost-writes", "linearizability", row="lost", others={})
    holds, why = shown(ENTRY, RESET, lost)
    assert holds is Holds.NOT_DECIDED
    assert why == ["`linearizability`, as expected", "`lost-writes`, as expected"]
    assert shown(entry(checks=[]), RESET, lost) == (Holds.KEPT, [])
    ours = msgspec.structs.replace(lost, system=OURS)
    assert shown(ENTRY, RESET, ours)[0] is Holds.VIOLATED
    more = run("lost-writes", "duplicates", row="lost", others={})
    assert shown(ENTRY, RESET, more) == (Holds.VIOLATED, ["`duplicates`"])


def test_a_window_that_is_too_long_leaves_a_rule_of_time_undecided() -> None:
    """It may be the machine's, and begin before the fault."""
    timely = entry(below_s=60.0)
    assert shown(timely, ROW, run(certain_ms=59_999.0)) == (Holds.KEPT, [])
    late = shown(timely, ROW, run(certain_ms=60_000.0))
    assert late == (Holds.NOT_DECIDED, ["a window of 60 s or longer"])
    assert shown(timely, ROW, run(certain_ms=None))[0] is Holds.NOT_DECIDED


def cells(text: str, rule: Stated) -> list[str]:
    (line,) = [line for line in text.splitlines() if f"| {rule.rule} |" in line]
    return line.split(" | ")[4:]


def test_rules_that_the_same_runs_show_are_one_row() -> None:
    same = entry(rows=["kill"])
    others = [Stated("rebalance", "(1) a"), Stated("rebalance", "(2) b"), Stated("timers", "(3) c")]
    rules = MappedRules(entries=[same], by_rule=[(each, same) for each in others])
    text = rule_by_rule(rules, [ROW], [run()])
    assert "| rebalance | (1) a<br>(2) b |" in text
    assert "| timers | (3) c |" in text


def test_the_table_counts_runs_and_tells_the_longest_window_of_both() -> None:
    rules = mapped(entry(rows=["kill", "lost"]))
    done = [
        run(seed=1),
        run("flicker", seed=2, certain_ms=7000.0),
        run("lost-writes", row="lost", certain_ms=None),
        run(system=OURS, certain_ms=310.0),
    ]
    assert cells(rule_by_rule(rules, [ROW, RESET], done), MOVE) == [
        "kept in 1; violated in 1, by `flicker` (1); not decided in 1, by `lost-writes`, as "
        "expected (1); 3 of 4 runs",
        "7.00 s (`kill`)",
        "kept in 1; 1 of 4 runs",
        "0.31 s (`kill`) |",
    ]


def test_rules_of_rows_that_were_not_run_are_not_called_kept() -> None:
    text = rule_by_rule(mapped(ENTRY), [ROW, RESET], [run(system=OURS), run(row="lost")])
    ignite, ignite_window, ours, _ = cells(text, MOVE)
    assert (ignite, ignite_window) == ("not run yet", "–")
    assert ours == "kept in 1; 1 of 2 runs"


def test_what_our_runs_do_not_show_is_not_said_of_our_store() -> None:
    text = rule_by_rule(mapped(entry(with_ours=False)), [ROW], [run(), run(system=OURS)])
    assert cells(text, MOVE) == ["kept in 1; 1 of 2 runs", "1.50 s", "not seen", "1.50 s |"]
    alone = msgspec.structs.replace(ROW, with_ours=False)
    assert cells(rule_by_rule(mapped(ENTRY), [alone], [run()]), MOVE)[2:] == ["–", "– |"]


def test_rules_that_no_run_shows_are_listed_by_reason() -> None:
    rules = mapped(
        ENTRY,
        Mapped(rules=[WAIT.rule], unasked="no row waits"),
        Mapped(rules=[KEY.rule], unseen="Ignite has no key"),
        stated=[KEY, MOVE, WAIT],
    )
    text = rule_by_rule(rules, [ROW], [])
    assert "Of 3 rules, 1 are\nshown by rows, 1 could be seen but are asked by none" in text
    asked, unseen = text.split("### ")[1:]
    assert "- **1 rule**: no row waits. it waits" in asked
    assert "- **1 rule**: Ignite has no key. a key" in unseen
    assert text in page([ROW], [], rules=rules)


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([], "no entry for the rule 'it moves' of docs/rules.md .*: add it"),
        ([ENTRY, ENTRY], "the rule 'it moves' twice"),
        ([entry(rules=["it moves", "it flies"])], "'it flies' .* docs/rules.md doesn't have"),
        ([entry(rows=["kill", "killed"])], "names the rows killed, .*expected some of kill, lost"),
        ([entry(rows=[])], "needs one of rows, unasked and unseen"),
        ([entry(unseen="hidden")], "needs one of rows, unasked and unseen"),
        ([entry(sees="")], "needs sees with rows"),
        ([entry(rules=[])], "has no rules"),
    ],
)
def test_a_list_that_is_wrong_is_refused(entries: list[Mapped], found: str) -> None:
    with pytest.raises(ValueError, match=found):
        mapped(*entries)


def test_a_rule_that_is_stated_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="has the rule 'it moves' twice"):
        mapped(ENTRY, stated=[MOVE, MOVE])


def test_each_rule_of_the_documents_is_in_the_list_once() -> None:
    rules = evidence.rules_of(read_rows(evidence.LIST.read_text()))
    stated = [Stated(row.section, row.rule) for row in stated_rows(PAGE.read_text())]
    assert [each for each, _ in rules.by_rule] == stated
    assert sorted(rule for each in rules.entries for rule in each.rules) == sorted(
        each.rule for each in stated
    )


def test_a_window_that_violates_a_rule_is_as_long_as_the_outage_of_its_row() -> None:
    rows = read_rows(evidence.LIST.read_text())
    timely = [each for each in evidence.rules_of(rows).entries if each.below_s is not None]
    assert timely
    for each in timely:
        for row in rows:
            if row.name in each.rows:
                outage, *_ = evidence.planned(row, OURS).spec.faults
                assert getattr(outage, "hold_s", None) == each.below_s
