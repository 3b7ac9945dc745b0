"""Our messages as those of tikv's Raft and back: the same protocol, fields named as in etcd.

What differs, and how each side takes it:

- A leader's first entry is a configuration with us, and empty with them. It crosses as it is: they
  keep ours as data, we take theirs as NOOP. Membership is fixed, so neither means anything new.
- We name peers by node and incarnation, they by number.
- We answer an old term's APPEND with a rejection, they without one: only the term is looked at.
- They add to an answer of a heartbeat, and to a vote, what they have committed; we don't, and 0
  says nothing. Our `index` in an answer of a heartbeat matters to snapshots alone, and there are
  none.
"""

from __future__ import annotations

from zonequake_store.raft.election import TRANSFER
from zonequake_store.raft.messages import Entry, EntryKind, Message, MessageKind, Peer

TheirEntry = tuple[int, int, bytes]
"""(term, index, data)"""

TheirMessage = tuple[int, int, int, int, int, int, int, bool, int, bytes, list[TheirEntry]]
"""(kind, to, from, term, log term, index, commit, reject, hint, context, entries)"""

_KINDS = {
    MessageKind.APPEND: 3,
    MessageKind.APPEND_REPLY: 4,
    MessageKind.VOTE: 5,
    MessageKind.VOTE_REPLY: 6,
    MessageKind.HEARTBEAT: 8,
    MessageKind.HEARTBEAT_REPLY: 9,
    MessageKind.TIMEOUT_NOW: 14,
    MessageKind.PRE_VOTE: 17,
    MessageKind.PRE_VOTE_REPLY: 18,
}
"""`MessageType` of eraftpb.proto."""

_OUR_KINDS = {number: kind for kind, number in _KINDS.items()}
_TRANSFER = b"CampaignTransfer"
_ROUNDS = (MessageKind.HEARTBEAT, MessageKind.HEARTBEAT_REPLY)


class Translation:
    """Between peers and their numbers, which begin with 1; all configurations have `token`."""

    def __init__(self, peers: tuple[Peer, ...], *, token: int) -> None:
        self._numbers = {peer: number for number, peer in enumerate(peers, start=1)}
        self._peers = {number: peer for peer, number in self._numbers.items()}
        self._token = token

    def number(self, peer: Peer) -> int:
        """Theirs for `peer`."""
        return self._numbers[peer]

    def to_theirs(self, message: Message) -> TheirMessage:
        """Raises KeyError for a kind that can't come up: there are no snapshots here."""
        context = b""
        if message.kind in _ROUNDS and message.context:
            context = message.context.to_bytes(8, "big")
        elif message.context == TRANSFER:
            context = _TRANSFER
        reply = message.kind is MessageKind.APPEND_REPLY
        return (
            _KINDS[message.kind],
            self._numbers[message.to],
            self._numbers[message.sender],
            message.term,
            message.hint_term if reply else message.log_term,
            message.index,
            message.commit,
            message.reject,
            message.hint,
            context,
            [entry_to_theirs(entry) for entry in message.entries],
        )

    def to_ours(self, message: TheirMessage) -> Message:
        """Raises KeyError for a kind that can't come up."""
        kind, to, sender, term, log_term, index, commit, reject, hint, context, entries = message
        ours = _OUR_KINDS[kind]
        reply = ours is MessageKind.APPEND_REPLY
        return Message(
            kind=ours,
            to=self._peers[to],
            sender=self._peers[sender],
            term=term,
            index=index,
            log_term=0 if reply else log_term,
            commit=commit,
            entries=tuple(entry_to_ours(entry) for entry in entries),
            reject=reject,
            hint=hint,
            hint_term=log_term if reply else 0,
            context=_context_to_ours(ours, context),
            token=self._token,
        )


def entry_to_theirs(entry: Entry) -> TheirEntry:
    """Its kind becomes the first byte of the data; of NOOP nothing is left."""
    data = b"" if entry.kind is EntryKind.NOOP else bytes((entry.kind,)) + entry.data
    return entry.term, entry.index, data


def entry_to_ours(entry: TheirEntry) -> Entry:
    """Theirs without data is a NOOP."""
    term, index, data = entry
    if not data:
        return Entry(term, index, EntryKind.NOOP)
    return Entry(term, index, EntryKind(data[0]), data[1:])


def _context_to_ours(kind: MessageKind, context: bytes) -> int:
    if kind in _ROUNDS:
        return int.from_bytes(context, "big")
    return TRANSFER if context == _TRANSFER else 0
