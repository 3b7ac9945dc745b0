"""A cluster of the test session's own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from zonequake_cluster.embedded import EmbeddedCluster


@pytest.fixture(scope="session")
def embedded_cluster() -> Iterator[EmbeddedCluster]:
    """A running embedded cluster, named by this process; gone after the session, failed or not."""
    cluster = EmbeddedCluster(f"test-{os.getpid()}")
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
