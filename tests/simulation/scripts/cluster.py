"""A whole cluster with the real operator, whose every loss, cut and change a script decides.

Time is virtual, and nothing goes wrong by itself: who was killed stays away until the script starts
it. What a script needs and doesn't get makes it `Unplayable`; what the design promises and doesn't
come is a `Violation`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.simulation.scripts.stage import Unplayable
from zonequake_operator.resources.model import PartitionKeys
from zonequake_protocol.admin import Stage
from zonequake_protocol.client import Read, Reply, ReplyStatus, RequestId, Transaction, Value, Write
from zonequake_simulation import FaultKind, FaultPlan, Scenario, Simulation, Violation
from zonequake_simulation.cut_links import between
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.operated.control_plane import ControlPlane, place_of
from zonequake_simulation.operated.objects import Object
from zonequake_simulation.operated.process import OperatorProcess
from zonequake_simulation.replicas import ZONE
from zonequake_simulation.small_operator import leader_of
from zonequake_store.replica.replica import Replica

PATIENCE_MS = 20_000
_QUIET = Scenario(
    name="script",
    processes=0,
    drift=0.0,
    lost=(0.0,),
    doubled=(0.0,),
    slowest_us=(5_000,),
    is_operated=True,
    watch_loss=0.0,
)


class Cluster(Simulation):
    """Nodes n-0, n-1, …, one zone with one partition, one operator.

    `data_nodes`: the zone's filter names these; all, if none is given.
    """

    def __init__(
        self,
        size: int,
        *,
        replicas: int = 3,
        data_nodes: Iterable[str] = (),
        is_highly_available: bool = False,
        is_volatile: bool = False,
    ) -> None:
        scenario = replace(
            _QUIET, nodes=size, is_highly_available=is_highly_available, is_volatile=is_volatile
        )
        super().__init__(0, scenario, FaultPlan())
        assert self.control is not None, "an operator runs"
        self.plane: ControlPlane = self.control
        self.group = place_of(0, 1).name
        self._requests = itertools.count(1)
        spec: dict[str, object] = {
            "replicas": replicas,
            "changePeers": "Update",
            "dataNodesAutoAdjust": None,
            "dataNodesAutoAdjustScaleUp": 0,
            "dataNodesAutoAdjustScaleDown": "Infinite",
            "dataNodesFilter": named(data_nodes),
        }
        if is_highly_available:
            spec["partitionDistributionResetTimeout"] = 0
        self.alter(**spec)

    # ── time ─────────────────────────────────────────────────────────────────────────────────

    def wait(self, for_ms: int) -> None:
        """Let so much time pass."""
        self._pass(for_ms)

    def reaches(self, goal: Callable[[], bool], *, within_ms: int = PATIENCE_MS) -> bool:
        """Whether something comes true; time passes until it does."""
        end_us = self._world.now_us + within_ms * 1000
        while not goal():
            if self._world.now_us > end_us:
                return False
            self._step()
        return True

    def until(self, goal: Callable[[], bool], what: str, *, within_ms: int = PATIENCE_MS) -> None:
        """As `reaches`, for what the script goes on from. Raises Unplayable."""
        if not self.reaches(goal, within_ms=within_ms):
            raise Unplayable(f"{what}: {self.keys}")

    def promised(
        self, goal: Callable[[], bool], rule: str, *, within_ms: int = PATIENCE_MS
    ) -> None:
        """As `reaches`, for what must come true. Raises Violation."""
        if not self.reaches(goal, within_ms=within_ms):
            raise Violation(rule, keys=self.keys, **self._state())

    def finish(self) -> None:
        """All nodes run again and all must come to rest; then histories are judged."""
        self.settle()
        self.judge()

    # ── the partition ────────────────────────────────────────────────────────────────────────

    @property
    def keys(self) -> PartitionKeys:
        """As they are stored."""
        found = self.plane.partition(0)
        return found.keys if found is not None else PartitionKeys()

    @property
    def stable(self) -> tuple[str, ...]:
        """Nodes of the stable set."""
        return self.keys.stable.nodes if self.keys.stable is not None else ()

    @property
    def pending(self) -> tuple[str, ...]:
        """Nodes of the pending set."""
        return self.keys.pending.nodes if self.keys.pending is not None else ()

    @property
    def leader(self) -> str | None:
        """The node that leads in the highest term."""
        found = leader_of(self.nodes, self.group)
        return found[0].name if found is not None else None

    def rests(self) -> bool:
        """Whether the partition serves, and no node has anything left to do for it."""
        keys = self.keys
        return (
            self.leader in self.stable
            and self.is_handled()
            and keys.pending is None
            and not keys.switch_reduce
        )

    def is_handled(self) -> bool:
        """Whether the zone knows all processes, and its partition was judged by that."""
        return self.plane.is_handled(self.plane.zone)

    def forms(self) -> None:
        """The partition begins. Raises Unplayable."""
        self.until(self.rests, "the partition begins")

    def is_stable(self, *nodes: str) -> bool:
        """Whether these nodes are stable, and the group goes nowhere else."""
        return self.stable == tuple(sorted(nodes)) and self.keys.pending is None

    def stage_of(self, name: str) -> Stage | None:
        """How far a leader is with a change."""
        replica = self.nodes[name].replicas.get(self.group)
        return replica.core_now().status().stage if replica is not None else None

    def lead(self, name: str) -> None:
        """Hand leadership to a node."""

        peer = self.nodes[name].replicas[self.group].me

        def hand_over(replica: Replica) -> None:
            replica.core_now().transfer_leadership(peer)

        for _ in range(10):
            leader = self.leader
            if leader is not None and leader != name:
                self.nodes[leader].act(self.group, hand_over)
            if self.reaches(lambda: self.leader == name, within_ms=1_000):
                return
        raise Unplayable(f"{name} doesn't lead")

    # ── clients ──────────────────────────────────────────────────────────────────────────────

    def write(self, value: int, *, at: str | None = None) -> bool:
        """Whether a write is acknowledged within a second, by this node or the leader."""
        number = next(self._requests)
        body = Write(self.group, "r0", value, request_id=RequestId("script", number))
        reply = self._ask(body, at)
        return reply is not None and reply.status is ReplyStatus.OK

    def wrote(self, value: int) -> None:
        """A write, which must be acknowledged for the script to go on. Raises Unplayable."""
        self.until(lambda: self.write(value), f"{value} is written")

    def prepare(self, value: int) -> None:
        """Have a transaction's part prepared whose other part no group takes: it waits for its
        decision until its coordinator gives it up, and every leader after that."""
        steps = [Write(group, "r1", value) for group in (self.group, "of nobody")]
        name = RequestId("script", next(self._requests))
        leader = self.leader
        if leader is None:
            raise Unplayable("nobody leads")
        begun = Transaction(self.group, [*steps], name)
        self.nodes[leader].request(self.group, name.sequence, begun, lambda _: None)
        self.until(lambda: self.prepared() == len(self.stable), "all have prepared the part")

    def prepared(self) -> int:
        """How many replicas have a part that waits for its decision."""
        running = (node.replicas.get(self.group) for node in self.nodes.values())
        return sum(bool(each and each.partition.transactions.prepared) for each in running)

    def read(self) -> Value:
        """What the leader answers."""
        reply: Reply | None = None
        for _ in range(20):
            reply = self._ask(Read(self.group, "r0"), None)
            if reply is not None and reply.status is ReplyStatus.OK:
                return reply.value
        raise Violation("the group answers", reply=reply, keys=self.keys)

    def _ask(self, body: Write | Read, at: str | None) -> Reply | None:
        name, replies = at or self.leader, list[Reply]()
        if name is None:
            self.wait(100)
            return None
        self.nodes[name].request(self.group, next(self._requests), body, replies.append)
        self.reaches(lambda: bool(replies), within_ms=1_000)
        return replies[0] if replies else None

    # ── what goes wrong ──────────────────────────────────────────────────────────────────────

    def kill(self, *names: str) -> None:
        """These processes end at once."""
        for name in names:
            self.nodes[name].crash()

    def start(self, *names: str) -> None:
        """New processes over what their disks hold."""
        for name in names:
            self.nodes[name].start()
            self.plane.pods.started(self.nodes[name])

    def cut(self, inside: Iterable[str], outside: Iterable[str]) -> None:
        """Nothing goes between these places, until `mend`."""
        self._network.cut(between(inside, sorted(outside)), FaultKind.SPLIT)

    def mend(self, inside: Iterable[str], outside: Iterable[str]) -> None:
        """Undo one `cut`."""
        self._network.mend(between(inside, sorted(outside)), FaultKind.SPLIT)

    def others(self, *names: str) -> list[str]:
        """All other nodes."""
        return [name for name in self.nodes if name not in names]

    def knows(self, name: str) -> bool:
        """Whether the topology has the process that this node runs, or ran last."""
        found = self.plane.topology_at(0).nodes.get(name)
        process = f"{name}-{self.nodes[name].process}"
        return found is not None and found.process_incarnation == process

    # ── users and operators ──────────────────────────────────────────────────────────────────

    def alter(self, **spec: object) -> None:
        """Alter the zone; None takes a field away."""
        zone = self.plane.objects.get("distributionzones", ZONE)
        assert zone is not None, "nobody drops it"
        meta = {**zone["metadata"], "generation": zone["metadata"]["generation"] + 1}
        after = {
            name: value for name, value in {**zone["spec"], **spec}.items() if value is not None
        }
        self.plane.objects.put("distributionzones", {**zone, "metadata": meta, "spec": after}, ZONE)

    def move_to(self, *names: str) -> None:
        """Have the zone's filter name these nodes."""
        self.alter(dataNodesFilter=named(names))

    def restore(self, copy: Object) -> None:
        """Puts an older copy of an object in its place; no rule of writes holds for it."""
        objects = self.plane.objects
        told, objects.written = objects.written, []
        objects.put("partitions", copy, copy["metadata"]["name"])
        objects.written = told

    @property
    def operator(self) -> OperatorProcess:
        """The one that runs."""
        return self.plane.operators[0]

    def replace_operator(self) -> None:
        """The operator dies, and another one begins."""
        self.plane.kill_operator(self.operator)
        self.plane.start_operator()

    def _died(self, node: SimulatedNode) -> None:
        # It isn't started again before the script does.
        self.plane.pods.died(node)


def named(nodes: Iterable[str]) -> str | None:
    """A filter that matches these nodes by name; None for none."""
    return " || ".join(f'"{name}"' for name in nodes) or None
