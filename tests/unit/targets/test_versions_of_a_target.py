"""A scenario names a version of a target, whose image the target builds; all else is refused."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from tests.unit.installed import place_of
from zonequake_chaos.commands.target import app
from zonequake_chaos.errors import ManifestError
from zonequake_chaos.kit.target import TargetPackage, TargetPlace
from zonequake_chaos.kit.target_suitability import check_suited
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.run import ChaosRun, RunTarget, with_target
from zonequake_cluster.images import etcd, ignite
from zonequake_kube.errors import UsageError


def package_of(target: str) -> TargetPackage:
    found = importlib.import_module(f"zonequake_target_{target}.package").TARGET
    assert isinstance(found, TargetPackage)
    return found


def run_of(*overrides: str) -> ChaosRun:
    return manifest.load("leader-kill", ["zones.0.partitions=1", *overrides])


def refusal(target: str, run: ChaosRun) -> str:
    with pytest.raises(UsageError) as refused:
        check_suited(package_of(target), run)
    return str(refused.value)


@pytest.mark.parametrize(
    ("target", "version"),
    [("etcd", "3.5.2"), ("etcd", "3.6.0-rc.1"), ("etcd", "3.10.0"), ("ignite", "3.1.0")],
)
def test_a_version_that_a_target_builds_is_taken(target: str, version: str) -> None:
    run = run_of(f"target.version={version}")
    assert run.spec.target.version == version
    check_suited(package_of(target), run)


@pytest.mark.parametrize(
    ("target", "version", "expected"),
    [
        ("etcd", "3.4.20", "a release of etcd 3 from 3.5.0 on, such as 3.5.2"),
        ("etcd", "v3.5.2", "a release of etcd 3 from 3.5.0 on, such as 3.5.2"),
        ("etcd", "latest", "a release of etcd 3 from 3.5.0 on, such as 3.5.2"),
        ("ignite", "3.0.0", "one whose jars are pinned: 3.1.0"),
        ("ignite", "3.1.0.1", "one whose jars are pinned: 3.1.0"),
        ("ignite", "3x1x0", "one whose jars are pinned: 3.1.0"),
    ],
)
def test_another_one_is_refused_with_those_that_there_are(
    target: str, version: str, expected: str
) -> None:
    said = refusal(target, run_of(f"target.version={version}"))
    assert f"target.version is {version}, expected {expected}" in said


@pytest.mark.parametrize("target", ["patroni", "pysyncobj", "toy"])
def test_a_target_that_knows_no_versions_says_so(target: str) -> None:
    said = refusal(target, run_of("target.version=1.0.0"))
    assert "target.version is 1.0.0, and the target knows no versions: leave it out" in said
    assert "target.image names an image" in said


def test_the_release_s_own_data_nodes_have_its_version() -> None:
    said = refusal("store", run_of("target.version=1.0.0"))
    assert "target.version can't be changed by a run" in said
    assert said.count("target.version") == 1


@pytest.mark.parametrize("target", ["etcd", "ignite"])
def test_a_version_and_an_image_contradict_each_other(target: str) -> None:
    version = {"etcd": "3.5.2", "ignite": "3.1.0"}[target]
    both = run_of(f"target.version={version}", "target.image=some/image:1")
    words = f"found target.version {version} and the image some/image:1, expected one of them"
    assert words in refusal(target, both)
    by_option = with_target(run_of(f"target.version={version}"), name=None, image="some/image:1")
    assert words in refusal(target, by_option)
    check_suited(package_of(target), run_of("target.version=null", "target.image=some/image:1"))


@pytest.mark.parametrize(
    ("value", "why"),
    [("3.5", "expected a version; .* put it in quotes"), ("[3.5.2]", ""), ("''", "a version")],
)
def test_a_version_is_a_text(value: str, why: str) -> None:
    with pytest.raises(ManifestError, match=rf"\.target\.version: .*{why}"):
        run_of(f"target.version={value}")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The images that were loaded into the embedded cluster; builds and loads are made up."""
    found: list[str] = []

    def built(name: str) -> Any:
        return SimpleNamespace(ref=name, archive=Path("unused"))

    def load_image(self: TargetPlace, ref: str, archive: Path) -> str:
        found.append(ref)
        return ref

    def etcd_release(release: str, *, progress: object) -> Any:
        return built(f"etcd:{release}")

    def ignite_release(release: str, *, progress: object) -> Any:
        return built(f"ignite:{release}")

    monkeypatch.setattr(etcd, "build_etcd", lambda *, progress: built("etcd:own"))
    monkeypatch.setattr(etcd, "build_etcd_release", etcd_release)
    monkeypatch.setattr(ignite, "build_ignite_release", ignite_release)
    monkeypatch.setattr(TargetPlace, "load_image", load_image)
    return found


@pytest.mark.parametrize(
    ("target", "settings", "image"),
    [
        ("etcd", RunTarget(version="3.5.2"), ["etcd:3.5.2"]),
        ("etcd", RunTarget(), ["etcd:own"]),
        ("etcd", RunTarget(image="some/etcd:1"), []),
        ("ignite", RunTarget(version="3.1.0"), ["ignite:3.1.0"]),
        ("ignite", RunTarget(), ["ignite:3.1.0"]),
        ("ignite", RunTarget(image="some/ignite:1"), []),
    ],
)
async def test_members_get_the_image_of_the_version(
    loaded: list[str], target: str, settings: RunTarget, image: list[str]
) -> None:
    place = dataclasses.replace(place_of(settings), node=cast("Any", "this machine's"))
    deployment = await package_of(target).deployment(place)
    assert loaded == image
    members = cast("Any", deployment)._members
    assert members.image == (image[0] if image else settings.image)


@pytest.mark.parametrize(
    ("target", "version", "command"),
    [
        ("etcd", "3.5.2", "`zonequake images etcd 3.5.2` builds one"),
        ("ignite", "3.1.0", "`zonequake images ignite 3.1.0` builds one"),
    ],
)
async def test_elsewhere_than_on_the_embedded_cluster_the_error_names_the_command(
    loaded: list[str], target: str, version: str, command: str
) -> None:
    with pytest.raises(UsageError, match=command) as refused:
        await package_of(target).deployment(place_of(RunTarget(version=version)))
    assert "--image" in str(refused.value)
    assert "in its place" in str(refused.value) or "in place of" in str(refused.value)
    assert loaded == []


def test_the_list_of_targets_shows_versions() -> None:
    said = CliRunner().invoke(app, ["list"]).output
    assert "versions: a release of etcd 3 from 3.5.0 on" in said
    assert "versions: one whose jars are pinned: 3.1.0" in said
