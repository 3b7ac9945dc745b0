"""Lines of transactions as the load writes them, and what they are found to show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.unit.analysis.judged_lines import LINE, judged, written
from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis.checks.transactions.of_operations import TransactionFindings
from zonequake_analysis.spark_pass.transactions import transaction_findings
from zonequake_analysis.storage.location import Location

Step = tuple[str, str, object]


def append(key: str, value: int) -> Step:
    return "append", key, value


def read(key: str, *values: int) -> Step:
    return "read", key, list(values) or None


def transaction(number: int, *steps: Step, **fields: Any) -> list[str]:
    """The two lines of a transaction of its own process, time and place."""
    asked = [(f, key, None if f == "read" else value) for f, key, value in steps]

    def line(of: Sequence[Step], **more: Any) -> str:
        own = {
            **LINE, "schema": 2, "f": "transaction", "process": number, "op": f"{number}-1",
            "key": None, "value": None, "inv": number * 100, "sched": number * 100,
            "time": number * 100 + 50, "index": number * 10,
            "steps": [{"f": f, "key": key, "value": value} for f, key, value in of],
        }  # fmt: skip
        return json.dumps(own | fields | more, separators=(",", ":"))

    done = steps if fields.get("type", "ok") == "ok" else asked
    return [line(asked, type="invoke", time=number * 100, index=None), line(done)]


def findings(tmp_path: Path, *lines: str, **more: Any) -> TransactionFindings:
    found, _ = judged(written(tmp_path, lines), tmp_path / "ops", **more)
    if not any(one.transactions for one in found):
        return TransactionFindings()
    return findings_below(tmp_path / "ops")


def findings_below(folder: Path) -> TransactionFindings:
    """What the transactions of a history show, whose operations are in `folder`."""
    tables = Location.of(folder).all_below(".parquet")
    return transaction_findings(None, tables, run=without_spark)  # type: ignore[arg-type]
