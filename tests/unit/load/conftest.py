"""A linearizable store in memory, on loopback, for the tests of the load."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# Neither tests nor drivers are packages.
HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[1] / "processes" / "store"):
    sys.path.insert(0, str(folder))

from reference_store import ReferenceStore  # noqa: E402


@pytest.fixture
async def store() -> AsyncIterator[ReferenceStore]:
    reference = ReferenceStore(nodes=3, partitions=4)
    await reference.start()
    yield reference
    await reference.stop()
