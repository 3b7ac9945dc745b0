"""A run's lock, its traces and their cleaning, as a real API server has it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.kube.operator.api_server import ApiServer
from tests.patience import PATIENCE_S
from zonequake_chaos.cleanup import run_lock
from zonequake_chaos.cleanup.prove import clean_up
from zonequake_chaos.cleanup.run_lock import (
    ALIVE,
    LockAnswer,
    answer,
    ask,
    read_run_lock,
    take_run_lock,
)
from zonequake_kube.client import Kube
from zonequake_kube.errors import UsageError

RELEASE = "zq"
STORE = {"app.kubernetes.io/component": "store", "app.kubernetes.io/instance": RELEASE}


def pod_template(labels: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }


def claim(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


def objects(server: ApiServer) -> set[str]:
    found = server.kubectl("get", "cm,sts,svc,pvc,pods,dz", "-o", "name").stdout.split()
    return set(found) - {"configmap/kube-root-ca.crt"}


def test_a_dead_run_is_found_by_its_lock_and_undone_as_the_lock_remembers(
    api_server: ApiServer,
) -> None:
    server = api_server.in_namespace("cleaned")
    pool = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "zq-default", "labels": STORE},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": STORE},
            "template": pod_template(STORE),
        },
    }
    for made in (pool, claim("data-zq-default-0", STORE)):
        assert server.apply(made).returncode == 0
    before = objects(server)
    run = {"zonequake.io/run": "dead", "zonequake.io/load": "zq-load-z"}

    async def left_and_cleaned() -> None:
        async with await Kube.open(
            kubeconfig=server.kubeconfig, context=None, namespace=server.namespace
        ) as kube:
            lock = await take_run_lock(kube, release=RELEASE, run="dead", folder="/f", zones=["z"])
            assert dict(lock.scales) == {"zq-default": 0}
            assert lock.volumes == {"data-zq-default-0"}
            with pytest.raises(UsageError, match="is in use by run dead"):
                await take_run_lock(kube, release=RELEASE, run="other", folder="/f", zones=[])
            server.patch("sts", "zq-default", {"spec": {"replicas": 1}})
            server.apply(claim("data-zq-default-1", STORE))
            server.apply(
                {"apiVersion": "v1", "kind": "ConfigMap"}
                | {"metadata": {"name": "m", "labels": run}}
            )
            server.apply(claim("history-zq-load-z-0", run))
            server.apply(
                {"apiVersion": "v1", "kind": "Pod"}
                | pod_template({"app.kubernetes.io/name": "zonequake"})
                | {
                    "metadata": {
                        "name": "zq-default-0",
                        "finalizers": ["zonequake.io/outage", "a.b/c"],
                    }
                }
            )
            for name in ("data-zq-default-1", "history-zq-load-z-0"):
                # The controller that lets unused volumes go is not there, and isn't played.
                server.patch("pvc", name, {"metadata": {"finalizers": None}})
            other = await clean_up(
                kube, node=None, shell=None, release=RELEASE, run="another", journal=None
            )
            assert other.problems == []
            assert "sizes of the pools" not in other.checked
            proof = await clean_up(
                kube, node=None, shell=None, release=RELEASE, run="dead", journal=None
            )
            assert proof.problems == []
            assert await read_run_lock(kube, RELEASE) is None

    asyncio.run(left_and_cleaned())
    assert objects(server) == before | {"pod/zq-default-0"}
    assert server.get("pod", "zq-default-0")["metadata"]["finalizers"] == ["a.b/c"]
    assert server.get("sts", "zq-default")["spec"]["replicas"] == 0


def test_a_run_that_answers_lives_and_one_that_does_not_is_dead(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{run_lock.__name__}.ANSWER_S", 2.0)
    server = api_server.in_namespace("asked")

    async def asked() -> list[LockAnswer]:
        async with await Kube.open(
            kubeconfig=server.kubeconfig, context=None, namespace=server.namespace
        ) as kube:
            lock = await take_run_lock(kube, release=RELEASE, run="r", folder="/f", zones=[])
            heard = [await ask(kube, lock, ALIVE)]
            monkeypatch.setattr(f"{run_lock.__name__}.ANSWER_S", PATIENCE_S)

            async def answers() -> None:
                while True:
                    found = await read_run_lock(kube, RELEASE)
                    if found is not None and found.asked != found.answered:
                        await answer(kube, found)
                    await asyncio.sleep(0.2)

            living = asyncio.create_task(answers())
            heard.append(await ask(kube, lock, ALIVE))
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
            await kube.delete("ConfigMap", lock.name)
            return [*heard, await ask(kube, lock, ALIVE)]

    assert asyncio.run(asked()) == [LockAnswer.NOTHING, LockAnswer.ANSWER, LockAnswer.GONE]
