"""The inspected state of replicas that wait for their start order.

A waiting replica doesn't change, so one answer is good until its process ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from zonequake_protocol.admin import (
    InspectReplica,
    Order,
    OrderReplies,
    ReplicasReport,
    ReplicaStatus,
)


class Inspections:
    """The answers to InspectReplica, by node and group."""

    def __init__(self) -> None:
        self._processes: dict[str, str] = {}
        self._found: dict[str, dict[str, ReplicaStatus]] = {}

    def heard(self, node: str, orders: list[Order], replies: OrderReplies) -> None:
        """Records that a node has answered these orders."""
        for order, reply in zip(orders, replies.replies, strict=True):
            if isinstance(order, InspectReplica) and reply.replica is not None:
                if self._processes.get(node) != replies.process_incarnation:
                    self._processes[node] = replies.process_incarnation
                    self._found[node] = {}
                self._found[node][order.group] = reply.replica

    def of(self, reports: Mapping[str, ReplicasReport]) -> dict[str, dict[str, ReplicaStatus]]:
        """Returns the inspections of the processes that these reports come from; forgets all
        others.
        """
        ended = [
            node
            for node, process in self._processes.items()
            if node in reports and reports[node].node.process_incarnation != process
        ]
        for node in ended:
            del self._processes[node], self._found[node]
        return {node: found for node, found in self._found.items() if node in reports}
