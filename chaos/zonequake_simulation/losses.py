"""The losses that a run may cause for good without breaking the promises to its clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.operated.control_plane import ControlPlane
from zonequake_simulation.operated.group import OperatedGroup
from zonequake_simulation.small_operator import GroupOperator
from zonequake_store.raft.messages import Peer


class Losses:
    """The losses of one run. `control`: of a run with the real operator. `is_volatile`: nodes keep
    nothing on disk.
    """

    def __init__(
        self,
        *,
        nodes: Mapping[str, SimulatedNode],
        operators: Mapping[str, GroupOperator | OperatedGroup],
        control: ControlPlane | None,
        is_volatile: bool,
    ) -> None:
        self._nodes = nodes
        self._operators = operators
        self._control = control
        self._is_volatile = is_volatile

    def may_end(self, node: SimulatedNode) -> bool:
        """Returns whether every majority survives if this node's process ends now."""
        return not self._is_volatile or self.may_lose(node)

    def may_lose(self, node: SimulatedNode) -> bool:
        """Returns whether every majority survives if the data of this node is gone for good.

        Earlier losses count as gone. In every configuration that a replica might still use, each
        half must keep a majority. The same holds for the sets that the operator has decided on, or
        may decide on by reports from before the loss, without any order sent yet: the first
        members, and peers that are caught up. The loss could not be reported in time. The survivor
        of a reset must keep everything.
        """
        gone = {node.name}
        if self._is_volatile and self._control is not None:
            gone |= self._control.pods.deleted  # their processes will follow
        for group, operator in self._operators.items():
            survivor = operator.wish.survivor
            if survivor is not None and survivor.node in gone:
                return False
            present = {
                node.home.present(group) for node in self._nodes.values() if node.name not in gone
            }
            for half in self._halves(group, operator):
                if half and 2 * len(present.intersection(half)) <= len(half):
                    return False
        return True

    def _halves(
        self, group: str, operator: GroupOperator | OperatedGroup
    ) -> Iterator[tuple[Peer, ...]]:
        known = [
            configuration
            for node in self._nodes.values()
            for configuration in node.home.configurations(group)
        ]
        for configuration in known:
            yield configuration.peers
            yield configuration.old_peers
        if known:
            yield from operator.under_way
        elif not (self._is_volatile and len(operator.first_members) == 1):
            yield operator.first_members  # a single member starts over: nothing was promised yet
