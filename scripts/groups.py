"""Names the groups of checks and tests, and which may run beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Lane(Enum):
    """What runs one after another; the lanes run beside each other."""

    COMPUTES = "computes"
    """Our own code, on what the lane that waits leaves of the processors."""
    OTHERS = "others"
    """The same for other people's programs: compilers, buildah, Spark, TLC."""
    SERVERS = "servers"
    """The same for other people's servers, whose answers it mostly waits for: S3, etcd."""
    WAITS = "waits"
    """Mostly for elections, disks and kubelets, and measures times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group: its commands run, and then its folder's tests; `needs` names groups before it."""

    name: str
    commands: tuple[tuple[str, ...], ...] = ()
    folder: str | None = None
    options: tuple[str, ...] = ()
    limit_s: int = 2700  # for a hang that no test ends by itself; slow machines need half of it
    lane: Lane = Lane.COMPUTES
    needs: tuple[str, ...] = ()


_NO_DEADLINE = "--hypothesis-profile=ci"
"""Hypothesis tries the same examples each time, here as with CI=true, and gives none a deadline: on
a busy machine the first one waits for what it imports."""

GROUPS = (
    Group(
        name="programs",  # compiled once, for the groups below; minutes on a fresh machine
        commands=(
            ("python", "-c", "from zonequake_cluster.supply.tools import helm_path; helm_path()"),
        ),
        lane=Lane.OTHERS,
    ),
    Group(
        name="lint",
        commands=(
            ("ruff", "check", "."),
            ("ruff", "format", "--check", "."),
            ("mypy",),
            ("lint-imports",),
            ("python", "scripts/words.py"),
        ),
    ),
    Group(name="unit", folder="tests/unit", options=("-n", "2", _NO_DEADLINE)),
    Group(
        name="images",  # built once, for `cluster`
        commands=(("zonequake", "images", "build"),),
        needs=("programs",),
        lane=Lane.OTHERS,
    ),
    Group(name="simulation", folder="tests/simulation", options=("-n", "2")),
    Group(
        name="processes",
        folder="tests/processes",
        options=("-n", "4", _NO_DEADLINE),
        lane=Lane.WAITS,
    ),
    Group(
        name="chart",
        commands=(
            ("python", "-c", "from tests.chart import chart_tools; chart_tools.chart_tools()"),
        ),
        folder="tests/chart",
        needs=("programs",),
    ),
    # By files: the tests of one share a zone, which takes a while to begin.
    Group(
        name="kube",
        folder="tests/kube",
        options=("-n", "3", "--dist", "loadfile", _NO_DEADLINE),
        lane=Lane.WAITS,
        needs=("programs",),
    ),
    Group(name="spark", folder="tests/spark", limit_s=2700, lane=Lane.OTHERS),
    Group(name="model", folder="tests/model", limit_s=1200, lane=Lane.OTHERS),
    Group(
        name="foreign",
        commands=(("python", "-m", "tests.foreign.compile_all"),),  # minutes, the first time
        folder="tests/foreign",
        needs=("programs",),
        lane=Lane.SERVERS,
    ),
    Group(
        name="cluster",
        folder="tests/cluster",
        lane=Lane.WAITS,
        needs=("programs", "images"),
    ),
)

AWAITED = frozenset(name for group in GROUPS for name in group.needs)
"""Groups that others need."""


def _long(name: str, *options: str) -> Group:
    """The tests of a folder that are marked `long`."""
    marked = ("--long", "-m", "long")
    return Group(
        name=f"long-{name}",
        folder=f"tests/{name}",
        options=(*options, *marked),
        limit_s=3 * 3600,
        lane=Lane.WAITS,
    )


LONG_GROUPS = (
    # Each rule of docs/rules.md, broken on purpose.
    Group(name="audit", commands=(("python", "-m", "tests.rules_audit.audit"),), limit_s=3600),
    # Seeds that were never run before, over all scenarios.
    Group(name="hunt", commands=(("python", "-m", "tests.simulation.hunt"),), limit_s=3 * 3600),
    # The long tests of these groups; docs/testing.md says why `make test` leaves them out.
    _long("unit", "-n", "2"),
    _long("simulation", "-n", "2"),
    _long("processes", "-n", "3"),
    _long("kube", "-n", "2", "--dist", "loadfile"),
    _long("spark"),
    _long("foreign"),
    _long("model"),
    _long("cluster"),
)
"""Sweeps that take too long for each change: `make test-all` runs them after `GROUPS`."""
