"""Options of the operator's tests."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="search all orders of more events (some minutes), not of the few of every day",
    )
