"""The API server in virtual time: objects written by compare-and-swap, and the nodes' Leases."""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_operator.resources.leases import Lease
from zonequake_store.lease.rules.node_lease import LeaseRecord, PutLease
from zonequake_store.raft.messages import Peer

API = "api"
"""The name of API server and operator as places in the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWish:
    """The operator's stored wish for a group.

    `lineage`: the token of the last reset, below which no replica takes part; `survivor`: the node
    of that forced reset, until a leader of that lineage reports.
    """

    token: int
    wanted: tuple[Peer, ...]
    lineage: int = 0
    survivor: Peer | None = None


class ApiServer:
    """A strongly consistent API server; a value that was read may be old when it is used."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._wishes: dict[str, tuple[int, StoredWish]] = {}
        self._leases: dict[str, tuple[LeaseRecord, int]] = {}

    def read(self, group: str) -> tuple[int, StoredWish]:
        """Returns a group's object and its version."""
        return self._wishes[group]

    def write(self, group: str, version: int, wish: StoredWish) -> bool:
        """Replaces a group's object; returns False, without effect, unless `version` is the newest.

        Version 0: there is no object yet.
        """
        if self._wishes.get(group, (0, None))[0] != version:
            return False
        self._wishes[group] = version + 1, wish
        return True

    # ── the nodes' Leases ────────────────────────────────────────────────────────────────────

    def read_lease(self, node: str) -> tuple[LeaseRecord, str] | None:
        """Returns a Lease and its version."""
        found = self._leases.get(node)
        return None if found is None else (found[0], str(found[1]))

    def put_lease(self, node: str, put: PutLease) -> str | None:
        """Writes a Lease; returns None, without effect, unless its version is still the newest."""
        found = self._leases.get(node)
        if put.version != (None if found is None else str(found[1])):
            return None
        version = 1 if found is None else found[1] + 1
        self._leases[node] = put.record, version
        return str(version)

    def leases(self) -> dict[str, Lease]:
        """Returns all Leases, as an operator reads them."""
        return {
            node: Lease(
                name=node,
                holder=record.holder,
                session=record.session,
                fenced=record.fenced,
                duration_s=self._lease_ms / 1000,
                resource_version=str(version),
            )
            for node, (record, version) in self._leases.items()
        }
