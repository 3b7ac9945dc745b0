"""Pods and their kubelet: the API server's view of the nodes' processes, with a delay."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_operator.fleet.pods import NODE_CONTAINER
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.operated.objects import Object, Objects
from zonequake_simulation.world import World

RELEASE = "simulated"
POOL = "n"
_LABELS = {
    "app.kubernetes.io/component": "store",
    "app.kubernetes.io/instance": RELEASE,
}
_MOST_LAG_US = 600_000


class Pods:
    """One pod for each node; the kubelet's reports arrive in order, and late."""

    def __init__(self, world: World, objects: Objects, nodes: dict[str, SimulatedNode]) -> None:
        self._world = world
        self._objects = objects
        self._nodes = nodes
        self._random = world.stream("kubelet")
        self._newest_us: dict[str, int] = {}
        self._shown_process: dict[str, int] = {}
        self._uids: dict[str, int] = dict.fromkeys(nodes, 1)
        self._deleted: dict[str, Object] = {}
        """Pods whose object was deleted with grace 0, and whose process may still run, by node."""
        for name in nodes:
            self._put(name, restarts=0, state={"running": {}})
        objects.put(
            "statefulsets",
            {
                "metadata": {"name": POOL, "labels": _LABELS},
                "spec": {"replicas": len(nodes)},
            },
            POOL,
        )

    def uid(self, node: str) -> str:
        """Returns the UID of the pod in which the node's process runs, or will run."""
        return f"{node}-uid-{self._uids[node]}"

    def died(self, node: SimulatedNode) -> None:
        """Takes note of an ended process, which the kubelet reports later."""
        uid = self.uid(node.name)
        self._later(node.name, lambda: self._show(node.name, uid, {"terminated": {}}, more=0))

    def started(self, node: SimulatedNode) -> None:
        """Takes note of a new process, which the kubelet reports later."""
        name = node.name
        if self._shown_process.get(name) == node.process:
            return
        self._shown_process[name] = node.process
        if name in self._deleted:
            del self._deleted[name]
            self._uids[name] += 1
            self._later(name, lambda: self._put(name, restarts=0, state={"running": {}}))
            return
        uid = self.uid(name)
        self._later(name, lambda: self._show(name, uid, {"running": {}}, more=1))

    def delete(self, node: SimulatedNode) -> bool:
        """Deletes the object with grace 0: it is gone before its process is."""
        pod = self._objects.get("pods", node.name)
        if node.name in self._deleted or pod is None:
            return False
        self._deleted[node.name] = pod
        self._objects.put("pods", None, node.name)
        return True

    def restore(self, node: SimulatedNode) -> None:
        """Restores the pod whose object was deleted."""
        self._objects.put("pods", self._deleted.pop(node.name), node.name)

    @property
    def deleted(self) -> frozenset[str]:
        """The nodes whose pod object was deleted with grace 0, and whose process may still run."""
        return frozenset(self._deleted)

    def _later(self, name: str, change: Callable[[], None]) -> None:
        at_us = max(
            self._newest_us.get(name, 0),
            self._world.now_us + self._random.randrange(5_000, _MOST_LAG_US),
        )
        self._newest_us[name] = at_us
        self._world.later(at_us - self._world.now_us, change)

    def _show(self, name: str, uid: str, state: Object, *, more: int) -> None:
        pod = self._objects.get("pods", name)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        status = pod["status"]["containerStatuses"][0]
        self._put(name, restarts=status["restartCount"] + more, state=state, pod=pod)

    def _put(self, name: str, *, restarts: int, state: Object, pod: Object | None = None) -> None:
        last: Object = {} if restarts == 0 else {"terminated": {}}
        container = {
            "name": NODE_CONTAINER,
            "state": state,
            "lastState": last,
            "restartCount": restarts,
        }
        status = {
            **(pod["status"] if pod else {"podIP": name}),
            "containerStatuses": [container],
        }
        meta = {"name": name, "uid": self.uid(name), "labels": _LABELS}
        self._objects.put("pods", {"metadata": meta, "spec": {}, "status": status}, name)
