"""A finding and its witness as plain text, for test reports and pull requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zonequake_analysis.checks.search.witness import Finding, Witness
from zonequake_analysis.inputs.shapes import NEVER_NS
from zonequake_analysis.report import svg
from zonequake_analysis.report.aliases import aliases
from zonequake_analysis.report.shortened import brief
from zonequake_analysis.verdict import Check

MOST_OPERATIONS = 24
"""Most operations of one witness that a report lists: those of a proof are fewer."""

_CHECKS = {
    "lost": "lost-writes",
    "stale": "stale-reads",
    "flicker": "flicker",
    "session": "sessions",
    "phantom": "phantoms",
    "aborted": "aborted-reads",
    "duplicate": "duplicates",
    "applied-twice": "duplicates",
    "diverged": "diverged",
    "wrong-refusal": "refusals",
}
_NONE: Mapping[int, str] = {}
_WITHOUT_NAME = "linearizability"
"""The check of every kind that says only that there is no order."""


def check_of(kind: str) -> str:
    """Returns the check that counts a finding of this kind."""
    return _CHECKS.get(kind, _WITHOUT_NAME)


def severity_of(kind: str, checks: Sequence[Check]) -> int:
    """Returns the place of a finding's check in `checks`, which are in order of severity."""
    named = check_of(kind)
    return next((n for n, check in enumerate(checks) if check.name == named), len(checks))


def witness_text(
    finding: Finding, witness: Witness, *, start_ns: int, originals: Mapping[int, str] = _NONE
) -> str:
    """Returns the finding in a line, then its operations, one a line.

    Seconds count from `start_ns`. `originals`: the original values of an imported history.
    """
    where = f"{finding.zone}/{finding.partition} " if finding.partition is not None else ""
    proof = "no order explains these" if witness.proven else "as recorded"
    lines = [f"{finding.kind}: {where}key {finding.key} ({proof})"]
    shown, about = witness.operations[:MOST_OPERATIONS], finding.value
    names = aliases(shown, about)
    for operation in shown:
        step = operation.step
        end = "…" if step.fin_ns == NEVER_NS else f"{(step.fin_ns - start_ns) / 1e9:.3f}"
        key = f"  key {operation.key}" if operation.key not in ("", finding.key) else ""
        place = (
            "" if operation.index is None else f"  term {operation.term} index {operation.index}"
        )
        lines.append(
            f"  {(step.inv_ns - start_ns) / 1e9:9.3f} – {end:>9} s  process {operation.process:<4} "
            f"{operation.node or '–'}  {svg.label(operation, names, about)}{key}{place}"
        )
    if left_out := len(witness.operations) - len(shown):
        lines.append(f"  and {left_out:,} more operations")
    lines += [
        f"  {alias} = {brief(str(originals.get(value, value)))}" for value, alias in names.items()
    ]
    return "\n".join(lines)


def witnesses_by_check(
    shown: Sequence[tuple[Finding, Witness]],
    *,
    start_ns: int,
    originals: Mapping[int, str] = _NONE,
) -> Mapping[str, list[str]]:
    """Returns the texts by the names of their checks.

    Each finding also counts for `linearizability`: it shows that there is no order.
    """
    texts: dict[str, list[str]] = {}
    for finding, witness in shown:
        text = witness_text(finding, witness, start_ns=start_ns, originals=originals)
        for check in dict.fromkeys((check_of(finding.kind), _WITHOUT_NAME)):
            texts.setdefault(check, []).append(text)
    return texts
