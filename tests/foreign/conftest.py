"""What the tests beside other people's programs share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.foreign import porcupine_judge
from tests.processes.load.load_pod import LoadPods


@pytest.fixture(scope="session")
def porcupine() -> porcupine_judge.Judge:
    """The compiled judge."""
    return porcupine_judge.Judge.build()


@pytest.fixture
async def pods(tmp_path: Path) -> AsyncIterator[LoadPods]:
    async with LoadPods(tmp_path) as started:
        yield started
