"""The wheel carries all that its commands need, and builds the images that a clone builds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from zonequake_cluster.images.content import IMAGES, ImageSpec, content_hash, source_files
from zonequake_cluster.own_files import OwnFiles
from zonequake_cluster.supply.toolchain import source_digest

ROOT = Path(__file__).resolve().parents[3]

ASK = """
import json
from pathlib import Path
from zonequake_chaos.scenario import manifest
from zonequake_cluster.images.content import IMAGES, content_hash, source_files
from zonequake_cluster.own_files import find_own_files
from zonequake_cluster.supply.toolchain import source_digest

own = find_own_files()
print(json.dumps({
    "from": str(Path(manifest.__file__).parents[2]),
    "checkout": own.checkout,
    "state": str(own.state),
    "chart": sorted(
        str(path.relative_to(own.find("charts/zonequake")))
        for path in own.find("charts/zonequake").rglob("*") if path.is_file()
    ),
    "node": source_digest(),
    "scenarios": sorted(manifest.shipped()),
    "images": {
        spec.name: [own.find(spec.dockerfile).read_text()]
        + ([own.find(spec.lock).read_text()] if spec.lock else [])
        + [content_hash(source_files(name, own.find(name)), []) for name in spec.sources]
        for spec in IMAGES
    },
}))
"""
"""What an installed zonequake finds of its own files."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install` of the wheel would lay into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site-packages")
    return folder / "site-packages"


def ask(packages: Path, home: Path, code: str) -> str:
    """What Python prints with these packages before all others, in an empty folder."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(packages), "HOME": str(home)},
        cwd=home,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_wheel_finds_what_a_clone_finds(unpacked: Path, tmp_path: Path) -> None:
    found = json.loads(ask(unpacked, tmp_path, ASK))
    clone = OwnFiles(checkout=ROOT)
    assert found["from"] == str(unpacked), "the packages of the wheel were asked"
    assert found["checkout"] is None
    assert found["state"] == str(tmp_path / ".zonequake")
    assert found["node"] == source_digest()
    chart = clone.find("charts/zonequake")
    assert found["chart"] == sorted(
        str(path.relative_to(chart)) for path in chart.rglob("*") if path.is_file()
    )
    shipped = ROOT / "chaos" / "zonequake_chaos" / "scenarios"
    assert found["scenarios"] == sorted(path.stem for path in shipped.glob("*.yaml"))


@pytest.mark.parametrize("spec", IMAGES, ids=lambda spec: spec.name)
def test_an_image_of_the_wheel_is_made_of_what_the_clones_is(
    unpacked: Path, tmp_path: Path, spec: ImageSpec
) -> None:
    files = [spec.dockerfile, *([spec.lock] if spec.lock else [])]
    clone = [
        *((ROOT / name).read_text() for name in files),
        *(content_hash(source_files(name, ROOT / name), []) for name in spec.sources),
    ]
    assert json.loads(ask(unpacked, tmp_path, ASK))["images"][spec.name] == clone


def test_a_file_that_is_not_there_is_named_with_what_mends_it(
    unpacked: Path, tmp_path: Path
) -> None:
    code = """
from zonequake_cluster.errors import FileNotShipped
from zonequake_cluster.own_files import find_own_files
try:
    find_own_files().find("charts/absent")
except FileNotShipped as error:
    print(error)
"""
    said = ask(unpacked, tmp_path, code)
    assert f"{unpacked}/zonequake_cluster/shipped/charts/absent" in said
    assert "Install zonequake again" in said
