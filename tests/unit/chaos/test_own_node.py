"""Whom faults on the node itself are for, and what they drop."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_chaos.own_node import OwnNode, cut_rules
from zonequake_chaos.scenario_faults import Cut


@pytest.mark.parametrize(
    ("cut", "ports"),
    [(Cut.ALL, set()), (Cut.PEERS, {"7001"}), (Cut.CONTROL, {"443,6443"})],
)
def test_a_cut_drops_both_directions_of_what_it_names(cut: Cut, ports: set[str]) -> None:
    rules = cut_rules(cut)
    assert all(rule[-2:] == ("-j", "DROP") for rule in rules)
    assert {word for rule in rules for word in rule if word[0].isdigit()} == ports
    if ports:
        assert [rule[-4][:3] for rule in rules] == ["--d", "--s"]


def test_a_kubeconfig_that_is_no_running_embedded_clusters_leads_to_no_node(
    tmp_path: Path,
) -> None:
    assert OwnNode.of(None) is None
    assert OwnNode.of(Path("/kubeconfig")) is None
    folder = tmp_path / ".zonequake" / "cluster" / "x"
    folder.mkdir(parents=True)
    assert OwnNode.of(folder / "kubeconfig") is None
    (folder / "instance.json").write_text("{}")
    assert OwnNode.of(folder / "kubeconfig") is None, "nothing runs there"
