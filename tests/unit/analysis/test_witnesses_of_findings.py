"""A witness shows what its check says, whatever else is wrong with the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Row

from tests.histories import anomalies
from tests.histories.synthesize import SyntheticOperation
from tests.unit.analysis.made_up_evidence import finding
from tests.unit.analysis.one_list import append, read
from zonequake_analysis.checks.search.named_witness import named, witness_of
from zonequake_analysis.checks.search.reference import ReferenceStep
from zonequake_analysis.checks.search.witness import Witness, WitnessOperation
from zonequake_analysis.inputs.shapes import NEVER_NS
from zonequake_analysis.post_mortem.witnessed_findings import few_of_each_kind
from zonequake_analysis.report.witness_text import check_of, witness_text


def seen(o: SyntheticOperation) -> WitnessOperation:
    """An operation as `ops` has it."""
    is_list = isinstance(o.value, list)
    return WitnessOperation(
        op=f"{o.process}-{o.sequence}",
        process=o.process,
        node=o.node or "",
        role=o.role.name.lower(),
        outcome=o.type,
        step=ReferenceStep(
            f=o.f,
            inv_ns=o.inv_ns,
            fin_ns=o.fin_ns if o.type == "ok" else NEVER_NS,
            value=(tuple(o.value) or None) if is_list else o.value,  # type: ignore[arg-type]
            expected=o.expected,
            found=o.found,
            refused=o.applied is False,
        ),
        term=o.term if o.index is not None else None,
        index=o.index,
        key=o.key,
    )


def witness(
    kind: str, operations: Sequence[SyntheticOperation], at: SyntheticOperation, **known: Any
) -> Witness:
    """The witness for a finding of this kind, shown by the operation `at`."""
    named = finding(kind, key=at.key, at_ns=at.inv_ns, **known)
    mine = [seen(o) for o in operations if o.key == at.key]
    place = named.position
    there = [] if place is None else [seen(o) for o in operations if o.index == place[2]]
    return witness_of(mine, named, there)


def ops(found: Witness) -> list[str]:
    return [o.op for o in found.operations]


def op(o: SyntheticOperation) -> str:
    return f"{o.process}-{o.sequence}"


def plant(name: str) -> tuple[SyntheticOperation, ...]:
    return anomalies.plant(name, 1_000).operations


def at_place(o: SyntheticOperation) -> dict[str, Any]:
    return {"position": (o.lineage, o.term, o.index)}


@pytest.mark.parametrize("name", ["session", "session-of-two-keys"])
def test_a_session_shows_the_answer_that_the_process_had_and_the_later_one(name: str) -> None:
    first, later, *_ = plant(name)
    found = witness("session", plant(name), later, value=later.value, **at_place(first))
    assert ops(found) == [op(first), op(later)]
    assert len({o.process for o in found.operations}) == 1
    assert found.operations[0].index is not None
    assert found.operations[1].index is not None
    assert found.operations[0].index > found.operations[1].index


def test_a_sessions_text_names_the_other_key_and_both_places() -> None:
    first, later, *_ = plant("session-of-two-keys")
    named = finding("session", key=later.key, at_ns=later.inv_ns, **at_place(first))
    text = witness_text(
        named,
        witness("session", plant("session-of-two-keys"), later, **at_place(first)),
        start_ns=0,
    )
    assert f"key {first.key}  term 1 index {first.index}" in text
    assert f"index {later.index}" in text


def test_a_duplicate_shows_the_list_with_its_element_twice_though_the_key_lost_another() -> None:
    one, two = append(1, 1.0, (0, 1, 1)), append(2, 2.0, (0, 1, 2))
    lost = append(3, 3.0, (0, 1, 3))
    twice = read([1, 2, 1], 4.0, (0, 1, 4))
    found = witness("duplicate", [one, two, lost, twice], twice)
    assert ops(found) == [op(one), op(twice)]
    assert found.operations[-1].step.value == (1, 1)
    assert found.proven


def test_a_list_in_which_nothing_stands_twice_is_no_duplicates_witness() -> None:
    one, two = append(1, 1.0, (0, 1, 1)), append(2, 2.0, (0, 1, 2))
    shown = read([1, 2], 3.0, (0, 1, 3))
    its = finding("duplicate", key=shown.key, at_ns=shown.inv_ns)
    assert named([seen(o) for o in (one, two, shown)], its, []) == []


def test_an_append_that_another_member_lacks_is_no_duplicate_and_shows_both_members() -> None:
    one, two, lacking, shows = plant("diverged-list")
    found = witness("diverged", plant("diverged-list"), lacking, value=two.value, **at_place(two))
    assert ops(found) == [op(two), op(lacking), op(shows)]
    assert [o.node for o in found.operations] == ["zq-default-0", "zq-default-1", "zq-default-0"]
    assert found.operations[1].step.value is None, "the list without what it lacks"
    assert check_of("diverged") == "diverged"
    assert op(one) not in ops(found)


def test_a_register_that_two_members_show_differently_shows_both() -> None:
    _, two, lacking, shows = plant("diverged-register")
    found = witness(
        "diverged", plant("diverged-register"), lacking, value=two.value, **at_place(two)
    )
    assert ops(found) == [op(two), op(lacking), op(shows)]


@pytest.mark.parametrize(
    ("kind", "check"),
    [("applied-twice", "duplicates"), ("two-places", "linearizability"), ("diverged", "diverged")],
)
def test_a_write_at_two_places_shows_its_acknowledgement_and_the_earlier_answer(
    kind: str, check: str
) -> None:
    write, early, _ = plant("two-places")
    found = witness(kind, plant("two-places"), early, value=write.value, **at_place(write))
    assert ops(found) == [op(write), op(early)]
    assert check_of(kind) == check


def test_of_a_request_applied_twice_the_same_members_answer_is_shown() -> None:
    write, *_ = plant("applied-twice")
    early = plant("applied-twice")[1]
    of_another = replace(early, node="zq-default-2", index=early.index, process=77)
    found = witness(
        "applied-twice",
        [*plant("applied-twice"), of_another],
        early,
        value=write.value,
        **at_place(write),
    )
    assert ops(found) == [op(write), op(early)]


def test_an_entry_that_two_writes_claim_shows_both_whatever_their_keys() -> None:
    one = append(1, 1.0, (0, 1, 5))
    other = append(2, 2.0, (0, 1, 5), key="elsewhere")
    found = witness("entry-twice", [one, other], one, value=1, **at_place(one))
    assert ops(found) == [op(one), op(other)]
    assert not found.proven


def test_a_wrong_refusal_shows_the_cas_and_the_write_that_it_found() -> None:
    write, cas, _ = plant("wrong-refusal")
    found = witness("wrong-refusal", plant("wrong-refusal"), cas, value=write.value)
    assert ops(found) == [op(write), op(cas)]


@pytest.mark.parametrize("kind", ["lost", "stale"])
def test_a_read_that_misses_an_append_is_shown_though_the_key_has_a_duplicate(kind: str) -> None:
    one, two = append(1, 1.0, (0, 1, 1)), append(2, 2.0, (0, 1, 2))
    twice = read([1, 1, 2], 2.5, (0, 1, 3))
    missing = read([1], 3.0, (0, 1, 4))
    found = witness(kind, [one, two, twice, missing], missing, value=2)
    assert ops(found) == [op(two), op(missing)]
    assert found.proven


@pytest.mark.parametrize("name", ["lost", "stale", "stale-though-seen"])
def test_a_stale_register_shows_the_read_and_the_write_that_it_misses(name: str) -> None:
    old, new = plant(name)[:2]
    stale = next(o for o in plant(name)[2:] if o.value == old.value)
    found = witness("stale", plant(name), stale, value=old.value, **at_place(new))
    assert ops(found) == [op(old), op(new), op(stale)]
    assert found.proven


def test_flicker_shows_the_read_that_saw_the_write_and_the_one_that_misses_it() -> None:
    old, new, saw, misses, _ = plant("flicker")
    found = witness(
        "flicker", plant("flicker"), misses, value=old.value, position=(0, 1, saw.index)
    )
    assert ops(found) == [op(old), op(new), op(saw), op(misses)]
    assert found.proven


def test_keys_that_a_worse_kind_has_not_shown_come_first_and_each_kind_is_shown() -> None:
    def row(check: str, kind: str, key: int) -> Row:
        return Row(check=check, kind=kind, key_id=key)

    stale = [row("loss", "stale", key) for key in (1, 1, 2, 3, 4, 5)]
    apart = [row("diverged", "diverged", key) for key in (1, 2)]
    phantom = row("sets", "phantom", 1)
    chosen = [(r["kind"], r["key_id"]) for r in few_of_each_kind([phantom, *stale, *apart])]
    assert chosen == [
        ("diverged", 1),
        ("diverged", 2),
        ("stale", 3),
        ("stale", 4),
        ("stale", 5),
        ("phantom", 1),
    ]
