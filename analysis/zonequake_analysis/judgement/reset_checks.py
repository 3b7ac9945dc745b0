"""Checks of what a highly available zone may do and a strongly consistent one may not. Pure."""

from __future__ import annotations

from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.verdict import Check, Verdict

_NO_JOURNAL = "not judged: no journal of a data node is there to tell of resets"
_MOST_TOLD = 4
"""Most resets that a sentence names; the rest is counted."""


def reset_checks(e: Evidence) -> list[Check]:
    """Checks whether resets took only what they may take, and no forbidden answer was given."""
    return [_resets(e), _sacrificed(e), _restored(e), _availability(e)]


def _resets(e: Evidence) -> Check:
    """Checks the number of resets, that each is recorded, that each unwind goes back to a link of
    the chain, and that each reset by hand goes on from the requested node."""
    wanted, found = e.description.expectations.resets, len(e.resets)
    by_hand = [r for r in e.resets if r.by_hand]
    unwinds = [r for r in e.resets if not r.by_hand and (r.unwound_to or r.unnamed)]
    unnamed = [r for r in e.resets if r.unnamed]
    unrecorded = [(cut, lineage) for cut in e.cuts for lineage in cut.unrecorded]
    verdict = Verdict.PASSED
    summary = f"{found} resets, {len(unwinds)} of them unwinds"
    if by_hand:
        summary += f" and {len(by_hand)} by hand"
    if not found and e.journalled:
        summary = f"none of {e.journalled} partitions was reset"
    elif not found:
        summary = _NO_JOURNAL
    if unnamed:
        first = unnamed[0]
        unknown = all("no chain" in r.unnamed for r in unnamed)
        verdict = Verdict.UNKNOWN if unknown else Verdict.VIOLATED
        summary += (
            f"; {len(unnamed)} are not by the rules, for instance {first.zone}/{first.partition} "
            f"in lineage {first.lineage}: {first.unnamed}"
        )
    if wanted is not None and found > wanted:
        verdict = Verdict.VIOLATED
        resets = [f"{r.zone}/{r.partition} by {r.survivor} (lineage {r.lineage})" for r in e.resets]
        shown = first_few(resets, _MOST_TOLD, separator=", ")
        summary += f", where {wanted} were expected: {shown}"
    elif verdict is Verdict.PASSED and unrecorded:
        cut, lineage = unrecorded[0]
        verdict = Verdict.UNKNOWN
        summary += (
            f"; no record shows how lineage {lineage} of {cut.zone}/{cut.partition} began, so what "
            "it took can't be told"
        )
    elif verdict is Verdict.PASSED and wanted is not None and found < wanted:
        verdict = Verdict.SLO_BREACHED
        summary += f", where {wanted} were expected"
    return Check(
        name="resets",
        verdict=verdict,
        summary=summary,
        violations=len(unnamed),
        checked=max(found, e.journalled),
        excluded=len(unrecorded),
    )


def _sacrificed(e: Evidence) -> Check:
    """Counts legal losses: all writes that are no part of the last lineage, and only those."""
    taken = sum(sum(cut.sacrificed.values()) for cut in e.cuts)
    most = e.description.expectations.sacrificed_at_most
    least = e.description.expectations.sacrificed_at_least
    looked = bool(e.journalled or e.cuts)
    summary = f"{taken} of {e.acknowledged:,} acknowledged writes were sacrificed by resets"
    if not looked:
        summary = _NO_JOURNAL
    by_lineage = [
        f"{count} in {cut.zone}/{cut.partition} by lineage {lineage}"
        for cut in e.cuts
        for lineage, count in sorted(cut.sacrificed.items())
    ]
    if by_lineage:
        summary += f": {first_few(by_lineage, _MOST_TOLD, separator=', ')}"
    verdict = Verdict.PASSED
    if most is not None and taken > most:
        verdict = Verdict.VIOLATED
        summary += f"; at most {most} may be"
    elif taken < least:
        verdict = Verdict.UNKNOWN
        summary += f"; the run shows nothing with less than {least}"
    return Check(
        name="sacrificed-writes",
        verdict=verdict,
        summary=summary,
        violations=taken,
        checked=e.acknowledged if looked else 0,
    )


def _restored(e: Evidence) -> Check:
    back = sum(cut.restored for cut in e.cuts)
    least = e.description.expectations.restored_at_least
    links = [
        f"{r.zone}/{r.partition} to [{', '.join(r.unwound_to)}] by {r.survivor}"
        if r.unwound_to
        else f"{r.zone}/{r.partition} by hand to what {r.survivor} had"
        for r in e.resets
        if r.unwound_to or r.by_hand
    ]
    summary = f"{back} writes that a reset had taken came back through a later one"
    if links:
        summary += f": {first_few(links, _MOST_TOLD, separator=', ')}"
    elif not back and not least:
        summary = "not judged: no reset was unwound"
    return Check(
        name="restored-writes",
        verdict=Verdict.VIOLATED if back < least else Verdict.PASSED,
        summary=f"{summary}; at least {least} had to come back" if back < least else summary,
        checked=len(links),
    )


def _availability(e: Evidence) -> Check:
    """Checks that no node answered without a majority or a written reset, or beside a survivor."""
    alone = sum(one.count for one in e.unfounded)
    beside = sum(cut.beside for cut in e.cuts)
    words = []
    if alone and e.one_clock:
        first = e.unfounded[0]
        words.append(
            f"{alone} answers while no majority lived, for instance in {first.zone}/"
            f"{first.partition}: {'; '.join(first.examples)}"
        )
    if beside and e.one_clock:
        at = next(cut for cut in e.cuts if cut.beside)
        words.append(
            f"{beside} answers of an older lineage after a newer one led, for instance in "
            f"{at.zone}/{at.partition}: {'; '.join(at.examples)}"
        )
    is_known = e.one_clock and bool(e.known_groups or e.journalled or e.cuts)
    good = "no node answered without a majority or beside a survivor"
    if not e.one_clock:
        good = "not judged: several clocks"
    elif not is_known:
        good = "not judged: no event names the members of a partition, or is of a node's journal"
    return Check(
        name="forbidden-availability",
        verdict=Verdict.VIOLATED if words else Verdict.PASSED,
        summary="; ".join(words) or good,
        violations=alone + beside if e.one_clock else 0,
        checked=sum(e.counts.values()) if is_known else 0,
    )
