"""Options of the operator's tests, and the modules that they share."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="search all orders of more events (hours), not of the few of every day",
    )
