"""Whom faults on the node itself are for, and what they drop; on a folder in place of /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_chaos.own_node import OwnNode, cut_rules, pod_processes
from zonequake_chaos.scenario_faults import Cut

UID = "5b1c2f0e-1111-2222-3333-444455556666"


def test_a_pods_processes_are_those_whose_cgroup_names_it(tmp_path: Path) -> None:
    for pid, cgroup in (
        ("30", f"3:cpu:/zonequake-1/kubepods/burstable/pod{UID}/abc\n"),
        ("4", f"3:cpu:/zonequake-1/kubepods/burstable/pod{UID}/pause\n"),
        ("5", "3:cpu:/zonequake-1/kubepods/besteffort/pod0000/abc\n"),
        ("self", f"pod{UID}"),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(cgroup)
    (tmp_path / "7").mkdir()  # it has ended meanwhile
    assert pod_processes(UID, tmp_path) == [4, 30]


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
