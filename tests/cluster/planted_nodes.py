"""Which bug the chart planted into each data node."""

from __future__ import annotations

from zonequake_ctl.context import ReleasePlace
from zonequake_kube.objects import STORE_LABELS


async def faults_of_nodes(place: ReleasePlace) -> dict[str, str]:
    """The planted fault of each data node, by the pod's name; empty where there is none."""
    async with await place.connect() as kube:
        pods = await kube.find("Pod", STORE_LABELS)
    return {
        pod["metadata"]["name"]: next(
            (
                str(variable["value"])
                for variable in pod["spec"]["containers"][0]["env"]
                if variable["name"] == "ZQ_PLANTED_FAULT"
            ),
            "",
        )
        for pod in pods
    }
