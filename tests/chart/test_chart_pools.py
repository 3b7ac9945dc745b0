from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.chart.conftest import Document, One, Render
from zonequake_store.serving.admin_api import DRAIN_TIMEOUT_S

pytestmark = pytest.mark.chart

ROOT = Path(__file__).resolve().parents[2]
POOLS = ROOT / "charts" / "zonequake" / "ci" / "pools-values.yaml"


def store_of(pool: Document) -> Document:
    return cast("Document", pool["spec"]["template"]["spec"]["containers"][0])


def environment(pool: Document) -> dict[str, str]:
    return {
        variable["name"]: variable.get("value")
        or "field:" + variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in store_of(pool)["env"]
    }


def test_a_pool_is_a_parallel_stateful_set_behind_the_common_service(
    render: Render, one: One
) -> None:
    documents = render(values=[POOLS])
    for name, replicas in (("zq-fast", 3), ("zq-slow", 1)):
        spec = one(documents, "StatefulSet", name)["spec"]
        assert spec["replicas"] == replicas
        assert spec["podManagementPolicy"] == "Parallel"
        assert spec["serviceName"] == "zq-store"
        assert spec["template"]["metadata"]["labels"]["zonequake.io/pool"] == name[3:]
    service = one(documents, "Service", "zq-store")["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    assert {p["name"]: p["port"] for p in service["ports"]} == {
        "peers": 7001,
        "clients": 7002,
        "http": 8080,
        "orders": 7003,
    }


def test_a_data_node_gets_its_identity_from_its_pod(render: Render, one: One) -> None:
    values = environment(one(render(values=[POOLS]), "StatefulSet", "zq-fast"))
    assert json.loads(values.pop("ZQ_ATTRIBUTES")) == {"storage": "SSD", "region": "US"}
    assert values == {
        "ZQ_NODE": "field:metadata.name",
        "ZQ_NAMESPACE": "field:metadata.namespace",
        "ZQ_POD_UID": "field:metadata.uid",
        "ZQ_POD_IP": "field:status.podIP",
        "ZQ_PEER_DOMAIN": "zq-store.zonequake.svc",
        "ZQ_DATA_DIR": "/data",
        "ZQ_TLS_DIR": "/tls",
        "ZQ_TLS_DOMAIN": "zq.zonequake.zonequake.internal",
        "ZQ_TLS_RENEW_SECONDS": "300",
        "ZQ_TLS_CLIENTS": "load,harness",
        "ZQ_OPEN_DUMPS": "false",
        "ZQ_LEASE_SECONDS": "10",
        "ZQ_LOG_MAP_BYTES": "1073741824",
        "ZQ_DATA_MAP_BYTES": "4294967296",
    }


def test_a_pool_has_its_own_storage_resources_and_place(render: Render, one: One) -> None:
    documents = render(values=[POOLS])
    fast = one(documents, "StatefulSet", "zq-fast")["spec"]
    claim = fast["volumeClaimTemplates"][0]["spec"]
    assert claim["storageClassName"] == "fast-local"
    assert claim["resources"]["requests"]["storage"] == "20Gi"
    assert fast["template"]["spec"]["nodeSelector"] == {"disk": "nvme"}
    assert fast["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "4"
    slow = one(documents, "StatefulSet", "zq-slow")["spec"]["volumeClaimTemplates"][0]["spec"]
    assert "storageClassName" not in slow
    assert slow["resources"]["requests"]["storage"] == "1Gi"


def test_one_pod_of_all_pools_may_be_evicted_at_a_time(render: Render) -> None:
    # One from each of two pools could be the majority of a partition.
    (budget,) = [d for d in render(values=[POOLS]) if d["kind"] == "PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == 1
    labels = budget["spec"]["selector"]["matchLabels"]
    pools = [d for d in render(values=[POOLS]) if d["kind"] == "StatefulSet"]
    assert len(pools) == 2
    for pool in pools:
        assert labels.items() <= pool["spec"]["template"]["metadata"]["labels"].items()


def test_a_single_data_node_has_no_disruption_budget_which_would_block_drains(
    render: Render,
) -> None:
    minimal = POOLS.with_name("minimal-values.yaml")
    assert not [d for d in render(values=[minimal]) if d["kind"] == "PodDisruptionBudget"]


def test_caught_up_gates_readiness_only_where_an_operator_sets_it(render: Render, one: One) -> None:
    def gates(*sets: str) -> list[Document]:
        pool = one(render(sets=sets), "StatefulSet", "zq-default")
        return cast("list[Document]", pool["spec"]["template"]["spec"].get("readinessGates", []))

    assert gates() == [{"conditionType": "zonequake.io/caught-up"}]
    assert gates("operator.enabled=false") == []


def test_a_node_that_is_stopped_has_time_to_hand_over_its_leaderships(
    render: Render, one: One
) -> None:
    pod = one(render(), "StatefulSet", "zq-default")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > DRAIN_TIMEOUT_S
    # A hook's process would take the CPU that the node needs to serve meanwhile.
    assert "lifecycle" not in pod["containers"][0]


def test_a_planted_fault_needs_both_variables_and_is_off_by_default(
    render: Render, one: One
) -> None:
    planted = {"ZQ_PLANTED_FAULT", "ZQ_ALLOW_PLANTED_FAULTS"}
    assert not planted & set(environment(one(render(), "StatefulSet", "zq-default")))
    documents = render(sets=["store.plantedFault=local-reads"])
    values = environment(one(documents, "StatefulSet", "zq-default"))
    assert values["ZQ_PLANTED_FAULT"] == "local-reads"
    assert values["ZQ_ALLOW_PLANTED_FAULTS"] == "yes-for-a-test"


def test_the_schema_knows_every_planted_fault_of_the_interface() -> None:
    interfaces = (ROOT / "docs" / "interfaces.md").read_text()
    sentence = interfaces.partition("Planted faults:")[2].partition(".\n")[0]
    faults = [word.strip("` \n") for word in sentence.split(",")]
    schema = json.loads((ROOT / "charts" / "zonequake" / "values.schema.json").read_text())
    allowed = schema["properties"]["store"]["properties"]["plantedFault"]["enum"]
    assert sorted(allowed) == sorted(["", *faults])


def test_the_harness_is_told_what_it_needs(render: Render, one: One) -> None:
    assert one(render(), "ConfigMap", "zq-harness")["data"] == {
        "release": "zq",
        "loadImage": f"zonequake/store:{version('zonequake')}",
        "loadPullPolicy": "IfNotPresent",
        "targetAccount": "",
        "storeService": "zq-store",
        "prometheusService": "zq-prometheus",
        "faultAgentNamespace": "",
        "analysisNamespace": "",
        "tlsDomain": "zq.zonequake.zonequake.internal",
        "tlsRenewSeconds": "300",
        "tlsAuthorities": "",
        "tlsAuthoritiesKey": "ca.crt",
        "dumps": "false",
    }
    plain = one(render(sets=["tls.enabled=false"]), "ConfigMap", "zq-harness")["data"]
    assert (plain["tlsDomain"], plain["dumps"]) == ("", "true")
    tested = render(sets=["harness.dumps=true"])
    assert one(tested, "ConfigMap", "zq-harness")["data"]["dumps"] == "true"
    store = one(tested, "StatefulSet", "zq-default")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "ZQ_OPEN_DUMPS", "value": "true"} in store["env"]
    own = one(render(values=[POOLS]), "ConfigMap", "zq-harness")["data"]
    assert own["loadImage"] == "registry.example/zonequake/load:1.2.3"
    without = one(render(sets=["prometheus.enabled=false"]), "ConfigMap", "zq-harness")["data"]
    assert without["prometheusService"] == ""


def test_monitors_appear_only_where_their_kind_exists(render: Render) -> None:
    def kinds(apis: list[str]) -> set[str]:
        documents = render(sets=["monitoring.enabled=true"], apis=apis)
        return {d["kind"] for d in documents} & {"PodMonitor", "ServiceMonitor"}

    assert kinds([]) == set()
    assert kinds(["monitoring.coreos.com/v1"]) == {"PodMonitor", "ServiceMonitor"}


def test_an_operator_alone_is_replaced_and_never_doubled(render: Render, one: One) -> None:
    spec = one(render(), "Deployment", "zq-operator")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    assert "ZQ_ELECTION_S" not in environment({"spec": spec})


def test_two_operators_elect_who_acts(render: Render, one: One) -> None:
    spec = one(render(sets=["operator.replicas=2"]), "Deployment", "zq-operator")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate"}
    assert environment({"spec": spec})["ZQ_ELECTION_S"] == "10"


def test_chart_distribution_and_images_have_the_version_of_one_line(render: Render) -> None:
    text = (ROOT / "charts" / "zonequake" / "Chart.yaml").read_text()
    chart = yaml.safe_load(text)
    assert len(re.findall(r"\d+\.\d+\.\d+", text.replace(chart["kubeVersion"], ""))) == 1
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "version"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert built.stdout.strip() == chart["version"] == chart["appVersion"]
    images = {
        container["image"]
        for document in render(sets=["faultAgent.enabled=true"])
        if document["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
        for container in document["spec"]["template"]["spec"]["containers"]
    }
    ours = {image for image in images if image.startswith("zonequake/")}
    assert ours == {f"zonequake/{name}:{chart['version']}" for name in OURS}


OURS = ("operator", "store", "agent")


def test_our_images_come_from_the_repository_that_the_values_name(render: Render) -> None:
    documents = render(sets=["images.repository=registry.example:5000/team/zonequake"])
    one = next(d for d in documents if d["kind"] == "StatefulSet")
    (container,) = one["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example:5000/team/zonequake/store:")
    documents = render(sets=["images.store=other.example/a@sha256:0"])
    one = next(d for d in documents if d["kind"] == "StatefulSet")
    (container,) = one["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "other.example/a@sha256:0"
