"""Which clusters' nodes are this machine's."""

from __future__ import annotations

from pathlib import Path

from zonequake_chaos.own_node import OwnNode


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
