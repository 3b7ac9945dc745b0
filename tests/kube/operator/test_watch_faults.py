"""Watches that lose events or end, and lists that are old: a rebalance ends as without them.

CI takes a few of each kind; `--long` takes all of each rebalance (docs/testing.md).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kube.operator.api_server import wait_until
from tests.kube.operator.disturbances import Disturbance, Ill
from tests.kube.operator.rebalances import Move, Rebalances, Run, rebalances

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer
    from tests.kube.operator.outcome import Outcome

pytestmark = pytest.mark.kube

CYCLE = (Move.JOIN, Move.DRAIN, Move.FILL, Move.LOSS)
"""Each ends where the next begins."""
SOME = (Move.JOIN, Move.LOSS)
"""Of the cycle, and a cycle themselves: all that `make test` takes."""
SEED = 3
MOST_CYCLES = 4
"""One is enough, unless what was to be disturbed does not come."""

SETTLED_S = 4.0
TURNS = 3
TRUSTING = str(Path(__file__).with_name("trusting_operator.py"))
PLANTED_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A zone, how each rebalance goes undisturbed, and what could be disturbed in it, by path."""

    rebalances: Rebalances
    undisturbed: dict[Move, Run]
    events: dict[Move, Counter[str]]
    answers: dict[Move, Counter[str]]

    def disturbances(self, move: Move) -> list[Disturbance]:
        """All that can happen to it, once each."""
        found = [
            Disturbance(ill=ill, number=number, of=path)
            for ill in (Ill.DROPPED, Ill.GONE, Ill.BROKEN)
            for path, count in sorted(self.events[move].items())
            for number in range(1, count + 1)
        ]
        return found + [
            Disturbance(ill=Ill.STALE, number=number, of=path)
            for path, count in sorted(self.answers[move].items())
            for number in range(1, count + 1)
        ]

    def likely(self, move: Move) -> list[Disturbance]:
        """Returns those in the first half of what passed: on a busy machine the operator writes
        less often, and the last events of an undisturbed run don't come. Not even the first answer
        is certain: the last list before the move may already show what a list in it does.
        """
        return [
            found
            for found in self.disturbances(move)
            if 2 * found.number <= self.counted(move, found) + 1
        ]

    def counted(self, move: Move, found: Disturbance) -> int:
        """Returns how many events or answers of its path passed undisturbed."""
        return (self.answers if found.ill is Ill.STALE else self.events)[move][found.of]

    def in_any_order(
        self, chosen: Callable[[Move], list[Disturbance]]
    ) -> dict[Move, list[Disturbance]]:
        """Returns them for each rebalance."""
        rng = random.Random(SEED)
        found = {move: chosen(move) for move in CYCLE}
        for some in found.values():
            rng.shuffle(some)
        return found

    def go(self, move: Move, disturbance: Disturbance) -> tuple[Run, str | None]:
        """The rebalance with this, until it has ended as without; and what was hit."""
        relay = self.rebalances.relay
        relay.disturb(disturbance)
        run = self.rebalances.go(move, expected=self._expected(move))
        hit = relay.watches.hit
        relay.disturb(None)
        return run, hit

    def _expected(self, move: Move) -> Outcome:
        return replace(self.undisturbed[move].outcome, told=None)


@pytest.fixture(scope="module")
def scene(
    api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Scene]:
    with rebalances(api_server, tmp_path_factory.mktemp("watched")) as running:
        runs, events, answers = {}, {}, {}
        for move in CYCLE if request.config.getoption("--long") else SOME:
            running.relay.disturb(None)
            runs[move] = running.go(move)
            assert runs[move].problems == []
            events[move] = Counter(running.relay.watches.events)
            answers[move] = Counter(running.relay.watches.answers)
        yield Scene(rebalances=running, undisturbed=runs, events=events, answers=answers)


def one_of_each(
    left: dict[Move, list[Disturbance]], turn: int
) -> Iterator[tuple[Move, Disturbance]]:
    """For each rebalance of the cycle something of another kind; it isn't left any more."""
    ills = list(Ill)
    for place, move in enumerate(CYCLE):
        ill = ills[(place + turn) % len(ills)]
        chosen = next((d for d in left[move] if d.ill is ill), None)
        # Each rebalance begins where another ends, so none is left out.
        chosen = chosen or next(iter(left[move]), Disturbance(ill=ill, number=1))
        if chosen in left[move]:
            left[move].remove(chosen)
        yield move, chosen


@pytest.mark.long
def test_a_rebalance_ends_alike_whatever_happens_to_a_watch_or_a_list(scene: Scene) -> None:
    left = scene.in_any_order(scene.likely)
    without, nothing = set(Ill), []
    for turn in range(MOST_CYCLES):
        for move, disturbance in one_of_each(left, turn):
            run, hit = scene.go(move, disturbance)
            assert run.problems == [], f"{move}: {disturbance} ({hit})"
            if hit is None:
                nothing.append(f"{move}: {disturbance} disturbed nothing")
            else:
                without.discard(disturbance.ill)
        if not without:
            break
    assert without == set(), nothing


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
def test_every_moment_of_watches_and_lists(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    left = scene.in_any_order(scene.disturbances)
    wrong: list[str] = []
    with (tmp_path_factory.getbasetemp() / "watches.txt").open("w") as table:
        for turn in itertools.count():
            if not any(left.values()):
                break
            for move, disturbance in one_of_each(left, turn):
                run, hit = scene.go(move, disturbance)
                ended = "; ".join(run.problems) or "as without it"
                line = f"{move:<5} {run.duration_s:5.1f} s  {disturbance} ({hit})  {ended}"
                print(line, file=table, flush=True)
                if run.problems:
                    wrong.append(line)
                    scene.rebalances.mend(move)
    assert wrong == []


@pytest.mark.parametrize("ill", [Ill.GONE, pytest.param(Ill.DROPPED, marks=pytest.mark.long)])
def test_a_pod_that_vanished_behind_an_expired_watch_is_no_ghost(scene: Scene, ill: Ill) -> None:
    """Its deletion came in no event; a decision from an index of pods keeps it forever."""
    assert scene.rebalances.go(Move.JOIN).problems == []
    run, hit = scene.go(Move.LOSS, Disturbance(ill=ill, number=1, of="/pods"))
    assert hit is not None
    assert run.problems == []


@pytest.mark.long
def test_an_operator_that_trusts_its_watches_is_found(scene: Scene) -> None:
    running = scene.rebalances
    for fault, ill, there, move in (
        ("zones", Ill.DROPPED, Move.JOIN, Move.DRAIN),
        ("pods", Ill.GONE, Move.FILL, Move.LOSS),
    ):
        assert running.go(there).problems == []
        running.replace_operator(TRUSTING, fault)
        wait_until(lambda: running.is_quiet(2.0))  # so that the first event is that of the move
        watched = "/distributionzones" if fault == "zones" else "/pods"
        running.relay.disturb(Disturbance(ill=ill, number=1, of=watched))
        run = running.go(move, limit_s=PLANTED_LIMIT_S)
        assert running.relay.watches.hit is not None
        assert any("the data nodes are" in problem for problem in run.problems), fault
        running.relay.disturb(None)
        running.mend(move)


def test_a_settled_zone_writes_nothing_also_while_its_watches_expire(scene: Scene) -> None:
    for ill in (Ill.GONE, Ill.BROKEN):
        # A node that stands still for a second is told of: then something is to be written.
        assert any(writes_nothing(scene, ill, turn) for turn in range(TURNS)), (
            scene.rebalances.relay.kinds
        )
    scene.rebalances.relay.disturb(None)


def writes_nothing(scene: Scene, ill: Ill, turn: int) -> bool:
    """Whether nothing is written while a watch of pods expires so, and for a while after it."""
    running, relay = scene.rebalances, scene.rebalances.relay
    wait_until(lambda: running.is_quiet(SETTLED_S))  # what came before is written
    relay.disturb(Disturbance(ill=ill, number=1, of="/pods"))
    running.api.kubectl("annotate", "pod", "zq-default-0", "--overwrite", f"x={ill}-{turn}")
    wait_until(lambda: relay.watches.hit is not None)
    return not relay.kinds and running.is_quiet(SETTLED_S)
