"""Lets these tests import the drivers beside them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# Neither tests nor drivers are packages.
HERE = Path(__file__).parent
PROCESSES = HERE.parent / "processes"
for folder in (HERE, PROCESSES / "load", PROCESSES / "store"):
    sys.path.insert(0, str(folder))

import porcupine_judge  # noqa: E402
from load_pod import LoadPods  # noqa: E402


@pytest.fixture(scope="session")
def porcupine() -> porcupine_judge.Judge:
    """The compiled judge."""
    return porcupine_judge.Judge.build()


@pytest.fixture
async def pods(tmp_path: Path) -> AsyncIterator[LoadPods]:
    async with LoadPods(tmp_path) as started:
        yield started
