"""A linearizable store in memory, on loopback, for the tests of the load."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.load.reference_store import ReferenceStore


@pytest.fixture
async def store() -> AsyncIterator[ReferenceStore]:
    reference = ReferenceStore(nodes=3, partitions=4)
    await reference.start()
    yield reference
    await reference.stop()
