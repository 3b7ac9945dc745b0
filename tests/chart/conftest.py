"""The chart as the real helm renders it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CHART = ROOT / "charts" / "zonequake"
VALUES_FILES = sorted((CHART / "ci").glob("*-values.yaml"))
KUBERNETES_VERSION = "1.34.4"
RELEASE = "zq"
NAMESPACE = "zonequake"
ANALYSIS = "zonequake-analysis"

Document = dict[str, Any]
Helm = Callable[..., subprocess.CompletedProcess[str]]
Render = Callable[..., list[Document]]
One = Callable[[list[Document], str, str], Document]


@pytest.fixture(scope="session")
def helm_program() -> str:
    own = ROOT / ".zonequake" / "bin"
    found = shutil.which("helm", path=f"{own}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.fail(f"no helm in {own} or on the PATH: `make programs` builds one")
    return found


@pytest.fixture(scope="session")
def helm(helm_program: str) -> Helm:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [helm_program, *arguments], capture_output=True, text=True, check=False, timeout=300
        )

    return run


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """Renders the chart: `values` are files, `sets` are --set arguments."""

    def run(
        *, values: Sequence[Path] = (), sets: Sequence[str] = (), apis: Sequence[str] = ()
    ) -> list[Document]:
        done = helm(
            "template",
            RELEASE,
            str(CHART),
            f"--namespace={NAMESPACE}",
            f"--kube-version={KUBERNETES_VERSION}",
            *(f"--values={path}" for path in values),
            *(f"--set={setting}" for setting in sets),
            *(f"--api-versions={api}" for api in apis),
        )
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return run


@pytest.fixture(scope="session")
def one() -> One:
    """The one document of a kind and name."""

    def find(documents: list[Document], kind: str, name: str) -> Document:
        found = [d for d in documents if (d["kind"], d["metadata"]["name"]) == (kind, name)]
        assert len(found) == 1, f"{kind}/{name}: found {len(found)}, expected 1"
        return found[0]

    return find


@pytest.fixture(
    scope="session", params=[None, *VALUES_FILES], ids=["defaults", *(p.stem for p in VALUES_FILES)]
)
def documents(request: pytest.FixtureRequest, render: Render) -> list[Document]:
    """All documents of the chart, once with its defaults and once with each file in ci/."""
    values = [request.param] if request.param else []
    return render(values=values, apis=["monitoring.coreos.com/v1"])


def pod_templates(documents: list[Document]) -> list[tuple[str, Document]]:
    """Name and pod template of everything that makes pods."""
    return [
        (f"{d['kind']}/{d['metadata']['name']}", d["spec"]["template"])
        for d in documents
        if d["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job"}
    ]


def analysis_pods(documents: list[Document]) -> list[Document]:
    """The pods of the analysis, which the chart has as templates: driver and executor."""
    return [
        yaml.safe_load(d["data"][name])
        for d in documents
        if d["kind"] == "ConfigMap" and d["metadata"].get("namespace") == ANALYSIS
        for name in ("driver.yaml", "executor.yaml")
    ]
