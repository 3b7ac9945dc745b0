"""The programs that the embedded cluster and the images need, and the command that installs them.

`python -m zonequake_cluster.requirements` prints the missing Debian packages of both, one per line
(`--all`: every one), for the set-up script: standard library only, as it runs before anything is
installed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.errors import RequirementsMissing

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: Where the distributions put the CNI plugins; the first that has them all is used.
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PLUGINS = ("ptp", "host-local", "loopback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A required program, and the Debian package that has it."""

    program: str
    package: str
    why: str


REQUIREMENTS = (
    Requirement(program="containerd", package="containerd", why="runs the containers"),
    Requirement(program="ctr", package="containerd", why="loads images"),
    Requirement(program="runc", package="runc", why="starts the containers"),
    Requirement(program="iptables", package="iptables", why="kube-proxy routes services with it"),
    Requirement(program="ipset", package="ipset", why="network policies name pods with it"),
    Requirement(
        program="conntrack", package="conntrack", why="kube-proxy ends stale flows with it"
    ),
    Requirement(program="ip", package="iproute2", why="connects the node's network"),
    Requirement(program="mount", package="mount", why="mounts the node's own folders"),
    Requirement(program="setsid", package="util-linux", why="runs the node in its own session"),
    Requirement(program="unshare", package="util-linux", why="isolates the node"),
    Requirement(program="nsenter", package="util-linux", why="runs commands inside the node"),
    Requirement(program="mkfs.ext4", package="e2fsprogs", why="makes volumes of limited size"),
    Requirement(program="strace", package="strace", why="makes the syncs of pods fail"),
    Requirement(program="setpriv", package="util-linux", why="ends a build when its parent ends"),
)
FOR_IMAGES = (
    Requirement(program="buildah", package="buildah", why="builds images"),
    Requirement(program="mmdebstrap", package="mmdebstrap", why="makes the base of the images"),
    Requirement(program="prometheus", package="prometheus", why="is the content of one image"),
)
_CNI = Requirement(
    program=f"CNI plugins ({', '.join(CNI_PLUGINS)})",
    package="containernetworking-plugins",
    why="connect the pods",
)


def cni_folder() -> Path | None:
    """Returns the folder that holds every required CNI plugin."""
    for folder in CNI_FOLDERS:
        if all((folder / plugin).is_file() for plugin in CNI_PLUGINS):
            return folder
    return None


def find_program(program: str) -> str | None:
    """Returns a program's path, even if the user's PATH lacks the sbin folders."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SEARCH_PATH}")


def missing(
    find: Callable[[str], str | None] = find_program,
    cni: Callable[[], Path | None] = cni_folder,
) -> list[Requirement]:
    """Returns the requirements that the machine lacks for the embedded cluster, in the order of
    REQUIREMENTS.
    """
    absent = [requirement for requirement in REQUIREMENTS if find(requirement.program) is None]
    if cni() is None:
        absent.append(_CNI)
    return absent


def missing_for_images(
    find: Callable[[str], str | None] = find_program,
) -> list[Requirement]:
    """Returns the requirements that the machine lacks for building images, in the order of
    FOR_IMAGES.
    """
    return [requirement for requirement in FOR_IMAGES if find(requirement.program) is None]


def packages(requirements: list[Requirement]) -> list[str]:
    """Returns the Debian packages of these requirements, each once, sorted."""
    return sorted({requirement.package for requirement in requirements})


def named(absent: list[Requirement]) -> str:
    """Returns the programs as text, each with its purpose."""
    return "; ".join(f"{each.program} ({each.why})" for each in absent)


def command(absent: list[Requirement]) -> str:
    """Returns the command that installs these requirements."""
    return f"apt-get install -y --no-install-recommends {' '.join(packages(absent))}"


def check(absent: list[Requirement], effective_user: int) -> None:
    """Raises RequirementsMissing with the command to run, if anything is missing."""
    if absent:
        raise RequirementsMissing(f"the machine lacks {named(absent)}: run `{command(absent)}`")
    if effective_user != 0:
        raise RequirementsMissing(
            f"the embedded cluster needs root for its namespaces and this is user "
            f"{effective_user}: run it with sudo, or name another cluster with --context"
        )


def main() -> None:
    """Prints package names for apt-get."""
    every = "--all" in sys.argv[1:]
    chosen = [*REQUIREMENTS, _CNI, *FOR_IMAGES] if every else [*missing(), *missing_for_images()]
    for package in packages(chosen):
        sys.stdout.write(f"{package}\n")


if __name__ == "__main__":
    main()
