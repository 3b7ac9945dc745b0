"""The client protocol: framed MessagePack between clients and a data node.

A frame (`zonequake_protocol.frames`) holds one MessagePack array. See docs/interfaces.md. Pure
message types: this module imports msgspec and zlib alone, and what a term is.
"""

from __future__ import annotations

import zlib
from enum import StrEnum

import msgspec

from zonequake_protocol.terms import number_of

MAX_FILLER_BYTES = 1024 * 1024
MAX_TEXT_BYTES = 1024 * 1024
"""The largest text value: a larger one would not fit into a frame between peers."""
MAX_TRANSACTION_STEPS = 256
MAX_TRANSACTION_BYTES = 1024 * 1024
"""The largest sum of a transaction's keys, texts and fillers."""
MAX_CLIENT_BYTES = 480
"""The longest client name in a request id: the store keeps results under it."""

Value = int | str | list[int] | None
"""A register's value, an append-list's elements, or None for an absent key."""


class ReplyStatus(StrEnum):
    """Outcome of a request. All but `ok`, `unknown` and `forgotten`: certainly not applied.

    `forgotten`: this attempt was not applied; of earlier ones of the same id nothing is known.
    `locked`: an unfinished transaction holds a key; the request may be sent again.
    `stale`: a bounded read that this replica's state may be too old for; another may have it.
    """

    OK = "ok"
    NOT_LEADER = "not_leader"
    NOT_HERE = "not_here"
    WRONG_PARTITION = "wrong_partition"
    INVALID = "invalid"
    OVERLOADED = "overloaded"
    LOCKED = "locked"
    UNKNOWN = "unknown"
    FORGOTTEN = "forgotten"
    STALE = "stale"


class RequestId(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Names a request across its retries; `sequence` grows within a client.

    `since`: the highest index that the client had seen in the partition (`Reply.index`, of the last
    `Reply.lineage`) when it first sent this request, the same in every retry after an attempt that
    may have been applied. By it a partition that has forgotten a client tells its new requests from
    its old ones.
    """

    client: str
    sequence: int
    since: int = 0


class Read(msgspec.Struct, frozen=True, array_like=True, tag="r", gc=False):
    """Linearizable read by read index; `bounded`: from the local state of any replica.

    `max_staleness_ms` bounds its age: the answer holds all that was acknowledged longer ago than
    that, by the replica's clock, or is `stale`. 0: the replica's state of any age.
    """

    group: str
    key: str
    bounded: bool = False
    max_staleness_ms: int = 0


class Write(msgspec.Struct, frozen=True, array_like=True, tag="w", gc=False):
    """Set a register."""

    group: str
    key: str
    value: int | str
    filler: bytes = b""
    request_id: RequestId | None = None


class Cas(msgspec.Struct, frozen=True, array_like=True, tag="c", gc=False):
    """Set a register if it holds `expected` (None: absent)."""

    group: str
    key: str
    expected: int | str | None
    value: int | str
    request_id: RequestId | None = None


class Append(msgspec.Struct, frozen=True, array_like=True, tag="a", gc=False):
    """Append an element to a list; a key is either a register or a list."""

    group: str
    key: str
    value: int
    request_id: RequestId | None = None


class Transaction(msgspec.Struct, frozen=True, array_like=True, tag="t", gc=False):
    """Carry out all steps, in their order, or none; sent to the leader of the first step's group.

    Each step names its own group, and no `request_id`; a read is never `bounded`. `nodes`: where
    the client knows the replicas of the groups. The transaction must have a `request_id`.
    """

    group: str
    steps: list[Read | Write | Cas | Append]
    request_id: RequestId
    nodes: dict[str, list[str]] = {}


class Route(msgspec.Struct, frozen=True, array_like=True, tag="route", gc=False):
    """Ask for what this node knows of a zone's partitions."""

    zone: str


Body = Read | Write | Cas | Append | Transaction | Route


class Request(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`id` is chosen by the client, unique among its outstanding requests on the connection."""

    id: int
    body: Body


class PartitionRoute(msgspec.Struct, frozen=True, array_like=True):
    """One partition as a node knows it; addresses are of the client port."""

    partition: int
    group: str
    members: list[str]
    leader: str | None
    leader_address: str | None
    term: int


class RouteReply(msgspec.Struct, frozen=True, array_like=True):
    """`nodes`: node name -> client address, as far as known here."""

    zone: str
    partitions: int
    routes: list[PartitionRoute]
    nodes: dict[str, str]


class Reply(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answer to a request.

    `position` places the operation in the partition's order: a write at its entry, a read after the
    entry whose state it saw. `term` is a whole term (`zonequake_protocol.terms`). `value` of a cas
    that found another value is that value, and `applied` is False; so it is for a transaction, of
    which nothing is done then. `results`: of a transaction, what each step read.
    """

    id: int
    status: ReplyStatus
    value: Value = None
    applied: bool | None = None
    lineage: int = 0
    term: int = 0
    index: int = 0
    leader: str | None = None
    leader_address: str | None = None
    error: str | None = None
    route: RouteReply | None = None
    results: list[Value] | None = None

    @property
    def position(self) -> tuple[int, int, int]:
        """(lineage, number of the term in it, index), as histories have them."""
        return self.lineage, number_of(self.term), self.index


def partition_of(key: str, partitions: int) -> int:
    """Returns the partition (0 ≤ p < `partitions`) that `key` belongs to."""
    return zlib.crc32(key.encode()) % partitions
