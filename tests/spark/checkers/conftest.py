"""Lets these tests import the operations that the analysis's unit tests make up."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "analysis"))
