"""The operator's orders to data nodes, as text for one line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zonequake_protocol.admin import (
    CancelChangePeers,
    ChangePeers,
    Order,
    ResetPeers,
    StartReplica,
    StopReplica,
)


class ActionKind(StrEnum):
    """Kinds of actions. Bootstraps, grants and inspections aren't shown: what-if supposes them."""

    START_REPLICA = "startReplica"
    STOP_REPLICA = "stopReplica"
    ERASE_REPLICA = "eraseReplica"
    CHANGE_PEERS = "changePeers"
    CANCEL_CHANGE_PEERS = "cancelChangePeers"
    RESET_PEERS = "resetPeers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action; `peers` of changePeers and resetPeers alone."""

    partition: int
    node: str
    do: ActionKind
    peers: tuple[str, ...] | None = None


def action_of(partition: int, node: str, order: Order) -> Action | None:
    """Turns an order into an action; returns None for one that isn't shown."""
    peers: tuple[str, ...] | None = None
    match order:
        case StartReplica():
            do = ActionKind.START_REPLICA
        case StopReplica(erase=True):
            do = ActionKind.ERASE_REPLICA
        case StopReplica():
            do = ActionKind.STOP_REPLICA
        case ChangePeers():
            do, peers = ActionKind.CHANGE_PEERS, tuple(sorted(peer.node for peer in order.peers))
        case CancelChangePeers():
            do = ActionKind.CANCEL_CHANGE_PEERS
        case ResetPeers():
            do, peers = ActionKind.RESET_PEERS, tuple(sorted(peer.node for peer in order.peers))
        case _:
            return None
    return Action(partition=partition, node=node, do=do, peers=peers)
