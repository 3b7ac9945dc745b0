"""Every pod of a release is admitted where `restricted` is enforced, by the real plugin."""

from __future__ import annotations

import json
import subprocess
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kube.operator.api_server import CHART
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import load_objects
from zonequake_cluster.supply import tools
from zonequake_load.pod.control import LoadPlan
from zonequake_target_store.package import TARGET

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube

LABEL = "pod-security.kubernetes.io/enforce"
PRIVILEGED = {"zq-fault-agent"}
"""Lives in a namespace of its own."""


@pytest.fixture(scope="module")
def restricted(api_server: ApiServer) -> ApiServer:
    api = api_server.in_namespace("restricted-pods")
    labelled = api.kubectl("label", "namespace", api.namespace, f"{LABEL}=restricted")
    assert labelled.returncode == 0, labelled.stderr
    return api


def pods() -> dict[str, dict[str, Any]]:
    """All that a release and a run make, with every option on, by the name of what makes them."""
    rendered = subprocess.run(
        [
            *(str(tools.helm_path()), "template", "zq", str(CHART)),
            *("--values", str(CHART / "ci" / "everything-values.yaml")),
            *("--set=faultAgent.enabled=true", "--set=analysis.enabled=true"),
            *("--set=analysis.storeSecret=a-store", "--api-versions=monitoring.coreos.com/v1"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    objects = [each for each in yaml.safe_load_all(rendered.stdout) if each]
    installed = Installation.of(
        next(o for o in objects if o["metadata"]["name"] == "zq-harness" and "data" in o)
        | {"metadata": {"namespace": "n"}}
    )
    plan = LoadPlan(client=TARGET.client.connect, zone="z", seeds=["s:1"], pods=1)
    objects += load_objects(
        name="zq-load-z", run_id="r", plan=plan, code=TARGET.client, installation=installed
    )
    found: dict[str, dict[str, Any]] = {}
    for one in objects:
        if one["kind"] == "Pod":
            found[one["metadata"]["name"]] = one["spec"]
        elif one["kind"] in ("Deployment", "StatefulSet", "DaemonSet", "Job"):
            found[one["metadata"]["name"]] = one["spec"]["template"]["spec"]
        elif one["kind"] == "ConfigMap" and one["metadata"]["name"] == "zq-analysis":
            for name in ("driver.yaml", "executor.yaml"):
                found[f"analysis's {name}"] = yaml.safe_load(one["data"][name])["spec"]
    return found


def asked(api: ApiServer, spec: dict[str, Any]) -> str:
    """What the server says to a pod of this spec; empty if it would take it."""
    spec = {**spec, "restartPolicy": "Always", "serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked"}, "spec": spec}
    mounts = {mount["name"] for c in spec["containers"] for mount in c.get("volumeMounts", [])}
    volumes = list(spec.get("volumes", []))
    there = {volume["name"] for volume in volumes}
    spec["volumes"] = [*volumes, *({"name": n, "emptyDir": {}} for n in sorted(mounts - there))]
    done = api.kubectl("create", "--dry-run=server", "--filename", "-", stdin=json.dumps(pod))
    return "" if done.returncode == 0 else done.stderr


def test_every_pod_but_the_fault_agent_is_admitted_where_restricted_is_enforced(
    restricted: ApiServer,
) -> None:
    said = {name: asked(restricted, spec) for name, spec in pods().items()}
    assert len(said) >= 8
    assert {name for name, words in said.items() if words} == PRIVILEGED, said
    assert all("violates PodSecurity" in said[name] for name in PRIVILEGED)


def test_planted_violations_are_refused(restricted: ApiServer) -> None:
    spec = pods()["zq-operator"]
    for where, key, value in (
        ("pod", "hostNetwork", True),
        ("container", "allowPrivilegeEscalation", True),
        ("container", "runAsNonRoot", False),
    ):
        planted = deepcopy(spec)
        target = planted if where == "pod" else planted["containers"][0]["securityContext"]
        target[key] = value
        assert "violates PodSecurity" in asked(restricted, planted), key
