"""The messages between Raft replicas, and the values that they store.

A configuration is a complete set that acts when it is appended; `old_peers` is not empty while it
is joint (Ongaro's thesis §4.3; design §4). Message fields follow etcd's, so that another Raft can
sit in the same group in a test.
"""

from __future__ import annotations

import enum

import msgspec


class Peer(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A replica: its node's name and its own incarnation. Another incarnation is another peer."""

    node: str
    incarnation: str


class Configuration(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The voters. Both sorted by node; `token` orders configurations of one partition.

    `lineage`: the token of the last forced reset before it, its own if it is that reset's.
    """

    peers: tuple[Peer, ...]
    old_peers: tuple[Peer, ...] = ()
    token: int = 0
    lineage: int = 0

    @property
    def is_joint(self) -> bool:
        return bool(self.old_peers)

    @property
    def members(self) -> frozenset[Peer]:
        """Both halves together."""
        return frozenset(self.peers) | frozenset(self.old_peers)


class EntryKind(enum.IntEnum):
    """The content of an entry: a command, a configuration (a leader's first entry is one), or
    nothing.
    """

    COMMAND = 0
    CONFIGURATION = 1
    NOOP = 2


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One log entry. `data` of a CONFIGURATION entry is an encoded Configuration."""

    term: int
    index: int
    kind: EntryKind
    data: bytes = b""


class HardState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The state that must be stored before a message that depends on it may leave.

    `commit` is stored lazily, with the next other write: it bounds the replay of a fake start.
    """

    term: int = 0
    vote: Peer | None = None
    commit: int = 0


class SnapshotMeta(msgspec.Struct, frozen=True, array_like=True):
    """The state after entry `index` of `term`, with the configuration in force there."""

    index: int
    term: int
    configuration: Configuration
    configuration_index: int


class MessageKind(enum.IntEnum):
    """Kinds of messages between replicas of one group."""

    PRE_VOTE = 1
    PRE_VOTE_REPLY = 2
    VOTE = 3
    VOTE_REPLY = 4
    APPEND = 5
    APPEND_REPLY = 6
    HEARTBEAT = 7
    HEARTBEAT_REPLY = 8
    SNAPSHOT = 9  # announces a snapshot that the host streams; meta in `snapshot`
    SNAPSHOT_REPLY = 10
    TIMEOUT_NOW = 11  # leadership transfer: start an election at once


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True, omit_defaults=True):
    """One message. Fields not used by a kind keep their defaults.

    `term` carries the sender's lineage too (`zonequake_protocol.terms`).

    `index`, `log_term`: the entry before `entries` (APPEND), the last entry of the candidate
    (VOTE, PRE_VOTE), the last entry now stored (APPEND_REPLY; with `reject`: the APPEND's own
    `index`), the last entry stored and known to be committed (HEARTBEAT_REPLY), the commit index
    that goes with `stamp` (HEARTBEAT). `stamp`: the follower's hidden time (HEARTBEAT_REPLY), and
    its echo (HEARTBEAT); see `raft.freshness`; 0 if there is none. `reject` with
    `hint`, `hint_term`: where the leader should go on. `hint` of a HEARTBEAT_REPLY: the index of
    the snapshot being installed, 0 if none. `context` carries a read index round (HEARTBEAT and
    reply), marks a transfer (VOTE) and a log that only a snapshot can bring into the leader's
    lineage (`NEEDS_SNAPSHOT` in a rejecting APPEND_REPLY). `token` is the sender's configuration
    token.
    """

    kind: MessageKind
    to: Peer
    sender: Peer
    term: int
    index: int = 0
    log_term: int = 0
    commit: int = 0
    entries: tuple[Entry, ...] = ()
    reject: bool = False
    hint: int = 0
    hint_term: int = 0
    context: int = 0
    token: int = 0
    snapshot: SnapshotMeta | None = None
    stamp: int = 0


NEEDS_SNAPSHOT = 1
"""`context` of a rejecting APPEND_REPLY: the sender has applied what the leader's log contradicts,
or can't be compared any more. Only a replica that abstains says so."""

_encoder = msgspec.msgpack.Encoder()
_configuration_decoder = msgspec.msgpack.Decoder(Configuration)


def encode_configuration(configuration: Configuration) -> bytes:
    """Encodes the `data` of a CONFIGURATION entry."""
    return _encoder.encode(configuration)


def decode_configuration(entry: Entry) -> Configuration:
    """Decodes the configuration that a CONFIGURATION entry holds. Raises msgspec.DecodeError."""
    return _configuration_decoder.decode(entry.data)
