"""Lets these tests import the drivers beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Neither tests nor drivers are packages.
sys.path.insert(0, str(Path(__file__).parent))

import porcupine_judge


@pytest.fixture(scope="session")
def porcupine() -> porcupine_judge.Judge:
    """The compiled judge."""
    return porcupine_judge.Judge.build()
