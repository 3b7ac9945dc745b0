"""Dumps of Patroni's members: at a place of the log that the primary has, too, or none."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.targets.test_patroni import LEADER, STANDBY
from zonequake_kube.errors import ClusterError
from zonequake_target_patroni import package

ROWS = [["a", "1", 7, None], ["b", "[2, 3]", 9, None]]
PLACE = package.status_of("m0", LEADER).applied


@dataclass
class Members:
    """What Patroni and psql say in the pods m0, the primary, and m1."""

    roles: dict[str, str] = field(default_factory=lambda: {"m0": "leader", "m1": "sync_standby"})
    says: dict[str, dict[str, Any]] = field(default_factory=lambda: {"m0": LEADER, "m1": STANDBY})
    places: tuple[int, int] = (PLACE, PLACE)
    rows: list[list[Any]] = field(default_factory=lambda: ROWS)

    async def pod_proxy(self, pod: str, port: str, path: str, *, timeout_s: float) -> bytes:
        members = [{"name": name, "role": role} for name, role in self.roles.items()]
        return json.dumps({"members": members} if path == "/cluster" else self.says[pod]).encode()

    async def execute(self, pod: str, container: str, command: list[str]) -> Any:
        assert command[-2:] == ["-c", package.DUMP]
        # As PostgreSQL aggregates: with a line end after each element.
        rows = "[" + ", \n ".join(map(json.dumps, self.rows)) + "]"
        return SimpleNamespace(
            code=0, stdout=f"{self.places[0]}\n{rows}\n{self.places[1]}\n", stderr=""
        )


def dump(members: Members, pod: str = "m1") -> Any:
    kube: Any = members
    return package.PatroniMembers(kube, run_id="r1").dump(pod)


@pytest.mark.parametrize("pod", ["m0", "m1"])
async def test_a_dump_stands_at_the_place_that_was_read_before_and_after_it(pod: str) -> None:
    found = await dump(Members(), pod)
    assert (found.applied, found.log_index, found.storage) == (9, PLACE, "0f")
    assert [(one.key, one.value, one.index) for one in found.keys] == [
        ("a", 1, 7),
        ("b", [2, 3], 9),
    ]


async def test_a_value_that_was_damaged_is_dumped_as_text() -> None:
    found = await dump(Members(rows=[["b", "[2, ", 9, None]]))
    assert [(one.key, one.value) for one in found.keys] == [("b", "[2, ")]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (Members(places=(PLACE, PLACE + 80)), f"went on from {PLACE} to {PLACE + 80} meanwhile"),
        (Members(places=(PLACE - 80, PLACE - 80)), "80 bytes of the log behind the primary"),
        (Members(says={"m0": LEADER, "m1": STANDBY | {"timeline": 2}}), "of timeline 2, and the"),
        (Members(roles={"m1": "replica"}), "knows of no primary"),
    ],
)
async def test_a_member_that_can_not_be_compared_has_no_dump(members: Members, words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        await dump(members)
