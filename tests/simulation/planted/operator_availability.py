"""Faults in what the operator does about lost nodes: resets, highly available zones, membership."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from tests.simulation.planted.operator_patches import Patch, changed_result, planted
from zonequake_operator.controller.pacing import Pacer
from zonequake_operator.fleet import fencing, fleet
from zonequake_operator.high_availability import chain, cold_start, decisions, reset, reset_orders
from zonequake_operator.nodes import topology
from zonequake_operator.planning import zone_orders
from zonequake_operator.rebalance import ha_wish, key_changes
from zonequake_operator.resources.leases import LeaseSession
from zonequake_protocol.admin import ResetPeers
from zonequake_store.replica import status
from zonequake_store.state import partition


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
        return replace(after, planned=structs.replace(after.planned, nodes=others))

    for module in (reset, cold_start):
        changed_result(patch, module, "two_phases", without_chosen)


def let_the_first_node_back_go_on(patch: Patch) -> None:
    patch.setattr(cold_start, "has_just_stopped", lambda *_: False)


def count_as_stopped_for_ever(patch: Patch) -> None:
    patch.setattr(cold_start, "not_stopped", lambda keys: keys)


def reset_again_for_the_same_loss(patch: Patch) -> None:
    patch.setattr(
        decisions,
        "is_due",
        lambda keys, holders, due: (
            reset.has_lost_majority(keys, holders, due.topology_version) or keys.is_forced
        ),
    )


def forget_the_wish_that_a_reset_overwrote(patch: Patch) -> None:
    def unless_a_reset_ends(result: Any, keys: Any, *_: object) -> Any:
        after, due = result
        return after, due and not (keys.is_resetting and not after.is_resetting)

    changed_result(patch, key_changes, "_on_report", unless_a_reset_ends)


def form_on_the_oldest_link(patch: Patch) -> None:
    def oldest(links: Any, reported: Any) -> Any:
        return chain_unwind(links[:1], reported)

    chain_unwind = chain.unwind
    patch.setattr(chain, "unwind", oldest)


def judge_a_link_by_its_first_report(patch: Patch) -> None:
    patch.setattr(chain, "is_majority", lambda count, size: count > 0)


def take_any_replica_as_the_source(patch: Patch) -> None:
    patch.setattr(chain, "_newest_user_entry", min)


def mark_bookkeeping_as_a_users(patch: Patch) -> None:
    patch.setattr(partition, "is_user_command", lambda command: True)


def find_bookkeeping_as_a_users(patch: Patch) -> None:
    patch.setattr(status, "holds_user_command", lambda data: True)


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


def tell_no_node_of_resets(patch: Patch) -> None:
    for module in (reset, reset_orders):
        patch.setattr(module, "forced_token", lambda keys: 0)


def wish_for_whom_is_away(patch: Patch) -> None:
    patch.setattr(ha_wish, "highly_available", lambda calculated, *_, **__: calculated)


def count_who_ran_out_as_left_without_a_fence(patch: Patch) -> None:
    async def not_taken_over(self: Any, names: Any, why: str) -> None:
        self.leases = {
            name: replace(lease, fenced=why) if name in names else lease
            for name, lease in self.leases.items()
        }

    patch.setattr(fencing.Fencing, "fence", not_taken_over)


def count_the_silent_as_left(patch: Patch) -> None:
    patch.setattr(topology, "_left", lambda *_: True)


def permit_in_any_session(patch: Patch) -> None:
    def as_reported(reports: Any, _: object) -> dict[str, LeaseSession]:
        nodes = [report.node for report in reports.values() if report.node.lease_session]
        return {
            node.name: LeaseSession(holder=node.process_incarnation, number=node.lease_session)
            for node in nodes
        }

    for module in (fleet, zone_orders):
        patch.setattr(module, "sessions_of", as_reported)


_AVAILABLE = "operated-available"
_TRANSACTIONS = "transactions"
"""Random schedules have no resets and transactions together; a script has."""

PLANTED = [
    planted(
        _AVAILABLE,
        "hole 6: a reset that is due isn't judged again",
        reset_though_the_majority_is_back,
        "reset-with-a-majority",
    ),
    planted(
        _AVAILABLE,
        "hole 7: of the candidates the one with the oldest log goes on",
        let_the_oldest_log_go_on,
        "oldest-log-goes-on",
    ),
    planted(
        _AVAILABLE,
        "hole 7: the second phase leaves out the node of the first",
        leave_the_chosen_out_of_planned,
        "chosen-left-out-of-planned",
    ),
    planted(
        _AVAILABLE,
        "hole 8: a running reset is begun again, whatever its revision",
        reset_again_for_the_same_loss,
        "reset-twice-for-one-loss",
    ),
    planted(
        _AVAILABLE,
        "hole 8: a partition isn't due again after its reset",
        forget_the_wish_that_a_reset_overwrote,
        "not-due-after-reset",
    ),
    planted(
        _AVAILABLE,
        "holes 7 and 9: of a group that stopped as a whole, whoever is back first goes on",
        let_the_first_node_back_go_on,
        "stopped-group-reset",
    ),
    planted(
        _AVAILABLE,
        "hole 9: a group that stopped once is never reset again",
        count_as_stopped_for_ever,
        "stopped-for-ever",
    ),
    planted(
        _AVAILABLE,
        "hole 9: a restarted group forms on the oldest link, whatever was written since",
        form_on_the_oldest_link,
        "oldest-link-taken",
    ),
    planted(
        _AVAILABLE,
        "hole 9: a link is judged by the first of its nodes that reports",
        judge_a_link_by_its_first_report,
        "link-judged-without-a-majority",
    ),
    planted(
        _AVAILABLE,
        "hole 9: the source is the first node by name, whatever it holds",
        take_any_replica_as_the_source,
        "any-source",
    ),
    planted(
        _TRANSACTIONS,
        "hole 9: a leader's Rollback and Forget move lastUserCmdIdx",
        mark_bookkeeping_as_a_users,
        "bookkeeping-marked-as-a-users",
    ),
    planted(
        _TRANSACTIONS,
        "hole 9: a Rollback or Forget counts as the newest user entry of a log that shows it",
        find_bookkeeping_as_a_users,
        "bookkeeping-told-as-a-users",
    ),
    planted(
        _AVAILABLE,
        "hole 11: a reset is ordered once",
        reset_once_and_never_again,
        "reset-ordered-once",
    ),
    planted(
        _AVAILABLE,
        "hole 12: start orders carry no enforced token",
        tell_no_node_of_resets,
        "nobody-is-told-of-resets",
    ),
    planted(
        _AVAILABLE,
        "hole 14: a highly available partition wishes for nodes that are away",
        wish_for_whom_is_away,
        "absent-nodes-wished-for",
    ),
    planted(
        _AVAILABLE,
        "membership: a node whose Lease has run out counts as left without a fence",
        count_who_ran_out_as_left_without_a_fence,
        "left-without-a-fence",
    ),
    planted(
        _AVAILABLE,
        "membership: who doesn't answer in a round has left",
        count_the_silent_as_left,
        "silence-is-leaving",
    ),
    planted(
        _AVAILABLE,
        "membership: a node is permitted in a session of its Lease that the topology doesn't know",
        permit_in_any_session,
        "permitted-in-any-session",
    ),
]
