"""Findings are counted in parts, by kind and by key, and of each kind the first are kept."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from zonequake_analysis.checks import counted_findings
from zonequake_analysis.checks.counted_findings import parts_of, together

KINDS = [
    ("claimed-order", "order"),
    ("claimed-order", "value"),
    ("black-box", "stale"),
    ("black-box", "value-twice"),
    ("loss", "stale"),
]
SHAPE = pa.schema(
    [("check", pa.string()), ("kind", pa.string())]
    + [
        (name, pa.int64())
        for name in ("partition_id", "key_id", "value", "at_ns", "position", "magnitude_ns")
    ]
    + [("nameless", pa.bool_())]
)


def findings(rng: Random) -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for _ in range(rng.randrange(1, 60)):
        check, kind = rng.choice(KINDS)
        made.append(
            {
                "check": check,
                "kind": kind,
                "partition_id": rng.choice((-(2**63), 7)),
                "key_id": rng.choice((-(2**63), -4, 0, 9, 2**63 - 1)),
                "value": rng.choice((None, -5, 6)),
                "at_ns": rng.randrange(-3, 30),
                "position": rng.choice((None, 2**61, 4)),
                "magnitude_ns": rng.choice((None, 1)),
                "nameless": rng.random() < 0.01,
            }
        )
    return made


def test_parts_add_up_to_the_counts_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_findings, "MOST_KEYS", 2)
    rng = Random(4)
    nameless = 0
    for _ in range(200):
        rows = findings(rng)
        cut = rng.randrange(len(rows))
        parts = [
            parts_of(pa.Table.from_pylist(part, SHAPE), ["value-twice"])
            for part in (rows[:cut], rows[cut:])
        ]
        found = together(pa.concat_tables(parts))
        assert found.totals == Counter((row["check"], row["kind"]) for row in rows)
        assert found.all_named == (not any(row["nameless"] for row in rows))
        nameless += not found.all_named
        keys: Counter[tuple[bool, bool]] = Counter()
        for key in {row["key_id"] for row in rows}:
            own = [row for row in rows if row["key_id"] == key]
            checks = {row["check"] for row in own}
            if not any(row["kind"] == "value-twice" for row in own):
                keys["claimed-order" in checks, "black-box" in checks] += 1
        assert found.keys == keys
        for check, kind in KINDS:
            first: dict[object, object] = {}
            for row in sorted(
                (row for row in rows if (row["check"], row["kind"]) == (check, kind)),
                key=lambda row: (row["at_ns"], row["key_id"]),
            ):
                first.setdefault(row["key_id"], row["at_ns"])
            kept = [one for one in found.first if (one["check"], one["kind"]) == (check, kind)]
            assert [(one["key_id"], one["at_ns"]) for one in kept] == list(first.items())[:2]
            whole = [{name: row[name] for name in row if name != "nameless"} for row in rows]
            assert all(one.asDict() in whole for one in kept)
    assert nameless > 10
