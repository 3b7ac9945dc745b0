"""A cluster of the test session's own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from zonequake_chaos.cluster.embedded import EmbeddedCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kill-harness",
        action="store_true",
        help="kill the harness at some of its steps, and inspect what is left",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Most kills of the harness are no part of the group unless they are asked for."""
    if not config.getoption("--kill-harness", default=False):
        left_out = [item for item in items if item.get_closest_marker("kill_harness")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def embedded_cluster() -> Iterator[EmbeddedCluster]:
    """A running embedded cluster, named by this process; gone after the session, failed or not."""
    cluster = EmbeddedCluster(f"test-{os.getpid()}")
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
