"""Reads what a release says of itself to the harness: images, services, permissions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zonequake_ctl.release.tls_settings import TlsPlace
from zonequake_kube.client import Kube
from zonequake_kube.errors import NotFound, UsageError
from zonequake_kube.objects import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The content of the release's harness ConfigMap (docs/interfaces.md, charts/zonequake).

    `target_account`: the account of members that keep their state in the API server; empty: none.
    """

    release: str
    namespace: str
    load_image: str
    load_pull_policy: str
    store_service: str
    prometheus_service: str
    tls: TlsPlace | None
    agent_namespace: str = ""
    gives_dumps: bool = True
    target_account: str = ""

    @classmethod
    def of(cls, config_map: Json) -> Installation:
        """Reads the ConfigMap `<release>-harness`."""
        data: Mapping[str, str] = config_map["data"]
        return cls(
            release=data["release"],
            namespace=config_map["metadata"]["namespace"],
            load_image=data["loadImage"],
            load_pull_policy=data["loadPullPolicy"],
            store_service=data["storeService"],
            prometheus_service=data.get("prometheusService", ""),
            tls=TlsPlace.of(data),
            agent_namespace=data.get("faultAgentNamespace", ""),
            gives_dumps=data.get("dumps", "true") == "true",  # in releases before that field
            target_account=data.get("targetAccount", ""),
        )


async def installation(kube: Kube, release: str) -> Installation:
    """Returns the release's description of itself. Raises UsageError if it is not installed."""
    try:
        return Installation.of(await kube.get("ConfigMap", f"{release}-harness"))
    except NotFound as error:
        raise UsageError(
            f"release {release} is not installed in namespace {kube.namespace}: zonequake install"
        ) from error
