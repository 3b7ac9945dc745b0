"""The leaders of partitions, as far as the client knows. Pure; times are passed in.

Reports come from all nodes and may be old. The leader of the highest term wins; a report without a
leader changes nothing, since a node that follows no leader can't say which one is right. After a
failure the followers go on naming the dead leader until their election time-out, so a leader that
failed is *suspect* for a while and reports of the same term don't bring it back:

    t=0   leader A (term 5) is killed, the client loses its connection, A is suspect
    t=20  B reports "leader A, term 5": ignored
    t=300 C reports "leader C, term 6": adopted
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from zonequake_protocol.client import RouteReply, partition_of

SUSPICION_NS = 250_000_000
"""Long enough to outlast an election, short enough if only the connection broke."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    group: str
    members: tuple[str, ...]
    leader_address: str | None
    term: int
    source: str
    suspect: str | None = None
    suspect_until_ns: int = 0


class RoutingTable:
    """Partitions of one zone, their groups, members and leaders; node names and addresses."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.partitions = 0
        self._entries: dict[int, _Entry] = {}
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def merge(self, reply: RouteReply, source: str, now_ns: int) -> bool:
        """Take in what the node at `source` knows; true if the way to some partition changed."""
        changed = False
        self.partitions = reply.partitions or self.partitions
        for name, address in reply.nodes.items():
            self._name(name, address)
        for route in reply.routes:
            leader_address = route.leader_address
            if route.leader is not None:
                if leader_address is None:
                    leader_address = self._addresses.get(route.leader)
                else:
                    self._name(route.leader, leader_address)
            entry = self._entries.get(route.partition)
            if entry is None:
                self._entries[route.partition] = _Entry(
                    group=route.group,
                    members=tuple(route.members),
                    leader_address=leader_address,
                    term=route.term,
                    source=source,
                )
                changed = True
                continue
            if route.group != entry.group or route.term < entry.term:
                continue  # an older report, or a deleted zone of the same name
            entry.members, entry.source = tuple(route.members) or entry.members, source
            changed |= leader_address is not None and self._adopt(
                entry, leader_address, route.term, now_ns
            )
        return changed

    def hint(self, partition: int, address: str, name: str | None, term: int, now_ns: int) -> bool:
        """Adopts the leader that a refusing node named; returns whether that changed the way."""
        if name is not None:
            self._name(name, address)
        entry = self._entries.get(partition)
        # Term 0: the node did not say. It answered just now, so its word is the newest.
        if entry is None or 0 < term < entry.term:
            return False
        return self._adopt(entry, address, max(term, entry.term), now_ns)

    def confirm(self, partition: int, address: str, term: int) -> bool:
        """`address` answered as leader of `term`; true if that changed the way."""
        entry = self._entries.get(partition)
        if entry is None or term < entry.term:
            return False
        changed = entry.leader_address != address
        entry.leader_address, entry.term, entry.suspect = address, term, None
        return changed

    def suspect(self, partition: int, address: str, now_ns: int) -> None:
        """Records that `address` failed to answer as this partition's leader, or no longer
        leads.
        """
        entry = self._entries.get(partition)
        if entry is None or entry.leader_address != address:
            return
        entry.leader_address = None
        entry.suspect, entry.suspect_until_ns = address, now_ns + SUSPICION_NS

    def forget(self, partition: int, group: str) -> None:
        """`group` isn't where it was: let the next report say anything."""
        entry = self._entries.get(partition)
        if entry is not None and entry.group == group:
            del self._entries[partition]

    def partition_of(self, key: str) -> int:
        return partition_of(key, self.partitions)

    def group(self, partition: int) -> str | None:
        entry = self._entries.get(partition)
        return entry.group if entry else None

    def leader(self, partition: int) -> str | None:
        """Returns the address of the leader, None if unknown."""
        entry = self._entries.get(partition)
        return entry.leader_address if entry else None

    def suspected(self, partition: int) -> str | None:
        """Returns the address of the last leader, if it failed and no other is known."""
        entry = self._entries.get(partition)
        return entry.suspect if entry and entry.leader_address is None else None

    def members(self, partition: int) -> tuple[str, ...]:
        """Returns the names of the nodes with a replica, as far as known."""
        entry = self._entries.get(partition)
        return entry.members if entry else ()

    def member(self, partition: int, turn: int, *, without: Collection[str] = ()) -> str | None:
        """Returns the address of some member; another one with each turn. None of `without`, unless
        there are no others.
        """
        entry = self._entries.get(partition)
        if entry is None:
            return None
        known = [self._addresses[name] for name in entry.members if name in self._addresses]
        known = [address for address in known if address not in without] or known
        # A node that is alone has no peer to learn its own address from.
        return known[turn % len(known)] if known else entry.source

    @property
    def nodes(self) -> dict[str, str]:
        """Returns node name -> newest client address of all nodes that were ever reported."""
        return dict(self._addresses)

    def name_of(self, address: str) -> str:
        """Returns the node's name, or the address itself if no name is known."""
        return self._names.get(address, address)

    def _name(self, name: str, address: str) -> None:
        old = self._addresses.get(name)
        if old != address:
            if old is not None and self._names.get(old) == name:
                del self._names[old]
            self._addresses[name] = address
            self._names[address] = name

    def _adopt(self, entry: _Entry, address: str, term: int, now_ns: int) -> bool:
        if term > entry.term:
            changed = entry.leader_address != address
            entry.leader_address, entry.term, entry.suspect = address, term, None
            return changed
        if address == entry.leader_address:
            return False
        if address == entry.suspect and now_ns < entry.suspect_until_ns:
            return False
        entry.leader_address = address
        return True
