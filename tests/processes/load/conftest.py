"""Real load pods as processes, against a store in memory and against real data nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.processes.load.load_pod import LoadPods
from tests.unit.load.reference_store import ReferenceStore


@pytest.fixture
async def pods(tmp_path: Path) -> AsyncIterator[LoadPods]:
    async with LoadPods(tmp_path) as started:
        yield started


@pytest.fixture
async def store() -> AsyncIterator[ReferenceStore]:
    reference = ReferenceStore(nodes=3, partitions=4)
    await reference.start()
    yield reference
    await reference.stop()
