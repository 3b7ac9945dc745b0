"""What a HighAvailability partition should become (design §3, hole 14)."""

from __future__ import annotations

import pytest

from zonequake_operator.rebalance.ha_wish import highly_available
from zonequake_operator.resources.model import AssignmentSet, PartitionKeys


def of(nodes: str | None, **flags: bool) -> AssignmentSet | None:
    return None if nodes is None else AssignmentSet(nodes=tuple(nodes), **flags)


@pytest.mark.parametrize(
    ("name", "calculated", "stable", "alive", "held", "target"),
    [
        ("everybody is there", "ABC", "ABC", "ABC", "", "ABC"),
        ("a returned node is added, the absent one waits for nothing", "ABC", "A", "AB", "", "AB"),
        ("an absent member isn't dropped before scale-down", "ABC", "ABC", "AB", "", "ABC"),
        ("one that scale-down dropped is", "AB", "ABC", "AB", "", "AB"),
        ("a new node that is away isn't waited for", "ABD", "ABC", "AB", "", "AB"),
        ("alive nodes that are no majority: stable stays", "ABC", "ABC", "A", "", "ABC"),
        ("nor are they one of where they would go", "ABD", "ABC", "D", "", "ABC"),
        ("nobody of the calculated set is there: stable stays", "D", "ABC", "ABC", "", "ABC"),
        ("whom the scale-up timer holds isn't alive", "ABC", "A", "ABC", "B", "AC"),
        ("a held member counts in no majority either", "ABC", "ABC", "ABC", "BC", "ABC"),
        ("no data nodes: no wish", None, "ABC", "ABC", "", None),
    ],
)
def test_the_target(
    name: str, calculated: str | None, stable: str, alive: str, held: str, target: str | None
) -> None:
    found = highly_available(
        of(calculated),
        PartitionKeys(stable=of(stable)),
        alive=frozenset(alive),
        held=frozenset(held),
    )
    assert found == of(target), name


@pytest.mark.parametrize(
    ("name", "stable", "pending", "alive", "target"),
    [
        ("forced: alive nodes alone", "ABC", of("A", force=True), "AB", "AB"),
        ("its second phase too", "A", of("AB", from_reset=True), "AC", "AC"),
        ("forced, and nobody alive: nothing changes", "ABC", of("A", force=True), "D", None),
        ("its second phase, nobody alive: stable", "A", of("AB", from_reset=True), "D", "A"),
    ],
)
def test_the_target_while_a_reset_runs(
    name: str, stable: str, pending: AssignmentSet, alive: str, target: str | None
) -> None:
    keys = PartitionKeys(stable=of(stable), pending=pending)
    found = highly_available(of("ABC"), keys, alive=frozenset(alive), held=frozenset())
    assert found == of(target), name


@pytest.mark.parametrize(
    ("name", "stable", "pending", "alive", "held", "target"),
    [
        ("who comes with pending stays", "CD", "BCD", "BCD", "B", "BCD"),
        ("who goes with pending doesn't come back", "BCD", "CD", "BCD", "B", "CD"),
        ("alive nodes that are no majority: pending stays", "ABC", "AB", "C", "", "AB"),
    ],
)
def test_the_target_of_a_wish_that_waits_behind_pending(
    name: str, stable: str, pending: str, alive: str, held: str, target: str
) -> None:
    found = highly_available(
        of("ABCD"),
        PartitionKeys(stable=of(stable), pending=of(pending)),
        alive=frozenset(alive),
        held=frozenset(held),
        waits=True,
    )
    assert found == of(target), name
