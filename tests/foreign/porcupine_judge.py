"""Our verdicts beside those of Porcupine, somebody else's checker of linearizability.

The program below `porcupine/` reads history files by itself: it shares neither parsing, nor model,
nor search with our checkers.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from tests.foreign.built_once import built_once
from zonequake_cluster.supply.toolchain import WITHOUT_DEBUGGING, find_go

_SOURCES = Path(__file__).parent / "porcupine"


class KeyVerdict(StrEnum):
    """What Porcupine says of one key."""

    LEGAL = "legal"
    ILLEGAL = "illegal"
    UNKNOWN = "unknown"
    LEFT_OUT = "left-out"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One key: `operations` were placed, or could not be; `reason` says why it was left out."""

    zone: str
    partition: int
    key: str
    verdict: KeyVerdict
    operations: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The compiled judge."""

    program: Path

    @classmethod
    def build(cls) -> Judge:
        """Compiles it if need be. Raises BuildFailed without Go, CalledProcessError otherwise."""

        def build(folder: Path) -> None:
            subprocess.run(
                [
                    find_go(print),
                    "build",
                    *WITHOUT_DEBUGGING,
                    "-o",
                    f"{folder}/porcupine-judge",
                    ".",
                ],
                cwd=_SOURCES,
                env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
                check=True,
            )

        folder = built_once(_SOURCES, suffixes=(".go", ".mod", ".sum"), build=build)
        return cls(program=folder / "porcupine-judge")

    def judged(self, history: Path, *options: str) -> list[Judged]:
        """The verdict on each key of a folder of history files; `options` are the program's."""
        done = subprocess.run(
            [
                str(self.program),
                *options,
                *sorted(str(file) for file in history.glob("*.jsonl")),
            ],
            stdout=subprocess.PIPE,
            check=True,
        )
        decode = msgspec.json.Decoder(Judged).decode
        return [decode(line) for line in done.stdout.splitlines()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How both judged the same keys: `alike` counts verdicts, the rest are keys by name."""

    alike: Counter[KeyVerdict]
    only_ours_illegal: list[str]
    only_theirs_illegal: list[str]
    not_judged: dict[str, str]

    @property
    def disagreements(self) -> list[str]:
        """What must be empty."""
        return [
            *(f"{key}: illegal by us, legal by Porcupine" for key in self.only_ours_illegal),
            *(f"{key}: illegal by Porcupine, legal by us" for key in self.only_theirs_illegal),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Porcupine's word on a run that `zonequake analyze` has judged."""

    keys: int
    illegal: list[str]
    undecided: list[str]
    """Keys with which the search did not come to an end in its time."""
    disagreement: str
    """Empty if both say the same of what was decided."""


def judged_run(judge: Judge, run: Path) -> Verdict:
    """Both verdicts on a run folder: keys without an order beside what `verdict.json` says.

    The store's claimed order may be wrong where an order exists: no key is illegal then.
    """
    keys = [one for one in judge.judged(run / "history") if not one.reason]
    illegal = [one.key for one in keys if one.verdict is KeyVerdict.ILLEGAL]
    undecided = [one.key for one in keys if one.verdict is KeyVerdict.UNKNOWN]
    document = msgspec.json.decode((run / "verdict.json").read_bytes())
    checks = {check["name"]: check for check in document["checks"]}
    ours = checks["linearizability"]
    without_order = ours["violations"] if "not linearizable" in ours["summary"] else 0
    # A refusal of what was expected breaks the register for them; for us it is another check.
    surplus = checks["refusals"]["violations"]
    agree = len(illegal) - surplus <= without_order <= len(illegal) + len(undecided)
    return Verdict(
        keys=len(keys) - len(undecided),
        illegal=illegal,
        undecided=undecided,
        disagreement=""
        if agree
        else f"Porcupine finds no order for {len(illegal)} keys; "
        f"zonequake says: {ours['summary']}; {illegal}",
    )


def compare(theirs: Iterable[Judged], legal: Mapping[str, bool]) -> Comparison:
    """Both verdicts, key by key; `legal` are ours. Raises KeyError for a key that we don't know."""
    alike: Counter[KeyVerdict] = Counter()
    only_ours: list[str] = []
    only_theirs: list[str] = []
    not_judged: dict[str, str] = {}
    for one in theirs:
        if one.verdict in (KeyVerdict.UNKNOWN, KeyVerdict.LEFT_OUT):
            not_judged[one.key] = one.reason or one.verdict
        elif (one.verdict is KeyVerdict.LEGAL) == legal[one.key]:
            alike[one.verdict] += 1
        else:
            (only_ours if one.verdict is KeyVerdict.LEGAL else only_theirs).append(one.key)
    return Comparison(
        alike=alike,
        only_ours_illegal=only_ours,
        only_theirs_illegal=only_theirs,
        not_judged=not_judged,
    )
