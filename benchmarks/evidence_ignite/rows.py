"""The list of scenarios for both systems, and what their runs gave. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from benchmarks.record.runs import check_names

PASSED, VIOLATED, SLO_BREACHED = "passed", "violated", "slo-breached"


class System(StrEnum):
    """The systems that go through a row: two targets by their names, and Ignite's release with one
    line changed (`control.py`).
    """

    IGNITE = "ignite"
    OURS = "zonequake"
    CONTROL = "ignite-control"

    @property
    def target(self) -> str:
        return System.IGNITE if self is System.CONTROL else self


class Altered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The zone gets `replicas` as soon as the fault `fault` has taken effect."""

    fault: str
    replicas: Annotated[int, Meta(ge=1)]


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scenario, and what each system needs to be given for it.

    `rule`: the part of docs/rules.md that it asks about. `volumes`: the number of volumes that must
    be file systems of their own. `control`: the number of runs of the control, from seed 1 on.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9-]+$")]
    asks: str
    rule: str
    scenario: str
    runs: Annotated[int, Meta(ge=1)]
    overrides: list[str] = []
    ignite: list[str] = []
    ours: list[str] = []
    with_ours: bool = True
    control: Annotated[int, Meta(ge=0)] = 0
    expected: list[str] = []
    volumes: Annotated[int, Meta(ge=0)] = 0
    beside: Altered | None = None
    finding: str = ""

    @property
    def systems(self) -> list[System]:
        return [system for system in System if self.runs_of(system)]

    def runs_of(self, system: System) -> int:
        """Returns how many runs one system is to have, with the seeds from 1 on."""
        if system is System.CONTROL:
            return self.control
        return self.runs if system is System.IGNITE or self.with_ours else 0

    def given(self, system: System) -> list[str]:
        """Returns the overrides for one system."""
        return [*self.overrides, *(self.ours if system is System.OURS else self.ignite)]


class Bad(msgspec.Struct, frozen=True, kw_only=True):
    """A check that a run violated, with its first witness."""

    check: str
    summary: str
    witness: str = ""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was judged. Times in ms, null where nothing was measured.

    `others`: the verdicts of checks that neither passed nor were violated; null in lines that were
    kept before this was. `acknowledged`: writes; `judged`: those of them of which it could be said
    whether they are lost, since reads show them or nothing wrote over them.
    """

    name: str
    system: System
    version: str
    seed: int
    verdict: str
    headline: str
    violated: list[Bad] = []
    others: dict[str, str] | None = None
    acknowledged: int | None = None
    judged: int | None = None
    windows: int | None = None
    certain_ms: float | None = None
    possible_ms: float | None = None
    p99_ms: float | None = None
    took_s: float = 0.0


class Next(msgspec.Struct, frozen=True, kw_only=True):
    """The run to make next."""

    system: System
    seed: int


def read_rows(text: str) -> list[Row]:
    """Reads the list. Raises ValueError, which names what is wrong."""
    rows = msgspec.yaml.decode(text, type=list[Row])
    check_names([row.name for row in rows])
    return rows


def of(row: Row, done: Iterable[Done], system: System) -> list[Done]:
    """Returns the runs of a row on one system, by seed."""
    own = {one.seed: one for one in done if (one.name, one.system) == (row.name, system)}
    return [own[seed] for seed in sorted(own)]


def next_run(row: Row, done: Sequence[Done]) -> Next | None:
    """Returns what is left of a row: each seed on one system, and then on the other."""
    made = {system: {one.seed for one in of(row, done, system)} for system in row.systems}
    for seed in range(1, max(row.runs, row.control) + 1):
        for system in row.systems:
            if seed <= row.runs_of(system) and seed not in made[system]:
                return Next(system=system, seed=seed)
    return None


def first_of(rows: Sequence[Row], done: Sequence[Done]) -> tuple[Row, Next] | None:
    """Returns the run to make first: each row with one seed, before any with the next one."""
    runs = [(row, run) for row in rows if (run := next_run(row, done)) is not None]
    return min(runs, key=lambda each: each[1].seed, default=None)


def done_of(row: Row, run: Next, document: dict[str, Any], *, version: str, took_s: float) -> Done:
    """Returns what is kept of a run; `document` is its verdict.json."""
    numbers = document["numbers"]
    return Done(
        name=row.name,
        system=run.system,
        version=version,
        seed=run.seed,
        verdict=document["verdict"],
        headline=document["headline"],
        violated=[
            Bad(
                check=check["name"],
                summary=check["summary"],
                witness=next(iter(check.get("witnesses", [])), ""),
            )
            for check in document["checks"]
            if check["verdict"] == VIOLATED
        ],
        others={
            check["name"]: check["verdict"]
            for check in document["checks"]
            if check["verdict"] not in (PASSED, VIOLATED)
        },
        acknowledged=numbers.get("acknowledged_writes"),
        judged=next(
            (each["checked"] for each in document["checks"] if each["name"] == "lost-writes"), None
        ),
        windows=numbers.get("windows"),
        certain_ms=numbers.get("longest_window_certain_ms"),
        possible_ms=numbers.get("longest_window_possible_ms"),
        p99_ms=numbers.get("p99_during_ms"),
        took_s=round(took_s, 1),
    )
