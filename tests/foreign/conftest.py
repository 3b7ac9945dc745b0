"""What the tests beside other people's programs share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.foreign import porcupine_judge
from tests.foreign.s3_server import S3Server, serving
from tests.processes.load.load_pod import LoadPods
from tests.unit.chaos.runner import conftest as made_up

cluster_type, cluster, release = made_up.cluster_type, made_up.cluster, made_up.place


@pytest.fixture(scope="session")
def porcupine() -> porcupine_judge.Judge:
    """The compiled judge."""
    return porcupine_judge.Judge.build()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One S3 server for all modules, each test under a prefix of its own."""
    with serving(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture
async def pods(tmp_path: Path) -> AsyncIterator[LoadPods]:
    async with LoadPods(tmp_path) as started:
        yield started


@pytest.fixture
def prefix(
    request: pytest.FixtureRequest,
    server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A prefix of its own for each test, for this process too, whose folder is `tmp_path`."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return str(request.node.name)[:40]
