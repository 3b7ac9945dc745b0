"""A linearizable store in memory, on loopback, for the tests of the load."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from reference_store import ReferenceStore


@pytest.fixture
async def store() -> AsyncIterator[ReferenceStore]:
    reference = ReferenceStore(nodes=3, partitions=4)
    await reference.start()
    yield reference
    await reference.stop()
