"""Real data nodes for every test of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.processes.store.certificates import Certificates
from tests.processes.store.disk_faults import built
from tests.processes.store.local_nodes import LocalNodes


@pytest.fixture
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalNodes]:
    """With TLS where a test asks for it: `@pytest.mark.parametrize("nodes", BOTH, indirect=True)`
    (`local_nodes.BOTH`)."""
    over = getattr(request, "param", "tcp")
    certificates = Certificates(tmp_path / "certificates") if over == "tls" else None
    async with LocalNodes(tmp_path, certificates) as started:
        yield started


@pytest.fixture
async def tls_nodes(tmp_path: Path) -> AsyncIterator[LocalNodes]:
    """Nodes that speak TLS; their certificates are `nodes.certificates`."""
    async with LocalNodes(tmp_path, Certificates(tmp_path / "certificates")) as started:
        yield started


@pytest.fixture(scope="session")
def disk_faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that disks misbehave by."""
    return built(tmp_path_factory.mktemp("disk_faults"))
