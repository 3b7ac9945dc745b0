"""Findings get the names of their key, of the operations that began then, and of their member."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from zonequake_analysis.checks.named_findings import named

Operation = tuple[int, int, str, str | None]
"""Key, begin, name and member."""


def table(operations: list[Operation]) -> pa.Table:
    keys, begins, names, nodes = (list(column) for column in zip(*operations, strict=True))
    return pa.table(
        {
            "key_id": pa.array(keys, pa.int64()),
            "inv": pa.array(begins, pa.int64()),
            "zone": pa.array([None if key % 3 == 0 else f"z{key % 3}" for key in keys]),
            "partition": pa.array([key % 5 for key in keys], pa.int32()),
            "key": [f"key{key}" for key in keys],
            "node": pa.array(nodes, pa.string()),
            "op": names,
        }
    )


def found(moments: list[tuple[int, int]]) -> pa.Table:
    return pa.table(
        {
            "key_id": pa.array([key for key, _ in moments], pa.int64()),
            "at_ns": pa.array([at for _, at in moments], pa.int64()),
        }
    )


def test_each_finding_has_the_names_of_what_began_at_its_moment() -> None:
    rng = Random(2)
    for _ in range(100):
        operations: list[Operation] = [
            (
                rng.choice((-(2**63), -7, 0, 5, 2**63 - 1)),
                rng.randrange(-2, 4),
                f"op{number % 9}",  # the copies of an operation share its name
                rng.choice((None, "a", "b")),
            )
            for number in range(rng.randrange(1, 25))
        ]
        moments = rng.choices([(key, inv) for key, inv, *_ in operations], k=10)
        moments += [(moments[0][0], 99), (12345, 1)]
        for row in named(found(moments), table(operations)).to_pylist():
            key, at = row["key_id"], row["at_ns"]
            then = [o for o in operations if o[:2] == (key, at)]
            members = {o[3] for o in then} - {None}
            assert row["ops"] == (sorted({o[2] for o in then}) or None)
            assert row["node"] == (members.pop() if len(members) == 1 else None)
            assert row["key"] == (f"key{key}" if then else None)
            assert row["partition"] == (key % 5 if then else None)
            assert row["zone"] == (f"z{key % 3}" if then and key % 3 else None)
