"""The API server of a made-up cluster, over real HTTP: objects, watches, pod proxy, exec."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import msgspec
from aiohttp import web

from tests.unit.chaos.runner.cluster_model import REBIRTH_S, ClusterModel, Group


class FakeCluster(ClusterModel):
    """The model with its HTTP face."""

    address: tuple[str, int]

    def app(self) -> web.Application:
        app = web.Application()
        base = "/api/v1/namespaces/zonequake"
        app.add_routes(
            [
                web.get("/version", self._version),
                web.get(base, self._namespace),
                web.route("*", base + "/pods/{pod}:{port}/proxy/{path:.*}", self._proxy),
                web.get(base + "/pods/{name}/exec", self._exec),
                web.get(base + "/pods/{name}/log", self._log),
                web.route("*", "/{api:.*}/namespaces/zonequake/{plural}", self._collection),
                web.route("*", "/{api:.*}/namespaces/zonequake/{plural}/{name}", self._object),
                web.route("*", "/{api:.*}/namespaces/zonequake/{plural}/{name}/scale", self._scale),
            ]
        )
        return app

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.34.4"})

    async def _namespace(self, _: web.Request) -> web.Response:
        return web.json_response({"metadata": {"labels": self.namespace_labels}})

    async def _log(self, request: web.Request) -> web.Response:
        if request.query.get("previous"):
            return web.json_response({"message": "no previous"}, status=400)
        return web.Response(text="line\n")

    def _items(self, plural: str, selector: str) -> list[dict[str, Any]]:
        made = [found for (kind, _), found in self.objects.items() if kind == plural]
        if plural == "pods":
            made = list(self.pods.values())
        if plural == "partitions":
            made = [self._partition(group) for group in self.groups.values()]
        if plural == "distributionzones" and self.zone is None:
            made = []
        if plural == "statefulsets":
            made.append(self._pool())
        return [found for found in made if _selected(found, selector)]

    def _pool(self) -> dict[str, Any]:
        labels = {
            "app.kubernetes.io/component": "store",
            "app.kubernetes.io/instance": "zq",
        }
        size = {"replicas": self.replicas}
        return {"metadata": {"name": "zq-default", "labels": labels}, "spec": size, "status": size}

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        plural = request.match_info["plural"]
        if request.method == "DELETE":
            self.deleted.append(f"{plural} {request.query['labelSelector']}")
            for kind, name in list(self.objects):
                named = request.query.get("fieldSelector", "").endswith(f"={name}")
                if kind == plural and ("load" in name or named):
                    del self.objects[kind, name]
            return web.json_response({})
        if request.method == "POST":
            return self._create(plural, json.loads(await request.read()))
        if not request.query.get("watch"):
            items = self._items(plural, request.query.get("labelSelector", ""))
            version = {"resourceVersion": self.resource_version()}
            return web.json_response({"items": items, "metadata": version})
        await asyncio.sleep(self.watches_begin_after_s)
        queue = self.changes_since(plural, request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError, asyncio.CancelledError):
            while True:
                await response.write(json.dumps(await queue.get()).encode() + b"\n")
        return response

    def _create(self, plural: str, body: dict[str, Any]) -> web.Response:
        name = body["metadata"]["name"]
        if (plural, name) in self.objects:
            return web.json_response({"message": f"{name} exists"}, status=409)
        body["metadata"]["uid"] = f"uid-{next(self.versions)}"
        self.objects[plural, name] = body
        return web.json_response(body, status=201)

    async def _object(self, request: web.Request) -> web.Response:
        plural, name = request.match_info["plural"], request.match_info["name"]
        body = json.loads(await request.read() or b"{}")
        if plural == "pods" and name in self.pods:
            return await self._on_pod(request.method, name, body)
        if plural == "pods" and name in self.phases:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            return web.json_response({"metadata": {"name": name}, "status": ready})
        if plural == "statefulsets" and name == "zq-default":
            return web.json_response(self._pool())
        if plural == "distributionzones":
            return self._on_zone(request.method, name, body)
        if plural == "configmaps" and (plural, name) in self.objects and request.method != "GET":
            if request.method == "DELETE":
                return web.json_response(self.objects.pop((plural, name)))
            notes = self.objects[plural, name]["metadata"].setdefault("annotations", {})
            notes |= body["metadata"].get("annotations", {})
            return web.json_response(self.objects[plural, name])
        if request.method == "PATCH":
            self.objects[plural, name] = body
            if plural == "statefulsets":
                for ordinal in range(body["spec"]["replicas"]):
                    self.phases[f"{name}-{ordinal}"] = "quiet"
            return web.json_response(body)
        if (plural, name) in self.objects:
            return web.json_response(self.objects[plural, name])
        return web.json_response({"message": f"{plural} {name} not found"}, status=404)

    async def _on_pod(self, method: str, name: str, body: dict[str, Any]) -> web.Response:
        pod = self.pods[name]
        if method == "DELETE":
            uid = body.get("preconditions", {}).get("uid")
            if not await self.delete_pod(name, uid):
                return web.json_response({"message": "the UID differs"}, status=409)
        if method == "PATCH":
            pod["metadata"]["finalizers"] = body["metadata"]["finalizers"]
            if not pod["metadata"]["finalizers"] and "deletionTimestamp" in pod["metadata"]:
                self._tell("pods", "DELETED", self.pods.pop(name))
                self._reborn(name)
        return web.json_response(pod)

    def _on_zone(self, method: str, name: str, body: dict[str, Any]) -> web.Response:
        if method == "PATCH" and self.refused is not None:
            self.zone = name
            ready = {"type": "Ready", "status": "False", **self.refused}
            self.objects["distributionzones", name] = {**body, "status": {"conditions": [ready]}}
            return web.json_response(body)
        if method == "PATCH":
            self.zone = name
            nodes = [f"zq-default-{n}" for n in range(3)]
            self.takes_newcomers = body["spec"].get("dataNodesAutoAdjustScaleUp") != "Infinite"
            for number in range(body["spec"]["partitions"]):
                group = Group(number, list(nodes), nodes[number % 3])
                self.groups[number] = group
                self._lead(group, group.leader)
                self._tell("partitions", "ADDED", self._partition(group))
            given = {"namespace": "zonequake", "uid": "uid-zone", "resourceVersion": "1"}
            body["metadata"] |= given
            self.objects["distributionzones", name] = body
            return web.json_response(body)
        if name != self.zone:
            return web.json_response({"message": "no such zone"}, status=404)
        if method == "DELETE" and self.keeps_zones:
            return web.json_response({"message": "zones may not be deleted"}, status=403)
        if method == "DELETE":
            for group in self.groups.values():
                self._tell("partitions", "DELETED", self._partition(group))
            self.groups.clear()
            self.zone = None
            return web.json_response({})
        return web.json_response(self.objects["distributionzones", name])

    async def _scale(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        self.scale(int(body["spec"]["replicas"]))
        return web.json_response(body)

    async def _exec(self, request: web.Request) -> web.WebSocketResponse:
        name = request.match_info["name"]
        words = request.query.getall("command")
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        if len(words) < 4:  # the question which processes are stopped
            await socket.send_bytes(b"\x01" + (b"12\n" if name in self.stopped else b""))
            await socket.send_bytes(b'\x03{"status":"Success"}')
            await socket.close()
            return socket
        await socket.send_bytes(b"\x01ready\n")
        if (await socket.receive()).type is not web.WSMsgType.BINARY:
            return socket  # left without the word
        number = int(words[3])
        self.signals.append((name, number))
        self.commands.append(request.query.getall("command"))
        if number == 9:
            self.die(name)
        if number == 9 and "deletionTimestamp" not in self.pods[name]["metadata"]:
            status = self.pods[name]["status"]["containerStatuses"][0]
            status["restartCount"] += 1
            self._tell("pods", "MODIFIED", self.pods[name])
            uid = self.pods[name]["metadata"]["uid"]
            asyncio.get_running_loop().call_later(REBIRTH_S, self._restart, name, uid)
        elif number == 19:
            self.stopped.add(name)
        elif number == 18:
            self.stopped.discard(name)
        await socket.send_bytes(b"\x0112\n")
        await socket.send_bytes(b'\x03{"status":"Success"}')
        await socket.close()
        return socket

    async def _proxy(self, request: web.Request) -> web.Response:
        pod, path = request.match_info["pod"], request.match_info["path"]
        if pod in self.phases:
            return await self._load(request, pod, path)
        if pod in self.stopped:
            await asyncio.sleep(2)
        if self.processes.get(pod) is None or pod not in self.pods:
            return web.json_response({"message": "connection refused"}, status=503)
        if path == "admin/v1/replicas":
            return web.Response(body=msgspec.json.encode(self.report(pod)))
        if path == "admin/v1/events":
            return web.Response(body=b"\n".join(map(msgspec.json.encode, self.journals[pod])))
        assert path.endswith("/dump")
        header = {
            "group": path.split("/")[3],
            "node": pod,
            "incarnation": "i",
            "applied": 7,
            "term": 1,
            "lineage": 0,
            "digest": "d",
            "keys": 0,
        }
        return web.Response(body=json.dumps(header).encode() + b"\n")

    async def _load(self, request: web.Request, pod: str, path: str) -> web.Response:
        if path == "phase":
            phase = json.loads(await request.read())["phase"]
            if phase == self.load_lost_at and pod.endswith("-0"):
                del self.phases[pod]
                return web.json_response({"message": "connection refused"}, status=503)
            self.phases[pod] = phase
        if path == "files":
            files = [{"name": f"{pod}.jsonl", "size_bytes": 3, "open": False}]
            return web.json_response({"files": files})
        if path.startswith("files/"):
            return web.Response(body=b"{}\n")
        self.ended[pod] += self.phases[pod] == "load"
        return web.json_response(
            {
                "pod": pod,
                "ordinal": 0,
                "incarnation": 1,
                "phase": self.phases[pod],
                "complete": True,
                "problem": None,
                "counts": {"load": {"operations": {"ok": self.ended[pod]}}},
                "rate": self.rate,
                "outstanding": 0,
                "done_keys": 1,
                "planned_keys": 1,
                "probe_interval_ms": 100.0,
            }
        )


def _selected(found: dict[str, Any], selector: str) -> bool:
    labels = found["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        key, _, value = part.partition("=")
        if key not in labels or (value and labels[key] != value):
            return False
    return True
