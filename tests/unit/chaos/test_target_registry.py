"""Targets are found by their entry points; what can't be used is said with what to do."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from zonequake_chaos.kit import entries
from zonequake_chaos.kit.entries import GROUP, target_names
from zonequake_chaos.kit.registry import find_target
from zonequake_kube.errors import UsageError

STORE = EntryPoint("zonequake", "zonequake_target_store.package:TARGET", GROUP)
ETCD = EntryPoint("etcd", "zonequake_target_etcd.package:TARGET", GROUP)
BROKEN = EntryPoint("broken", "no_such_package:TARGET", GROUP)


def install(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(entries, "entry_points", lambda *, group: list(points))


def test_ours_and_etcd_are_installed() -> None:
    assert {"etcd", "zonequake"} <= set(target_names())
    assert find_target("etcd").name == "etcd"


def test_no_name_is_the_system_that_a_release_is_even_beside_a_broken_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, ETCD, BROKEN, STORE)
    assert find_target("").name == "zonequake"


@pytest.mark.parametrize(
    ("points", "name", "words"),
    [
        ((STORE, ETCD), "consul", "found no target 'consul'; installed are: etcd, zonequake"),
        ((), "etcd", "installed are: none"),
        ((BROKEN,), "broken", "can't be loaded from no_such_package:TARGET"),
        ((EntryPoint("x", "json:loads", GROUP),), "x", "found function at json:loads, expected"),
        ((EntryPoint("x", ETCD.value, GROUP),), "x", "its package calls it 'etcd'"),
        ((ETCD, EntryPoint("etcd", STORE.value, GROUP)), "etcd", "two packages have a target"),
        ((ETCD,), "", "expected one: name the target"),
        ((STORE, EntryPoint("zonequake", "json:loads", GROUP)), "", "two packages have a target"),
        (
            (BROKEN,),
            "",
            "expected one: name the target, as in --target NAME; target 'broken' can't",
        ),
    ],
)
def test_what_can_not_be_used_is_said(
    monkeypatch: pytest.MonkeyPatch, points: tuple[EntryPoint, ...], name: str, words: str
) -> None:
    install(monkeypatch, *points)
    with pytest.raises(UsageError) as refused:
        find_target(name)
    assert words in str(refused.value)


def test_a_package_that_is_installed_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ETCD, ETCD)
    assert find_target("etcd").name == "etcd"


PACKAGE = """
from zonequake_analysis.inputs.prometheus.server_metrics import ServerMetric
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.limits.refusals import Refusals
from zonequake_chaos.kit.target import TargetClaims, TargetPackage


class Package(TargetPackage):
    name = "{name}"
    about = "A package of a test."
    claims = TargetClaims(order="none")
    client = ClientCode(connect="json:loads")

    async def deployment(self, place):
        raise NotImplementedError


TARGET = Package()
"""


def broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str
) -> EntryPoint:
    """The entry point of a package that is sound but for one text."""
    text = PACKAGE.format(name=name)
    assert old in text
    (tmp_path / f"target_{name}.py").write_text(text.replace(old, new))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, f"target_{name}", raising=False)
    return EntryPoint(name, f"target_{name}:TARGET", GROUP)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("unfinished", "async def deployment", "async def another", "abstract"),
        ("misspelt", "class Package", "clas Package", "invalid syntax"),
        ("failing", "TARGET =", "1 / 0\nTARGET =", "division by zero"),
        ("ending", "TARGET =", "raise SystemExit(3)\nTARGET =", "(SystemExit: 3)"),
        ("numbered", 'name = "numbered"', "name = 7", "Package.name is of type int, expected str"),
        (
            "listing",
            'TargetClaims(order="none")',
            "['none']",
            "Package.claims is of type list, expected TargetClaims",
        ),
        (
            "unordered",
            'order="none"',
            "order=None",
            "Package.claims.order is of type NoneType, expected str",
        ),
        ("heedless", "    about", "    refuses = {}\n    about", "expected Refusals"),
        ("empty", "    about", "    members = 0\n    about", "members is 0, expected at least 1"),
        ("Loud", "none", "none", "found the name 'Loud' of 4 characters, expected at most 30"),
        ("nothing", '    about = "A package of a test."', "", "Package lacks about"),
        ("mute", '"json:loads"', '"json.loads"', "expected MODULE:FUNCTION"),
        (
            "picky",
            "    about",
            "    refuses = Refusals(faults={'operator_puase': 'is none'})\n    about",
            "refuses what there isn't: fault 'operator_puase': expected one of clock_step, ",
        ),
        (
            "untyped",
            "    about",
            "    server_metrics = ('x_seconds',)\n    about",
            "Package.server_metrics[0]: is of type str, expected ServerMetric",
        ),
        (
            "mismeasured",
            "    about",
            "    server_metrics = (ServerMetric(metric='x_total', measure='p99', words='x'),)\n"
            "    about",
            "Package.server_metrics[0]: x_total: found the measure p99, expected rate of a name",
        ),
    ],
)
def test_a_package_that_is_broken_is_said_and_breaks_no_other(
    name: str, old: str, new: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, broken(tmp_path, monkeypatch, name, old, new), STORE)
    with pytest.raises(UsageError) as refused:
        find_target(name)
    assert words in str(refused.value)
    assert find_target("").name == "zonequake"


def test_two_packages_with_one_name_break_no_command_that_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twice = [EntryPoint("twice", f"{place}:TARGET", GROUP) for place in ("a", "b")]
    install(monkeypatch, *twice, ETCD, STORE)
    assert find_target("").name == "zonequake"
    assert find_target("etcd").name == "etcd"
    assert target_names() == ["etcd", "twice", "zonequake"]
    with pytest.raises(UsageError, match="two packages have a target 'twice': a:TARGET and b:T"):
        find_target("twice")


def test_a_sound_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, broken(tmp_path, monkeypatch, "sound", "none", "none"))
    assert find_target("sound").about == "A package of a test."
