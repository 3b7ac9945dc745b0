"""helm-unittest and kubeconform, compiled once from tests/chart/tools/go.mod."""

from __future__ import annotations

from pathlib import Path

from tests.foreign.built_once import go_programs

_SOURCES = Path(__file__).parent / "tools"
_PROGRAMS = (
    "github.com/helm-unittest/helm-unittest/cmd/helm-unittest",
    "github.com/yannh/kubeconform/cmd/kubeconform",
)


def chart_tools() -> Path:
    """The folder with both; compiles them if need be. Raises as `go_programs`."""
    return go_programs(_SOURCES, *_PROGRAMS)


def chart_tool(name: str) -> Path:
    """One of the programs."""
    return chart_tools() / name
