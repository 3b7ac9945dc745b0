"""A made-up etcd in the made-up cluster: pods that come with their StatefulSet, and answer."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.unit.chaos.runner.fake_cluster import FakeCluster

NAME = "zq-etcd-default"


class ClusterWithEtcd(FakeCluster):
    """`hashes` is what each member says of its keys; its revision is 9, but for `revisions`.

    `hash_in_gateway`: false of releases before 3.6, which say it only at the peers' port.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hashes: dict[str, int] = {}
        self.revisions: dict[str, int] = {}
        self.hash_in_gateway = True
        self.plans: list[dict[str, Any]] = []
        self.told_versions: dict[str, str] = {}
        self.broken_ranges = 0
        """So many of the next answers to a range break off."""
        self.term = 2
        self.leader = f"{NAME}-0"

    def _is_etcd(self, name: str) -> bool:
        return name.startswith(NAME)

    def _birth_of_member(self, name: str) -> None:
        self._birth(name)
        pod = self.pods[name]
        pod["metadata"]["labels"] = {
            "app.kubernetes.io/component": "target",
            "app.kubernetes.io/name": "zonequake",
            "zonequake.io/target": NAME,
            "zonequake.io/pool": "default",
            "zonequake.io/program": "etcd",
        }
        pod["spec"]["containers"] = [{"name": "etcd"}, {"name": "hands"}]
        pod["status"]["containerStatuses"] = [
            {"name": "etcd", "restartCount": 0, "state": {"running": {"startedAt": _now()}}}
        ]
        self.hashes.setdefault(name, 77)
        self._tell("pods", "MODIFIED", pod)

    def die(self, name: str) -> None:
        super().die(name)
        if name == self.leader:
            self.term += 1
            self.leader = next(n for n in sorted(self.hashes) if n != name)

    def _reborn(self, name: str) -> None:
        if self._is_etcd(name):
            self._birth_of_member(name)
        else:
            super()._reborn(name)

    async def _object(self, request: web.Request) -> web.Response:
        plural, name = request.match_info["plural"], request.match_info["name"]
        answer = await super()._object(request)
        if (request.method, plural) == ("PATCH", "configmaps"):
            data = json.loads(await request.read())["data"]
            self.plans.append(json.loads(data["plan.json"]))
        if (request.method, plural, name) == ("PATCH", "statefulsets", NAME):
            for ordinal in range(3):
                self.phases.pop(f"{NAME}-{ordinal}")
                self._birth_of_member(f"{NAME}-{ordinal}")
        return answer

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        selected = request.query.get("labelSelector", "")
        if "zonequake.io/target" not in selected or request.query.get("watch"):
            return await super()._collection(request)
        plural = request.match_info["plural"]
        if request.method == "DELETE":
            self.deleted.append(f"{plural} {selected}")
            self.objects.pop((plural, NAME), None)
            if plural == "statefulsets":
                for name in filter(self._is_etcd, list(self.pods)):
                    self._tell("pods", "DELETED", self.pods.pop(name))
            return web.json_response({})
        items = [pod for name, pod in self.pods.items() if self._is_etcd(name)]
        items = items if plural == "pods" else []
        version = {"resourceVersion": self.resource_version()}
        return web.json_response({"items": items, "metadata": version})

    async def _proxy(self, request: web.Request) -> web.Response:
        pod, path = request.match_info["pod"], request.match_info["path"]
        if not self._is_etcd(pod) or self.processes.get(pod) is None or pod not in self.pods:
            return await super()._proxy(request)
        if pod in self.stopped:
            await asyncio.sleep(2)
        if request.match_info["port"] == "7001":
            return await self._peer(request, pod, path)
        assert request.match_info["port"] == "2379"
        if path == "v3/maintenance/hashkv" and not self.hash_in_gateway:
            return web.Response(status=404, text="Not Found\n")
        if path == "v3/kv/range" and self.broken_ranges:
            self.broken_ranges -= 1
            return web.json_response({"message": "broke off"}, status=502)
        return web.json_response(self._answer(pod, path))

    async def _peer(self, request: web.Request, pod: str, path: str) -> web.Response:
        """Answers as releases since 3.4 answer each other: a number that is text is refused."""
        assert (request.method, path) == ("GET", "members/hashkv")
        revision = json.loads(await request.read())["revision"]
        if not isinstance(revision, int):
            return web.Response(status=400, text="error unmarshalling request\n")
        if revision > self._revision(pod):
            return web.Response(status=400, text="mvcc: required revision is a future revision\n")
        header = {"revision": self._revision(pod)}
        return web.json_response(
            {"header": header, "hash": self.hashes[pod], "compact_revision": -1}
        )

    def _revision(self, pod: str) -> int:
        return self.revisions.get(pod, 9)

    def _answer(self, pod: str, path: str) -> dict[str, Any]:
        revision = str(self._revision(pod))
        header = {"member_id": str(_id(pod)), "revision": revision, "raft_term": str(self.term)}
        match path:
            case "version":
                return {"etcdserver": self.told_versions.get(pod, "3.6.4"), "etcdcluster": "3.6.0"}
            case "v3/maintenance/status":
                status = {"leader": str(_id(self.leader)), "raftTerm": str(self.term)}
                status["raftAppliedIndex"] = "40"
                return {"header": header, "version": "3.6.4", **status}
            case "v3/maintenance/hashkv":
                return {"header": header, "hash": self.hashes[pod], "hash_revision": revision}
            case "v3/kv/range":
                pair = {"key": text("chaos/k/a"), "value": text("7"), "mod_revision": "9"}
                return {"header": header, "kvs": [pair]}
        raise AssertionError(path)


def _id(pod: str) -> int:
    return 100 + int(pod.rpartition("-")[2])


def text(raw: str) -> str:
    return base64.b64encode(raw.encode()).decode()


def _now() -> str:
    return datetime.fromtimestamp(int(time.time()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
