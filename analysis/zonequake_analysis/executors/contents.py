"""The files of an executors' archive: an interpreter with its library, packages, shared libraries.

All come from the environment that runs the command, so that executors have the driver's versions
and nothing is downloaded. PySpark and Py4J are left out: an executor has them from its own Spark.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from zonequake_analysis.errors import ArchiveError
from zonequake_analysis.executors.manifest import PACKAGE, own_python

_FROM_SPARK = "pyspark"
_LIBRARY = f"lib/python{own_python()}"
SITE = f"{_LIBRARY}/site-packages"
INTERPRETER = f"bin/python{own_python()}"
_UNUSED_LIBRARY = (
    "config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages",
    "lib-dynload", "test", "tkinter", "turtledemo",
)  # fmt: skip
_UNUSED_MODULES = (
    "_curses*", "_dbm*", "_gdbm*", "_test*", "_tkinter*", "_xx*", "nis*", "ossaudiodev*",
    "readline*",
)  # fmt: skip
_UNUSED_IN_PACKAGES = ("include", "src", "tests")
"""Folders directly in a package's own: headers and its tests."""
_OF_THE_SYSTEM = re.compile(
    r"(ld-linux.*|linux-vdso|linux-gate|lib(c|m|anl|dl|mvec|nsl|pthread|resolv|rt|thread_db|util))"
    r"\.so(\.|$)"
)
"""The C library's own files fit the machine's loader alone, so an executor has to have them."""
_LINKED = re.compile(r"^\s+(\S+) => (/.+) \(0x[0-9a-f]+\)$", re.MULTILINE)


def packages() -> dict[str, Distribution]:
    """Returns what the analysis needs beside Spark, by names, with all that those need.

    The client of HDFS is among them if it is installed. Raises ArchiveError if another isn't.
    """
    found: dict[str, Distribution] = {}
    wanted = [(name, "zonequake", True) for name, _ in _required("zonequake", "analysis")]
    wanted += [(name, "zonequake", False) for name, _ in _required("zonequake", "hdfs")]
    while wanted:
        name, asked_by, needed = wanted.pop()
        if name in found or name == _FROM_SPARK:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError as error:
            if needed:
                raise ArchiveError(
                    f"found no package {name}, which {asked_by} needs; install it: "
                    "pip install 'zonequake[analysis]'"
                ) from error
            continue  # for another platform or version of Python
        wanted += [(each, name, not condition) for each, condition in _required(name, None)]
    return found


def _required(name: str, extra: str | None) -> Iterator[tuple[str, str]]:
    """Yields the names that a package requires, also for an extra, each with its condition."""
    for line in distribution(name).requires or []:
        wanted, _, condition = line.partition(";")
        chosen = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", condition)
        if chosen is None or chosen[1] == extra:
            match = re.match(r"[\w.-]+", wanted)
            assert match is not None, line
            yield re.sub(r"[-_.]+", "-", match[0]).lower(), condition.strip()


def files(found: Iterable[Distribution]) -> dict[str, Path]:
    """Returns each file under its name in the archive. Raises ArchiveError."""
    chosen = {INTERPRETER: Path(getattr(sys, "_base_executable", sys.executable)).resolve()}
    chosen |= dict(_standard_library())
    for each in found:
        chosen |= dict(_files_of(each))
    chosen |= {f"{SITE}/{PACKAGE.name}/{name}": path for name, path in _below(PACKAGE)}
    return chosen | _shared_libraries(chosen)


def _standard_library() -> Iterator[tuple[str, Path]]:
    folder = Path(sysconfig.get_path("stdlib"))
    for name, path in _below(folder, compiled=True):
        if not _matches(name.partition("/")[0], _UNUSED_LIBRARY):
            yield f"{_LIBRARY}/{name}", path
    modules = Path(sysconfig.get_config_var("DESTSHARED"))
    for name, path in _below(modules):
        if not _matches(name, _UNUSED_MODULES):
            yield f"{_LIBRARY}/lib-dynload/{name}", path


def _below(folder: Path, *, compiled: bool = False) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (compiled or "__pycache__" not in path.parts):
            yield path.relative_to(folder).as_posix(), path


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _files_of(package: Distribution) -> Iterator[tuple[str, Path]]:
    if package.files is None:
        raise ArchiveError(
            f"found no list of files of the package {package.metadata['Name']}, expected one that "
            "pip installed; install it again by pip"
        )
    for file in package.files:
        path = Path(str(package.locate_file(file)))
        parts = file.parts
        unused = parts[0] == ".." or (len(parts) > 1 and parts[1] in _UNUSED_IN_PACKAGES)
        if not unused and path.is_file():
            yield f"{SITE}/{file.as_posix()}", path


def _shared_libraries(chosen: dict[str, Path]) -> dict[str, Path]:
    """Returns what the chosen programs and modules load from the system, but for the C library."""
    loaded = [
        path for name, path in chosen.items() if ".so" in path.suffixes or name == INTERPRETER
    ]
    inside = set(map(str, chosen.values()))
    try:
        told = subprocess.run(
            ["ldd", *map(str, loaded)], capture_output=True, text=True, check=False
        ).stdout
    except FileNotFoundError as error:
        raise ArchiveError(
            "found no program ldd, expected Linux with glibc: write the archive on a machine like "
            "the workers'"
        ) from error
    return {
        f"lib/{name}": Path(place).resolve()
        for name, place in _LINKED.findall(told)
        if not _OF_THE_SYSTEM.match(name) and str(Path(place).resolve()) not in inside
    }
