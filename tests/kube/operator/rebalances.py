"""Rebalances of one zone, one after the other, and the operator's death at a moment of each.

THREE ──JOIN──▶ FOUR ──LOSS──▶ THREE      the fourth process starts; it is killed, its pod deleted
FOUR ──DRAIN──▶ THREE ──FILL──▶ FOUR      a filter excludes it while it runs; and doesn't any more
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kube.operator.addresses import address, client_addresses
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.background_load import BackgroundLoad
from tests.kube.operator.machine import Machine, relayed
from tests.kube.operator.outcome import Outcome, read_outcome, replicas_at, told_reasons
from tests.kube.operator.relay import Moment, Relay
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

ZONE = "z"
PARTITIONS = 4
FOURTH = 3
"""The ordinal of the node that comes and goes."""
QUIET_S = 1.0
"""So long nothing is written, and the zone is taken as ended; a view waits for VIEW_PERIOD_S."""
ROUNDS = 3
"""So often a successor hears every node before its silence counts."""
POLL_S = 0.2


class Move(StrEnum):
    JOIN = "join"
    LOSS = "loss"
    DRAIN = "drain"
    FILL = "fill"
    FLIP = "flip"

    @property
    def nodes(self) -> tuple[str, ...]:
        """The data nodes that it ends with."""
        return tuple(name(n) for n in range(3 if self in (Move.DRAIN, Move.LOSS) else 4))


def name(ordinal: int) -> str:
    """A data node's name."""
    return f"zq-default-{ordinal}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one rebalance went. `hits`: the kinds of write at which the operator was killed."""

    move: Move
    outcome: Outcome
    problems: list[str]
    kinds: list[str]
    hits: tuple[str, ...] = ()
    duration_s: float = 0.0


@dataclass(slots=True)
class Rebalances:
    """One zone whose operator speaks through a relay."""

    api: ApiServer
    machine: Machine
    relay: Relay
    load: BackgroundLoad
    program: tuple[str, ...] = ()
    """What stands for the operator; empty: itself."""
    running: set[int] = field(default_factory=set)
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    _left: list[Moment] = field(default_factory=list)

    def go(
        self,
        move: Move,
        *moments: Moment,
        expected: Outcome | None = None,
        victim: int | None = None,
        restart: bool = True,
        limit_s: float = PATIENCE_S,
    ) -> Run:
        """Let it happen, kill the operator at each of `moments`, and wait until nothing happens.

        The second moment counts from the successor's start, and so on. With the first, the data
        node `victim` is killed too, and started again with the successor. Without `restart` nobody
        succeeds the operator, and `limit_s` counts from its end. It ends when it shows no problem,
        or what is `expected`, and nothing is written any more.
        """
        began_s = time.monotonic()
        left, hits, kinds = list(moments), list[str](), list[str]()
        told = Counter(told_reasons(self.api))
        self._arm(left, victim)
        self._begin(move)
        problems: list[str] = ["nothing was seen"]
        quiet_since_s, written, limit_from_s = began_s, 0, began_s
        while True:
            if self.relay.hit is not None and restart:
                hits.append(self.relay.hit)
                kinds += self.relay.kinds
                self._succeed(left, victim if len(hits) == 1 else None)
            outcome, now_s = self._read(told), time.monotonic()
            if move is Move.FLIP and outcome.data_nodes == Move.DRAIN.nodes:
                self._begin(Move.FILL)
            problems = outcome.problems() + self._differences(move, expected, outcome)
            if problems or len(self.relay.kinds) != written or not self._is_heard():
                quiet_since_s, written = now_s, len(self.relay.kinds)
            if now_s - quiet_since_s > QUIET_S and self.relay.hit is None:
                outcome = replace(outcome, unreadable=self.relay.run(self.load.unreadable()))
                if not self.relay.release():
                    problems = outcome.problems() + self._differences(move, expected, outcome)
                    break
                quiet_since_s = time.monotonic()  # what came so late must change nothing
            if not restart and self.relay.hit is None:
                limit_from_s = now_s
            is_over = now_s - limit_from_s > limit_s or now_s - began_s > max(limit_s, PATIENCE_S)
            if is_over:
                problems = [f"it didn't end within {limit_s} s", *problems, *self._details()]
                break
            time.sleep(POLL_S)
        # A moment that didn't come is none of what follows, and one that came too late either.
        self.relay.disarm()
        kinds += self.relay.kinds
        if self.relay.hit is not None:
            hits.append(self.relay.hit)
            if restart:
                self._succeed([], None)
        return Run(
            move=move,
            outcome=outcome,
            problems=problems,
            kinds=kinds,
            hits=tuple(hits),
            duration_s=time.monotonic() - began_s,
        )

    def kill_operator_at(self, *moments: Moment) -> None:
        """Arm the relay with the first of them; the others follow with `succeed_if_dead`."""
        self._left = list(moments)
        self._arm(self._left, None)

    def succeed_if_dead(self) -> bool:
        """Start a successor of an operator that was killed at its moment; was it?"""
        if self.relay.hit is None:
            return False
        self._succeed(self._left, None)
        return True

    def is_quiet(self, for_s: float) -> bool:
        """Is nothing written for so long?"""
        self.relay.arm(None)
        give_up_s = time.monotonic() + for_s
        while time.monotonic() < give_up_s and not self.relay.kinds:
            time.sleep(POLL_S)
        return not self.relay.kinds

    def mend(self, move: Move) -> None:
        """After a rebalance that ended wrong: one more operator, and patience."""
        self.replace_operator()
        told = Counter(told_reasons(self.api))
        wait_until(lambda: not self._differences(move, None, self._read(told)))
        wait_until(lambda: not self._read(told).problems())

    def replace_operator(self, *program: str) -> None:
        """End it, and let `program` stand for it from now on; empty: itself."""
        self.program = program
        self.relay.arm(None)
        self.relay.revive()
        self._succeed_operator()
        wait_until(self._is_heard)

    def _differences(self, move: Move, expected: Outcome | None, found: Outcome) -> list[str]:
        if expected is not None:
            return expected.differences(found)
        if found.data_nodes != move.nodes:
            return [f"the data nodes are {found.data_nodes}, expected {move.nodes}"]
        return []

    def _is_heard(self) -> bool:
        return self.relay.reports >= ROUNDS * len(self.running)

    def _read(self, told: Counter[str]) -> Outcome:
        nodes = {name(n): address(n) for n in sorted(self.running)}
        return read_outcome(self.api, ZONE, nodes, told)

    def _details(self) -> list[str]:
        """What each replica of the zone says of itself, to find out why something never came."""
        return [
            f"{name(ordinal)}: {r.partition} is {r.role} of {r.leader} in term {r.term}, "
            f"incarnation {r.incarnation}, stage {r.stage}, log {r.last_index}, commit {r.commit}, "
            f"configuration {r.configuration}"
            for ordinal in sorted(self.running)
            for r in replicas_at(address(ordinal))
            if r.zone == ZONE
        ]

    # ------------------------------------------------------------------------------ what happens

    def _begin(self, move: Move) -> None:
        if move is Move.JOIN:
            if self.rng.random() < 0.5:
                shutil.rmtree(self.machine.data(FOURTH), ignore_errors=True)
            self.machine.want(4)
            self.machine.start(FOURTH)
            self.running.add(FOURTH)
        elif move is Move.LOSS:
            self.machine.want(3)
            self.machine.kill_unseen(FOURTH)
            self.running.discard(FOURTH)
            pod = f"pod/{name(FOURTH)}"
            done = self.api.kubectl("delete", pod, "--force", "--grace-period=0")
            assert done.returncode == 0, done.stderr
        else:
            wanted = None if move is Move.FILL else f'!"{name(FOURTH)}"'
            self.api.patch("dz", ZONE, {"spec": {"dataNodesFilter": wanted}})

    def _arm(self, left: list[Moment], victim: int | None) -> None:
        operator = self.machine.operator
        assert operator is not None
        processes = [operator] if victim is None else [operator, self.machine.processes[victim]]

        def kill() -> None:
            for process in processes:
                process.kill()

        self.relay.arm(left.pop(0) if left else None, kill)

    def _succeed(self, left: list[Moment], victim: int | None) -> None:
        """Start the operator again, and the node that died with it, in any order."""
        steps = [self._succeed_operator]
        if victim is not None:
            steps.append(lambda: self._succeed_node(victim))
            self.rng.shuffle(steps)
        for step in steps:
            step()
        self._arm(left, None)
        self.relay.revive()

    def _succeed_operator(self) -> None:
        self.machine.kill_operator()  # it is dead; this waits for it
        self.machine.start_operator(*self.program)

    def _succeed_node(self, ordinal: int) -> None:
        self.machine.kill(ordinal)
        self.machine.start(ordinal)


@contextmanager
def rebalances(api: ApiServer, folder: Path, *program: str) -> Iterator[Rebalances]:
    """A zone on three data nodes, with keys in it and more being written.

    `program` stands for the operator, if it isn't itself.
    """
    with relayed(api, folder, nodes=FOURTH + 1) as (machine, relay):
        machine.begin_zone(3, *program, partitions=PARTITIONS, dataNodesAutoAdjustScaleDown=0)
        seeds = client_addresses(3)
        yield Rebalances(
            api=machine.api,
            machine=machine,
            relay=relay,
            load=BackgroundLoad.begin(relay, zone=ZONE, seeds=seeds, partitions=PARTITIONS),
            program=program,
            running={0, 1, 2},
        )
