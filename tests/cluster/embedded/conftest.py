"""The probe's image on the session's node."""

from __future__ import annotations

import os
import platform
import subprocess

import pytest

from tests.cluster.embedded.probes import HERE, IMAGE
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.supply.image_import import program_archive
from zonequake_cluster.supply.toolchain import find_go


@pytest.fixture(scope="session")
def probe_image(embedded_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Builds and loads it; pods get it by this name."""
    folder = tmp_path_factory.mktemp("probe")
    subprocess.run(
        [find_go(print), "build", "-ldflags=-s -w", "-o", str(folder / "probe"), "."],
        cwd=HERE / "probe",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    archive = folder / "probe.tar"
    program = (folder / "probe").read_bytes()
    archive.write_bytes(program_archive(program, image=IMAGE, machine=platform.machine()))
    return embedded_cluster.load_image(archive)
