"""What runs of a release, its versions, and what a user is told to do next."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pytest

from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.release.install import next_steps
from zonequake_ctl.release.installed import InstalledRelease, Workload, look_at_release
from zonequake_ctl.release.versions import client_rows, release_rows, row_lines
from zonequake_kube.client import Kube

OWN = version("zonequake")


def manifest(name: str, component: str, *, chart: str = OWN, ready: int | None) -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": component, "app.kubernetes.io/version": chart}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 3,
            "template": {"spec": {"containers": [{"image": f"zonequake/{component}:1"}]}},
        },
        "status": {} if ready is None else {"readyReplicas": ready},
    }


class Server:
    """A made-up API server with a release, and the load of a run beside it."""

    def __init__(self, *, chart: str = OWN) -> None:
        load = manifest("zq-load", "load", ready=2)
        del load["metadata"]["labels"]["app.kubernetes.io/version"]
        self.found = {
            "Deployment": [manifest("zq-operator", "operator", chart=chart, ready=None)],
            "StatefulSet": [manifest("zq-default", "store", ready=3), load],
        }

    async def find(self, kind: str, labels: str) -> list[dict[str, Any]]:
        assert labels == "app.kubernetes.io/name=zonequake,app.kubernetes.io/instance=zq"
        return self.found[kind]

    async def version(self) -> str:
        return "v1.34.4"

    async def served_versions(self, group: str) -> list[str]:
        assert group == "zonequake.io"
        return ["v1alpha1"]

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


async def test_a_release_is_its_workloads_without_the_load_of_a_run() -> None:
    found = await look_at_release(cast("Kube", Server()), "zq")
    assert [(w.name, w.component, w.ready, w.wanted) for w in found.workloads] == [
        ("zq-default", "store", 3, 3),
        ("zq-operator", "operator", 0, 3),
    ]
    assert found.versions == [OWN]


def place(*, embedded: bool = True, namespace: str = "zonequake") -> ReleasePlace:
    return ReleasePlace(
        kubeconfig=None if embedded else Path("/k"),
        context=None if embedded else "kind-chaos",
        namespace=namespace,
        release="zq",
        embedded=embedded,
    )


@pytest.mark.parametrize("chart", [OWN, "0.0.9"])
async def test_versions_are_named_and_a_difference_is_said(
    monkeypatch: pytest.MonkeyPatch, chart: str
) -> None:
    async def connect(_: ReleasePlace) -> Server:
        return Server(chart=chart)

    monkeypatch.setattr(ReleasePlace, "connect", connect)
    rows = dict(await release_rows(place()))
    assert rows["Kubernetes"] == "v1.34.4"
    assert rows["resources"] == "v1alpha1"
    assert rows["zq-default"] == "zonequake/store:1, 3 of 3 ready"
    assert ("not the client's version" in rows["release"]) == (chart != OWN)
    assert rows["release"].startswith(", ".join(sorted({chart, OWN})))


async def test_a_namespace_without_the_release_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    server.found = {"Deployment": [], "StatefulSet": []}

    async def connect(_: ReleasePlace) -> Server:
        return server

    monkeypatch.setattr(ReleasePlace, "connect", connect)
    rows = dict(await release_rows(place()))
    assert rows["release"] == "no zq in namespace zonequake: install it by `zonequake install`"


def test_the_client_says_where_it_runs_from() -> None:
    ((name, text),) = client_rows()
    assert name == "client"
    assert text.startswith(f"{OWN}, Python 3.")
    assert "from the clone" in text
    assert row_lines([("client", "a"), ("zq-default", "b")]) == [
        "client         a",
        "zq-default     b",
    ]


def test_an_installation_ends_with_what_runs_and_what_comes_next() -> None:
    workload = Workload(
        name="zq-default", component="store", image="i:1", version=OWN, ready=3, wanted=3
    )
    found = InstalledRelease(kubernetes="v1", served=("v1alpha1",), workloads=(workload,))
    assert next_steps(place(), found) == [
        "zq-default: 3 of 3 ready, i:1",
        f"zq {OWN} runs in namespace zonequake. Next:",
        "  zonequake run leader-kill",
        "  zonequake status",
    ]
    elsewhere = next_steps(place(embedded=False, namespace="other"), found)
    assert elsewhere[2].startswith("  kubectl label namespace other zonequake.io/chaos=allowed ")
    options = " --kubeconfig /k --context kind-chaos --namespace other"
    assert elsewhere[3:] == [
        f"  zonequake run leader-kill{options}",
        f"  zonequake status{options}",
    ]
