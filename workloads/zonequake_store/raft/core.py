"""One replica of a Raft group, sans-IO: the face that a host drives (see `raft.api`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zonequake_store.raft.api import (
    ChangePeersAnswer,
    GrantAnswer,
    LogReader,
    Ready,
    Settings,
    Status,
)
from zonequake_store.raft.messages import Configuration, HardState, Message, Peer, SnapshotMeta


class Raft:
    """A replica. Not thread-safe: one thread calls everything."""

    def __init__(
        self,
        *,
        me: Peer,
        settings: Settings,
        log: LogReader,
        hard_state: HardState,
        random: Callable[[int], int],
        applied: int = 0,
    ) -> None:
        """Start from what is stored. `random(n)` gives 0 ≤ x < n. `applied`: index of the last
        entry in the host's durable applied state; `Ready.committed` goes on behind it.

        A replica without configuration is passive: it never campaigns and learns from a leader.
        """
        raise NotImplementedError

    def tick(self) -> None:
        """`settings.tick_s` have passed."""
        raise NotImplementedError

    def step(self, message: Message) -> None:
        """Take one message. One for another incarnation is ignored."""
        raise NotImplementedError

    def propose(self, commands: Sequence[bytes]) -> tuple[int, int]:
        """Append commands; returns (term, index of the first). Raises NotLeader.

        A command is committed if `Ready.committed` shows its index with this term, and lost if it
        shows the index with another term.
        """
        raise NotImplementedError

    def read(self) -> int:
        """Start a linearizable read; returns its number, answered in `Ready.reads` or
        `Ready.aborted_reads`. Raises NotLeader."""
        raise NotImplementedError

    def bootstrap(self, configuration: Configuration) -> bool:
        """Write a group's first configuration as entry 1 of term 1, the same at each member.

        False, and no effect: this replica has a log already. Raises BootstrapRefused if it is no
        member or the configuration is joint.
        """
        raise NotImplementedError

    def change_peers(self, *, term: int, token: int, peers: tuple[Peer, ...]) -> ChangePeersAnswer:
        """changePeersAsync of the document `rebalance` (docs/interfaces.md, step 3)."""
        raise NotImplementedError

    def grant(self, *, term: int, token: int, peers: tuple[Peer, ...]) -> GrantAnswer:
        """The operator's permission to go on to JOINT (design §3, hole 15). May be repeated."""
        raise NotImplementedError

    def transfer_leadership(self, to: Peer | None = None) -> bool:
        """Hand leadership to `to`, or the most advanced follower. False: not leader, or nobody
        to hand it to. Proposals raise NotLeader until it is done or an election time-out passes."""
        raise NotImplementedError

    def refuse_leadership(self, refuse: bool) -> None:
        """A draining node: never campaign, hand over what is led, again and again."""
        raise NotImplementedError

    def set_catch_up_rate(self, bytes_per_second: int) -> None:
        """Limit APPENDs to catching-up peers; 0: unlimited."""
        raise NotImplementedError

    def compact(self, index: int) -> None:
        """The host compacted the stored log up to `index` ≤ applied (`LogReader.snapshot` is
        snapshot_meta(index), taken before)."""
        raise NotImplementedError

    def snapshot_meta(self, index: int) -> SnapshotMeta:
        """What describes the applied state at `index`, for a snapshot or a compaction.

        Raises LogCompacted if `index` is below the log's start.
        """
        raise NotImplementedError

    def status(self) -> Status:
        raise NotImplementedError

    def has_ready(self) -> bool:
        """Whether ready() has something to do; False while a Ready is outstanding."""
        raise NotImplementedError

    def ready(self) -> Ready:
        """What the host must do now. Raises ReadyOutstanding before the last one is stored."""
        raise NotImplementedError

    def stored(self, ready: Ready) -> None:
        """`ready`'s entries, hard state and snapshot are durable and readable in the log."""
        raise NotImplementedError

    def applied(self, index: int) -> None:
        """The host has applied the committed entries up to `index`."""
        raise NotImplementedError

    def report_unreachable(self, peer: Peer) -> None:
        """A message to `peer` was certainly or probably lost: probe it before sending more."""
        raise NotImplementedError

    def report_snapshot(self, peer: Peer, ok: bool) -> None:
        """The stream to `peer` ended: its core has stepped SNAPSHOT, or it must be sent again."""
        raise NotImplementedError

    def report_snapshot_progress(
        self, peer: Peer, *, index: int, sent_bytes: int, total_bytes: int
    ) -> None:
        """How much of the snapshot at `index` has been streamed, for the peer's progress."""
        raise NotImplementedError
