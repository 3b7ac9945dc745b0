"""A release that is installed, and the place of a run against it, as values."""

from __future__ import annotations

from typing import Any, cast

from zonequake_chaos.kit.target import TargetPlace
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.scenario.run import ChaosRun, Metadata, Pool, RunSpec, RunTarget, RunZone
from zonequake_kube.client import Kube


def installed(**changes: Any) -> Installation:
    """The release `zq` in the namespace `ns`."""
    given = {
        "release": "zq",
        "namespace": "ns",
        "load_image": "zonequake/store:1",
        "load_pull_policy": "Never",
        "store_service": "zq-store",
        "prometheus_service": "",
        "tls": None,
    }
    return Installation(**(given | changes))


def place_of(
    target: RunTarget, *, fsync: bool = True, pool: str = "default", release: str = "zq"
) -> TargetPlace:
    """A run of three members of that target."""
    spec = RunSpec(
        pools=[Pool(name=pool, replicas=3)],
        zones=[RunZone(name="z", replicas=3, fsync=fsync)],
        target=target,
    )
    return TargetPlace(
        kube=cast("Kube", None),
        run=ChaosRun(
            api_version="zonequake.io/v1alpha1",
            kind="ChaosRun",
            metadata=Metadata(name="a-run"),
            spec=spec,
        ),
        run_id="run-1",
        installation=installed(release=release),
        node=None,
        say=print,
    )
