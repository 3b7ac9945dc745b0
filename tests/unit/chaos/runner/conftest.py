"""A made-up API server with data nodes and load pods behind it, over real HTTP on loopback.

It plays only what the runner sees: objects, watches, pod proxy, exec, and partitions that walk
through CATCHING_UP, JOINT and NONE when a node joins. Everything is quick, so that a whole scenario
takes seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web

from zonequake_chaos.place import Place
from zonequake_store.admin_protocol import (
    CatchUpProgress,
    ConfigurationReport,
    NodeIdentity,
    PeerName,
    ReplicasReport,
    ReplicaStatus,
    Role,
    Stage,
    StoreEvent,
)

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
CATCH_UP_S = 0.8
JOINT_S = 0.2
REBIRTH_S = 0.2


@dataclass
class Group:
    partition: int
    members: list[str]
    leader: str
    term: int = 1
    token: int = 1
    pending: list[str] = field(default_factory=list)
    stage: Stage = Stage.NONE
    since: float = 0.0

    def progress(self) -> float:
        return min(1.0, (time.monotonic() - self.since) / CATCH_UP_S)


class FakeCluster:
    """The model and its HTTP face."""

    def __init__(self) -> None:
        self.versions = itertools.count(1)
        self.pods: dict[str, dict[str, Any]] = {}
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.groups: dict[int, Group] = {}
        self.zone: str | None = None
        self.processes: dict[str, str | None] = {}
        self.stopped: set[str] = set()
        self.journals: dict[str, list[StoreEvent]] = {}
        self.replicas = 3
        self.watchers: list[tuple[str, asyncio.Queue[dict[str, Any]]]] = []
        self.phases: dict[str, str] = {}
        self.deleted: list[str] = []
        self.signals: list[tuple[str, int]] = []
        self.namespace_labels: dict[str, str] = {"zonequake.io/chaos": "allowed"}
        self.rate = 100.0
        self.never_catch_up = False
        self.held = asyncio.Event()
        self.objects["configmaps", "zq-harness"] = {
            "metadata": {"name": "zq-harness", "namespace": "zonequake"},
            "data": {
                "release": "zq",
                "loadImage": "zonequake/store:1",
                "loadPullPolicy": "Never",
                "storeService": "zq-store",
                "prometheusService": "",
            },
        }
        for ordinal in range(3):
            self._birth(f"zq-default-{ordinal}")

    # The model ---------------------------------------------------------------------------------

    def _birth(self, name: str) -> None:
        uid = f"uid-{next(self.versions)}"
        self.pods[name] = {
            "metadata": {
                "name": name,
                "uid": uid,
                "labels": {
                    "app.kubernetes.io/component": "store",
                    "zonequake.io/pool": "default",
                },
            },
            "spec": {"containers": [{"name": "store"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"restartCount": 0, "state": {"running": {}}}],
            },
        }
        self._start_process(name)
        self._tell("pods", "ADDED", self.pods[name])

    def _start_process(self, name: str) -> None:
        self.processes[name] = f"process-{next(self.versions)}"
        self.journals.setdefault(name, [])
        self._note(name, "node.started", {"process_incarnation": self.processes[name]})

    def _note(
        self, node: str, kind: str, data: dict[str, Any], partition: int | None = None
    ) -> None:
        journal = self.journals[node]
        journal.append(
            StoreEvent(
                seq=len(journal) + 1,
                kind=kind,
                time=time.monotonic_ns(),
                wall=time.time_ns(),
                clock=BOOT,
                zone=self.zone if partition is not None else None,
                partition=partition,
                data=data,
            )
        )

    def _lead(self, group: Group, node: str) -> None:
        group.leader, group.term = node, group.term + 1
        self._note(node, "leader.change", {"leader": node, "term": group.term}, group.partition)

    def _enter(self, group: Group, stage: Stage) -> None:
        group.stage, group.since = stage, time.monotonic()
        self._note(group.leader, "rebalance.stage", {"stage": stage.value}, group.partition)

    def die(self, name: str) -> None:
        self.processes[name] = None
        for group in self.groups.values():
            if group.leader == name:
                others = [n for n in group.members if n != name and self.processes.get(n)]
                if others:
                    self._lead(group, others[0])
                    if group.pending:
                        self._enter(group, Stage.CATCHING_UP)

    async def tick(self) -> None:
        """What the operator and the leaders would do."""
        while True:
            await asyncio.sleep(0.02)
            for group in list(self.groups.values()):
                joining = [n for n in group.pending if n not in group.members]
                alive = all(self.processes.get(n) for n in joining)
                if group.stage is Stage.CATCHING_UP and not alive:
                    group.since = time.monotonic()
                elif (
                    group.stage is Stage.CATCHING_UP
                    and group.progress() >= 1
                    and not self.never_catch_up
                ):
                    self._enter(group, Stage.JOINT)
                elif group.stage is Stage.JOINT and time.monotonic() - group.since > JOINT_S:
                    group.members, group.pending = list(group.pending), []
                    group.token += 1
                    self._enter(group, Stage.NONE)
                    if group.leader not in group.members:
                        self._lead(group, group.members[0])
                    self._tell("partitions", "MODIFIED", self._partition(group))

    def scale(self, replicas: int) -> None:
        self.replicas = replicas
        for ordinal in range(replicas):
            name = f"zq-default-{ordinal}"
            if name not in self.pods:
                self._birth(name)
                for group in self.groups.values():
                    if group.partition % 4 != 3:
                        group.pending = [*group.members[:2], name]
                        self._enter(group, Stage.CATCHING_UP)
                        self._tell("partitions", "MODIFIED", self._partition(group))
        for name in list(self.pods):
            if int(name.rpartition("-")[2]) >= replicas and name.startswith("zq-default"):
                self.processes[name] = None
                self._tell("pods", "DELETED", self.pods.pop(name))

    async def delete_pod(self, name: str, uid: str | None) -> bool:
        pod = self.pods[name]
        if uid is not None and uid != pod["metadata"]["uid"]:
            return False
        self.die(name)
        if pod["metadata"].get("finalizers"):
            pod["metadata"]["deletionTimestamp"] = "now"
            self.held.set()
            pod["status"]["phase"] = "Failed"
            self._tell("pods", "MODIFIED", pod)
            return True
        self._tell("pods", "DELETED", self.pods.pop(name))
        asyncio.get_running_loop().call_later(REBIRTH_S, self._reborn, name)
        return True

    def _reborn(self, name: str) -> None:
        if name not in self.pods and int(name.rpartition("-")[2]) < self.replicas:
            self._birth(name)

    def _partition(self, group: Group) -> dict[str, Any]:
        return {
            "metadata": {"name": f"{self.zone}-{group.partition}"},
            "spec": {"zone": self.zone, "partition": group.partition},
            "status": {
                "stable": {"nodes": group.members},
                "pending": {"nodes": group.pending} if group.pending else None,
                "configurationToken": group.token,
            },
        }

    def _tell(self, plural: str, kind: str, found: dict[str, Any]) -> None:
        for wanted, queue in self.watchers:
            if wanted == plural:
                queue.put_nowait(json.loads(json.dumps({"type": kind, "object": found})))

    def report(self, node: str) -> ReplicasReport:
        return ReplicasReport(
            node=NodeIdentity(
                name=node,
                process_incarnation=str(self.processes[node]),
                storage_incarnation="s",
                pod_uid=self.pods[node]["metadata"]["uid"],
                attributes={},
                peer_address="",
                client_address="",
            ),
            replicas=[
                self._replica(group, node)
                for group in self.groups.values()
                if node in {*group.members, *group.pending}
            ],
        )

    def _replica(self, group: Group, node: str) -> ReplicaStatus:
        leads = node == group.leader
        joining = [n for n in group.pending if n not in group.members]
        return ReplicaStatus(
            group=f"{self.zone}.00000000.{group.partition}",
            zone=str(self.zone),
            partition=group.partition,
            incarnation="0" * 16,
            role=Role.LEADER if leads else Role.FOLLOWER,
            term=group.term,
            configuration=ConfigurationReport(
                peers=[PeerName(node=n, incarnation="i") for n in group.members],
                token=group.token,
                index=1,
            ),
            stage=group.stage if leads else Stage.NONE,
            stage_token=group.token + 1 if group.pending else 0,
            progress=[
                CatchUpProgress(
                    peer=PeerName(node=n, incarnation="i"),
                    fraction=group.progress(),
                    bytes_sent=1,
                    match_index=1,
                    by="log",
                )
                for n in joining
            ]
            if leads and group.stage is Stage.CATCHING_UP
            else [],
            applied=7,
        )

    # The HTTP face -----------------------------------------------------------------------------

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

    def _items(self, plural: str) -> list[dict[str, Any]]:
        if plural == "pods":
            return list(self.pods.values())
        if plural == "partitions":
            return [self._partition(group) for group in self.groups.values()]
        return []

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        plural = request.match_info["plural"]
        if request.method == "DELETE":
            self.deleted.append(f"{plural} {request.query['labelSelector']}")
            for kind, name in list(self.objects):
                if kind == plural and "load" in name:
                    del self.objects[kind, name]
            return web.json_response({})
        selected = request.query.get("labelSelector", "")
        if not request.query.get("watch"):
            items = self._items(plural) if "zonequake.io/load" not in selected else []
            return web.json_response({"items": items, "metadata": {"resourceVersion": "1"}})
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.watchers.append((plural, queue))
        with contextlib.suppress(ConnectionResetError, asyncio.CancelledError):
            while True:
                await response.write(json.dumps(await queue.get()).encode() + b"\n")
        return response

    async def _object(self, request: web.Request) -> web.Response:
        plural, name = request.match_info["plural"], request.match_info["name"]
        body = json.loads(await request.read() or b"{}")
        if plural == "pods" and name in self.pods:
            return await self._on_pod(request.method, name, body)
        if plural == "pods" and name in self.phases:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            return web.json_response({"metadata": {"name": name}, "status": ready})
        if plural == "statefulsets" and name == "zq-default":
            return web.json_response({"spec": {"replicas": self.replicas}})
        if plural == "distributionzones":
            return self._on_zone(request.method, name, body)
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
        if method == "PATCH":
            self.zone = name
            nodes = [f"zq-default-{n}" for n in range(3)]
            for number in range(body["spec"]["partitions"]):
                group = Group(number, list(nodes), nodes[number % 3])
                self.groups[number] = group
                self._lead(group, group.leader)
                self._tell("partitions", "ADDED", self._partition(group))
            self.objects["distributionzones", name] = body
            return web.json_response(body)
        if name != self.zone:
            return web.json_response({"message": "no such zone"}, status=404)
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
        number = int(request.query.getall("command")[-1])
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        self.signals.append((name, number))
        if number == 9 and "deletionTimestamp" in self.pods[name]["metadata"]:
            self.die(name)
        elif number == 9:
            self.die(name)
            status = self.pods[name]["status"]["containerStatuses"][0]
            status["restartCount"] += 1
            self._tell("pods", "MODIFIED", self.pods[name])
            asyncio.get_running_loop().call_later(REBIRTH_S, self._start_process, name)
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
            self.phases[pod] = json.loads(await request.read())["phase"]
        if path == "files":
            files = [{"name": f"{pod}.jsonl", "size_bytes": 3, "open": False}]
            return web.json_response({"files": files})
        if path.startswith("files/"):
            return web.Response(body=b"{}\n")
        return web.json_response(
            {
                "pod": pod,
                "ordinal": 0,
                "incarnation": 1,
                "phase": self.phases[pod],
                "complete": True,
                "problem": None,
                "counts": {},
                "rate": self.rate,
                "outstanding": 0,
                "done_keys": 1,
                "planned_keys": 1,
                "probe_interval_ms": 100.0,
            }
        )


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    fake = FakeCluster()
    ticking = asyncio.create_task(fake.tick())
    runner = web.AppRunner(fake.app(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.address = runner.addresses[0]  # type: ignore[attr-defined]
    yield fake
    ticking.cancel()
    await runner.cleanup()


@pytest.fixture
def place(cluster: FakeCluster, tmp_path: Path) -> Place:
    host, port = cluster.address  # type: ignore[attr-defined]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": f"http://{host}:{port}"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return Place(
        kubeconfig=kubeconfig, context="x", namespace="zonequake", release="zq", embedded=False
    )


@pytest.fixture
def events_of() -> Callable[[Path], list[dict[str, Any]]]:
    def read(folder: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]

    return read
