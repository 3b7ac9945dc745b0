"""Renders which of our rules the runs on both systems show to be kept. Pure.

docs/rules.md ─► Stated ─┐
rules.yaml ──► Mapped ───┴─► MappedRules ──┬─► the page's part "Rule by rule"
results ─────────────────────► Done ───────┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby
from typing import NamedTuple

import msgspec

from benchmarks.evidence_ignite.rows import (
    PASSED,
    SLO_BREACHED,
    VIOLATED,
    Done,
    Row,
    System,
    of,
)

NOT_RUN = "not run yet"
NOT_SEEN = "not seen"
NONE = "–"
FILE = "benchmarks/evidence_ignite/rules.yaml"

COLUMNS = (
    *("document", "rule", "rows that show it", "what of it is seen"),
    *("Ignite", "longest window", "our store", "longest window"),
)

HEAD = """
## Rule by rule

[The rules](../rules.md) that clients and operators see, by the runs of the rows that show each
([the list](../../benchmarks/evidence_ignite/rules.yaml) names them). Of {all} rules, {shown} are
shown by rows, {unasked} could be seen but are asked by none, and {unseen} can't be seen.

*Kept*: runs that passed, or in which only checks that don't bear on the rule failed and none
remained undecided. *Violated*: runs in which a check that bears on it failed. *Not decided*: all
others, as where a row expects the check to fail in Ignite, whose reads or resets claim no more. A
run shows no more of a rule than the fourth column says, and of Ignite's acknowledged writes no more
than the part that could be judged, which the table of rows counts. Windows: the longest of all
runs of these rows.

"""

UNASKED = """
### Rules that no row asks for

"""

UNSEEN = """
### Rules that can't be seen

Neither a client nor an operator of both systems sees these from outside, or Ignite doesn't have
what they are about.

"""


class Stated(NamedTuple):
    """A rule as docs/rules.md states it, and the section that it stands in."""

    section: str
    rule: str


class Mapped(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules that the same runs show, or that none shows for the same reason.

    Either `rows`: names of rows whose runs show whether they are kept, with `sees`, what of them is
    seen; or `unasked`, why no row asks for what could be seen; or `unseen`, why it can't be seen.
    `checks`: those that bear on the rules, by default all. `below_s`: a certain window that long
    leaves them undecided. `with_ours`: whether runs of our store show them, too.
    """

    rules: list[str]
    rows: list[str] = []
    sees: str = ""
    unasked: str = ""
    unseen: str = ""
    checks: list[str] | None = None
    below_s: float | None = None
    with_ours: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedRules:
    """All rules in the order of docs/rules.md, each with the entry that it is in."""

    entries: Sequence[Mapped]
    by_rule: Sequence[tuple[Stated, Mapped]]


class Holds(Enum):
    """Says whether a run shows that a rule holds."""

    KEPT = auto()
    VIOLATED = auto()
    NOT_DECIDED = auto()


def read_rules(text: str, rows: Iterable[Row], stated: Sequence[Stated]) -> MappedRules:
    """Reads the list. Raises ValueError, which names what is wrong."""
    entries = msgspec.yaml.decode(text, type=list[Mapped])
    names = {row.name for row in rows}
    entry_of: dict[str, Mapped] = {}
    for entry in entries:
        _check(entry, names)
        for rule in entry.rules:
            if rule in entry_of:
                raise ValueError(f"found the rule {rule!r} twice in {FILE}: keep one")
            entry_of[rule] = entry
    texts = [each.rule for each in stated]
    for text in texts:
        if texts.count(text) > 1:
            raise ValueError(f"docs/rules.md has the rule {text!r} twice: word one otherwise")
        if text not in entry_of:
            raise ValueError(
                f"found no entry for the rule {text!r} of docs/rules.md in {FILE}: add it, to an "
                "entry with the rows that show it, or with the reason why none does"
            )
    for rule in entry_of:
        if rule not in texts:
            raise ValueError(f"found {rule!r} in {FILE}, which docs/rules.md doesn't have")
    return MappedRules(entries=entries, by_rule=[(each, entry_of[each.rule]) for each in stated])


def _check(entry: Mapped, names: set[str]) -> None:
    about = f"the entry of {entry.rules[0]!r} in {FILE}" if entry.rules else f"an entry of {FILE}"
    if not entry.rules:
        raise ValueError(f"{about} has no rules")
    if sum(map(bool, (entry.rows, entry.unasked, entry.unseen))) != 1:
        raise ValueError(f"{about} needs one of rows, unasked and unseen")
    if bool(entry.rows) != bool(entry.sees):
        raise ValueError(f"{about} needs sees with rows, and only with them")
    if unknown := sorted(set(entry.rows) - names):
        raise ValueError(
            f"{about} names the rows {', '.join(unknown)}, which rows.yaml doesn't have: "
            f"expected some of {', '.join(sorted(names))}"
        )


def shown(entry: Mapped, row: Row, run: Done) -> tuple[Holds, list[str]]:
    """Returns what a run shows of the rules of an entry, and by what, if they aren't kept."""
    failed = {bad.check for bad in run.violated}
    failed |= {name for name, verdict in (run.others or {}).items() if verdict == SLO_BREACHED}
    if entry.checks is not None:
        failed &= set(entry.checks)
    # What is lost or stale as expected has no order either.
    expects = row.expected and run.system is System.IGNITE
    expected = {*row.expected, "linearizability"} if expects else set()
    if bad := sorted(failed - expected):
        return Holds.VIOLATED, [f"`{name}`" for name in bad]
    if entry.below_s is not None:
        if run.certain_ms is None:
            return Holds.NOT_DECIDED, ["no window was measured"]
        if run.certain_ms >= entry.below_s * 1e3:
            # A window may be the machine's, and begin before the fault.
            return Holds.NOT_DECIDED, [f"a window of {entry.below_s:g} s or longer"]
    if failed:
        return Holds.NOT_DECIDED, [f"`{name}`, as expected" for name in sorted(failed)]
    if run.verdict == PASSED:
        return Holds.KEPT, []
    if run.verdict not in (VIOLATED, SLO_BREACHED):
        return Holds.NOT_DECIDED, [f"the run is {run.verdict}"]
    if run.others is None:
        return Holds.NOT_DECIDED, ["whether all else passed wasn't kept"]
    left = sorted(name for name, verdict in run.others.items() if verdict != SLO_BREACHED)
    return (Holds.NOT_DECIDED, [f"`{name}`" for name in left]) if left else (Holds.KEPT, [])


def rule_by_rule(rules: MappedRules, rows: Sequence[Row], done: Sequence[Done]) -> str:
    """Returns the part of the page in Markdown."""
    seen = [(stated, entry) for stated, entry in rules.by_rule if entry.rows]
    head = HEAD.format(
        all=len(rules.by_rule),
        shown=len(seen),
        unasked=sum(bool(entry.unasked) for _, entry in rules.by_rule),
        unseen=sum(bool(entry.unseen) for _, entry in rules.by_rule),
    )
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        "| --- " * len(COLUMNS) + "|",
        *(_row(stated, entry, rows, done) for stated, entry in _grouped(seen)),
    ]
    unasked = [_reason(entry, entry.unasked) for entry in rules.entries if entry.unasked]
    unseen = [_reason(entry, entry.unseen) for entry in rules.entries if entry.unseen]
    text = head + "\n".join(lines) + "\n"
    for title, reasons in ((UNASKED, unasked), (UNSEEN, unseen)):
        if reasons:
            text += title + "\n".join(reasons) + "\n"
    return text


def _grouped(seen: Iterable[tuple[Stated, Mapped]]) -> Iterator[tuple[Stated, Mapped]]:
    """Yields rules that stand one after another and are shown by the same runs as one."""
    for _, same in groupby(seen, key=lambda each: (each[0].section, id(each[1]))):
        each = list(same)
        (section, _), entry = each[0]
        yield Stated(section, "<br>".join(stated.rule for stated, _ in each)), entry


def _reason(entry: Mapped, why: str) -> str:
    count = "1 rule" if len(entry.rules) == 1 else f"{len(entry.rules)} rules"
    return f"- **{count}**: {why}. {' / '.join(entry.rules)}"


def _row(stated: Stated, entry: Mapped, rows: Sequence[Row], done: Sequence[Done]) -> str:
    own = [row for row in rows if row.name in entry.rows]
    cells = [stated.section, stated.rule, ", ".join(map(_named, own)), entry.sees]
    for system in (System.IGNITE, System.OURS):
        with_it = [row for row in own if system in row.systems]
        if not with_it:
            cells += [NONE, NONE]
        else:
            is_seen = entry.with_ours or system is System.IGNITE
            said = _verdicts(entry, with_it, done, system) if is_seen else NOT_SEEN
            cells += [said, _window(with_it, done, system)]
    return f"| {' | '.join(cells)} |"


def _named(row: Row) -> str:
    other = "" if row.scenario == row.name else f" (`{row.scenario}`)"
    return f"`{row.name}`{other}"


def _verdicts(entry: Mapped, rows: Sequence[Row], done: Sequence[Done], system: System) -> str:
    by: dict[Holds, Counter[str]] = {each: Counter() for each in Holds}
    counts = Counter[Holds]()
    for row in rows:
        for run in of(row, done, system):
            holds, why = shown(entry, row, run)
            counts[holds] += 1
            by[holds].update(why)
    made, planned = counts.total(), sum(row.runs for row in rows)
    if not made:
        return NOT_RUN
    return "; ".join(_said(counts, by, made=made, planned=planned))


def _said(
    counts: Counter[Holds], by: dict[Holds, Counter[str]], *, made: int, planned: int
) -> Iterator[str]:
    for holds in Holds:
        if count := counts[holds]:
            words = holds.name.lower().replace("_", " ")
            why = ", ".join(f"{each} ({n})" for each, n in sorted(by[holds].items()))
            yield f"{words} in {count}" + (f", by {why}" if why else "")
    if made < planned:
        yield f"{made} of {planned} runs"


def _window(rows: Sequence[Row], done: Sequence[Done], system: System) -> str:
    """Returns the longest window, with the row that it is of."""
    known = [
        (run.certain_ms, row.name)
        for row in rows
        for run in of(row, done, system)
        if run.certain_ms is not None
    ]
    if not known:
        return NONE
    longest_ms, name = max(known)
    return f"{longest_ms / 1e3:.2f} s" + (f" (`{name}`)" if len(rows) > 1 else "")
