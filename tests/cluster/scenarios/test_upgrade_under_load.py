"""From the release before to this one under load, and back: nothing is lost on the way."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from zonequake_cluster.own_files import OwnFiles, find_own_files
from zonequake_ctl.release.install import install_release
from zonequake_ctl.release.installed import InstalledRelease, look_at_release

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release
    from zonequake_cluster.embedded import EmbeddedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[3]
CHART = "charts/zonequake/Chart.yaml"
LOAD_S = 150
"""How long the run only loads, before its own restart: the upgrade comes in that time."""


def release_before() -> str:
    """Returns the commit before the one that gave the chart its present version: the last of the
    release before. A clone may lack tags, but not this."""
    changed = ["git", "log", "-1", "--format=%H", "-G^version: ", "--", CHART]
    found = subprocess.run(changed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert found.strip(), "this clone has no history: git fetch --unshallow"
    return f"{found.strip()}^"


class Old:
    """The release before: its chart, and its images on the cluster."""

    def __init__(self, folder: Path, cluster: EmbeddedCluster) -> None:
        self._folder = folder
        sources = subprocess.run(
            ["git", "archive", release_before()], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "--extract", "--directory", folder], input=sources, check=True)
        self._share(OwnFiles(checkout=folder), find_own_files())
        code = (
            "import json; from zonequake_cluster.images.build import build_all;"
            "images = build_all(progress=lambda _: None);"
            "print(json.dumps({n: [i.ref, str(i.archive)] for n, i in images.items()}))"
        )
        packages = ("operator", "chaos", "workloads", "analysis")
        built = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": ":".join(str(folder / name) for name in packages)},
            check=True,
            capture_output=True,
            text=True,
        )
        self.images = {}
        for name, (ref, archive) in json.loads(built.stdout).items():
            assert archive.startswith(str(folder)), "the old sources were asked"
            cluster.load_image(Path(archive))
            self.images[name] = ref

    @property
    def chart(self) -> Path:
        return self._folder / "charts" / "zonequake"

    def _share(self, old: OwnFiles, present: OwnFiles) -> None:
        """What both have in common: bases and wheels."""
        old.archives.mkdir(parents=True)
        for base in present.archives.glob("base-*.tar"):
            os.link(base, old.archives / base.name)
        shutil.copytree(present.wheels, old.wheels, copy_function=os.link)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, embedded_cluster: EmbeddedCluster) -> Old:
    return Old(tmp_path_factory.mktemp("old"), embedded_cluster)


@pytest.fixture
def change(release: Release, old: Old) -> Any:
    """Installs the old or the present release over what is there."""

    def to(which: str) -> InstalledRelease:
        chart = old.chart if which == "old" else find_own_files().find("charts/zonequake")
        # A harness runs with a load of its own version.
        images = (
            old.images | {"load": release.images["store"]} if which == "old" else release.images
        )
        release.installed_by_another_tool()
        return asyncio.run(install_release(release.place, images=images, chart=chart))

    yield to
    release.installed_by_another_tool()


@pytest.mark.parametrize(("begin", "end"), [("old", "present"), ("present", "old")])
def test_a_release_is_changed_under_load_and_nothing_is_lost(
    release: Release, old: Old, change: Any, run_scenario: Any, begin: str, end: str
) -> None:
    change(begin)
    problems: list[BaseException] = []

    def in_the_middle(folder: Path) -> None:
        try:
            deadline_s = time.monotonic() + 300
            while '"before"' not in _text(folder / "events.jsonl"):
                assert time.monotonic() < deadline_s, "the run does not load"
                time.sleep(1)
            change(end)
        except BaseException as error:  # noqa: BLE001 - said by the test's own thread
            problems.append(error)

    judged = run_scenario(
        "rolling-restart",
        f"times={{beforeSeconds: {LOAD_S}, afterSeconds: 5}}",
        "control=null",
        "expectations={lost: 0, stale: 0, allRebalancesEnd: true}",
        plant=False,
        meanwhile=in_the_middle,
    )
    assert problems == []
    assert judged.exit_code == 0, judged.output
    wanted = old.images if end == "old" else release.images
    found = asyncio.run(_installed(release))
    assert {w.component: w.image for w in found.workloads}["store"] == wanted["store"]
    restarts = judged.events("fault.effective")
    assert len(restarts) >= 3, "each node was restarted once more, in its new version"
    print(judged.says("availability"))


async def _installed(release: Release) -> InstalledRelease:
    async with await release.place.connect() as kube:
        return await look_at_release(kube, release.place.release)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""
