"""One embedded cluster: its name, its folders, and its state files.

Everything of an instance is below its folder, or has its key in its name: a digest of that folder's
path, so that two checkouts never collide, whatever the names of their instances.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from zonequake_cluster.errors import InstanceBusy
from zonequake_cluster.machine.locks import lock_folder
from zonequake_cluster.own_files import find_own_files, state_folder
from zonequake_kube.errors import UsageError

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")

#: The place of the instance's folder and the built programs inside the node. It is short, because
#: paths of sockets may have 107 bytes only, and a checkout may have a long path.
INSIDE = Path("/run/zonequake")
INSIDE_BIN = Path("/run/zonequake-bin")

#: The file below the instance's folder that exists once network policies are in force.
POLICIES_ENFORCED = "policies-enforced"

#: Variable in the environment of every process that `up` starts, from its start on, so that `down`
#: finds the processes of an `up` that was killed before it wrote anything.
MARK = "ZONEQUAKE_CLUSTER"


class InstanceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of an instance; `up` writes it, the supervisor and `status` read it."""

    name: str
    key: str
    node: str
    host_address: str
    node_address: str
    prefix_length: int
    dns_address: str
    service_range: str
    pod_range: str
    snapshotter: str
    cni_folder: str
    started_unix_ns: int


class ComponentState(msgspec.Struct, frozen=True, kw_only=True):
    """A component as the supervisor sees it; `pid` is the process id inside the node, 0 if not
    running.
    """

    name: str
    pid: int
    since_unix_ns: int
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Paths and names of one instance. `root`: the checkout, or the home of an installed wheel."""

    name: str
    root: Path

    @property
    def folder(self) -> Path:
        """The folder with all its state; `down` removes it."""
        return state_folder(self.root) / "cluster" / self.name

    @property
    def bin(self) -> Path:
        """The built programs, shared by the instances of one root; `down` keeps them."""
        return state_folder(self.root) / "bin"

    @property
    def key(self) -> str:
        """8 hex digits, unique on the machine."""
        return hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]

    @property
    def cgroup(self) -> str:
        """The name of its cgroup below the root of every hierarchy."""
        return f"zonequake-{self.key}"

    @property
    def interface(self) -> str:
        """The name of the host's end of its network; at most 15 bytes."""
        return f"zq-{self.key}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def logs(self) -> Path:
        """The folder of the logs: one file per component, and the supervisor's."""
        return self.folder / "logs"

    @property
    def spec_file(self) -> Path:
        """The file with its InstanceSpec."""
        return self.folder / "instance.json"

    @property
    def state_file(self) -> Path:
        """The file with its list of ComponentState."""
        return self.folder / "components.json"

    def read_spec(self) -> InstanceSpec | None:
        """Returns the specification; None if it was never written."""
        try:
            return msgspec.json.decode(self.spec_file.read_bytes(), type=InstanceSpec)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def read_components(self) -> list[ComponentState]:
        """Returns the components; empty before the supervisor has written them."""
        try:
            return msgspec.json.decode(self.state_file.read_bytes(), type=list[ComponentState])
        except (FileNotFoundError, msgspec.DecodeError):
            return []

    @contextmanager
    def locked(self, *, wait_s: float) -> Iterator[None]:
        """Locks the instance for this process; creates its folder.

        The lock is the folder itself, so that no lock file is left. Raises InstanceBusy.
        """
        with lock_folder(self.folder, wait_s=wait_s) as held:
            if not held:
                raise InstanceBusy(
                    f"another process works on the embedded cluster {self.name}, still after "
                    f"{wait_s:.0f} s: wait for it, or stop it and run "
                    f"`zonequake cluster down --name {self.name}`"
                )
            self.folder.chmod(0o700)
            yield


def find_instance(name: str | None = None, root: Path | None = None) -> Instance:
    """Returns the instance `name` of `root`. Default: the name is a digest of the root's path.

    The environment's ZONEQUAKE_CLUSTER_NAME also sets the name. Raises UsageError for a name that
    Kubernetes does not accept as part of a node's.
    """
    root = root if root is not None else find_own_files().root
    if name is None:
        name = (
            os.environ.get("ZONEQUAKE_CLUSTER_NAME")
            or (hashlib.sha256(str(root).encode()).hexdigest()[:8])
        )
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} can't name a cluster: use up to 32 lower-case letters, digits and dashes"
        )
    return Instance(name=name, root=root)
