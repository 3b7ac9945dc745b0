"""Renders the record as a page, and a witness as a picture. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape

from benchmarks.record.entries import VIOLATED, Done, Entry, finds, next_run, of

ETCDS_OWN = "https://github.com/etcd-io/etcd/blob/main/tests/robustness/README.md"
NOT_RUN = "has not been run yet"
_STEP = re.compile(r"^\s+(?P<begin>[\d.]+) – +(?P<end>[\d.]+|…) s  (?P<what>.+)$")
_LINE, _LEFT, _WIDTH, _BAR = 22, 12, 980, 240

TITLE = "# The record: published faults of other systems\n\n"
NOTHING_RUN = "**No row has been run yet**: no run has found one of these faults so far.\n\n"
HEAD = """\
What runs of the harness found in releases that have a published fault, or one that their own source
shows, each beside the release that mends it, with the same scenario and the same seeds. `make
record` writes this page from [its results](record.jsonl), a line for each run; [the
list](../../benchmarks/record/record.yaml) says what is run. A row is run until a check finds the
fault, at most as often as its limit. A release is compiled with a newer Go than it was published
with, so that its windows may differ. A control `+patch` is the same release with [the patch of the
row's name](../../benchmarks/record/patches), where no release mends it; a release `+failpoints` is
built with those of its source.

"""

LEFT_OUT = f"""
## Looked at, and not in the list

etcd keeps [a list]({ETCDS_OWN}) of its faults of consistency. Not run, since no operation of the
load meets them: those of watches (#15220, #15271, #17247, #17529, #18089, #19179), of which the
load has none; #14571, which needs users and roles; #17780, a revision that decreases after a crash
in a compaction whose newest write is a deletion, as the load deletes nothing.
"""

COLUMNS = (
    "system, release",
    "fault",
    "scenario",
    "checks that are to find it",
    "runs until found",
    "control",
)


def page(entries: Sequence[Entry], done: Sequence[Done]) -> str:
    """Returns the page in Markdown."""
    lines = [
        f"| {' | '.join(COLUMNS)} | witness |",
        "| --- " * (len(COLUMNS) + 1) + "|",
        *(_row(entry, done) for entry in entries),
    ]
    ran = any(of(entry, done, entry.release) for entry in entries)
    return TITLE + ("" if ran else NOTHING_RUN) + HEAD + "\n".join(lines) + "\n" + LEFT_OUT


def witnesses(entries: Sequence[Entry], done: Sequence[Done]) -> dict[str, str]:
    """Returns the pictures by their file names, of entries that were found with a witness."""
    return {
        f"{entry.name}.svg": picture(found.witness)
        for entry in entries
        if (found := _found(entry, done)) is not None and found.witness
    }


def picture(witness: str) -> str:
    """Draws a witness: its lines, each operation with its interval as a bar, as SVG."""
    lines = witness.splitlines()
    steps = [_STEP.match(line) for line in lines]
    begins = [float(step["begin"]) for step in steps if step]
    ends = [float(step["end"]) for step in steps if step and step["end"] != "…"]
    first, last = min(begins, default=0.0), max([*begins, *ends], default=0.0)
    scale = _BAR / ((last - first) or 1.0)
    drawn = []
    for number, (line, step) in enumerate(zip(lines, steps, strict=True)):
        y = _LINE * (number + 1)
        text, x = line.strip(), _LEFT
        if step:
            begin = (float(step["begin"]) - first) * scale
            end = _BAR if step["end"] == "…" else (float(step["end"]) - first) * scale
            drawn.append(
                f'<rect x="{_LEFT + begin:.1f}" y="{y - 10}" width="{max(end - begin, 2):.1f}" '
                'height="10" fill="#3949ab"/>'
            )
            text, x = " ".join(step["what"].split()), _LEFT + _BAR + 16
        drawn.append(f'<text x="{x}" y="{y}">{escape(text)}</text>')
    height = _LINE * (len(lines) + 1)
    style = 'font-family="monospace" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {style}>\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def _found(entry: Entry, done: Sequence[Done]) -> Done | None:
    return next((one for one in of(entry, done, entry.release) if finds(entry, one)), None)


def _row(entry: Entry, done: Sequence[Done]) -> str:
    found = _found(entry, done)
    shown = f"![{entry.name}]({entry.name}.svg)" if found is not None and found.witness else "–"
    beside = f", {entry.beside} beside it" if entry.beside else ""
    overrides = ", ".join(f"`{each}`" for each in entry.overrides)
    given = f" with {overrides}" if overrides else ""
    last = entry.published.rsplit("/", 1)[-1]
    name = f"#{last}" if last.isdecimal() else last
    cells = [
        f"{entry.system} {entry.release}",
        f"[{name}]({entry.published}): {entry.fault}",
        f"`{entry.scenario}`{given}{beside}",
        ", ".join(f"`{check}`" for check in entry.checks),
        _until_found(entry, of(entry, done, entry.release)),
        f"{entry.control}: {_control(entry, done)}",
        shown,
    ]
    return f"| {' | '.join(cells)} |"


def _until_found(entry: Entry, runs: Sequence[Done]) -> str:
    if not runs:
        return NOT_RUN
    for number, one in enumerate(runs, 1):
        if finds(entry, one):
            return f"{number}, by {', '.join(f'`{check}`' for check in one.violated)}"
    end = "" if len(runs) >= entry.limit else f" yet, of at most {entry.limit}"
    return f"{'not found' if end else 'in vain'} in {len(runs)}{end}{_verdicts(runs)}"


def _control(entry: Entry, done: Sequence[Done]) -> str:
    runs = of(entry, done, entry.control)
    if not runs:
        in_vain = next_run(entry, done) is None
        return "not run, as there is nothing to compare" if in_vain else NOT_RUN
    bad = [one for one in runs if one.verdict == VIOLATED]
    if bad:
        checks = sorted({check for one in bad for check in one.violated})
        return f"violated in {len(bad)} of {len(runs)}: {', '.join(f'`{c}`' for c in checks)}"
    return f"not violated in {len(runs)}{_verdicts(runs)}"


def _verdicts(runs: Sequence[Done]) -> str:
    counts = {one.verdict: 0 for one in runs}
    for one in runs:
        counts[one.verdict] += 1
    return f" ({', '.join(f'{n} {verdict}' for verdict, n in sorted(counts.items()))})"
