"""Faults in the operator's rules: each hole of design §3 is one, and what holds them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from planted.registry import Planted
from zonequake_operator import (
    apply,
    chain,
    change,
    fencing,
    gather,
    high_availability,
    orders,
    plan,
    rebalance,
    reset,
    reset_orders,
    restart,
    switch,
    target,
    topology,
    zone_resources,
)
from zonequake_operator.errors import Conflict
from zonequake_operator.model import AssignmentSet
from zonequake_operator.pacing import Pacer
from zonequake_store.admin_protocol import ResetPeers, Stage

Patch = pytest.MonkeyPatch


def _result(patch: Patch, module: object, name: str, changed: Callable[..., Any]) -> None:
    """`changed(result, *arguments)` instead of what a function gives."""
    real = getattr(module, name)
    patch.setattr(module, name, lambda *args, **kwargs: changed(real(*args, **kwargs), *args))


# ── holes 1 to 5 ─────────────────────────────────────────────────────────────────────────────


def keep_planned_when_it_is_promoted(patch: Patch) -> None:
    _result(
        patch,
        rebalance,
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

    patch.setattr(rebalance, "is_applied", any_set)


def act_on_what_was_not_stored(patch: Patch) -> None:
    real = apply.ZoneReconciler._cas

    async def never_refused(
        self: Any, plural: str, kind: str, name: str, at: Any, *rest: Any
    ) -> str:
        try:
            return await real(self, plural, kind, name, at, *rest)
        except Conflict:
            return str(at.resource_version)

    patch.setattr(apply.ZoneReconciler, "_cas", never_refused)


def take_another_incarnation_for_a_member(patch: Patch) -> None:
    def same_nodes(wanted: AssignmentSet, leading: Any, *_: object) -> bool:
        found = leading.configuration
        return (
            found is not None
            and not found.old_peers
            and {peer.node for peer in found.peers} == set(wanted.nodes)
        )

    for module in (rebalance, orders, change):
        patch.setattr(module, "is_carried", same_nodes)
    patch.setattr(switch, "lost", lambda *_: frozenset())


def never_reduce(patch: Patch) -> None:
    patch.setattr(rebalance, "must_reduce", lambda keys: False)


def forget_who_is_to_come_back(patch: Patch) -> None:
    _result(
        patch,
        switch,
        "on_rebalance_done",
        lambda done, keys, *_: replace(done, switch_reduce=keys.switch_reduce),
    )


# ── holes 6 to 9: resets ─────────────────────────────────────────────────────────────────────


def reset_though_the_majority_is_back(patch: Patch) -> None:
    patch.setattr(reset, "has_lost_majority", lambda *_: True)


def let_the_oldest_log_go_on(patch: Patch) -> None:
    patch.setattr(
        reset,
        "newest_log",
        lambda found: min(found, key=lambda n: (found[n].last_term, found[n].last_index, n)),
    )


def leave_the_chosen_out_of_planned(patch: Patch) -> None:
    def without_chosen(after: Any, keys: Any, chosen: str, *_: object) -> Any:
        if after.planned is None:
            return after
        others = tuple(node for node in after.planned.nodes if node != chosen)
        return replace(after, planned=replace(after.planned, nodes=others))

    for module in (reset, restart):
        _result(patch, module, "two_phases", without_chosen)


def reset_again_for_the_same_loss(patch: Patch) -> None:
    patch.setattr(
        high_availability,
        "is_due",
        lambda keys, holders, due: (
            reset.has_lost_majority(keys, holders, due.topology_version) or keys.is_forced
        ),
    )


def forget_the_wish_that_a_reset_overwrote(patch: Patch) -> None:
    def unless_a_reset_ends(result: Any, keys: Any, *_: object) -> Any:
        after, due = result
        return after, due and not (keys.is_resetting and not after.is_resetting)

    _result(patch, rebalance, "_on_report", unless_a_reset_ends)


def form_on_the_oldest_link(patch: Patch) -> None:
    def oldest(links: Any, reported: Any) -> Any:
        return chain_unwind(links[:1], reported)

    chain_unwind = chain.unwind
    patch.setattr(chain, "unwind", oldest)


def judge_a_link_by_its_first_report(patch: Patch) -> None:
    patch.setattr(chain, "is_majority", lambda count, size: count > 0)


def take_any_replica_as_the_source(patch: Patch) -> None:
    patch.setattr(chain, "_newest_user_entry", min)


# ── holes 10 to 12 ───────────────────────────────────────────────────────────────────────────


def assign_empty_data_nodes(patch: Patch) -> None:
    def with_empty_sets(*args: Any) -> list[AssignmentSet]:
        empty = AssignmentSet(nodes=())
        return [empty if found is None else found for found in plan.calculated_sets(*args)]

    patch.setattr(apply, "plan", partial(plan.plan, calculate=with_empty_sets))


def reset_once_and_never_again(patch: Patch) -> None:
    real = Pacer.due

    def once(self: Any, wanted: Any, now_s: float) -> Any:
        told = self.__dict__.setdefault("told", set())
        due = []
        for send in real(self, wanted, now_s):
            if isinstance(send.order, ResetPeers):
                if send.order.token in told:
                    continue
                told.add(send.order.token)
            due.append(send)
        return due

    patch.setattr(Pacer, "due", once)


def tell_nobody_of_resets(patch: Patch) -> None:
    for module in (reset, reset_orders):
        patch.setattr(module, "forced_token", lambda keys: 0)


# ── hole 13 ──────────────────────────────────────────────────────────────────────────────────


def replace_what_is_locked(patch: Patch) -> None:
    patch.setattr(rebalance, "counts_as_locked", lambda keys: False)


def not_due_after_a_promotion(patch: Patch) -> None:
    def unless_promoted(result: Any, keys: Any, *_: object) -> Any:
        after, due = result
        promoted = keys.planned is not None and after.planned is None
        reset_ends = keys.is_resetting and not after.is_resetting
        return after, due and (reset_ends or not promoted)

    _result(patch, rebalance, "_on_report", unless_promoted)


def wait_for_a_blocked_change(patch: Patch) -> None:
    patch.setattr(rebalance, "is_blocked", lambda *_: False)


# ── hole 14 ──────────────────────────────────────────────────────────────────────────────────


def wish_for_whom_is_away(patch: Patch) -> None:
    patch.setattr(target, "highly_available", lambda calculated, *_, **__: calculated)


# ── hole 15 ──────────────────────────────────────────────────────────────────────────────────


def grant_without_a_lock(patch: Patch) -> None:
    real = orders._changes

    def as_if_locked(keys: Any, group: Any, *rest: Any) -> Any:
        leading = group.leading
        if leading is not None and leading.caught_up and keys.pending is not None:
            lock = rebalance.TokenPeers(
                token=keys.configuration_token, peers=change.in_order(leading.stage_peers)
            )
            keys = replace(keys, pending_lock=lock)
        return real(keys, group, *rest)

    patch.setattr(orders, "_changes", as_if_locked)
    patch.setattr(rebalance, "majority_holds", lambda *_: False)  # so that none is ever stored


def erase_what_the_leader_still_needs(patch: Patch) -> None:
    real = orders._stops

    def without_configuration(keys: Any, group: Any) -> Any:
        return real(keys, _Unconfigured(group))

    patch.setattr(orders, "_stops", without_configuration)


class _Unconfigured:
    """A group whose leader needs nobody."""

    configured_nodes: frozenset[str] = frozenset()

    def __init__(self, group: Any) -> None:
        self._group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)


def erase_under_a_leader_of_before(patch: Patch) -> None:
    patch.setattr(change, "lacks_token", lambda *_: False)
    patch.setattr(orders, "lacks_token", lambda *_: False)


def form_a_group_of_who_may_be_erased(patch: Patch) -> None:
    real = rebalance._on_first_reports

    def as_if_told(keys: Any, group: Any) -> Any:
        told = {
            node: msgspec.structs.replace(
                replica, token=max(replica.token, keys.configuration_token)
            )
            for node, replica in group.replicas.items()
        }
        return real(keys, replace(group, replicas=told))

    patch.setattr(rebalance, "_on_first_reports", as_if_told)


def judge_by_reports_from_before(patch: Patch) -> None:
    real = zone_resources.ZoneResources.read

    async def and_heard(self: Any) -> Any:
        found = await real(self)
        self._heard_from = 0
        return found

    patch.setattr(zone_resources.ZoneResources, "read", and_heard)


def read_the_topology_after_the_nodes(patch: Patch) -> None:
    """As if what another operator wrote were no reason to look at pods and nodes again."""
    read, update = gather.Fleet._read_topology, gather.Fleet._update_topology

    async def later(self: Any) -> bool:
        return False

    async def now(self: Any, identities: Any) -> Any:
        await read(self)
        return await update(self, identities)

    patch.setattr(gather.Fleet, "_read_topology", later)
    patch.setattr(gather.Fleet, "_update_topology", now)


def take_the_zone_back(patch: Patch) -> None:
    patch.setattr(zone_resources.ZoneResources, "_heed_newer_topology", lambda *_: None)


def go_on_with_a_released_lock(patch: Patch) -> None:
    def keep(keys: Any, group: Any) -> Any:
        return keys, False

    patch.setattr(rebalance, "_release", keep)


# ── membership ───────────────────────────────────────────────────────────────────────────────


def count_who_ran_out_as_left_without_a_fence(patch: Patch) -> None:
    async def not_taken_over(self: Any, names: Any, why: str) -> None:
        self.leases = {
            name: replace(lease, fenced=why) if name in names else lease
            for name, lease in self.leases.items()
        }

    patch.setattr(fencing.Fencing, "fence", not_taken_over)


def count_the_silent_as_left(patch: Patch) -> None:
    patch.setattr(topology, "_left", lambda *_: True)


def _planted(scenario: str, what: str, apply_: Callable[[Patch], None], name: str) -> Planted:
    return Planted(name=name, area="operator", scenario=scenario, what=what, apply=apply_)


_AVAILABLE = "operated-available"
_VOLATILE = "operated-volatile"

PLANTED = [
    _planted(
        "operated",
        "hole 1: planned stays when it becomes pending, an orphan",
        keep_planned_when_it_is_promoted,
        "planned-kept-when-promoted",
    ),
    _planted(
        "operated",
        "hole 2: the stable switch is made for whatever set was applied last",
        switch_to_whatever_is_applied,
        "any-applied-set-is-stable",
    ),
    _planted(
        "operated",
        "hole 3: orders rest on keys that another operator's write kept from being stored",
        act_on_what_was_not_stored,
        "conflict-ignored",
    ),
    _planted(
        _VOLATILE,
        "hole 4: a lost replica starts before its group has removed it, and counts as its member",
        take_another_incarnation_for_a_member,
        "any-incarnation-is-a-member",
    ),
    _planted(
        _VOLATILE,
        "hole 5: switchReduce with an empty pending isn't due",
        never_reduce,
        "reduce-never-due",
    ),
    _planted(
        _VOLATILE,
        "hole 5: switchReduce isn't written on rebalance done",
        forget_who_is_to_come_back,
        "reduce-kept-when-done",
    ),
    _planted(
        _AVAILABLE,
        "hole 6: a reset that is due isn't judged again",
        reset_though_the_majority_is_back,
        "reset-with-a-majority",
    ),
    _planted(
        _AVAILABLE,
        "hole 7: of the candidates the one with the oldest log goes on",
        let_the_oldest_log_go_on,
        "oldest-log-goes-on",
    ),
    _planted(
        _AVAILABLE,
        "hole 7: the second phase leaves out the node of the first",
        leave_the_chosen_out_of_planned,
        "chosen-left-out-of-planned",
    ),
    _planted(
        _AVAILABLE,
        "hole 8: a running reset is begun again, whatever its revision",
        reset_again_for_the_same_loss,
        "reset-twice-for-one-loss",
    ),
    _planted(
        _AVAILABLE,
        "hole 8: a partition isn't due again after its reset",
        forget_the_wish_that_a_reset_overwrote,
        "not-due-after-reset",
    ),
    _planted(
        _AVAILABLE,
        "hole 9: a restarted group forms on the oldest link, whatever was written since",
        form_on_the_oldest_link,
        "oldest-link-taken",
    ),
    _planted(
        _AVAILABLE,
        "hole 9: a link is judged by the first of its nodes that reports",
        judge_a_link_by_its_first_report,
        "link-judged-without-a-majority",
    ),
    _planted(
        _AVAILABLE,
        "hole 9: the source is the first node by name, whatever it holds",
        take_any_replica_as_the_source,
        "any-source",
    ),
    _planted(
        "operated",
        "hole 10: empty data nodes become assignments",
        assign_empty_data_nodes,
        "empty-assignments",
    ),
    _planted(
        _AVAILABLE,
        "hole 11: a reset is ordered once",
        reset_once_and_never_again,
        "reset-ordered-once",
    ),
    _planted(
        _AVAILABLE,
        "hole 12: start orders carry no enforced token",
        tell_nobody_of_resets,
        "nobody-is-told-of-resets",
    ),
    _planted(
        "operated",
        "hole 13: a wish replaces a pending that is locked",
        replace_what_is_locked,
        "locked-pending-replaced",
    ),
    _planted(
        _AVAILABLE,
        "hole 13: a partition isn't due again after a stable switch that promoted planned",
        not_due_after_a_promotion,
        "not-due-after-promotion",
    ),
    _planted(
        _VOLATILE,
        "hole 13: a blocked change is waited for",
        wait_for_a_blocked_change,
        "blocked-change-awaited",
    ),
    _planted(
        _AVAILABLE,
        "hole 14: a highly available partition wishes for nodes that are away",
        wish_for_whom_is_away,
        "absent-nodes-wished-for",
    ),
    _planted(
        "operated",
        "hole 15: a change is granted when it has caught up, locked or not",
        grant_without_a_lock,
        "granted-without-a-lock",
    ),
    _planted(
        "operated",
        "hole 15: replicas outside stable and pending are erased, whatever the leader's "
        "configuration says",
        erase_what_the_leader_still_needs,
        "configured-replica-erased",
    ),
    _planted(
        "operated",
        "hole 15: an order to erase that is under way isn't shut out before its replica is "
        "needed again",
        erase_under_a_leader_of_before,
        "late-erasure-not-shut-out",
    ),
    _planted(
        _AVAILABLE,
        "hole 15: a group is formed of replicas that an order under way may yet erase",
        form_a_group_of_who_may_be_erased,
        "formed-of-who-may-be-erased",
    ),
    _planted(
        "operated",
        "hole 15: a lock whose change its leader gave up stays",
        go_on_with_a_released_lock,
        "lock-never-released",
    ),
    _planted(
        "operated",
        "what another operator wrote is judged by reports from before",
        judge_by_reports_from_before,
        "older-reports-judged",
    ),
    _planted(
        "operated",
        "what another operator wrote of the topology is judged by nodes that were heard before",
        read_the_topology_after_the_nodes,
        "topology-read-after-nodes",
    ),
    _planted(
        "operated",
        "a zone follows a topology that is older than the one it has accepted",
        take_the_zone_back,
        "zone-taken-back",
    ),
    _planted(
        _AVAILABLE,
        "membership: a node whose Lease has run out counts as left without a fence",
        count_who_ran_out_as_left_without_a_fence,
        "left-without-a-fence",
    ),
    _planted(
        _AVAILABLE,
        "membership: who doesn't answer in a round has left",
        count_the_silent_as_left,
        "silence-is-leaving",
    ),
]
