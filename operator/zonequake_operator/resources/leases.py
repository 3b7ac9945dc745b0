"""Node Leases as the operator sees them (design §3, Membership; the node's half: `lease` of the
store).

    renewed ─ unrenewed for 1.25 × its duration ─► run out ─► fenced (compare-and-swap) ─► left
    the process ended, by another proof ─────────────────────► fenced ───────────────────► left
    the node reads that it was fenced ─► a new session ─► joins with it ─► is permitted in it

Fenced first, counted as left then: otherwise a node that comes back could renew its Lease and act
on it beside the one that went on without it. The operator measures time by its own clock, and only
while it was looking: while the API server is unreachable no Lease can be renewed, and no node
counts as left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from zonequake_protocol.admin import LeaseTrouble, NodeIdentity

RUN_OUT = 1.25
"""A Lease has run out after its duration times this: clocks that differ by less agree on which node
may act.
"""
LOOKED_SHARE = 0.25
"""Share of the duration: the longest time between two looks that counts as continuous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A node's Lease. `holder`: the process incarnation that has the session; empty: none.

    `renewed_ms`: by the node's own clock, for people; 0 if it doesn't say.
    """

    name: str
    holder: str
    session: int
    fenced: str | None
    duration_s: float
    resource_version: str
    renewed_ms: int = 0

    def is_live_for(self, process: str) -> bool:
        """Returns whether this process may act on it, for all that is written down."""
        return self.holder == process and self.fenced is None

    def is_fenced_for(self, process: str) -> bool:
        """Returns whether it was taken from this process, which hasn't begun another session."""
        return self.holder == process and self.fenced is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSession:
    """A session of a node's Lease, told from all others: its number alone starts over once the
    Lease of a node that had left for good was deleted."""

    holder: str
    number: int


class TroubleKind(StrEnum):
    """The kinds of trouble with a node's Lease, the worst first."""

    FENCED = "Fenced"
    EXPIRED = "Expired"
    NOT_RENEWED = "NotRenewed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLeaseTrouble:
    """A node that answers, and whose Lease needs a person's attention.

    `since_ms`: when it was renewed last, or first asked for; 0: unknown. `why`: what came of
    its last call, or of its fence.
    """

    kind: TroubleKind
    since_ms: int
    why: str


def troubles(
    identities: Mapping[str, NodeIdentity], leases: Mapping[str, Lease]
) -> dict[str, NodeLeaseTrouble]:
    """Returns the Lease troubles of the nodes that answered in this round, also of those that do
    not know yet that they were given up. Silent nodes are reported as missing elsewhere, and an
    ended process has no use for its Lease.
    """
    found = {}
    for name, node in sorted(identities.items()):
        lease = leases.get(name)
        if lease is not None and lease.is_fenced_for(node.process_incarnation):
            since_ms = node.lease_unrenewed_since_ms or lease.renewed_ms
            why = node.lease_problem or lease.fenced or ""
            found[name] = NodeLeaseTrouble(kind=TroubleKind.FENCED, since_ms=since_ms, why=why)
        elif node.lease_trouble is not None:
            expired = node.lease_trouble is LeaseTrouble.EXPIRED
            found[name] = NodeLeaseTrouble(
                kind=TroubleKind.EXPIRED if expired else TroubleKind.NOT_RENEWED,
                since_ms=node.lease_unrenewed_since_ms,
                why=node.lease_problem or "it gives no reason",
            )
    return found


@dataclass(slots=True)
class _Unrenewed:
    version: str
    duration_s: float
    for_s: float = 0.0


class Renewals:
    """For how long each Lease has been seen unrenewed, by one operator's clock."""

    def __init__(self) -> None:
        self._unrenewed: dict[str, _Unrenewed] = {}
        self._looked_s: float | None = None

    def looked(self, leases: Mapping[str, Lease], now_s: float) -> None:
        """All Leases as they were read just now; `now_s` is taken after the answer."""
        before_s = now_s if self._looked_s is None else self._looked_s
        self._looked_s = now_s
        for name in self._unrenewed.keys() - leases.keys():
            del self._unrenewed[name]
        for name, lease in leases.items():
            known = self._unrenewed.get(name)
            if known is None or known.version != lease.resource_version:
                self._unrenewed[name] = _Unrenewed(lease.resource_version, lease.duration_s)
            else:
                known.for_s += min(now_s - before_s, LOOKED_SHARE * lease.duration_s)

    def looked_at(self, leases: Mapping[str, Lease]) -> None:
        """Some Leases as they were read just now. Of one that is as before no time is counted."""
        for name, lease in leases.items():
            known = self._unrenewed.get(name)
            if known is None or known.version != lease.resource_version:
                self._unrenewed[name] = _Unrenewed(lease.resource_version, lease.duration_s)

    @property
    def run_out(self) -> frozenset[str]:
        """Returns the nodes whose Leases have run out: they know by their own clocks that they may
        not act.
        """
        return frozenset(
            name for name, each in self._unrenewed.items() if each.for_s > RUN_OUT * each.duration_s
        )
