"""The operator killed at any moment of a rebalance, and restarted: it ends as without the kill.

A moment is one write of the operator, to the API server or to a data node, and a way to die at it
(`relay`). CI takes some of every kind; `--long` takes all (docs/testing.md).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kube.operator.api_server import wait_until
from tests.kube.operator.rebalances import Move, Rebalances, Run, rebalances
from tests.kube.operator.relay import Moment, Way

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer
    from tests.kube.operator.outcome import Outcome

pytestmark = pytest.mark.kube

FORGETFUL = str(Path(__file__).with_name("forgetful_operator.py"))
SEED = 20
CYCLE = (Move.JOIN, Move.DRAIN, Move.FILL, Move.FLIP, Move.LOSS)
"""Each ends where the next begins."""
SOME = (Move.JOIN, Move.LOSS)
"""Of the cycle, and a cycle themselves: all that `make test` takes."""
PLANTED = (
    ("changes", "partitions: pending", "still has ('pending'"),
    ("stops", "partitions: stable", "is held as"),
    ("events", "distributionzones: revision", "told: expected"),
)
"""Faults of `forgetful_operator`, the write at which they matter, and what shows them."""
PLANTED_LIMIT_S = 20.0
SAMPLED_CYCLES = 1
SECOND_KILL_SHARE = 0.3
SECOND_KILL_WITHIN = 8
"""A successor's writes, of which one may be its last."""


def moments(first: Moment, rng: random.Random) -> Iterator[Moment]:
    """The first, and sometimes one of the successor's."""
    yield first
    if rng.random() < SECOND_KILL_SHARE:
        number = rng.randint(1, SECOND_KILL_WITHIN)
        yield Moment(number=number, way=rng.choice(list(Way)))


def describe(run: Run, killed: list[Moment]) -> str:
    """One line of a sweep's table."""
    at = "; ".join(f"{m} ({hit})" for m, hit in itertools.zip_longest(killed, run.hits))
    ended = "; ".join(run.problems) or "as without it"
    return f"{run.move:<5} {run.duration_s:5.1f} s  {at}  {ended}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A zone, and how each rebalance of the cycle goes if no process is killed."""

    rebalances: Rebalances
    undisturbed: dict[Move, Run]

    def go(self, move: Move, *moments: Moment) -> Run:
        """The rebalance, with these kills, until it has ended as without them."""
        return self.rebalances.go(move, *moments, expected=self.expected(move))

    def expected(self, move: Move) -> Outcome:
        """How it has to end. What is told of a flip depends on how far the first half came."""
        outcome = self.undisturbed[move].outcome
        return replace(outcome, told=None) if move is Move.FLIP else outcome


@pytest.fixture(scope="module")
def scene(
    api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Scene]:
    moves = CYCLE if request.config.getoption("--long") else SOME
    with rebalances(api_server, tmp_path_factory.mktemp("killed")) as running:
        runs = [running.go(move) for move in moves]
        assert [run.problems for run in runs] == [[]] * len(moves)
        yield Scene(rebalances=running, undisturbed={run.move: run for run in runs})


def sample(undisturbed: dict[Move, Run], rng: random.Random) -> Iterator[tuple[Move, Moment]]:
    """Moments of all kinds: always one of the kinds that came least often so far."""
    taken: Counter[str] = Counter()
    ways = itertools.cycle(rng.sample(list(Way), len(Way)))
    for move in tuple(undisturbed) * SAMPLED_CYCLES:
        kinds = Counter(undisturbed[move].kinds)
        kind = min(sorted(kinds), key=lambda k: (taken[k], rng.random()))
        taken[kind] += 1
        yield move, Moment(number=rng.randint(1, kinds[kind]), way=next(ways), of=kind)


def test_a_rebalance_ends_alike_wherever_the_operator_is_killed(scene: Scene) -> None:
    rng = random.Random(SEED)
    kills = 0
    for move, moment in sample(scene.undisturbed, rng):
        killed = list(moments(moment, rng))
        run = scene.go(move, *killed)
        line = describe(run, killed)
        print(line)
        assert run.problems == [], line
        kills += len(run.hits)
    assert kills >= len(scene.undisturbed) * SAMPLED_CYCLES / 2  # not every write comes every time
    # Longer than what waits for its turn, and than the resources are taken for fresh.
    wait_until(lambda: scene.rebalances.is_quiet(6.0))


@pytest.mark.long
def test_a_data_node_may_die_with_the_operator(scene: Scene) -> None:
    rng = random.Random(SEED)
    for move in (Move.JOIN, Move.LOSS):
        before = scene.undisturbed[move]
        moment = Moment(number=rng.randint(1, len(before.kinds) // 2), way=rng.choice(list(Way)))
        # A dead node leaves, and comes back: more is told.
        expected = replace(before.outcome, told=None)
        victim = rng.randrange(3)
        run = scene.rebalances.go(move, moment, expected=expected, victim=victim)
        assert run.problems == [], f"node {victim}: {describe(run, [moment])}"


def test_an_operator_that_is_not_restarted_is_found(scene: Scene) -> None:
    moment = Moment(number=1, way=Way.AFTER, of="partitions: pending")
    run = scene.rebalances.go(Move.JOIN, moment, restart=False, limit_s=4)
    assert any("pending" in problem for problem in run.problems), run.problems
    scene.rebalances.mend(Move.JOIN)
    assert scene.go(Move.LOSS).problems == []


@pytest.mark.long
def test_an_operator_that_goes_on_only_with_what_it_began_is_found(scene: Scene) -> None:
    running, expected = scene.rebalances, scene.expected(Move.FILL)
    assert scene.go(Move.JOIN).problems == []
    for fault, kind, evidence in PLANTED:
        running.replace_operator(FORGETFUL, fault)
        assert scene.go(Move.DRAIN).problems == []  # without a kill it is as good as ours
        moment = Moment(number=1, way=Way.AFTER, of=kind)
        run = running.go(Move.FILL, moment, expected=expected, limit_s=PLANTED_LIMIT_S)
        assert any(evidence in problem for problem in run.problems), (fault, run.problems)
        running.mend(Move.FILL)
    assert scene.go(Move.LOSS).problems == []


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize(
    ("there", "moves", "back"),
    [
        pytest.param((), (Move.JOIN, Move.LOSS), (), id="join-loss"),
        pytest.param((Move.JOIN,), (Move.DRAIN, Move.FILL), (Move.LOSS,), id="drain-fill"),
        pytest.param((Move.JOIN,), (Move.FLIP,), (Move.LOSS,), id="flip"),
    ],
)
@pytest.mark.parametrize("way", list(Way))
def test_every_moment(
    scene: Scene,
    tmp_path_factory: pytest.TempPathFactory,
    way: Way,
    there: tuple[Move, ...],
    moves: tuple[Move, ...],
    back: tuple[Move, ...],
) -> None:
    """The first write, the second, and so on, until a rebalance has fewer."""
    rng = random.Random(SEED)
    path = tmp_path_factory.getbasetemp() / f"{way}-{'-'.join(moves)}.txt"
    wrong: list[str] = []
    left = set(moves)
    assert [scene.go(move).problems for move in there] == [[]] * len(there)
    with path.open("w") as table:
        for number in itertools.count(1):
            for move in moves:
                killed = []
                if move in left:
                    killed = list(moments(Moment(number=number, way=way), rng))
                run = scene.go(move, *killed)
                if not run.hits:
                    left.discard(move)
                    continue
                line = describe(run, killed)
                print(line, file=table, flush=True)
                if run.problems:
                    wrong.append(line)
                    scene.rebalances.mend(move)
            if not left:
                break
    assert [scene.go(move).problems for move in back] == [[]] * len(back)
    assert wrong == []
