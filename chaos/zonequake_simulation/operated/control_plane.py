"""API server, pods and operators of a simulated cluster, and the zone that users keep changing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from zonequake_operator.nodes import affinity, filters
from zonequake_operator.resources.model import Partition, Topology, Zone, ZoneSpec, group_name
from zonequake_operator.resources.parsing import parse_partition, parse_topology, parse_zone
from zonequake_operator.resources.stored_shapes import TOPOLOGY_NAME, partition_name
from zonequake_protocol.admin import Grant, Order, StartReplica, StopReplica
from zonequake_simulation.checks.group import GroupRules
from zonequake_simulation.checks.keys import KeyRules
from zonequake_simulation.checks.reset_keys import ResetRules
from zonequake_simulation.checks.topology import TopologyRules
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.network import Network
from zonequake_simulation.operated.lease_keeper import SimulatedLeaseKeeper
from zonequake_simulation.operated.objects import Object, Objects
from zonequake_simulation.operated.pods import Pods
from zonequake_simulation.operated.process import OperatorProcess
from zonequake_simulation.replicas import ZONE, GroupPlace
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.trace import TraceKind
from zonequake_simulation.violation import require
from zonequake_simulation.world import World

ZONE_UID = "5eed0000-0000-4000-8000-000000000000"
_FILTERS = (None, None, None, '"eu"', '"us" || "ssd"', '!"eu"', '"nowhere"')
_SIZES = (1, 2, 3, 3, 3, 4, 5)
_UP_S = (0, 0, 1, 2)
_DOWN_S = (0, 1, 1, 3, "Infinite", "Infinite")
_HIGHLY_AVAILABLE = {"consistencyMode": "HighAvailability"}
_MODES = ("Update", "Update", "Queue", "Cancel")


class _Failures(logging.Handler):
    """Collects the failures that the operator's loop caught and only logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.newest: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.newest = record.exc_info[1]


_failures = _Failures()
logging.getLogger("zonequake_operator").addHandler(_failures)


def place_of(partition: int, partitions: int) -> GroupPlace:
    """Returns the place of a partition's group, by the operator's name for it."""
    name = group_name(ZONE, ZONE_UID, partition)
    return GroupPlace(name=name, partition=partition, partitions=partitions)


class ControlPlane:
    """Everything around the nodes that the real operator sees or consists of."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        world: World,
        network: Network,
        nodes: dict[str, SimulatedNode],
        rules: dict[str, GroupRules],
    ) -> None:
        self.after_grant: dict[str, Callable[[SimulatedNode], None]] = {}
        """Faults that wait for the next grant, by group."""
        self.operators: list[OperatorProcess] = []
        self.writes = 0
        """Number of writes of the zone, its partitions and the topology."""
        self._scenario = scenario
        self._world = world
        self._network = network
        self._nodes = nodes
        self._random = world.stream("control plane")
        self.objects = Objects(lambda: world.now_us)
        self.pods = Pods(world, self.objects, nodes)
        draw = world.stream("zone")
        self.attributes = {
            name: {"region": draw.choice(["eu", "us"]), "disk": draw.choice(["ssd", "hdd"])}
            for name in nodes
        }
        self._tags = {
            name: dict.fromkeys(attributes.values(), "true")
            for name, attributes in self.attributes.items()
        }
        self._rules = {
            number: KeyRules(
                group,
                rules=rules[group],
                nodes=nodes,
                resets=ResetRules(
                    group, rules=rules[group], nodes=nodes, topologies_since=self.topologies_since
                )
                if scenario.is_highly_available
                else None,
            )
            for number in range(scenario.groups)
            for group in (place_of(number, scenario.groups).name,)
        }
        self._rules_of = {place_of(n, scenario.groups).name: r for n, r in self._rules.items()}
        self._topology_rules = TopologyRules(nodes, self.objects, lambda: world.now_us)
        self.objects.written.append(self._written)
        self.objects.put("distributionzones", self._first_zone(draw), ZONE)
        self._told_us: dict[tuple[str, str], int] = {}
        """Time at which the newest event of an operator's watch arrives, in µs."""
        self._needed: str | None = None
        self._parsed_zone: tuple[Object, Zone] | None = None
        self._parsed: dict[int, tuple[Object, Partition]] = {}
        self._sets: tuple[tuple[object, ...], list[tuple[str, ...]]] | None = None
        self.keepers: dict[str, SimulatedLeaseKeeper] = {}
        """The keepers of the nodes' Leases."""
        for node in nodes.values():
            node.began = partial(self._began, node)
            node.replicas_changed = partial(self._replicas_changed, node)
        self._started = 0
        _failures.newest = None
        self.start_operator()

    def check(self) -> None:
        """Raises the unexpected error that an operator met, if any."""
        if _failures.newest is not None:
            raise _failures.newest
        for operator in self.operators:
            operator.check()

    def _first_zone(self, draw: Random) -> Object:
        return {
            "metadata": {
                "name": ZONE,
                "namespace": "simulated",
                "uid": ZONE_UID,
                "generation": 1,
            },
            "spec": {
                "partitions": self._scenario.groups,
                "storage": "Volatile" if self._scenario.is_volatile else "Persistent",
                "catchUpBytesPerSecond": self._scenario.settings.catch_up_bytes_per_second,
                **self._drawn_spec(draw, first=True),
                **(_HIGHLY_AVAILABLE if self._scenario.is_highly_available else {}),
            },
        }

    def _drawn_spec(self, draw: Random, *, first: bool = False) -> Object:
        spec: dict[str, Any] = {
            "replicas": draw.choice(self._scenario.members if first else _SIZES),
            "changePeers": draw.choice(_MODES),
        }
        if self._scenario.is_highly_available:
            spec["partitionDistributionResetTimeout"] = draw.choice(_UP_S)
        if draw.random() < 0.15:
            spec["dataNodesAutoAdjust"] = draw.choice(_UP_S)
        else:
            spec["dataNodesAutoAdjustScaleUp"] = draw.choice(_UP_S)
            spec["dataNodesAutoAdjustScaleDown"] = draw.choice(_DOWN_S)
        wanted = None if first else draw.choice(_FILTERS)
        if wanted is not None:
            spec["dataNodesFilter"] = wanted
        return spec

    # ── operators ────────────────────────────────────────────────────────────────────────────

    def start_operator(self) -> OperatorProcess:
        """Starts another process."""
        self._started += 1
        process = OperatorProcess(
            f"operator-{self._started}",
            ZONE,
            zone_uid=ZONE_UID,
            world=self._world,
            network=self._network,
            objects=self.objects,
            nodes=self._nodes,
            pods=self.pods,
            attributes=self._tags,
            orders=self,
        )
        self.operators.append(process)
        self._world.note(TraceKind.START, process.name)
        return process

    def kill_operator(self, process: OperatorProcess) -> None:
        """Ends a process at once."""
        process.kill()
        self.operators.remove(process)
        self._world.tally["operators killed"] += 1
        self._world.note(TraceKind.CRASH, process.name)

    def _began(self, node: SimulatedNode) -> None:
        self.keepers[node.name] = SimulatedLeaseKeeper(
            node, self._world, self._network, self.objects
        )

    def _replicas_changed(self, node: SimulatedNode) -> None:
        self.keepers[node.name].replicas_changed()

    def comes(self, node: SimulatedNode, order: Order) -> None:
        """Checks an order that is about to be carried out at a node. Raises Violation."""
        rules = self._rules_of[order.group]
        replica = node.replicas.get(order.group)
        if isinstance(order, Grant) and replica is not None:
            rules.granting(replica.me, order)
        if isinstance(order, StartReplica) and order.needs_lease and order.lease_session:
            self._topology_rules.permitted(order.lease_holder, order.lease_session)
        self._needed = rules.is_needed(node) if isinstance(order, StopReplica) else None
        if self._world.tracing:
            self._world.note(TraceKind.STAGE, node.name, str(order))

    def received(self, node: SimulatedNode, order: Order) -> None:
        """Checks an order that was carried out. Raises Violation."""
        require(
            not isinstance(order, StopReplica) or self._needed is None,
            "no replica is erased that its group's newest configuration names",
            node=node.name,
            configuration=self._needed,
        )
        if isinstance(order, Grant):
            after = self.after_grant.pop(order.group, None)
            if after is not None:
                after(node)

    def close(self) -> None:
        """Ends all operators."""
        for operator in self.operators:
            operator.kill()

    # ── users ────────────────────────────────────────────────────────────────────────────────

    def flip(self, choice: int) -> None:
        """Alters the zone, as a user does."""
        draw = Random(choice)  # noqa: S311
        zone = self._zone_object()
        kept = ("partitions", "storage", "catchUpBytesPerSecond", "consistencyMode")
        spec = {key: zone["spec"][key] for key in kept if key in zone["spec"]}
        drawn = self._drawn_spec(draw)
        if draw.random() < 0.6:  # only one setting
            drawn = {**zone["spec"], "replicas": drawn["replicas"]}
        meta = {**zone["metadata"], "generation": zone["metadata"]["generation"] + 1}
        self._world.tally["zone altered"] += 1
        self.objects.put(
            "distributionzones", {**zone, "metadata": meta, "spec": {**spec, **drawn}}, ZONE
        )

    def come_to_rest(self) -> None:
        """Gives data nodes to a zone that never had any."""
        if any(
            (found := self.partition(number)) is None or found.keys.stable is None
            for number in self._rules
        ):
            zone = self._zone_object()
            spec = {key: value for key, value in zone["spec"].items() if key != "dataNodesFilter"}
            meta = {**zone["metadata"], "generation": zone["metadata"]["generation"] + 1}
            self.objects.put("distributionzones", {**zone, "metadata": meta, "spec": spec}, ZONE)

    def _zone_object(self) -> Object:
        zone = self.objects.get("distributionzones", ZONE)
        assert zone is not None, "no step drops it"
        return zone

    # ── what is stored ───────────────────────────────────────────────────────────────────────

    def topology_at(self, ago_us: int) -> Topology:
        """Returns the topology as it was stored so many µs ago."""
        return next(self.topologies_since(ago_us))

    def topologies_since(self, ago_us: int) -> Iterator[Topology]:
        """Yields the topology as it was stored so many µs ago, and each one stored since."""
        at_us = self._world.now_us - ago_us
        for found in self.objects.since("logicaltopologies", TOPOLOGY_NAME, at_us=at_us):
            yield parse_topology(found) if found is not None else Topology()

    @property
    def zone(self) -> Zone:
        """The zone as it is stored."""
        found = self._zone_object()
        if self._parsed_zone is None or self._parsed_zone[0] is not found:
            self._parsed_zone = found, parse_zone(found)
        return self._parsed_zone[1]

    def partition(self, number: int) -> Partition | None:
        """Returns the partition as it is stored."""
        found = self.objects.get("partitions", partition_name(ZONE, number))
        if found is None:
            return None
        known = self._parsed.get(number)
        if known is None or known[0] is not found:
            known = self._parsed[number] = found, parse_partition(found)
        return known[1]

    def wanted(self, number: int, zone: Zone) -> tuple[str, ...]:
        """Returns the nodes that a partition must be on while all nodes live: a function of zone
        and nodes.
        """
        spec = zone.spec
        assert isinstance(spec, ZoneSpec), "no step writes a spec that can't be used"
        asked = spec.filter, spec.partitions, spec.replicas
        if self._sets is not None and self._sets[0] == asked:
            return self._sets[1][number]
        matches = filters.parse(spec.filter).matches if spec.filter else None
        nodes = [
            name for name in sorted(self._nodes) if not matches or matches(name, self._tags[name])
        ]
        sets = affinity.rendezvous(nodes, spec.partitions, spec.replicas)
        self._sets = asked, [tuple(sorted(each)) for each in sets]
        return self._sets[1][number]

    def is_handled(self, zone: Zone) -> bool:
        """Returns whether all processes are in the topology, the zone's last input was evaluated
        for all partitions, and no timer runs.
        """
        status, spec = zone.status, zone.spec
        if status.data_nodes is None or not isinstance(spec, ZoneSpec):
            return False
        nodes, topology = status.data_nodes, self.topology_at(0)
        return (
            nodes.topology_version == topology.version
            and {n: known.process_incarnation for n, known in topology.nodes.items()}
            == {name: f"{name}-{node.process}" for name, node in self._nodes.items()}
            and status.observed_generation == zone.generation
            and status.handled_revision == status.revision
            and status.reset is None
            and status.reset_due is None
            and nodes.up is None
            and (nodes.down is None or spec.timers.scale_down_s is None)
        )

    def _written(self, plural: str, before: Object | None, after: Object | None) -> None:
        world = self._world
        if plural in ("distributionzones", "partitions", "logicaltopologies"):
            self.writes += 1
            world.tally[f"writes of {plural}"] += 1
        if plural == "partitions" and before is not None and after is not None:
            # A set without nodes is read back as no set at all.
            written = [after["status"].get(name) for name in ("stable", "pending", "planned")]
            require(
                all(each is None or each["nodes"] for each in written),
                "empty data nodes never become assignments",
                written=written,
            )
            old, new = parse_partition(before), parse_partition(after)
            if new.keys != old.keys:
                world.tally["writes of keys"] += 1
                if world.tracing:
                    world.note(TraceKind.STAGE, "api", f"{new.number}: {new.keys}")
                self._rules[new.number].written(old.keys, new.keys)
        if plural == "logicaltopologies" and before is not None and after is not None:
            self._topology_rules.written(parse_topology(before), parse_topology(after))
        if plural == "pods":
            seen = after or before  # a deletion shows the object as it was
            assert seen is not None, "something was written"
            self._tell(plural, lambda operator: operator.pods_changed(seen))
        if plural == "distributionzones" and before is not None and after is not None:
            self._topology_rules.accepted(before, after)
            generation = after["metadata"]["generation"]
            if generation != before["metadata"]["generation"]:
                self._tell(plural, lambda operator: operator.zone_changed(generation))

    def _tell(self, plural: str, tell: Callable[[OperatorProcess], None]) -> None:
        """Sends a watch event to each operator, in order and late; some are lost."""
        for operator in self.operators:
            if self._random.random() < self._scenario.watch_loss:
                self._world.tally["watch events lost"] += 1
                continue
            late_us = self._random.randrange(500, 60_000) + operator.kube.weather.stale_us
            watch = (operator.name, plural)
            at_us = max(self._told_us.get(watch, 0), self._world.now_us + late_us)
            self._told_us[watch] = at_us
            self._world.later(at_us - self._world.now_us, partial(tell, operator))
