"""Facts about a partition's keys, resets, the topology, and what must hold at rest."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace as Made
from typing import Any

from tests.unit.simulation.broken_rules import breaks
from tests.unit.simulation.facts_of_groups import ledger
from zonequake_load.operation import Type
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    PartitionKeys,
    TokenPeers,
    Topology,
    TopologyNode,
)
from zonequake_protocol.admin import PeerName, StopReplica
from zonequake_simulation import SCENARIOS, FaultPlan, Simulation
from zonequake_simulation.checks.keys import KeyRules
from zonequake_simulation.checks.reset_keys import ResetRules
from zonequake_simulation.checks.topology import TopologyRules
from zonequake_simulation.operated.control_plane import ControlPlane
from zonequake_store.raft.api import RaftRole
from zonequake_store.raft.messages import Configuration, Peer

# -------------------------------------------------------------------------------------------- keys


def of(nodes: str, **flags: bool) -> AssignmentSet:
    return AssignmentSet(nodes=tuple(nodes), **flags)


def peers(nodes: str) -> tuple[PeerName, ...]:
    return tuple(PeerName(node, "1") for node in nodes)


STANDS = PartitionKeys(
    stable=of("ABC"),
    configuration_token=5,
    reset_revision=3,
    bootstrap=TokenPeers(token=1, peers=peers("ABC")),
    chain=(AssignmentsLink(nodes=tuple("ABC"), term=1, index=1),),
)
MOVES = replace(STANDS, pending=of("ABD"))
LOCKED = replace(MOVES, pending_lock=TokenPeers(token=5, peers=peers("ABD")))


def written(before: PartitionKeys, after: PartitionKeys, *applied: str) -> None:
    """Has a write judged; `applied`: sets that the group has committed."""
    group: Any = Made(reconfiguration=Made(applied={frozenset(each) for each in applied}))
    KeyRules("g", rules=group, nodes={}, resets=None).written(before, after)


@breaks("configuration_token of a partition never falls")
def _(wrong: bool) -> None:
    written(STANDS, replace(STANDS, configuration_token=4 if wrong else 6))


@breaks("change_trigger_revision of a partition never falls")
def _(wrong: bool) -> None:
    before = replace(STANDS, change_trigger_revision=7)
    written(before, replace(before, change_trigger_revision=6 if wrong else 8))


@breaks("reset_revision of a partition never falls")
def _(wrong: bool) -> None:
    written(STANDS, replace(STANDS, reset_revision=2 if wrong else 4))


@breaks("a planned set waits for the pending set")
def _(wrong: bool) -> None:
    written(STANDS if wrong else MOVES, replace(STANDS if wrong else MOVES, planned=of("ABE")))


@breaks("another pending has another token")
def _(wrong: bool) -> None:
    written(STANDS, replace(MOVES, configuration_token=5 if wrong else 6))


@breaks("the lock names the pending set")
def _(wrong: bool) -> None:
    locked = TokenPeers(token=5, peers=peers("ABE" if wrong else "ABD"))
    written(MOVES, replace(MOVES, pending_lock=locked))


@breaks("a lock is released by the stable switch, or under another token")
def _(wrong: bool) -> None:
    written(LOCKED, replace(LOCKED, pending_lock=None, configuration_token=5 if wrong else 6))


@breaks("the stable switch installs the pending set")
def _(wrong: bool) -> None:
    switched = replace(STANDS, stable=of("ABE" if wrong else "ABD"))
    written(MOVES, switched, "ABD", "ABE")


def holder(name: str, *, lost: bool = False) -> Any:
    """A node that holds, or has lost, the replica that a lock names."""
    peer = Peer(name, "2" if lost else "1")
    return Made(replicas={}, home=Made(present=lambda group: peer))


@breaks("only its switch or a reset replaces a locked configuration")
def _(wrong: bool) -> None:
    """A leader of term 2 runs what is locked; a newer one may have been elected."""
    released = replace(LOCKED, pending_lock=None, configuration_token=6)
    runs = Configuration(peers=tuple(Peer(name, "1") for name in "ABD"), token=5)
    core = Made(
        _replica=Made(role=RaftRole.LEADER),
        status=lambda: Made(term=2, configuration=runs),
    )
    group: Any = Made(raft=Made(leaders=dict.fromkeys((1, 2) if wrong else (1, 2, 3))))
    nodes: Any = {name: holder(name) for name in "ABD"}
    nodes["A"].replicas["g"] = Made(core_now=lambda: core)
    KeyRules("g", rules=group, nodes=nodes, resets=None).written(LOCKED, released)


@breaks("only its switch or a reset replaces a locked configuration")
def _(wrong: bool) -> None:
    """Of the peers of what is locked two have lost what they held, or none."""
    released = replace(LOCKED, pending_lock=None, configuration_token=6)
    runs = Configuration(peers=tuple(Peer(name, "1") for name in "ABD"), token=5)
    core = Made(
        _replica=Made(role=RaftRole.LEADER),
        status=lambda: Made(term=2, configuration=runs),
    )
    group: Any = Made(raft=Made(leaders={2: None}))
    nodes: Any = {name: holder(name, lost=not wrong and name != "A") for name in "ABD"}
    nodes["A"].replicas["g"] = Made(core_now=lambda: core)
    KeyRules("g", rules=group, nodes=nodes, resets=None).written(LOCKED, released)


@breaks("a planned set is promoted or replaced")
def _(wrong: bool) -> None:
    before = replace(MOVES, planned=of("ABE"))
    promoted = replace(STANDS, stable=of("ABD"), pending=of("ABE"), configuration_token=6)
    written(before, replace(promoted, pending=None) if wrong else promoted, "ABD")


# ------------------------------------------------------------------------------------------ resets


def node(name: str, process: int = 1) -> TopologyNode:
    return TopologyNode(
        name=name,
        process_incarnation=f"{name}-{process}",
        storage_incarnation="1",
        pod_uid=name,
        restarts=0,
        attributes={},
        peer_address=name,
        since=1,
    )


def topology(nodes: str) -> Topology:
    return Topology(version=1, nodes={name: node(name) for name in nodes})


def resetting(there: str, *, led: str = "", holding: str | None = None) -> ResetRules:
    """Returns rules for nodes of which some are there, have led or followed, and hold data."""
    held = there if holding is None else holding

    def machine(name: str) -> Any:
        status = Made(had_leader=name in led)
        return Made(
            alive=name in there,
            process=1,
            replicas={"g": Made(core_now=lambda: Made(status=lambda: status))},
            home=Made(
                known=lambda group: Made(peer=name),
                present=lambda group: name if name in held else None,
            ),
        )

    rules: Any = Made(ledger=ledger())
    nodes = {name: machine(name) for name in "ABCDE"}
    found = topology(there)
    return ResetRules("g", rules=rules, nodes=nodes, topologies_since=lambda us: [found])


FORCED = replace(
    STANDS,
    pending=of("A", force=True),
    planned=of("AB", from_reset=True),
    configuration_token=6,
    reset_revision=4,
)


@breaks("a chain grows by its newest link, or ends with it")
def _(wrong: bool) -> None:
    links = [AssignmentsLink(nodes=tuple(nodes), term=1, index=1) for nodes in ("ABC", "A", "AB")]
    after = (links[1], links[2]) if wrong else tuple(links[:2])
    resetting("ABC").written(STANDS, replace(STANDS, chain=after))


@breaks("a group that stopped counts as stopped until it leads")
def _(wrong: bool) -> None:
    stopped = replace(STANDS, stopped_token=5)
    resetting("ABC", led="" if wrong else "A").written(stopped, STANDS)


@breaks("one loss, one reset")
def _(wrong: bool) -> None:
    again = replace(
        FORCED, pending=of("B", force=True), planned=None, reset_revision=4 if wrong else 5
    )
    resetting("AB", led="AB").written(FORCED, again)


@breaks("a partition that has a majority is not reset")
def _(wrong: bool) -> None:
    there = "AB" if wrong else "A"
    after = FORCED if wrong else replace(FORCED, planned=None)
    resetting(there, led=there).written(STANDS, after)


@breaks("a restarted group waits for a majority of its newest link")
def _(wrong: bool) -> None:
    stopped = replace(STANDS, stopped_token=5)
    resetting("A" if wrong else "AB", holding="A").written(
        stopped, replace(FORCED, planned=None, stopped_token=5)
    )


@breaks("a highly available partition waits for no absent node")
def _(wrong: bool) -> None:
    """D is wished for: it was away all the time, or there for a moment."""
    found = [topology(nodes) for nodes in ("AB", "ABC" if wrong else "ABD", "AB")]
    rules: Any = Made()
    resets = ResetRules("g", rules=rules, nodes={}, topologies_since=lambda us: found)
    resets.written(STANDS, replace(STANDS, pending=of("ABD"), configuration_token=6))


# ---------------------------------------------------------------------------------------- topology


@breaks("a node leaves the topology by proof")
def _(wrong: bool) -> None:
    lease = {
        "metadata": {"name": "A", "resourceVersion": "1", "annotations": {}},
        "spec": {"holderIdentity": "somebody-else", "leaseTransitions": 1},
    }
    ended = {"containerStatuses": [{"state": {"terminated": {}}, "restartCount": 0}]}
    runs = {"containerStatuses": [{"state": {"running": {}}, "restartCount": 0}]}
    pod = {"status": runs if wrong else ended}

    def get(plural: str, name: str, at_us: int | None = None) -> Any:
        return lease if plural == "leases" else pod

    objects: Any = Made(get=get, all=lambda plural, at_us=None: iter([{}]))
    nodes: Any = {"A": Made(alive=True, process=1)}
    rules = TopologyRules(nodes, objects, lambda: 0)
    rules.written(topology("A"), topology(""))


@breaks("no replica is permitted in a session that the topology doesn't know")
def _(wrong: bool) -> None:
    objects: Any = Made(get=lambda *_, **__: None)
    rules = TopologyRules({}, objects, lambda: 0)
    known = replace(node("A"), lease_session=2)
    rules.written(Topology(), Topology(version=1, nodes={"A": known}))
    rules.permitted(known.process_incarnation, 3 if wrong else 2)


@breaks("no replica is erased that its group's newest configuration names")
def _(wrong: bool) -> None:
    plane: Any = Made(_needed="A, B, C" if wrong else None)
    order = StopReplica(group="g", token=5, incarnation="1", erase=True)
    ControlPlane.received(plane, Made(name="A"), order)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------- at rest


def at_rest(change: Any) -> None:
    """Lets a group of data nodes come to rest, changed by `change` before."""
    scenario = replace(SCENARIOS["raft"], settle_ms=60_000)
    with Simulation(5, scenario, FaultPlan()) as run:
        run.run(200)
        change(run)
        run.settle()


@breaks("everything comes to rest without faults")
def _(wrong: bool) -> None:
    def change(run: Any) -> None:
        if wrong:
            run._is_settled = lambda: False

    at_rest(change)


def finally_told(outcomes: list[Type], wanted: int) -> Any:
    """Returns a client's `final` that says so of so many operations."""

    def final(tell: Any) -> int:
        for outcome in outcomes:
            tell("an operation", Made(type=outcome))
        return wanted

    return final


@breaks("final operations end")
def _(wrong: bool) -> None:
    def change(run: Any) -> None:
        run.client.final = finally_told([Type.OK], 2 if wrong else 1)

    at_rest(change)


@breaks("a group makes progress after its last fault")
def _(wrong: bool) -> None:
    def change(run: Any) -> None:
        run.client.final = finally_told([Type.INFO if wrong else Type.OK], 1)

    at_rest(change)


@breaks("all replicas are equal")
def _(wrong: bool) -> None:
    def change(run: Any) -> None:
        content = run._content
        run._content = lambda node, group: content(node, group) + (node.name if wrong else "")

    at_rest(change)


@breaks("when all transactions have ended all counters are equal and without gaps")
def _(wrong: bool) -> None:
    def change(run: Any) -> None:
        if wrong:
            compare = run._compare
            node, group = next(iter(run.nodes.values())), next(iter(run.operators))

            def compared() -> None:
                run._content = lambda node, group: ""
                torn = Made(is_sequential=False, lwm=1, hwm=3, ranges=((2, 1),))
                node.replicas[group] = Made(partition=Made(counter=torn))
                compare()

            run._compare = compared

    at_rest(change)


@breaks("each change is announced")
def _(wrong: bool) -> None:
    def change(run: Any) -> None:
        if wrong:
            compare = run._compare

            def compared() -> None:
                compare()
                for rules in run.rules.values():
                    rules.reconfiguration.tokens.clear()

            run._compare = compared

    at_rest(change)


@breaks("a settled zone writes nothing")
def _(wrong: bool) -> None:
    counts = iter(range(9)) if wrong else iter([1] * 9)

    class Plane:
        @property
        def writes(self) -> int:
            return next(counts)

    run: Any = Made(_pass=lambda ms: None)
    Simulation._writes_nothing(run, Plane())  # type: ignore[arg-type]
