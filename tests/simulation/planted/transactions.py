"""Faults in transactions."""

from __future__ import annotations

from planted.registry import Planted

PLANTED: list[Planted] = []
