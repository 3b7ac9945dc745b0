"""The evidence that a peer's process has ended. Pure.

A process holds its port as long as it lives, also while it is stopped or its loop is busy: the
kernel takes connections for it. So its end is proven, at the address where it was spoken to, when

1. the connection to it was ended by the other side's kernel (FIN or RST), and then
2. a new connection to the same address is refused (RST: nothing listens there), or is taken by a
   process that names itself the same node and another incarnation.

So ends a process that is killed, also while its pod and its address stay; a container that starts
again; a pod that is deleted, in the moments before its address goes with it. No proof is

- silence: a time-out, also of a connection that was there (`TCP_USER_TIMEOUT`), may be a cut link;
- no route, no host (`ENETUNREACH`, `EHOSTUNREACH`): a network says that, not the process;
- a connection that ended, alone: a peer closes what is unused, unreadable, or too much;
- a refusal, alone: rules of a firewall refuse too, but don't end what is open;
- another incarnation at another address: the old process may live on where it is.

Two things make a wrong proof:

- a network that ends connections and refuses new ones in a living process's place: a proxy beside
  it that died, or a firewall that refuses while the process itself ends one;
- a call that comes late: its process has ended, and the next one was greeted at its address.

It costs a pre-vote, which is refused by all that hear the leader, and a needless election if those
that don't are a majority. So does a right proof of a node's newer process while an older one,
elsewhere, still leads. `docs/model.md` has these cases in all their states.

    greeted ──► SPOKEN_TO ──ended by peer──► LOST ──REFUSED──► proven, once
                    ▲ └─ another one greets from there ─│────────► proven, once
                    └─────── the same one greets ───────┘
"""

from __future__ import annotations

import enum


class Failure(enum.Enum):
    """The result of a failed attempt to connect."""

    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    """A network said that there is no way."""
    SILENT = "silent"
    """No answer, or one that proves nothing about the process."""


class EndDetector:
    """Detects the end of one node's processes, as one other node sees them. Each input returns the
    incarnation of a process that is now proven to have ended, or None.
    """

    __slots__ = ("_address", "_is_lost", "_process")

    def __init__(self) -> None:
        self._process: str | None = None
        self._address: str | None = None
        """The address at which the process was reached; None: unknown, or its end is proven."""
        self._is_lost = False

    @property
    def lost_address(self) -> str | None:
        """The address to connect to, to find out whether the process lives; None: nothing is in
        doubt.
        """
        return self._address if self._is_lost else None

    def greeted(self, address: str, process: str) -> str | None:
        """Records that a process said that it is the node, on a connection made to `address`."""
        ended = self._process if self._is_replaced(address, process) else None
        self._process, self._address, self._is_lost = process, address, False
        return ended

    def heard(self, address: str, process: str) -> str | None:
        """Records that a process said that it is the node, and that it listens at `address`."""
        if process == self._process:
            return None
        ended = self._process if self._is_replaced(address, process) else None
        self._process, self._address, self._is_lost = process, None, False
        return ended

    def lost(self, *, by_peer: bool) -> None:
        """Records that the connection to the process is gone. `by_peer`: its kernel ended it."""
        self._is_lost = by_peer and self._address is not None

    def failed(self, address: str, how: Failure) -> str | None:
        """Records how an attempt to connect to `address`, begun after the last input, failed."""
        if how is not Failure.REFUSED or not self._is_lost or address != self._address:
            return None
        self._address, self._is_lost = None, False
        return self._process

    def _is_replaced(self, address: str, process: str) -> bool:
        return address == self._address and process != self._process
