"""Observes our own store: data nodes report, the operator keeps Partition resources."""

from __future__ import annotations

import msgspec

from zonequake_chaos.observe.view import LinkPorts
from zonequake_kube.client import Kube
from zonequake_kube.objects import ADMIN_PORT, STORE_LABELS, PodView
from zonequake_protocol.admin import ReplicasReport


class DataNodeSource:
    """The data nodes of a release (see `observer.MemberSource`)."""

    pod_labels = STORE_LABELS
    journals = True
    own_keys = None
    ports = LinkPorts(peers=7001, clients=7002)

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._decoder = msgspec.json.Decoder(ReplicasReport)

    async def report(self, pod: PodView, *, timeout_s: float) -> ReplicasReport:
        return self._decoder.decode(
            await self._kube.pod_proxy(
                pod.name, ADMIN_PORT, "/admin/v1/replicas", timeout_s=timeout_s
            )
        )
