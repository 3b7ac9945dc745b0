"""Limits of the values that the analysis accepts. Light to load."""

from __future__ import annotations

MOST_NS = 2**61
"""Times are within this, 73 years, on both sides of zero: sums and differences of them fit."""
