"""Members with different states at one place of the log are a violation, and never unsettled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.made_up_evidence import evidence, found
from zonequake_analysis.inputs.run_folder import Dump, DumpEntry, DumpHeader, RecordedEvent
from zonequake_analysis.inputs.shapes import INDEX_BITS, TERM_BITS
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.measures.acknowledged import Acknowledged
from zonequake_analysis.measures.replica_audit import Audit, audit
from zonequake_analysis.verdict import Check, Verdict


def place(index: int, *, term: int = 1, lineage: int = 0) -> int:
    return (lineage << (TERM_BITS + INDEX_BITS)) | (term << INDEX_BITS) | index


def dump(node: str, applied: int, digest: str = "d", **fields: Any) -> Dump:
    entries = fields.pop("entries", ())
    header = DumpHeader(
        group="z.1.0", node=node, applied=applied, digest=digest, keys=len(entries), **fields
    )
    return Dump(file=f"0-{node}.jsonl", header=header, entries={e.key: e for e in entries})


def told(node: str, applied: int, digest: str, **data: object) -> RecordedEvent:
    return RecordedEvent(
        kind="replica.audit",
        time=1,
        zone="z",
        partition=0,
        node=node,
        data={"applied": applied, "digest": digest, **data},
    )


def checks_of(found_out: Audit) -> dict[str, Check]:
    return {check.name: check for check in judge(evidence(audit=found_out))}


def kinds(*dumps: Dump, acknowledged: tuple[Acknowledged, ...] = ()) -> list[str]:
    return [one.kind for one in audit(acknowledged, [], dumps).disagreements]


def list_of(*elements: int) -> DumpEntry:
    return DumpEntry(key="l", value=list(elements), index=9)


APPENDS = Acknowledged(
    zone="z",
    partition=0,
    key="l",
    position=place(9),
    elements=[1, 2],
    places=[place(4), place(9)],
)
WRITE = Acknowledged(zone="z", partition=0, key="r", position=place(7), elements=[], places=[])


def test_two_members_at_one_place_with_two_digests_have_diverged() -> None:
    checks = checks_of(audit((), [], [dump("a", 9), dump("b", 9, "e"), dump("c", 9)]))
    assert checks["diverged"].verdict is Verdict.VIOLATED
    assert checks["diverged"].violations == 1
    assert "z/0" in checks["diverged"].summary
    assert "e on b" in checks["diverged"].summary
    assert checks["replicas"].verdict is Verdict.PASSED
    assert checks["replicas"].excluded == 1


def test_a_third_member_that_lags_hides_no_divergence_of_the_two_others() -> None:
    checks = checks_of(audit((), [], [dump("a", 9), dump("b", 9, "e"), dump("c", 8, "f")]))
    assert checks["diverged"].verdict is Verdict.VIOLATED


def test_members_at_different_places_have_not_settled_and_their_digests_say_nothing() -> None:
    lagging = [dump("a", 9), dump("b", 9), dump("c", 8, "f")]
    assert kinds(*lagging) == ["applied"]
    checks = checks_of(audit((), [], lagging))
    assert checks["diverged"].verdict is Verdict.PASSED
    assert checks["replicas"].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("other", [(8, "d"), (9, "e"), (10, "e")], ids=str)
def test_members_of_one_log_index_with_another_revision_or_hash_have_diverged(
    other: tuple[int, str],
) -> None:
    revision, digest = other
    found_out = audit(
        (),
        [],
        [dump("a", 9, log_index=40), dump("b", revision, digest, log_index=40)],
    )
    check = checks_of(found_out)["diverged"]
    assert check.verdict is Verdict.VIOLATED
    assert "log index 40" in check.summary


def test_members_of_different_log_indexes_and_revisions_have_not_settled() -> None:
    assert kinds(dump("a", 9, log_index=40), dump("b", 8, "e", log_index=39)) == ["applied"]


def test_one_state_at_several_log_indexes_is_equal() -> None:
    """An etcd's log has entries that change no key: a leader's first one, a compaction."""
    assert kinds(dump("a", 9, log_index=40), dump("b", 9, log_index=41)) == []


def test_hashes_that_begin_at_different_compactions_are_compared_at_one_log_index_alone() -> None:
    compacted = (dump("a", 9, "x, compacted 0"), dump("b", 9, "y, compacted 5"))
    assert kinds(*compacted) == ["applied"]
    at_one_place = (
        dump("a", 9, "x, compacted 0", log_index=40),
        dump("b", 9, "y, compacted 5", log_index=40),
    )
    assert kinds(*at_one_place) == ["digest"]


def test_members_of_different_lineages_have_not_settled() -> None:
    assert kinds(dump("a", 9, lineage=2), dump("b", 9, "e", lineage=1)) == ["applied"]


def test_the_events_alone_tell_it_where_no_dump_was_kept() -> None:
    events = [told("a", 9, "d", log_index=40), told("b", 8, "d", log_index=40)]
    assert [one.kind for one in audit((), events, ()).disagreements] == ["digest"]


def test_a_member_without_a_digest_differs_from_no_other() -> None:
    assert [
        one.kind for one in audit((), [told("a", 9, "d"), told("b", 9, "")], ()).disagreements
    ] == []


def test_an_acknowledged_append_that_another_member_holds_is_diverged_where_it_is_lacking() -> None:
    found_out = audit(
        (APPENDS,),
        [],
        [dump("a", 9, entries=[list_of(1, 2)]), dump("b", 10, "e", entries=[list_of(2)])],
    )
    check = checks_of(found_out)["diverged"]
    assert check.verdict is Verdict.VIOLATED
    assert "b, key l: lacks 1 acknowledged element" in check.summary
    assert "a holds" in check.summary


def test_a_member_lacks_nothing_that_is_acknowledged_behind_what_it_has_applied() -> None:
    behind = dump("b", 8, "e", entries=[list_of(1)])
    assert kinds(dump("a", 9, entries=[list_of(1, 2)]), behind, acknowledged=(APPENDS,)) == [
        "applied"
    ]


def test_an_acknowledged_append_that_no_member_holds_is_missing_and_nothing_diverged() -> None:
    dumps = [dump(node, 9, entries=[list_of(1)]) for node in "ab"]
    checks = checks_of(audit((APPENDS,), [], dumps))
    assert checks["diverged"].verdict is Verdict.PASSED
    assert checks["replicas"].verdict is Verdict.VIOLATED


def test_a_register_that_one_member_has_and_another_has_not_is_diverged() -> None:
    new, old = (DumpEntry(key="r", value=index, index=index) for index in (7, 3))
    lacking = kinds(dump("a", 9, entries=[new]), dump("b", 9, entries=[old]), acknowledged=(WRITE,))
    assert lacking == ["lacks"]
    assert kinds(dump("a", 9, entries=[old]), acknowledged=(WRITE,)) == ["missing"]


def test_diverged_stands_first_among_the_violations() -> None:
    found_out = audit((), [], [dump("a", 9), dump("b", 9, "e")])
    counts = found({("loss", "lost"): 3, ("sets", "phantom"): 1})
    checks = judge(evidence(audit=found_out, found=counts))
    assert [check.name for check in checks[:3]] == ["diverged", "lost-writes", "phantoms"]


def test_without_dumps_and_places_nothing_is_said_of_divergence() -> None:
    checks = {check.name: check for check in judge(evidence(counts={}))}
    assert not checks["diverged"].judged
