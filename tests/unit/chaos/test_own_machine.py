"""Which clusters' nodes are this machine's."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from zonequake_chaos.node_access import own_cluster_proof
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_cluster.machine import processes
from zonequake_cluster.own_files import OwnFiles


def kubeconfig_of(authority: bytes, **cluster: object) -> str:
    shown = {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": shown | cluster}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


@pytest.fixture
def instance_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An instance of a checkout, whose node is made up to run."""
    folder = tmp_path / ".zonequake" / "cluster" / "own"
    (folder / "pki").mkdir(parents=True)
    (folder / "pki" / "ca.crt").write_bytes(b"OWN AUTHORITY")
    monkeypatch.setattr(own_cluster_proof, "find_own_files", lambda: OwnFiles(checkout=tmp_path))
    monkeypatch.setattr(
        processes, "find_init", lambda _, value: 1 if value == str(folder) else None
    )
    return folder


def test_a_copy_of_the_embedded_clusters_kubeconfig_leads_to_it(
    instance_folder: Path, tmp_path: Path
) -> None:
    for place in (instance_folder / "kubeconfig", tmp_path / "copy"):
        place.write_text(kubeconfig_of(b"OWN AUTHORITY"))
        node = OwnMachine.of(place)
        assert node is not None
        assert node.instance.name == "own"


@pytest.mark.parametrize(
    "text",
    [
        kubeconfig_of(b"ANOTHER AUTHORITY"),
        kubeconfig_of(b"OWN AUTHORITY", **{"insecure-skip-tls-verify": True}),
        kubeconfig_of(b"OWN AUTHORITY", server="http://10.0.0.1:6443"),
        "no: kubeconfig",
    ],
)
def test_another_clusters_kubeconfig_in_the_embedded_ones_place_leads_to_no_node(
    text: str, instance_folder: Path
) -> None:
    place = instance_folder / "kubeconfig"
    place.write_text(text)
    assert OwnMachine.of(place) is None


def test_a_context_of_a_kubeconfig_with_several_is_judged_by_itself(
    instance_folder: Path, tmp_path: Path
) -> None:
    both = yaml.safe_load(kubeconfig_of(b"OWN AUTHORITY"))
    other = yaml.safe_load(kubeconfig_of(b"ANOTHER AUTHORITY"))["clusters"][0] | {"name": "d"}
    both["clusters"].append(other)
    both["contexts"].append({"name": "y", "context": {"cluster": "d", "user": "u"}})
    (tmp_path / "both").write_text(yaml.safe_dump(both))
    assert OwnMachine.of(tmp_path / "both", "x") is not None
    assert OwnMachine.of(tmp_path / "both", "y") is None


def test_an_instance_that_does_not_run_proves_nothing(
    instance_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = instance_folder / "kubeconfig"
    place.write_text(kubeconfig_of(b"OWN AUTHORITY"))
    monkeypatch.setattr(processes, "find_init", lambda *_: None)
    assert OwnMachine.of(place) is None
    assert OwnMachine.of(None) is None
    assert OwnMachine.of(Path("/kubeconfig")) is None
