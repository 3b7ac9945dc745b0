"""The embedded node enforces network policies: the chart's own, between pods in their places."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.embedded.probes import HERE, Probes, until
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.supply.tools import helm_path

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

CHART = Path(__file__).parents[3] / "charts" / "zonequake"
PLACES = ("store", "load", "test")
USER = "65535"
"""What a probe answers: the user of its image."""


def pod(place: str, image: str) -> dict[str, object]:
    """A probe with the labels by which the chart's policies know the pods of a kind."""
    labels = {"name": "zonequake", "instance": "zq", "component": place}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": place,
            "labels": {f"app.kubernetes.io/{key}": value for key, value in labels.items()},
        },
        "spec": {
            "containers": [{"name": "probe", "image": image, "imagePullPolicy": "Never"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def rendered_policies() -> str:
    done = subprocess.run(
        [
            *(str(helm_path()), "template", "zq", str(CHART), "--namespace", "policies"),
            *("--set", "networkPolicy.enabled=true"),
            *("--show-only", "templates/network-policies.yaml"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def probes(embedded_cluster: EmbeddedCluster, probe_image: str) -> Iterator[Probes]:
    found = Probes(embedded_cluster, "policies")
    found.kubectl("apply", "--filename", str(HERE / "policies.yaml"))
    account = ("get", "serviceaccount", "default", "--namespace", "policies")
    until(lambda: bool(found.kubectl(*account)))
    pods = {"apiVersion": "v1", "kind": "List", "items": [pod(p, probe_image) for p in PLACES]}
    found.kubectl("apply", "--namespace", "policies", "--filename", "-", stdin=json.dumps(pods))
    words = ("wait", "pod", "--all", "--for=condition=Ready", "--namespace", "policies")
    found.kubectl(*words, "--timeout=120s")
    yield found
    found.kubectl("delete", "namespace", "policies", "--timeout=120s")


def answer(probes: Probes, place: str, url: str) -> str:
    """What a pod got, or the error that it met."""
    try:
        return probes.ask(place, f"fetch?url={url}")
    except AssertionError as error:
        return str(error)


def test_what_the_charts_policies_list_gets_through_and_the_rest_does_not(probes: Probes) -> None:
    store = f"http://{probes.pod('store')['status']['podIP']}:8080/user"
    assert answer(probes, "test", store) == USER
    assert answer(probes, "load", store) == USER, "without policies everything gets through"

    policies = rendered_policies()
    words = ("--namespace", "policies", "--filename", "-")
    probes.kubectl("apply", *words, stdin=policies)
    until(lambda: "connection refused" in answer(probes, "load", store))
    assert answer(probes, "test", store) == USER
    assert probes.ask("load", "lookup?name=kubernetes.default.svc"), "names"

    probes.kubectl("delete", *words, stdin=policies)
    until(lambda: answer(probes, "load", store) == USER)


def test_a_service_without_pods_is_refused_at_once(probes: Probes) -> None:
    """Kube-proxy refuses it, in a later chain than the policies'."""
    until(lambda: "connection refused" in answer(probes, "load", "http://nobody.policies/user"))
