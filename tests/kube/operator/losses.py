"""A zone that loses replicas and gets them back, with the operator's death at a moment of either.

HighAvailability   WHOLE ──two nodes die──▶ ALONE (reset) ──they start──▶ WHOLE
Volatile           WHOLE ──a node restarts with nothing──▶ WHOLE (reduced, appended)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kube.operator.addresses import address, client_addresses
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine, relayed
from tests.kube.operator.outcome import replicas_at
from tests.kube.operator.rebalances import QUIET_S, ROUNDS, name
from tests.kube.operator.registers import Registers
from tests.kube.operator.relay import Moment, Relay
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

ZONE = "z"
NODES = 3
PARTITIONS = 2
POLL_S = 0.2
EVERYONE = tuple(name(n) for n in range(NODES))


class Loss(StrEnum):
    MAJORITY = "majority"
    RETURN = "return"
    RESTART = "restart"

    @property
    def chain(self) -> list[list[str]]:
        """The links that a HighAvailability partition ends with."""
        everyone = list(EVERYONE)
        return [everyone, everyone[:1]] if self is Loss.MAJORITY else [everyone]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How it ended. `kinds`: all writes; `hits`: those at which the operator was killed."""

    problems: list[str]
    kinds: list[str]
    hits: list[str]


@dataclass(slots=True)
class Losses:
    """One zone whose operator speaks through a relay, and a client of it."""

    api: ApiServer
    machine: Machine
    relay: Relay
    registers: Registers
    is_chained: bool
    running: set[int] = field(default_factory=lambda: set(range(NODES)))
    written: int = 0

    def go(self, loss: Loss, *moments: Moment) -> Ended:
        """Let it happen, kill the operator at each of `moments`, and wait until nothing happens."""
        self._write("before")
        left, hits, kinds = list(moments), list[str](), list[str]()
        self._arm(left)
        self._begin(loss)
        began_s = quiet_since_s = time.monotonic()
        seen = 0
        while True:
            if self.relay.hit is not None:
                hits.append(self.relay.hit)
                kinds += self.relay.kinds
                self._succeed(left)
            problems, now_s = self._problems(loss), time.monotonic()
            if problems or len(self.relay.kinds) != seen or not self._is_heard():
                quiet_since_s, seen = now_s, len(self.relay.kinds)
            if now_s - quiet_since_s > QUIET_S and self.relay.hit is None:
                if not self.relay.release():
                    break
                quiet_since_s = time.monotonic()  # what came so late must change nothing
            if now_s - began_s > PATIENCE_S:
                problems = [f"it didn't end within {PATIENCE_S} s", *problems]
                break
            time.sleep(POLL_S)
        # A moment that didn't come is none of what follows, and one that came too late either.
        self.relay.disarm()
        kinds += self.relay.kinds
        if self.relay.hit is not None:
            hits.append(self.relay.hit)
            self._succeed([])
        if not problems:
            problems = self._unreadable()
            self._write("after")
        return Ended(problems=problems, kinds=kinds, hits=hits)

    def is_quiet(self, for_s: float) -> bool:
        """Is nothing written for so long?"""
        self.relay.arm(None)
        give_up_s = time.monotonic() + for_s
        while time.monotonic() < give_up_s and not self.relay.kinds:
            time.sleep(POLL_S)
        return not self.relay.kinds

    def _succeed(self, left: list[Moment]) -> None:
        self.machine.kill_operator()  # it is dead; this waits for it
        self.machine.start_operator()
        self._arm(left)
        self.relay.revive()

    def _arm(self, left: list[Moment]) -> None:
        operator = self.machine.operator
        assert operator is not None
        self.relay.arm(left.pop(0) if left else None, operator.kill)

    def _is_heard(self) -> bool:
        return self.relay.reports >= ROUNDS * len(self.running)

    def _begin(self, loss: Loss) -> None:
        if loss in (Loss.MAJORITY, Loss.RESTART):
            gone = (1, 2) if loss is Loss.MAJORITY else (2,)
            self.machine.kill(*gone)
            self.running -= set(gone)
        if loss in (Loss.RETURN, Loss.RESTART):
            self.machine.start(*set(range(NODES)) - self.running)
            self.running = set(range(NODES))

    # ------------------------------------------------------------------------------ what is asked

    def _problems(self, loss: Loss) -> list[str]:
        members = sorted(name(ordinal) for ordinal in self.running)
        found: list[str] = []
        for partition in self.api.read(self._partitions)["items"]:
            status, of = partition.get("status", {}), partition["metadata"]["name"]
            if (stable := status.get("stable", {}).get("nodes")) != members:
                found.append(f"{of} is on {stable}, expected {members}")
            keys = ("pending", "planned", "pendingLock", "switchReduce", "switchAppend")
            found += [f"{of} still has {key}" for key in keys if status.get(key)]
            chain = [link["nodes"] for link in status.get("chain", [])]
            if chain != (loss.chain if self.is_chained else []):
                found.append(f"{of} has the chain {chain}, expected {loss.chain}")
            if loss is not Loss.MAJORITY and status.get("state") != "Available":
                found.append(f"{of} is {status.get('state')}")
        return found + self._misplaced(members)

    def _misplaced(self, members: list[str]) -> list[str]:
        held: dict[int, list[str]] = {}
        found = []
        for ordinal in sorted(self.running):
            for replica in replicas_at(address(ordinal)):
                held.setdefault(replica.partition, []).append(name(ordinal))
                configured = replica.configuration.peers if replica.configuration else []
                if sorted(peer.node for peer in configured) != members:
                    found.append(f"{replica.partition} on {ordinal} has {configured}")
        return found + [f"{n} is held by {held.get(n)}" for n in range(PARTITIONS)
                        if held.get(n) != members]  # fmt: skip

    @property
    def _partitions(self) -> str:
        return f"/apis/zonequake.io/v1alpha1/namespaces/{self.api.namespace}/partitions"

    # ------------------------------------------------------------------------------ what is stored

    def _write(self, key: str) -> None:
        """Acknowledged, and held by every node that runs: a reset may then take nothing of it."""
        self.written += 1
        self.registers.write(key, self.written)
        wait_until(lambda: self._is_even())

    def _is_even(self) -> bool:
        applied: dict[int, set[int]] = {}
        for ordinal in self.running:
            for replica in replicas_at(address(ordinal)):
                applied.setdefault(replica.partition, set()).add(replica.applied)
        return len(applied) == PARTITIONS and all(len(one) == 1 for one in applied.values())

    def _unreadable(self) -> list[str]:
        found = self.registers.read("before")
        return [] if found == self.written else [f"before is {found}, expected {self.written}"]


@contextmanager
def losses(api: ApiServer, folder: Path, spec: dict[str, Any]) -> Iterator[Losses]:
    """A zone of this spec on three data nodes."""
    with relayed(api, folder, nodes=NODES) as (machine, relay):
        machine.begin_zone(NODES, partitions=PARTITIONS, **spec)
        yield Losses(
            api=machine.api,
            machine=machine,
            relay=relay,
            registers=Registers(relay, ZONE, client_addresses(NODES)),
            is_chained="consistencyMode" in spec,
        )
