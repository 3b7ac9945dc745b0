"""A readiness gate is written to the pod that it was judged for, and to no namesake."""

from __future__ import annotations

import pytest
from kubernetes.aio import client, config

from tests.kube.operator.api_server import ApiServer
from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.errors import KubeError
from zonequake_operator.fleet.gates import GATE

pytestmark = pytest.mark.kube


def made(api: ApiServer) -> str:
    """The uid of a pod of this name."""
    container = {"name": "store", "image": "none"}
    applied = api.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "gated"},
            "spec": {"containers": [container], "readinessGates": [{"conditionType": GATE}]},
        }
    )
    assert applied.returncode == 0, applied.stderr
    return str(api.get("pod", "gated")["metadata"]["uid"])


async def test_a_gate_is_not_opened_for_a_pod_that_has_got_the_name_meanwhile(
    api_server: ApiServer,
) -> None:
    await config.load_kube_config(  # type: ignore[no-untyped-call]
        str(api_server.kubeconfig)
    )
    async with client.ApiClient() as connection:
        kube = NamespaceApi(connection, api_server.namespace, "zq")
        is_open = {"type": GATE, "status": "True", "reason": "CaughtUp", "message": ""}
        old = made(api_server)
        await kube.set_pod_condition("gated", old, is_open)
        (condition,) = api_server.get("pod", "gated")["status"]["conditions"]
        assert (condition["type"], condition["status"]) == (GATE, "True")
        api_server.kubectl("delete", "pod", "gated", "--grace-period=0", "--force")
        assert made(api_server) != old
        with pytest.raises(KubeError) as refused:
            await kube.set_pod_condition("gated", old, is_open)
        assert refused.value.status in (409, 422)
        assert "conditions" not in api_server.get("pod", "gated")["status"]
