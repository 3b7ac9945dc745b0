"""The release on the session's cluster, and runs of scenarios against it, through the command."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from zonequake_chaos.cluster.embedded import EmbeddedCluster
from zonequake_chaos.images.build import build_all
from zonequake_chaos.install import install, uninstall
from zonequake_chaos.place import DEFAULT_NAMESPACE, DEFAULT_RELEASE, Place


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A run's exit code and folder."""

    exit_code: int
    folder: Path
    output: str

    @property
    def verdict(self) -> dict[str, Any]:
        found = json.loads((self.folder / "verdict.json").read_text())
        assert isinstance(found, dict)
        return found

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def failed_checks(self) -> set[str]:
        return {c["name"] for c in self.verdict["checks"] if c["verdict"] == "violated"}


Run = Callable[..., Judged]


@pytest.fixture(scope="session")
def release(embedded_cluster: EmbeddedCluster) -> Iterator[Place]:
    """The chart, installed with this checkout's images."""
    place = Place(
        kubeconfig=embedded_cluster.kubeconfig,
        context=embedded_cluster.context,
        namespace=DEFAULT_NAMESPACE,
        release=DEFAULT_RELEASE,
        embedded=True,
    )
    built = build_all(progress=print)
    for image in built.values():
        embedded_cluster.load_image(image.archive)
    images = {name: image.ref for name, image in built.items()}
    asyncio.run(install(place, images=images))
    yield place
    uninstall(place)


@pytest.fixture(scope="session")
def planted(release: Place) -> Callable[[str], Any]:
    """Installs the release with a planted fault for a while."""

    @contextmanager
    def plant(fault: str) -> Iterator[None]:
        images = {name: image.ref for name, image in build_all(progress=print).items()}
        asyncio.run(install(release, images=images, values=[f"store.plantedFault={fault}"]))
        try:
            yield
        finally:
            asyncio.run(install(release, images=images))

    return plant


@pytest.fixture
def run_scenario(release: Place, tmp_path: Path) -> Run:
    """Runs `zonequake run` as a user does."""

    def run(scenario: str, *overrides: str, seed: int = 1) -> Judged:
        folder = tmp_path / f"{scenario}-{seed}"
        assert release.context is not None
        done = subprocess.run(
            [
                *(str(Path(sys.executable).parent / "zonequake"), "run", scenario),
                *("--kubeconfig", str(release.kubeconfig), "--context", release.context),
                *("--seed", str(seed), "--out", str(folder)),
                *(word for override in overrides for word in ("--set", override)),
            ],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
            check=False,
        )
        return Judged(exit_code=done.returncode, folder=folder, output=done.stdout + done.stderr)

    return run
