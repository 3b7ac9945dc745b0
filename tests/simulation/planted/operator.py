"""Faults in the operator's rules: holes of design §3, and what holds them together.

Those of resets and of who has left are in `planted.operator_availability`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import msgspec

from tests.simulation.planted.operator_patches import Patch, changed_result, planted
from zonequake_operator.controller import reconciler, zone_resources
from zonequake_operator.errors import KubeConflict
from zonequake_operator.fleet import membership
from zonequake_operator.groups import evidence
from zonequake_operator.groups.reports import Group
from zonequake_operator.planning import plan
from zonequake_operator.rebalance import key_changes, orders, volatile_switch
from zonequake_operator.resources.model import AssignmentSet, StorageKind, TokenPeers
from zonequake_protocol.admin import Stage

# ── holes 1 to 5 ─────────────────────────────────────────────────────────────────────────────


def keep_planned_when_it_is_promoted(patch: Patch) -> None:
    changed_result(
        patch,
        key_changes,
        "_stable_switch",
        lambda after, keys, *_: replace(after, planned=keys.planned),
    )


def switch_to_whatever_is_applied(patch: Patch) -> None:
    def any_set(wanted: object, leading: Any, *_: object) -> bool:
        found = leading.configuration
        return (
            found is not None
            and not found.old_peers
            and found.index <= leading.commit
            and leading.stage is Stage.NONE
        )

    patch.setattr(key_changes, "is_applied", any_set)


def act_on_what_was_not_stored(patch: Patch) -> None:
    real = reconciler.ZoneReconciler._cas

    async def never_refused(
        self: Any, plural: str, kind: str, name: str, at: Any, *rest: Any
    ) -> str:
        try:
            return await real(self, plural, kind, name, at, *rest)
        except KubeConflict:
            return str(at.resource_version)

    patch.setattr(reconciler.ZoneReconciler, "_cas", never_refused)


def take_another_incarnation_for_a_member(patch: Patch) -> None:
    def same_nodes(wanted: AssignmentSet, leading: Any, *_: object) -> bool:
        found = leading.configuration
        return (
            found is not None
            and not found.old_peers
            and {peer.node for peer in found.peers} == set(wanted.nodes)
        )

    for module in (key_changes, orders, evidence):
        patch.setattr(module, "is_carried", same_nodes)
    patch.setattr(volatile_switch, "lost", lambda *_: frozenset())


def never_reduce(patch: Patch) -> None:
    patch.setattr(key_changes, "must_reduce", lambda keys: False)


def forget_who_is_to_come_back(patch: Patch) -> None:
    changed_result(
        patch,
        volatile_switch,
        "on_rebalance_done",
        lambda done, keys, *_: replace(done, switch_reduce=keys.switch_reduce),
    )


def begin_anew_beside_members(patch: Patch) -> None:
    def some_member_is_empty(keys: Any, group: Any, storage: StorageKind) -> bool:
        return (
            storage is StorageKind.VOLATILE
            and keys.bootstrap is not None
            and group.leader is None
            and any(n in group.answered and n not in group.replicas for n in keys.stable.nodes)
        )

    patch.setattr(volatile_switch, "is_full_restart", some_member_is_empty)


# ── hole 10 ──────────────────────────────────────────────────────────────────────────────────


def assign_empty_data_nodes(patch: Patch) -> None:
    def with_empty_sets(*args: Any) -> list[AssignmentSet]:
        empty = AssignmentSet(nodes=())
        return [empty if found is None else found for found in plan.calculated_sets(*args)]

    patch.setattr(reconciler, "plan", partial(plan.plan, calculate=with_empty_sets))


# ── hole 13 ──────────────────────────────────────────────────────────────────────────────────


def replace_what_is_locked(patch: Patch) -> None:
    patch.setattr(key_changes, "counts_as_locked", lambda keys: False)


def judge_what_waits_from_stable(patch: Patch) -> None:
    patch.setattr(key_changes, "_waits", lambda *_, **__: False)


def wait_for_a_blocked_change(patch: Patch) -> None:
    patch.setattr(key_changes, "is_blocked", lambda *_: False)


# ── hole 15 ──────────────────────────────────────────────────────────────────────────────────


def grant_without_a_lock(patch: Patch) -> None:
    real = orders._changes

    def as_if_locked(keys: Any, group: Any, *rest: Any) -> Any:
        leading = group.leading
        if leading is not None and leading.caught_up and keys.pending is not None:
            lock = TokenPeers(
                token=keys.configuration_token, peers=evidence.in_order(leading.stage_peers)
            )
            keys = replace(keys, pending_lock=lock)
        return real(keys, group, *rest)

    patch.setattr(orders, "_changes", as_if_locked)
    patch.setattr(key_changes, "majority_holds", lambda *_: False)  # so that none is ever stored


def erase_what_the_leader_still_needs(patch: Patch) -> None:
    real = orders._stops

    def without_configuration(keys: Any, group: Any) -> Any:
        return real(keys, cast("Group", _Unconfigured(group)))

    patch.setattr(orders, "_stops", without_configuration)


class _Unconfigured:
    """A group whose leader needs no follower."""

    configured_nodes: frozenset[str] = frozenset()

    def __init__(self, group: Any) -> None:
        self._group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)


def erase_under_a_leader_of_before(patch: Patch) -> None:
    patch.setattr(evidence, "lacks_token", lambda *_: False)
    patch.setattr(orders, "lacks_token", lambda *_: False)


def form_a_group_of_who_may_be_erased(patch: Patch) -> None:
    real = key_changes._on_first_reports

    def as_if_told(keys: Any, group: Any) -> Any:
        told = {
            node: msgspec.structs.replace(
                replica, token=max(replica.token, keys.configuration_token)
            )
            for node, replica in group.replicas.items()
        }
        return real(keys, replace(group, replicas=told))

    patch.setattr(key_changes, "_on_first_reports", as_if_told)


def judge_by_reports_from_before(patch: Patch) -> None:
    real = zone_resources.ZoneResources.read

    async def and_heard(self: Any) -> Any:
        found = await real(self)
        self._heard_from = 0
        return found

    patch.setattr(zone_resources.ZoneResources, "read", and_heard)


def read_the_topology_after_the_nodes(patch: Patch) -> None:
    """As if what another operator wrote were no reason to look at pods and nodes again."""
    read, advance = membership.Membership.read, membership.Membership.advance

    async def later(self: Any, **_: object) -> bool:
        return False

    async def now(self: Any, answers: Any, **in_round: int) -> Any:
        await read(self, in_round=0)
        self.changed_in = 0
        return await advance(self, answers, **in_round)

    patch.setattr(membership.Membership, "read", later)
    patch.setattr(membership.Membership, "advance", now)


def take_the_zone_back(patch: Patch) -> None:
    patch.setattr(zone_resources.ZoneResources, "_heed_newer_topology", lambda *_: None)


def go_on_with_a_released_lock(patch: Patch) -> None:
    def keep(keys: Any, group: Any) -> Any:
        return keys, False

    patch.setattr(key_changes, "_release", keep)


_AVAILABLE = "operated-available"
_VOLATILE = "operated-volatile"

PLANTED = [
    planted(
        "operated",
        "hole 1: planned stays when it becomes pending, an orphan",
        keep_planned_when_it_is_promoted,
        "planned-kept-when-promoted",
    ),
    planted(
        "operated",
        "hole 2: the stable switch is made for whatever set was applied last",
        switch_to_whatever_is_applied,
        "any-applied-set-is-stable",
    ),
    planted(
        "operated",
        "hole 3: orders rest on keys that another operator's write kept from being stored",
        act_on_what_was_not_stored,
        "conflict-ignored",
    ),
    planted(
        _VOLATILE,
        "hole 4: a lost replica starts before its group has removed it, and counts as its member",
        take_another_incarnation_for_a_member,
        "any-incarnation-is-a-member",
    ),
    planted(
        _VOLATILE,
        "hole 5: switchReduce with an empty pending isn't due",
        never_reduce,
        "reduce-never-due",
    ),
    planted(
        _VOLATILE,
        "hole 5: switchReduce isn't written on rebalance done",
        forget_who_is_to_come_back,
        "reduce-kept-when-done",
    ),
    planted(
        _VOLATILE,
        "a volatile group starts over as soon as one of its members is empty",
        begin_anew_beside_members,
        "begun-again-beside-members",
    ),
    planted(
        "operated",
        "hole 10: empty data nodes become assignments",
        assign_empty_data_nodes,
        "empty-assignments",
    ),
    planted(
        "operated",
        "hole 13: a wish replaces a pending that is locked",
        replace_what_is_locked,
        "locked-pending-replaced",
    ),
    planted(
        _AVAILABLE,
        "hole 14: a wish that waits behind pending starts from stable",
        judge_what_waits_from_stable,
        "waiting-wish-from-stable",
    ),
    planted(
        _VOLATILE,
        "hole 13: a blocked change is waited for",
        wait_for_a_blocked_change,
        "blocked-change-awaited",
    ),
    planted(
        "operated",
        "hole 15: a change is granted when it has caught up, locked or not",
        grant_without_a_lock,
        "granted-without-a-lock",
    ),
    planted(
        "operated",
        "hole 15: replicas outside stable and pending are erased, whatever the leader's "
        "configuration says",
        erase_what_the_leader_still_needs,
        "configured-replica-erased",
    ),
    planted(
        "operated",
        "hole 15: an order to erase that is under way isn't shut out before its replica is "
        "needed again",
        erase_under_a_leader_of_before,
        "late-erasure-not-shut-out",
    ),
    planted(
        _AVAILABLE,
        "hole 15: a group is formed of replicas that an order under way may yet erase",
        form_a_group_of_who_may_be_erased,
        "formed-of-who-may-be-erased",
    ),
    planted(
        "operated",
        "hole 15: a lock whose change its leader gave up stays",
        go_on_with_a_released_lock,
        "lock-never-released",
    ),
    planted(
        "operated",
        "what another operator wrote is judged by reports from before",
        judge_by_reports_from_before,
        "older-reports-judged",
    ),
    planted(
        "operated",
        "what another operator wrote of the topology is judged by nodes that were heard before",
        read_the_topology_after_the_nodes,
        "topology-read-after-nodes",
    ),
    planted(
        "operated",
        "a zone follows a topology that is older than the one it has accepted",
        take_the_zone_back,
        "zone-taken-back",
    ),
]
