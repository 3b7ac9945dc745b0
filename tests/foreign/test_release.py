"""The steps of a release, against a registry and a package index of this machine."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.foreign.built_once import go_program
from tests.processes.store.ports import free_ports
from zonequake_cluster.supply.tools import helm_path

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts" / "release"
VERSION = version("zonequake")
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
IN_WORKLOADS = ("store", "operator", "agent")
OURS = (*IN_WORKLOADS, "analysis", "patroni")
_SOURCES = Path(__file__).parent / "registry"
_PROGRAM = "github.com/distribution/distribution/v3/cmd/registry"


@dataclass(frozen=True, kw_only=True)
class Registry:
    """A CNCF distribution server on loopback, without TLS."""

    address: str

    @property
    def repository(self) -> str:
        return f"{self.address}/team/zonequake"

    def manifest(self, path: str, tag: str) -> dict[str, Any]:
        accept = (
            "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json"
        )
        request = urllib.request.Request(
            f"http://{self.address}/v2/{path}/manifests/{tag}", headers={"Accept": accept}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    program = go_program(_SOURCES, _PROGRAM)
    folder = tmp_path_factory.mktemp("registry")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": address},
    }
    (folder / "settings.yml").write_text(yaml.safe_dump(settings))
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [str(program), "serve", str(folder / "settings.yml")], stdout=log, stderr=log
        )
    try:
        deadline_s = time.monotonic() + 180
        while True:
            try:
                urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < deadline_s, (folder / "log").read_text()
                time.sleep(0.1)
        yield Registry(address=address)
    finally:
        server.terminate()
        server.wait(timeout=180)


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    environment = {"PYTHON": sys.executable, "HELM": str(helm_path())}
    run(str(SCRIPTS / "dist.sh"), str(folder), registry.repository, f"v{VERSION}", **environment)
    return folder


def test_a_tag_that_is_not_the_version_ends_the_release(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(SCRIPTS / "dist.sh"), str(tmp_path), "registry.example/z", "v9.9.9"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"v9.9.9 is not v{VERSION}" in done.stderr


def test_pip_installs_it_from_an_index_and_it_runs_in_an_empty_folder(
    dist: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index" / "zonequake"
    index.mkdir(parents=True)
    for file in dist.glob("zonequake-*"):
        if file.suffix != ".tgz":
            shutil.copy2(file, index)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(index.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        venv, empty = tmp_path / "venv", tmp_path / "empty"
        empty.mkdir()
        run(sys.executable, "-m", "venv", str(venv))
        run(
            *(str(venv / "bin" / "pip"), "install", "--quiet", "--no-deps"),
            *("--index-url", f"http://127.0.0.1:{server.server_port}/", f"zonequake=={VERSION}"),
        )
        server.shutdown()
    # What it needs is there already: only zonequake itself comes from the index.
    (packages,) = venv.glob("lib/python3*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others))
    told = subprocess.run(
        [str(venv / "bin" / "zonequake"), "version", "--client"],
        env={"PATH": os.environ["PATH"], "HOME": str(empty)},
        cwd=empty,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.startswith(f"client         {VERSION}, Python")
    assert told.rstrip().endswith("from an installed wheel")


@pytest.fixture(scope="module")
def pushed(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bills of the images that were pushed, and joined under one tag."""
    bills = tmp_path_factory.mktemp("bills")
    zonequake = str(Path(sys.executable).parent / "zonequake")
    run(
        *(zonequake, "images", "push", registry.repository, "--plain-http"),
        *("--tag", f"{VERSION}-{ARCH}", "--bills", str(bills)),
    )
    told = run(
        *(str(SCRIPTS / "manifests.sh"), registry.repository, VERSION, ARCH),
        BUILDAH_OPTIONS="--tls-verify=false",
    )
    assert [line.split()[0] for line in told.splitlines()] == list(OURS)
    assert all(line.split()[1].startswith("sha256:") for line in told.splitlines())
    return bills


def test_images_lie_in_the_registry_for_this_architecture_with_their_bills(
    registry: Registry, pushed: Path
) -> None:
    for name in OURS:
        index = registry.manifest(f"team/zonequake/{name}", VERSION)
        assert [each["platform"]["architecture"] for each in index["manifests"]] == [ARCH]
        single = registry.manifest(f"team/zonequake/{name}", f"{VERSION}-{ARCH}")
        assert single["layers"]
        components = json.loads((pushed / f"{name}.cdx.json").read_text())["components"]
        assert len(components) > 50


def images_of(registry: Registry, *chart: str) -> set[str]:
    """The images of the registry that the chart runs."""
    rendered = run(
        *(str(helm_path()), "template", "zq", *chart),
        *("--set", "faultAgent.enabled=true", "--kube-version", "1.34.4"),
    )
    return {
        container["image"]
        for document in yaml.safe_load_all(rendered)
        if document and document["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
        for container in document["spec"]["template"]["spec"]["containers"]
        if container["image"].startswith(registry.address)
    }


def test_helm_takes_the_chart_from_the_registry_and_its_images_are_there(
    registry: Registry, pushed: Path, dist: Path
) -> None:
    helm = str(helm_path())
    charts = f"oci://{registry.address}/charts"
    (chart,) = dist.glob("*.tgz")
    run(helm, "push", "--plain-http", str(chart), charts)
    images = images_of(registry, f"{charts}/zonequake", "--version", VERSION, "--plain-http")
    assert images == {f"{registry.repository}/{name}:{VERSION}" for name in IN_WORKLOADS}
    for image in images:
        path, _, tag = image.removeprefix(f"{registry.address}/").rpartition(":")
        assert registry.manifest(path, tag)["manifests"]


def test_the_wheels_chart_asks_for_the_images_of_the_registry(
    registry: Registry, dist: Path, tmp_path: Path
) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    chart = tmp_path / "zonequake_cluster/shipped/charts/zonequake"
    expected = {f"{registry.repository}/{name}:{VERSION}" for name in IN_WORKLOADS}
    assert images_of(registry, str(chart)) == expected
