"""Renders the evidence on Ignite as a page. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.evidence_ignite.rows import Done, Row, System, next_run, of
from benchmarks.evidence_ignite.rules_table import NOT_RUN, MappedRules, rule_by_rule

RELEASE = "3.1.0"
NONE_RUN = "**No row of this page has been run yet.**"

HEAD = f"""# Apache Ignite {RELEASE} beside our store

[Ignite](../ignite.md), whose documents our store follows, and our store through the same scenarios,
with the same seeds. `make evidence-ignite` writes this page from [its results](ignite-3.1.jsonl),
a line for each run; [the list](../../benchmarks/evidence_ignite/rows.yaml) says what is run.
The load is light, 60 operations and 80 probes a second: what three Ignite nodes serve on two
processors. Writes: those that were acknowledged, and of how many of them it could be said whether
they are lost, as reads show them or nothing wrote over them; of the run with the fewest and the one
with the most, of runs for which it was kept. Without a claimed order, as Ignite's answers have
none, it can't be said of many.
Windows: the longest time for which a partition certainly answered no probe, over all runs of a row.
p99: of the load's operations during the faults, the median of the runs.
On two processors, and in runs with other programs beside them, Ignite missed probes before the
first fault, too: the pictures begin there. Such windows are the machine's, so that a row's longest
one is no measure of what its fault does to Ignite, and verdicts alone are comparable.

A write that a reset of a highly available zone takes is called lost in Ignite's column, since it
tells no place at which a reset went on. A violation is Ignite's only where a row's finding says so,
with the reason.

"""

NAMES = {System.IGNITE: "Ignite", System.OURS: "our store", System.CONTROL: "the control"}

COLUMNS = (
    *("what happens", "rule", "scenario"),
    *("Ignite", "writes: judged of acknowledged", "longest window", "p99"),
    *("our store", "writes: judged of acknowledged", "longest window", "p99"),
    "finding",
)

FINDINGS = """
## Findings

What is known of a row's violations, and whose they are, written once they were looked at.

"""


CONTROLS = """
## The control

The same release with [one line changed](../../benchmarks/evidence_ignite/control.patch), which
`python -m benchmarks.evidence_ignite.control` builds. It goes through the same scenario with the
same seeds, to see whether what was violated ends with that line.

"""


PICTURES = """
## The same faults on both systems

Each picture has one seed's run on both, on one axis of time, in seconds from the first fault on. A
fault begins when the system has settled since the one before, so that later ones come at other
times. Latencies are those of operations that were due in a second and answered; where none was,
the line has a gap. Below them stands when each partition was unavailable to reads and to writes.

"""


def page(
    rows: Sequence[Row],
    done: Sequence[Done],
    pictures: Mapping[str, str] | None = None,
    rules: MappedRules | None = None,
) -> str:
    """Returns the page in Markdown. `pictures`: their files by the names of rows."""
    names = {row.name for row in rows}
    made = [one for one in done if one.name in names]
    left = [row.name for row in rows if next_run(row, made) is not None]
    if not made:
        state = f"{NONE_RUN}\n\n"
    elif left:
        state = f"Not all runs of {', '.join(left)} have been made yet.\n\n"
    else:
        state = ""
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        "| --- " * len(COLUMNS) + "|",
        *(_row(row, made) for row in rows),
    ]
    found = [line for row in rows for system in row.systems for line in _found(row, made, system)]
    told = ["", "## What was violated", "", *found] if found else []
    findings = [f"- `{row.name}`: {row.finding}" for row in rows if row.finding]
    known = FINDINGS + "\n".join(findings) + "\n" if findings else ""
    controls = [_control(row, made) for row in rows if row.control]
    beside = CONTROLS + "\n".join(controls) + "\n" if controls else ""
    ruled = rule_by_rule(rules, rows, made) if rules is not None else ""
    shown = [f"![{name}: Ignite and our store]({file})" for name, file in (pictures or {}).items()]
    drawn = PICTURES + "\n\n".join(shown) + "\n" if shown else ""
    return HEAD + state + "\n".join([*lines, *told]) + "\n" + known + beside + ruled + drawn


def _row(row: Row, done: Sequence[Done]) -> str:
    cells = [row.asks, row.rule, _scenario(row)]
    for system in (System.IGNITE, System.OURS):
        if system in row.systems:
            expected = row.expected if system is System.IGNITE else []
            runs = of(row, done, system)
            said = _verdicts(row.runs, runs, expected)
            cells += [said, _writes(runs), _window(runs), _p99(runs)]
        else:
            cells += ["–", "–", "–", "–"]
    return f"| {' | '.join([*cells, '[below](#findings)' if row.finding else '–'])} |"


def _control(row: Row, done: Sequence[Done]) -> str:
    runs = of(row, done, System.CONTROL)
    said = _verdicts(row.control, runs, [])
    if not runs:
        return f"- `{row.name}`: {said}"
    seeds = ", ".join(str(one.seed) for one in runs)
    writes, window, p99 = _writes(runs), _window(runs), _p99(runs)
    return (
        f"- `{row.name}`, seeds {seeds}: {said}; writes: {writes}; "
        f"longest window {window}, p99 {p99}"
    )


def _scenario(row: Row) -> str:
    said = [f"`{row.scenario}`"]
    if row.overrides:
        said.append(f"with {_set(row.overrides)}")
    if row.ignite:
        said.append(f"Ignite: {_set(row.ignite)}")
    if row.ours:
        said.append(f"ours: {_set(row.ours)}")
    if row.beside is not None:
        said.append(f"the zone gets {row.beside.replicas} replicas after `{row.beside.fault}`")
    return "; ".join(said)


def _set(overrides: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in overrides)


def _verdicts(wanted: int, runs: Sequence[Done], expected: Sequence[str]) -> str:
    if not runs:
        return NOT_RUN
    counts = Counter(one.verdict for one in runs)
    said = [f"{count} {verdict}" for verdict, count in sorted(counts.items())]
    bad = Counter(each.check for one in runs for each in one.violated)
    if bad:
        said.append("by " + ", ".join(f"`{check}` ({n})" for check, n in sorted(bad.items())))
    if expected:
        said.append(f"expected: {', '.join(f'`{check}`' for check in expected)}")
    if len(runs) < wanted:
        said.append(f"{len(runs)} of {wanted} runs")
    return "; ".join(said)


def _writes(runs: Sequence[Done]) -> str:
    judged, acknowledged = (
        _range([number for one in runs if (number := getattr(one, name)) is not None])
        for name in ("judged", "acknowledged")
    )
    return f"{judged} of {acknowledged}"


def _range(numbers: Sequence[int]) -> str:
    if not numbers:
        return "–"
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _window(runs: Sequence[Done]) -> str:
    known = [one.certain_ms for one in runs if one.certain_ms is not None]
    return f"{max(known) / 1e3:.2f} s" if known else "–"


def _p99(runs: Sequence[Done]) -> str:
    known = sorted(one.p99_ms for one in runs if one.p99_ms is not None)
    return f"{known[len(known) // 2]:,.0f} ms" if known else "–"


def _found(row: Row, done: Sequence[Done], system: System) -> Iterator[str]:
    """Yields a paragraph for each check that runs of the row violated, with the first witness."""
    runs = of(row, done, system)
    for check in sorted({each.check for one in runs for each in one.violated}):
        bad = [one for one in runs if any(each.check == check for each in one.violated)]
        first = next(each for each in bad[0].violated if each.check == check)
        seeds = ", ".join(str(one.seed) for one in bad)
        yield (
            f"- `{row.name}`, {NAMES[system]}, `{check}`: {len(bad)} of {len(runs)} runs, "
            f"seeds {seeds}. Seed {bad[0].seed}: {first.summary}"
        )
        if first.witness:
            yield from ("", "        " + first.witness.replace("\n", "\n        "), "")
