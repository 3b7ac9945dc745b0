"""Rules of a transaction's line that who writes one needs too (docs/history.md). Pure."""

SCHEMA_VERSION = 2
"""Of the lines of transactions."""

MOST_STEPS = 127
"""The number of a step is a byte."""
