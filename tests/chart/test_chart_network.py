"""The chart's network policies let through what docs/security.md lists, and nothing else."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.chart.conftest import (
    ANALYSIS,
    NAMESPACE,
    RELEASE,
    Document,
    Render,
    analysis_pods,
    pod_templates,
)
from tests.chart.network_model import End, Policies, Port
from tests.chart.network_table import Connection, listed
from tests.chart.rights import PAGE
from zonequake_chaos.kit.member_set import MemberSet, member_objects
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import load_objects
from zonequake_chaos.scenario.run import RunTarget
from zonequake_load.pod.control import LoadPlan
from zonequake_target_etcd.members import METRICS_PORT, PORTS, container
from zonequake_target_etcd.package import TARGET

pytestmark = pytest.mark.chart

EVERYTHING = (
    "networkPolicy.enabled=true",
    "networkPolicy.apiServer.cidrs={10.0.0.0/8}",
    "networkPolicy.runStore.to[0].ipBlock.cidr=198.51.100.0/24",
    "networkPolicy.runStore.ports={9000}",
    "faultAgent.enabled=true",
    "analysis.enabled=true",
)
API_SERVER = End(address="10.1.2.3")
RUN_STORE = End(address="198.51.100.7")
ELSEWHERE = End(address="192.0.2.1")
OUTSIDE = {"api-server": [API_SERVER], "run-store": [RUN_STORE]}
NOT_OURS = {*OUTSIDE, "other"}
NEVER = (Port(22), Port(10250), Port(65535))
"""Ports that none of our pods has."""


def labels(component: str, *, release: str = RELEASE) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "zonequake",
        "app.kubernetes.io/instance": release,
        "app.kubernetes.io/component": component,
    }


def of_us(component: str) -> End:
    return End(labels=labels(component), namespace=NAMESPACE)


STRANGER = End(labels={"app": "something-else"}, namespace=NAMESPACE)


def made_by_runs(documents: list[Document]) -> list[Document]:
    """What the harness makes in the release's namespace."""
    harness = next(
        d for d in documents if d["metadata"]["name"] == f"{RELEASE}-harness" and "data" in d
    )
    harness = {**harness, "metadata": {"namespace": NAMESPACE}}
    installed = Installation.of(harness)
    plan = LoadPlan(client=TARGET.client.connect, zone="z", seeds=["s:1"], pods=1)
    members = MemberSet(
        name="zq-etcd-default",
        target="etcd",
        program="etcd",
        pool="default",
        count=3,
        namespace=NAMESPACE,
        image="an/etcd:1",
        pull_policy="IfNotPresent",
        fsync=True,
        ports=PORTS,
        settings=RunTarget(),
        service=f"{RELEASE}-target",
        metrics_port=METRICS_PORT,
    )
    return [
        *load_objects(
            name="zq-load-z", run_id="r", plan=plan, code=TARGET.client, installation=installed
        ),
        *member_objects(members, container(members, token="r"), run_id="r", installation=installed),
    ]


def ends(documents: list[Document]) -> dict[str, list[End]]:
    """All ends there are, by kind: the pods that the chart and runs make, the API server, and
    those who look like ours and aren't."""
    found: dict[str, list[End]] = {}
    templates = [
        (each["metadata"]["labels"], d["metadata"].get("namespace", NAMESPACE))
        for d in (*documents, *made_by_runs(documents))
        for _, each in pod_templates([d])
    ]
    templates += [(d["metadata"]["labels"], NAMESPACE) for d in documents if d["kind"] == "Pod"]
    templates += [(pod["metadata"]["labels"], ANALYSIS) for pod in analysis_pods(documents)]
    for its, namespace in templates:
        kind = its["app.kubernetes.io/component"]
        found.setdefault(kind, []).append(End(labels=its, namespace=namespace))
    others = [STRANGER, ELSEWHERE]
    for kind in found:
        others.append(End(labels=labels(kind), namespace="another"))
        others.append(End(labels=labels(kind, release="another"), namespace=NAMESPACE))
    return {**found, **OUTSIDE, "other": others}


def walked(documents: list[Document]) -> set[Connection]:
    """Every connection that gets through to or from one of us, pair by pair and port by port."""
    policies, everybody = Policies(documents, namespace=NAMESPACE), ends(documents)
    ports = policies.ports() | {connection.port for connection in listed(PAGE.read_text())}
    ports |= {Port(number, kind) for number, _ in ports for kind in ("TCP", "UDP")} | {*NEVER}
    ours = set(everybody) - NOT_OURS
    return {
        Connection(source, target, port)
        for source, sources in everybody.items()
        for target, targets in everybody.items()
        if source in ours or target in ours
        for one in sources
        for another in targets
        for port in ports
        if policies.connects(one, another, port)
    }


@pytest.fixture(scope="module")
def documents(render: Render) -> list[Document]:
    return render(sets=EVERYTHING)


@pytest.fixture(scope="module")
def policies(documents: list[Document]) -> Policies:
    return Policies(documents, namespace=NAMESPACE)


def test_exactly_what_the_page_lists_gets_through(documents: list[Document]) -> None:
    there, wanted = walked(documents), set(listed(PAGE.read_text()))
    assert there - wanted == set(), "gets through and is not listed in docs/security.md"
    assert wanted - there == set(), "listed in docs/security.md and does not get through"


def test_no_object_is_rendered_twice(documents: list[Document]) -> None:
    named = [(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]) for d in documents]
    assert sorted({each for each in named if named.count(each) > 1}) == []


def test_every_connection_has_a_reason() -> None:
    assert [c for c, why in listed(PAGE.read_text()).items() if len(why) < 5] == []


def test_every_kind_of_pod_is_under_a_policy_and_so_is_all_that_a_run_makes(
    documents: list[Document], policies: Policies
) -> None:
    everybody = ends(documents)
    assert {*everybody} == {
        *("store", "operator", "prometheus", "test", "fault-agent", "load", "target"),
        *("analysis", "analysis-executor"),
        *NOT_OURS,
    }
    for kind in {*everybody} - NOT_OURS:
        for end in everybody[kind]:
            assert policies.are_about(end), kind


def test_a_missing_row_and_a_missing_rule_are_found(documents: list[Document]) -> None:
    page, row = (
        PAGE.read_text(),
        "| load | target | 2379 | reads and writes (`networkPolicy.target.clients`) |\n",
    )
    assert row in page
    gone = Connection("load", "target", Port(2379))
    assert walked(documents) - set(listed(page.replace(row, ""))) == {gone}
    planted = deepcopy(documents)
    (policy,) = [d for d in planted if d["metadata"]["name"] == "zq-target"]
    clients = policy["spec"]["ingress"][1]
    assert clients["ports"] == [{"protocol": "TCP", "port": 2379}]
    clients["from"] = clients["from"][1:]
    assert set(listed(page)) - walked(planted) == {gone}


def test_a_rule_that_is_too_wide_is_found(documents: list[Document]) -> None:
    planted = deepcopy(documents)
    (policy,) = [
        d for d in planted if (d["kind"], d["metadata"]["name"]) == ("NetworkPolicy", "zq-store")
    ]
    orders = next(r for r in policy["spec"]["ingress"] if r["ports"][0]["port"] == 7003)
    del orders["from"]
    extra = walked(planted) - set(listed(PAGE.read_text()))
    assert extra == {Connection(who, "store", Port(7003)) for who in NOT_OURS}


def test_each_side_alone_is_as_strict(documents: list[Document], policies: Policies) -> None:
    """The other end may be a pod that some other chart owns, with no policy of its own."""
    wanted, everybody = set(listed(PAGE.read_text())), ends(documents)
    ours = {*everybody} - NOT_OURS
    for source in everybody:
        for target in everybody:
            for port in policies.ports():
                for one in everybody[source]:
                    for another in everybody[target]:
                        is_listed = Connection(source, target, port) in wanted
                        if target in ours:
                            assert policies.lets_in(another, one, port) == is_listed
                        if source in ours and port.number != 53:
                            assert policies.lets_out(one, another, port) == is_listed


def test_without_tls_the_operator_gives_its_orders_where_the_reports_are(render: Render) -> None:
    policies = Policies(
        render(sets=["networkPolicy.enabled=true", "tls.enabled=false"]), namespace=NAMESPACE
    )
    operator, store = of_us("operator"), of_us("store")
    assert policies.connects(operator, store, Port(8080))
    assert not policies.lets_in(store, operator, Port(7003))
    assert not policies.lets_out(operator, store, Port(7003))


def test_without_the_api_servers_addresses_it_can_be_reached_but_reaches_no_pod(
    render: Render,
) -> None:
    policies = Policies(render(sets=["networkPolicy.enabled=true"]), namespace=NAMESPACE)
    assert policies.lets_out(of_us("operator"), ELSEWHERE, Port(443))
    assert not policies.lets_in(of_us("store"), ELSEWHERE, Port(8080))


def test_clients_and_scrapers_of_ones_own_are_let_in(render: Render) -> None:
    policies = Policies(
        render(
            sets=[
                "networkPolicy.enabled=true",
                "networkPolicy.clients[0].podSelector.matchLabels.app=something-else",
                "networkPolicy.scrapers[0].podSelector.matchLabels.app=monitoring",
            ]
        ),
        namespace=NAMESPACE,
    )
    store, load = of_us("store"), of_us("load")
    assert policies.connects(STRANGER, store, Port(7002))
    assert not policies.connects(STRANGER, store, Port(8080))
    monitoring = End(labels={"app": "monitoring"}, namespace=NAMESPACE)
    assert policies.lets_in(store, monitoring, Port(8080))
    assert policies.lets_in(load, monitoring, Port(8081))
    assert not policies.lets_in(store, monitoring, Port(7002))


def test_policies_are_there_only_when_asked_for(render: Render) -> None:
    assert not [d for d in render() if d["kind"] == "NetworkPolicy"]


def test_a_target_may_have_other_ports(render: Render) -> None:
    ports = ("networkPolicy.target.clients={5432,8008}", "networkPolicy.target.peers={5433}")
    policies = Policies(render(sets=(*EVERYTHING, *ports)), namespace=NAMESPACE)
    load, target = of_us("load"), of_us("target")
    through = {n for n in (2379, 5432, 5433, 8008) if policies.connects(load, target, Port(n))}
    assert through == {5432, 8008}
    assert policies.connects(target, target, Port(5433))
    assert not policies.connects(target, target, Port(5432))
