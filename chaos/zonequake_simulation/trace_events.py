"""Turns the events of replicas and storage into counts and trace events."""

from __future__ import annotations

from zonequake_simulation.trace import TraceKind
from zonequake_simulation.world import World
from zonequake_store.raft.api import (
    ConfigurationApplied,
    LeaderChanged,
    LeaderElected,
    LineageBegun,
    RaftEvent,
    StageChanged,
)
from zonequake_store.raft.messages import Message, Peer


def tell(world: World, me: Peer, event: RaftEvent) -> None:
    """Counts and traces the events of the core of `me`."""
    tally, node = world.tally, me.node
    if isinstance(event, LeaderElected):
        tally["elections"] += 1
        _tell_role(world, node, "leads", event.term, "leader")
    elif isinstance(event, ConfigurationApplied):
        tally["configurations"] += 1
    elif isinstance(event, StageChanged):
        tally[f"stage {event.stage.value}"] += 1
        world.note(TraceKind.STAGE, node, f"{event.stage.value} {event.token}")
    elif isinstance(event, LineageBegun):
        tally["lineages begun"] += 1
    elif isinstance(event, LeaderChanged):
        leader = event.leader
        if leader != me:
            told = "hears no leader" if leader is None else f"follows {leader.node}"
            _tell_role(world, node, told, event.term, "follower")
        else:
            _tell_role(world, node, "is elected", event.term, "leader")
    else:
        tally["reconfiguration errors"] += 1


class StorageJournal:
    """Receives the journal entries of a node's storage."""

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node

    def add(self, kind: str, *, data: dict[str, object]) -> None:
        """Counts and traces an entry."""
        self._world.tally[kind] += 1
        self._world.note(TraceKind.FAULT, self._node, f"{kind}: {data['reason']}")


def _tell_role(world: World, node: str, told: str, term: int, role: str) -> None:
    world.note(TraceKind.ROLE, node, f"{told}, term {term}", term=term, role=role)


def told(message: Message) -> str:
    """Returns a message in a few words."""
    words = [message.kind.name, f"term {message.term}"]
    if message.entries:
        words.append(f"entries {message.entries[0].index}..{message.entries[-1].index}")
    elif message.index:
        words.append(f"index {message.index}")
    if message.reject:
        words.append("rejected")
    return " ".join(words)
