"""Real load pods as processes, against a store in memory and against real data nodes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# Neither tests nor drivers are packages.
HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "store", HERE.parents[1] / "unit" / "load"):
    sys.path.insert(0, str(folder))

from load_pod import LoadPods  # noqa: E402
from reference_store import ReferenceStore  # noqa: E402


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
