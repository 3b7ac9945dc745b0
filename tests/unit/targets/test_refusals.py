"""A target refuses parts of a scenario, each with its own reason; the pages say the same."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.unit.repository.test_layout import ROOT
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.limits.refusals import FIXED_MEMBERS, Refusals
from zonequake_chaos.kit.registry import all_targets, find_target
from zonequake_chaos.kit.target import TargetClaims, TargetPackage, TargetPlace
from zonequake_chaos.kit.target_suitability import check_suited
from zonequake_chaos.scenario import manifest
from zonequake_kube.errors import UsageError


class Unclaimed(TargetPackage):
    """A target that claims nothing."""

    name, about, claims = "made-up", "", TargetClaims(order="")

    async def deployment(self, place: TargetPlace) -> Deployment:
        raise NotImplementedError


CLUSTER = {"component_pause", "component_kill"}
"""Faults of the node's components: the page says `cluster`."""


def refused(target: str, scenario: str, *overrides: str) -> list[str]:
    return list(find_target(target).refuses.of(manifest.load(scenario, overrides)))


@pytest.mark.parametrize(
    ("scenario", "overrides", "words"),
    [
        ("follower-reads", ("faults.0.target={role: follower}",), "the only member always leads"),
        ("cut-off-nodes", (), "traffic between members, and there is but one"),
        ("slow-links", ("faults.0.traffic=peers",), "traffic between members"),
    ],
)
def test_a_single_member_has_no_followers_and_no_traffic_between_members(
    scenario: str, overrides: tuple[str, ...], words: str
) -> None:
    assert any(words in one for one in refused("toy", scenario, *overrides))
    assert not any(words in one for one in refused("etcd", scenario, *overrides))


@pytest.mark.parametrize("target", ["pysyncobj", "toy"])
def test_a_secret_for_a_client_that_takes_none_is_refused(target: str) -> None:
    package = importlib.import_module(f"zonequake_target_{target}.package").TARGET
    run = manifest.load("leader-kill", ["target.clientSecret=s"])
    words = "target.clientSecret is s, and the target's client takes no Secret: leave it out"
    with pytest.raises(UsageError, match=words):
        check_suited(package, run)


def test_a_link_fault_of_other_traffic_is_taken() -> None:
    assert refused("toy", "lossy-links", "faults.0.traffic=clients") == []


def test_transactions_are_refused_by_a_target_that_does_not_claim_them() -> None:
    run = manifest.load("leader-kill", ["load.transactions={rate: 5}"])
    check_suited(find_target("zonequake"), run)
    without = manifest.load("leader-kill", [])
    with pytest.raises(UsageError, match="transactions, which it does not claim"):
        check_suited(Unclaimed(), run)
    check_suited(Unclaimed(), without)


def test_more_refusals_are_added_and_replace_reasons() -> None:
    more = Refusals(faults={"scale": "is mine"}, traffic={"peers": "has none"})
    both = FIXED_MEMBERS.and_also(more)
    assert both.faults == {**FIXED_MEMBERS.faults, "scale": "is mine"}
    assert both.traffic == {"peers": "has none"}
    assert both.roles == FIXED_MEMBERS.roles


@pytest.mark.parametrize(
    "target", [each for each in all_targets().values() if isinstance(each, TargetPackage)]
)
def test_each_refusal_of_a_target_has_a_reason_of_its_own(target: TargetPackage) -> None:
    reasons = [why for table in target.refuses.by_kind.values() for why in table.values()]
    assert len(reasons) == len(set(reasons))


def told_targets() -> dict[str, set[str]]:
    """The row `targets` of each fault on its page."""
    page = (ROOT / "docs/faults.md").read_text()
    entries = re.findall(r"^## `(\w+)`$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    rows = {
        name: re.findall(r"^\| targets \| (.*) \|$", text, re.MULTILINE) for name, text in entries
    }
    return {name: set(row[0].split(", ")) for name, row in rows.items()}


def test_the_page_of_faults_names_the_targets_that_take_each() -> None:
    targets = [each for each in all_targets().values() if isinstance(each, TargetPackage)]
    for fault, told in told_targets().items():
        takers = {each.name for each in targets if fault not in each.refuses.faults}
        if fault in CLUSTER:
            assert told == {"cluster"}, fault
        elif takers == {each.name for each in targets}:
            assert told == {"all"}, fault
        else:
            assert told == takers, fault


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("target.secrets={/tls: s, /tls/y: t}", "target.secrets has /tls, and /tls/y is mounted"),
        ("target.secrets={/data/x: s}", "target.secrets has /data/x, and /data is mounted"),
        ("target.files={/tmp/x: text}", "/tmp/x is in /tmp, a volume of each member"),
    ],
)
def test_what_members_can_not_mount_is_refused_before_anything(changed: str, words: str) -> None:
    run = manifest.load("leader-kill", [changed, "zones.0.partitions=1"])
    with pytest.raises(UsageError, match=re.escape(words)):
        check_suited(find_target("etcd"), run)
