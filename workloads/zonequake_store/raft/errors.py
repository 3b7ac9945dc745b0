"""The errors of the Raft core.

RaftError
├── NotLeader           propose, read: ask `leader`, if it is known
├── ResetRefused        this replica holds nothing that a reset could save
├── BootstrapRefused    this replica is no member of the first configuration
├── ReadyOutstanding    ready() before stored() of the Ready before
├── LogCompacted        the log was asked for an entry it no longer holds
└── LogCorrupted        a rule that Raft rests on is broken: stop the replica, keep its files
"""

from __future__ import annotations

from zonequake_store.raft.messages import Peer


class RaftError(Exception):
    """Base of everything the Raft core raises."""


class NotLeader(RaftError):
    """This replica does not lead (or is handing over); certainly nothing was appended."""

    def __init__(self, leader: Peer | None) -> None:
        known = f"ask {leader.node}" if leader else "no leader is known, try again later"
        super().__init__(f"this replica does not lead its group: {known}")
        self.leader = leader


class BootstrapRefused(RaftError):
    """A first configuration that does not name this replica was given to it."""


class ResetRefused(RaftError):
    """A replica without log and configuration was asked to go on alone."""


class InvalidPeers(RaftError):
    """A set of peers that is empty or names a node twice."""


class ReadyOutstanding(RaftError):
    """The host asked for a Ready while the one before is not stored yet, or stored another one."""


class LogCompacted(RaftError):
    """An entry below the first index was asked for: send a snapshot instead."""


class LogCorrupted(RaftError):
    """A committed entry would be overwritten or is missing."""
