"""Every test of this folder shares one API server, in a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .api_server import ApiServer, running


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-moment",
        action="store_true",
        help="kill the operator at every write of the rebalances, not at a sample of them",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The sweep over all moments is no part of the group unless it is asked for."""
    if not config.getoption("--every-moment", default=False):
        left_out = [item for item in items if item.get_closest_marker("every_moment")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running(tmp_path_factory.mktemp("api-server")) as server:
        yield server
