"""The operator at work on the world of a what-if: its own `plan`, round by round.

    event ─▶ topology, spec or reports ─▶ plan() ─▶ keys, zone status ─┐
                     ▲                      └─────▶ orders ────────────┤ until nothing is left
                     └─────────────────────────────────────────────────┘

A change of peers, a reset and its cancelling wait for their event, unless autoApply.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from zonequake_ctl.reset_choices import waiting
from zonequake_ctl.reset_proof import MajorityReport, prove
from zonequake_ctl.what_if.actions import Action, ActionKind, action_of
from zonequake_ctl.what_if.group_status import status_of
from zonequake_ctl.what_if.world import WhatIfWorld
from zonequake_kube.errors import HarnessError
from zonequake_operator.controller.pacing import Pacer
from zonequake_operator.high_availability import reset
from zonequake_operator.high_availability.decisions import each_with_holders, judge_zone
from zonequake_operator.planning.plan import (
    WritePartition,
    WriteZone,
    ZonePlan,
    calculated_sets,
    groups_of,
    plan,
)
from zonequake_operator.planning.zone_orders import SendOrder
from zonequake_operator.resources.model import (
    AssignmentSet,
    ConsistencyMode,
    Partition,
    TokenPeers,
    ZoneSnapshot,
)
from zonequake_protocol.admin import (
    Bootstrap,
    CancelChangePeers,
    ChangePeers,
    Grant,
    InspectReplica,
    Order,
    PeerName,
    ResetPeers,
    StartReplica,
    StopReplica,
)

MAX_ROUNDS = 200
"""A step that takes more of them never ends; those of all tests take less than 20."""


class Rounds:
    """The operator's rounds: decides, writes and orders, and keeps what is not in the resources."""

    def __init__(self, world: WhatIfWorld) -> None:
        self._world = world
        self._numbers = {group.name: n for n, group in world.groups.items()}
        self._plan_wake_ms: int | None = None
        self._pacer = Pacer()
        self._retries_ms: dict[int, int] = {}
        """Times at which failed changes may be asked for again, in ms, by partition."""

    @property
    def wake_at_ms(self) -> int | None:
        """Returns the earlier of the next timer's end and the next retry; in ms."""
        timers = [] if self._plan_wake_ms is None else [self._plan_wake_ms]
        return min([*timers, *self._retries_ms.values()], default=None)

    def restart(self) -> None:
        """Restarts the operator: it remembers only the resources, and sends its orders again."""
        self._pacer = Pacer()
        self._retries_ms.clear()
        self._world.forget_unstored()

    def stop(self) -> None:
        """Stops waiting for timers and retries: the zone is gone."""
        self._plan_wake_ms = None
        self._retries_ms.clear()

    # ---------------------------------------------------------------------------------- decisions

    def accept(self) -> None:
        """Makes the operator accept new inputs: topology, spec, timers."""
        # A due reset ends when all partitions are judged; otherwise none has a say in this.
        world = self._world
        decided = self._decide(world.partitions.keys() if self._may_reset else ())
        for write in decided.writes:
            if isinstance(write, WriteZone):
                world.store_zone(write.status)

    def settle(self, numbers: Collection[int] | None = None) -> None:
        """Decide, write and tell until nothing is left to be done, for these partitions or all.

        A partition is decided by what is known of itself, so that after the first round only those
        are looked at again for which something was done. A reset that is due is done with only in a
        round that judges all of them: the last.
        """
        world = self._world
        everything = world.partitions.keys()
        chosen: Collection[int] = everything if numbers is None else numbers
        for _ in range(MAX_ROUNDS):
            if world.auto_apply:
                self._apply_running(chosen)
            decided = self._decide(chosen)
            written = self._write(decided, judged_all=len(chosen) == len(everything))
            done = written | self._tell(decided, frozenset(chosen) - written)
            if not done and (len(chosen) == len(everything) or not self._may_reset):
                return
            chosen = done or everything
        writes = [write for write in decided.writes if not isinstance(write, WriteZone)]
        raise HarnessError(
            f"the operator's rules don't settle at {world.now_ms / 1000:g} s: the last "
            f"decision was still {[*writes, *decided.orders]}"
        )

    @property
    def _may_reset(self) -> bool:
        """Returns whether a reset is due, or may become so within this step."""
        world = self._world
        if world.spec.consistency_mode is not ConsistencyMode.HIGH_AVAILABILITY:
            return False
        status, timeout_s = world.zone.status, world.spec.reset_timeout_s
        ends_ms = reset.deadline_ms(status.reset, timeout_s)
        fires = ends_ms is not None and ends_ms <= world.now_ms
        return status.reset_due is not None or fires or not timeout_s

    def _decide(self, numbers: Collection[int]) -> ZonePlan:
        world = self._world
        chosen = world.partitions
        if len(numbers) < len(chosen):
            chosen = {n: world.partitions[n] for n in sorted(numbers)}
        decided = plan(self._snapshot(chosen), calculate=self._calculate)
        self._plan_wake_ms = decided.wake_at_ms
        return decided

    def _snapshot(self, partitions: Mapping[int, Partition]) -> ZoneSnapshot:
        world = self._world
        return ZoneSnapshot(
            now_ms=world.now_ms,
            zone=world.zone,
            partitions=partitions,
            topology=world.topology,
            reports=world.reports(partitions),
            inspected=world.inspected,
        )

    def prove(self, number: int, survivor: str | None) -> MajorityReport:
        """Returns the proof of this partition that `zonequake reset` shows, which also inspects
        waiting replicas of a group without a leader.
        """
        world = self._world
        group = world.groups[number]
        snapshot = self._snapshot({number: world.partitions[number]})
        ((partition, holders),) = each_with_holders(snapshot, groups_of(snapshot))
        if holders.group.leader is None:
            seen = {n: status_of(group, n, inspected=True) for n in waiting(holders)}
            holders = replace(holders, inspected={**holders.inspected, **seen})
        return prove(partition, holders, survivor)

    def waits_for(self, number: int) -> str:
        """Returns what this partition waits for, for people; empty if for nothing."""
        world = self._world
        snapshot = self._snapshot({number: world.partitions[number]})
        groups = groups_of(snapshot)
        decision = judge_zone(snapshot, world.spec, world.zone.status, groups).get(number)
        return "" if decision is None else decision.sentence(f"partition {number}")

    def _calculate(
        self, nodes: tuple[str, ...], partitions: int, replicas: int
    ) -> list[AssignmentSet | None]:
        world = self._world
        sets = calculated_sets(nodes, partitions, replicas)
        if not world.instead:
            return sets
        return [world.instead.get(n, found) for n, found in enumerate(sets)]

    def _apply_running(self, numbers: Iterable[int]) -> None:
        """Makes every running change succeed (autoApply), if its peers' majority is there."""
        world = self._world
        for number in numbers:
            if number not in world.as_given and world.groups[number].can_finish():
                world.group(number).apply_change()

    def _write(self, decided: ZonePlan, *, judged_all: bool) -> set[int]:
        """Stores the decision; returns the partitions whose keys changed, or all if the zone's
        status did.
        """
        world, done = self._world, set[int]()
        due = world.zone.status.reset_due
        for write in decided.writes:
            if isinstance(write, WriteZone):
                kept = write.status if judged_all else replace(write.status, reset_due=due)
                if world.store_zone(kept):
                    done.update(world.partitions)
            elif (
                isinstance(write, WritePartition)
                and world.store(write.number, write.keys, write.view)
                and not self._bootstrap_at_once(write.number)
            ):
                done.add(write.number)
        return done

    def _bootstrap_at_once(self, number: int) -> bool:
        """Gives a new partition whose first members are all there its group at once.

        The operator's own way there takes three rounds, and a fourth in which there is nothing left
        to do.
        """
        world = self._world
        keys, group = world.keys(number), world.groups[number]
        if keys.bootstrap is not None or keys.stable is None or keys.bootstrap_lineage:
            return False
        if group.replicas or not world.topology.nodes.keys() >= set(keys.stable.nodes):
            return False
        token, group = keys.configuration_token, world.group(number)
        peers = []
        for node in keys.stable.nodes:
            replica = group.new_replica(node, running=True)
            peers.append(PeerName(node, replica.incarnation))
            world.actions.append(Action(partition=number, node=node, do=ActionKind.START_REPLICA))
        group.install(peers, token=token)
        bootstrapped = replace(keys, bootstrap=TokenPeers(token=token, peers=tuple(peers)))
        world.partitions[number] = replace(world.partitions[number], keys=bootstrapped)
        return True

    # ------------------------------------------------------------------------------------- orders

    def _tell(self, decided: ZonePlan, numbers: Collection[int]) -> set[int]:
        """Sends the orders of these partitions; returns those for which an order had an effect.

        Skips partitions whose keys were written just now: orders rest on stored keys.
        """
        world = self._world
        done: set[int] = set()
        wanted: set[tuple[int, str]] = set()
        for number in numbers:
            self._retries_ms.pop(number, None)
        for send in decided.orders:
            number = self._numbers[send.order.group]
            if number in world.as_given or number not in numbers:
                continue
            if send.node not in world.topology.nodes and send.node != world.groups[number].leader:
                continue  # only a report speaks of it
            wanted.add((number, send.node))
            if self._is_due(send) and self._obey(number, send.node, send.order):
                done.add(number)
        world.asked = {
            (number, node): order
            for (number, node), order in world.asked.items()
            if number not in numbers or (number, node) in wanted
        }
        return done

    def _is_due(self, send: SendOrder) -> bool:
        """Returns whether an order is due: a change that failed is asked for again ever more slowly
        (`rebalance`, Failover).
        """
        world = self._world
        if not isinstance(send.order, ChangePeers) or self._pacer.due([send], world.now_ms / 1000):
            return True
        at_ms = int(self._pacer.change_due_s(send.order) * 1000) + 1
        self._retries_ms[self._numbers[send.order.group]] = at_ms
        return False

    def _obey(self, number: int, node: str, order: Order) -> bool:
        """Carry an order out; says whether that changed what nodes report."""
        world = self._world
        if world.asked.get((number, node)) == order:
            return False
        group = world.group(number)
        action = action_of(number, node, order)
        match order:
            case StartReplica():
                before = group.heard(node)
                if not group.start(node, order):
                    return before != group.heard(node)
            case InspectReplica():
                world.inspected.setdefault(node, {})[group.name] = status_of(
                    group, node, inspected=True
                )
            case Bootstrap():
                group.bootstrap(node, order)
            case StopReplica(erase=True):
                group.erase(node)
            case StopReplica():
                group.stop(node, keeps_state=True)
            case Grant():
                group.go_joint()
            case ChangePeers():
                group.change_peers(order)
            case ResetPeers() if world.auto_apply:
                group.apply_reset(node, order)
            case CancelChangePeers() if world.auto_apply:
                group.cancel(order.token)  # no change runs that couldn't be cancelled
            case ResetPeers() | CancelChangePeers():
                world.asked[number, node] = order
            case _:
                return False
        if action is not None:
            world.actions.append(action)
        return (number, node) not in world.asked
