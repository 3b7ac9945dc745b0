"""Runs the work of Spark's tasks in this process, of one bucket."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_analysis.spark_pass.in_tasks import Made


def without_spark(
    _spark: None,
    work: Callable[[int], Made],
    join: Callable[[int, list[bytes]], bytes],
    *,
    tasks: int,
    buckets: int,
) -> list[bytes]:
    """Stands for `in_tasks`."""
    made = [one for number in range(tasks) for bucket, one in work(number) if bucket < buckets]
    return [join(0, made)] if made else []
