"""Faults in what is stored and when."""

from __future__ import annotations

from planted.registry import Planted

PLANTED: list[Planted] = []
