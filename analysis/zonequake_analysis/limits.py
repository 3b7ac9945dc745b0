"""Limits of what the analysis takes for sane, light to load."""

from __future__ import annotations

MOST_NS = 2**61
"""Times lie within this, 73 years, on both sides of zero: sums and differences of them fit."""
