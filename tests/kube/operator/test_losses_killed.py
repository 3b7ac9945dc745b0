"""The operator killed at any moment of a reset, of the return after it, and of a volatile switch.

One loss is one reset, also if the operator that decided it is dead: another link of the chain would
show a second one. What every node held before is readable after it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube.operator.api_server import wait_until
from tests.kube.operator.losses import Loss, Losses, losses
from tests.kube.operator.relay import Moment, Way

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube

AVAILABLE = {"consistencyMode": "HighAvailability", "partitionDistributionResetTimeout": 1}
VOLATILE = {"storage": "Volatile"}
SPECS: dict[str, tuple[dict[str, Any], tuple[Loss, ...]]] = {
    "available": (AVAILABLE, (Loss.MAJORITY, Loss.RETURN)),
    "volatile": (VOLATILE, (Loss.RESTART,)),
}
SEED = 11
SAMPLED_CYCLES = 1


@pytest.fixture(
    scope="module", params=["available", pytest.param("volatile", marks=pytest.mark.long)]
)
def scene(
    request: pytest.FixtureRequest,
    api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Losses, dict[Loss, list[str]]]]:
    """The zone, and which writes each loss takes if no process is killed."""
    spec, cycle = SPECS[request.param]
    with losses(api_server, tmp_path_factory.mktemp(f"killed-{request.param}"), spec) as running:
        undisturbed = {}
        for loss in cycle:
            ended = running.go(loss)
            assert ended.problems == [], loss
            undisturbed[loss] = ended.kinds
        yield running, undisturbed


def test_a_loss_ends_alike_wherever_the_operator_is_killed(
    scene: tuple[Losses, dict[Loss, list[str]]],
) -> None:
    running, undisturbed = scene
    rng = random.Random(SEED)
    ways = itertools.cycle(rng.sample(list(Way), len(Way)))
    hits = 0
    for _ in range(SAMPLED_CYCLES):
        for loss, kinds in undisturbed.items():
            kind = rng.choice(sorted(set(kinds)))
            moment = Moment(number=rng.randint(1, kinds.count(kind)), way=next(ways), of=kind)
            ended = running.go(loss, moment)
            assert ended.problems == [], f"{loss}: {moment} ({ended.hits})"
            hits += len(ended.hits)
    assert hits * 2 >= SAMPLED_CYCLES * len(undisturbed)  # not every write comes every time
    # Longer than what waits for its turn, and than the resources are taken for fresh.
    wait_until(lambda: running.is_quiet(6.0))


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("way", list(Way))
def test_every_moment_of_a_loss(
    scene: tuple[Losses, dict[Loss, list[str]]],
    tmp_path_factory: pytest.TempPathFactory,
    way: Way,
) -> None:
    """The first write, the second, and so on, until a loss has fewer."""
    running, undisturbed = scene
    left = set(undisturbed)
    path = tmp_path_factory.getbasetemp() / f"losses-{way}-{'-'.join(undisturbed)}.txt"
    with path.open("w") as table:
        for number in itertools.count(1):
            for loss in undisturbed:
                moments = [Moment(number=number, way=way)] if loss in left else []
                ended = running.go(loss, *moments)
                if moments and not ended.hits:
                    left.discard(loss)
                end = "; ".join(ended.problems) or "as without it"
                if ended.hits:
                    print(
                        f"{loss:<8} {moments[0]} ({ended.hits[0]})  {end}", file=table, flush=True
                    )
                assert ended.problems == []
            if not left:
                break
