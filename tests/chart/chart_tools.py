"""helm-unittest and kubeconform, compiled once from tests/chart/tools/go.mod."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.foreign.built_once import built_once
from zonequake_cluster.supply.toolchain import WITHOUT_DEBUGGING, find_go

_SOURCES = Path(__file__).parent / "tools"
_PROGRAMS = (
    "github.com/helm-unittest/helm-unittest/cmd/helm-unittest",
    "github.com/yannh/kubeconform/cmd/kubeconform",
)


def chart_tool(name: str) -> Path:
    """The program; compiles both if need be. Raises BuildFailed without Go, else
    CalledProcessError."""

    def build(folder: Path) -> None:
        subprocess.run(
            [
                find_go(print),
                "build",
                *WITHOUT_DEBUGGING,
                "-ldflags=-s -w",
                "-o",
                f"{folder}/",
                *_PROGRAMS,
            ],
            cwd=_SOURCES,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
            check=True,
        )

    return built_once(_SOURCES, suffixes=(".mod", ".sum"), build=build) / name
