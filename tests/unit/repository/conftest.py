"""Lets the tests of this folder import the audit of docs/rules.md."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "rules_audit"))
