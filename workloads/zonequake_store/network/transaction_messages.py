"""The messages between the leaders of a transaction's partitions. Pure values.

    coordinator                      participant
    Prepare ───────────────────────► lock, write the Prepare entry
            ◄─────────────────────── Vote            (applied: prepared, or why not)
    Finish(commit) ────────────────► write the Commit entry
            ◄─────────────────────── Done            (applied)
    Finish(abort) ─────────────────► write the Rollback entry; it isn't answered
            ◄─────────────────────── AskOutcome      (prepared, and long without news)
    Finish(commit or abort) ───────► as above

Each may be lost, doubled and come late; all but the votes are sent again until they are answered.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from zonequake_store.state.commands import CommandOutcome
from zonequake_store.state.transactions import ParticipantGroup, TransactionId, TransactionStep


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """Lock and prepare these steps. `nodes`: of the coordinator's group; `floor`: it prepares
    nothing below (module `transactions`)."""

    transaction: TransactionId
    floor: int
    nodes: tuple[str, ...]
    steps: tuple[TransactionStep, ...]


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """The result of preparing: DONE is a promise that only the coordinator can take back.

    `error`: the text for the client, in place of the outcome's.
    """

    transaction: TransactionId
    member: ParticipantGroup
    outcome: CommandOutcome
    error: str | None = None


class Finish(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """The end of a transaction: committed or aborted."""

    transaction: TransactionId
    commit: bool


class Done(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """This group has applied its Commit."""

    transaction: TransactionId
    group: str


class AskOutcome(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """Asks for the end of a transaction; sent by a group that has prepared it."""

    transaction: TransactionId
    member: ParticipantGroup


TransactionMessage = Prepare | Vote | Finish | Done | AskOutcome


class Letter(NamedTuple):
    """A message to the leader of `group`.

    `nodes` are where its replicas were last known; a letter `again` had no answer there: its
    carrier should try all nodes that it knows of.
    """

    group: str
    message: TransactionMessage
    nodes: tuple[str, ...]
    again: bool = False
