"""`summary.md`: one run, or several, for readers of a pull request. The verdict comes first.

It is short enough for a comment on GitHub (65,536 characters), and so for a step's summary (1 MiB):
it leaves out whole blocks from the end, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from zonequake_analysis.judgement.verdict_json import (
    CheckEntry,
    FaultEntry,
    ReportedRun,
    VerdictDocument,
)
from zonequake_analysis.text.markdown import cell, fenced, paragraph
from zonequake_analysis.text.untrusted_text import one_line
from zonequake_analysis.verdict import MARKS, Verdict, most_severe_first, severity, worst

COMMENT_CHARACTERS = 65_536
"""Most characters of a comment on GitHub."""

STEP_SUMMARY_BYTES = 1_048_576
"""Most bytes that GitHub shows of what one step wrote to $GITHUB_STEP_SUMMARY."""

MOST_PARTITIONS = 10
"""Most rows of the table of windows; the rest is counted."""

MOST_RUNS = 100
"""Most rows of the table of runs, the worst first; the rest is counted."""

_LEFT_OUT = "\n_{} more blocks are left out: together they are too long for a comment._\n"


def render_summary(runs: Sequence[ReportedRun], *, asked: int = 1) -> str:
    """Returns the text for these runs, of `asked` requested ones. Raises ValueError without
    runs.
    """
    if not runs:
        raise ValueError("found no run, expected at least one to summarise")
    missing = max(0, asked - len(runs))
    if len(runs) == 1 and not missing:
        return _fitting(_one(runs[0], level=1))
    verdict = worst(told.document.verdict for told in runs)
    counted = Counter(told.document.verdict for told in runs)
    counts = ", ".join(f"{counted[v]} {v}" for v in Verdict if counted[v])
    names = ", ".join(dict.fromkeys(told.title for told in runs))
    series = f"{len(runs)} of {asked} runs" if missing else f"{len(runs)} runs"
    rest = f" {missing} of {asked} were not made: the series ended early." if missing else ""
    blocks = [
        f"# {MARKS[verdict]} {cell(names)}: {verdict} in {series}\n\n{counts}.{rest}\n",
        _table_of_runs(runs),
    ]
    for told in sorted(runs, key=lambda told: severity(told.document.verdict)):
        if told.document.verdict is not Verdict.PASSED:
            blocks += _one(told, level=2)
    if verdict is Verdict.PASSED:
        judged = any(told.folder and told.document.numbers for told in runs)
        reports = ["The report of a run is `report.html` in its folder."] if judged else []
        blocks.append("\n".join([*reports, *_versions(runs[0]), ""]))
    return _fitting(blocks)


def append_summary(file: Path, text: str) -> bool:
    """Adds `text` to a file as GitHub reads it; False if it did not fit and a line says so."""
    before = file.stat().st_size if file.exists() else 0
    room = STEP_SUMMARY_BYTES - before
    fits = len(text.encode()) <= room
    note = "zonequake: no room for a summary here; it is in the run's folder.\n"
    with file.open("a", encoding="utf-8") as out:
        if fits:
            out.write(text)
        elif len(note.encode()) <= room:
            out.write(note)
    return fits


def _fitting(blocks: Sequence[str]) -> str:
    """Returns the first blocks that together fit into a comment."""
    kept: list[str] = []
    size = 0
    reserve = len(_LEFT_OUT) + 10
    for number, block in enumerate(blocks):
        if size + len(block) + 1 + reserve > COMMENT_CHARACTERS:
            return "\n".join(kept) + _LEFT_OUT.format(len(blocks) - number)
        kept.append(block)
        size += len(block) + 1
    return "\n".join(kept)


def _one(told: ReportedRun, *, level: int) -> list[str]:
    document = told.document
    seed = f", seed {cell(told.seed)}" if told.seed else ""
    heading = "#" * level
    head = (
        f"{heading} {MARKS[document.verdict]} {cell(told.title)}: {document.verdict}\n\n"
        f"{paragraph(document.headline)}\n\n"
        f"Exit code {document.exit_code}{seed}.\n"
    )
    checks = most_severe_first(document.checks)
    wrong = [c for c in checks if c.verdict is not Verdict.PASSED]
    good = [c for c in checks if c.verdict is Verdict.PASSED and c.judged]
    idle = [c for c in checks if not c.judged]
    blocks = [head]
    if wrong:
        blocks += [_table_of_checks(wrong), *_witnesses(wrong)]
    if good or idle:
        words = f"{len(good)} checks passed"
        words += f", {len(idle)} had nothing to judge" if idle else ""
        blocks.append(_folded(words, _table_of_checks([*good, *idle])))
    blocks += _latency(document) + _windows(document) + _faults(document) + _resets(document)
    blocks.append(_where(told))
    return blocks


def _table_of_runs(runs: Sequence[ReportedRun]) -> str:
    lines = [
        "| | run | seed | verdict | what was found | longest window | operations | folder |",
        "| --- | --- | ---: | --- | --- | ---: | ---: | --- |",
    ]
    numbered = sorted(enumerate(runs, 1), key=lambda item: severity(item[1].document.verdict))
    for number, told in sorted(numbered[:MOST_RUNS], key=lambda item: item[0]):
        document = told.document
        longest = document.numbers.get("longest_window_certain_ms")
        operations = document.numbers.get("operations")
        lines.append(
            f"| {MARKS[document.verdict]} | {number} | {cell(told.seed) or '–'} | "
            f"{document.verdict} | {cell(document.headline, 200)} | "
            f"{'–' if longest is None else f'{longest:,.0f} ms'} | "
            f"{'–' if operations is None else f'{operations:,.0f}'} | {cell(told.folder) or '–'} |"
        )
    rest = Counter(told.document.verdict for _, told in numbered[MOST_RUNS:])
    lines += [""] if rest else []
    lines += [f"{rest[v]} more runs {'passed' if v is Verdict.PASSED else v}." for v in rest]
    return "\n".join([*lines, ""])


def _table_of_checks(checks: Sequence[CheckEntry]) -> str:
    lines = [
        "| | check | verdict | what was found | judged | left out |",
        "| --- | --- | --- | --- | ---: | ---: |",
    ]
    lines += [
        f"| {MARKS[c.verdict] if c.judged else '–'} | {cell(c.name)} | "
        f"{c.verdict if c.judged else 'not judged'} | {cell(c.summary)} | "
        f"{c.checked:,} | {c.excluded:,} |"
        for c in checks
    ]
    return "\n".join([*lines, ""])


def _witnesses(checks: Sequence[CheckEntry]) -> list[str]:
    """Returns the first witness of each check that has one: a few operations that no order
    explains.
    """
    return [
        _folded(f"A witness for {cell(check.name)}", fenced(check.witnesses[0]))
        for check in checks
        if check.witnesses
    ]


def _latency(document: VerdictDocument) -> list[str]:
    """Returns how long clients waited, even if that was not long: next to the windows it shows how
    clients felt a fault.
    """
    said = [c.summary for c in document.checks if c.name == "latency" and c.judged]
    return [f"Latency: {cell(summary)}.\n" for summary in said]


def _windows(document: VerdictDocument) -> list[str]:
    if not document.windows:
        return []
    lines = [
        "| partition | longest unavailability | at most | cause |",
        "| --- | ---: | ---: | --- |",
    ]
    lines += [
        f"| {cell(w.zone)}/{w.partition} ({cell(w.function)}) | {w.certain_ms:,.0f} ms | "
        f"{w.possible_ms:,.0f} ms | {cell(w.cause) or 'unexplained'} |"
        for w in document.windows[:MOST_PARTITIONS]
    ]
    left_out = len(document.windows) - MOST_PARTITIONS
    if left_out > 0:
        lines += ["", f"{left_out} more partitions had shorter ones."]
    return ["\n".join([*lines, ""])]


def _faults(document: VerdictDocument) -> list[str]:
    if not document.faults:
        return []
    lines = ["| fault | asked for | what it hit | progress |", "| --- | --- | --- | ---: |"]
    for fault in document.faults:
        often = f" ({fault.times} times)" if fault.times > 1 else ""
        progress = "–" if fault.progress is None else f"{fault.progress:.0%}"
        lines.append(
            f"| {cell(fault.name)}{often} | {cell(fault.asked) or '–'} | "
            f"{cell(_landing(fault))} | {progress} |"
        )
    return ["\n".join([*lines, ""])]


def _landing(fault: FaultEntry) -> str:
    """Returns where a fault landed; without a requested stage it landed if it took effect."""
    if fault.missed:
        return f"missed: {fault.missed}"
    return fault.landed or ("took effect" if fault.effective else "no proven effect")


def _resets(document: VerdictDocument) -> list[str]:
    if not document.resets:
        return []
    columns = len(document.reset_columns)
    rule = "| --- " * min(3, columns) + "| ---: " * (columns - 3) + "|"
    lines = [f"| {' | '.join(map(cell, document.reset_columns))} |", rule]
    lines += [f"| {' | '.join(cell(value) for value in row)} |" for row in document.resets]
    return ["\n".join([*lines, ""])]


def _where(told: ReportedRun) -> str:
    facts = told.document.run
    lines = []
    if facts is not None and facts.replay:
        lines += ["To run it again:", "", f"    {one_line(facts.replay)}", ""]
    if told.folder:
        # A run that was not judged has no page.
        what = "Report: `report.html` in" if told.document.numbers else "Run folder:"
        lines.append(f"{what} {cell(told.folder)}")
    return "\n".join([*lines, *_versions(told), ""])


def _versions(told: ReportedRun) -> list[str]:
    facts = told.document.run
    if facts is None:
        return []
    known = {"target": facts.target, "kubernetes": facts.cluster, **facts.versions}
    said = ", ".join(f"{cell(name)} {cell(version)}" for name, version in known.items() if version)
    return ["", f"<sub>{said}</sub>"] if said else []


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n</details>\n"
