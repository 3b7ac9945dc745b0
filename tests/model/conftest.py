"""The option that has TLC go through all states, which takes too long for each run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--every-state",
        action="store_true",
        help="check the model without a bound on its depth too, which takes minutes",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes too long, unless it is asked for."""
    if not config.getoption("--every-state", default=False):
        left_out = [item for item in items if item.get_closest_marker("every_state")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
