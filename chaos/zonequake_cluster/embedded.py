"""The embedded cluster: a whole Kubernetes node on this machine, isolated from everything else.

Its init is the supervisor, in separate network, mount and PID namespaces: killing it ends every
process, and with them every mount, interface, iptables rule and IP set of the node. What the kernel
does not remove by itself (cgroups, the host's end of the veth, the folder) has the instance's key
in its name and is found by it, never by a record; so `down` works after an `up` killed at any
point.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from zonequake_cluster import requirements
from zonequake_cluster.api import Api
from zonequake_cluster.configuration import PAUSE_IMAGE, render_all
from zonequake_cluster.errors import NotRunning, ProviderError, StartFailed
from zonequake_cluster.instance import MARK, POLICIES_ENFORCED, InstanceSpec, find_instance
from zonequake_cluster.machine import cgroups, limited_volumes, network, processes
from zonequake_cluster.machine.disk_room import disk_room
from zonequake_cluster.provider import ClusterStatus, ComponentStatus
from zonequake_cluster.supply.image_import import import_archive, list_images, program_archive
from zonequake_cluster.supply.pki import write_credentials
from zonequake_cluster.supply.toolchain import Programs, ensure_programs

_LOCK_WAIT_S = 20.0
_INIT_TIMEOUT_S = 10.0
#: Seconds. Start-up takes 15 s on two free cores, and longer on a machine that is busy with other
#: work.
_READY_TIMEOUT_S = 180.0
#: Seconds, once the node is Ready. The rules are usually there before.
_POLICIES_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 30.0
_POLL_S = 0.05
_API_POLL_S = 0.25


class EmbeddedCluster:
    """The instance `name` below `root`; by default this installation's own."""

    def __init__(
        self,
        name: str | None = None,
        *,
        root: Path | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self._instance = find_instance(name, root)
        self._say = say

    @property
    def name(self) -> str:
        return self._instance.name

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig; the file exists from the time that the node is Ready until `down`."""
        return self._instance.kubeconfig

    @property
    def context(self) -> str | None:
        return f"zonequake-{self.name}"

    @property
    def embedded(self) -> bool:
        return True

    def up(self) -> None:
        """Starts the node and returns when it is Ready; does nothing if it runs.

        Removes first what an unfinished `up` left. Says at its start if there is little room on the
        disk, and doesn't start a node whose pods would be evicted. Raises ProviderError.
        """
        requirements.check(requirements.missing(), os.geteuid())
        with self._instance.locked(wait_s=_LOCK_WAIT_S):
            runs = self.kubeconfig.is_file() and self._init() is not None
            self._look_at_room(runs=runs)
            mark = {MARK: str(self._instance.folder)}
            programs = ensure_programs(self._instance.bin, say=self._say, environment=mark)
            if runs:
                self._say(f"cluster {self.name} runs already")
                return
            self._end()
            started_s = time.monotonic()
            try:
                self._start(programs)
            except BaseException:
                self._end_keeping_logs()
                raise
            self._say(f"cluster {self.name} is Ready after {time.monotonic() - started_s:.1f} s")

    def _look_at_room(self, *, runs: bool) -> None:
        """Raises TooLittleDisk; of a node that runs it only says so."""
        room = disk_room(self._instance.folder)
        if not runs:
            room.check()
        if (problem := room.problem()) is not None:
            self._say(f"warning: {problem}")

    def down(self) -> None:
        """Ends the node and removes all its traces except programs and image caches."""
        if not self._instance.folder.exists() and not self._has_traces():
            return
        with self._instance.locked(wait_s=_LOCK_WAIT_S):
            self._end()
            _remove_tree(self._instance.folder)
        try:
            self._instance.folder.parent.rmdir()
        except OSError:
            return  # another instance of this root lives there

    def status(self) -> ClusterStatus:
        """Returns the present status; a component that does not run is no error."""
        init, spec = self._init(), self._instance.read_spec()
        if init is None or spec is None:
            left = self._instance.folder.exists() or self._has_traces()
            return ClusterStatus(
                name=self.name,
                running=False,
                ready=False,
                detail="stopped, with leftovers: run `zonequake cluster down`"
                if left
                else "not running",
                logs=self._instance.logs if self._instance.logs.exists() else None,
            )
        try:
            ready, nodes = self._api().ready_nodes()
            detail = f"{ready} of {nodes} nodes Ready"
        except ProviderError as error:
            ready, nodes, detail = 0, 0, str(error)
        return ClusterStatus(
            name=self.name,
            running=True,
            ready=nodes > 0 and ready == nodes,
            detail=detail,
            since_unix_ns=spec.started_unix_ns,
            memory_bytes=processes.namespace_memory_bytes(init),
            logs=self._instance.logs,
            components=tuple(
                ComponentStatus(
                    name=each.name,
                    pid=processes.host_pid(init, each.pid) if each.pid else 0,
                    since_unix_ns=each.since_unix_ns,
                    restarts=each.restarts,
                    log=self._instance.logs / f"{each.name}.log",
                )
                for each in self._instance.read_components()
            ),
        )

    def load_image(self, archive: Path) -> str:
        """Imports an OCI or Docker archive. Raises NotRunning, ProviderError."""
        return import_archive(self._running_init(), archive)

    def images(self) -> list[str]:
        """Returns the names of the node's images. Raises NotRunning."""
        return list_images(self._running_init())

    def limit_volumes(self, *, count: int, mebibytes: int) -> None:
        """Makes sure that there are `count` volumes of the class `limited`, each with its own file
        system; empties and frees those whose claim is gone. Raises NotRunning, ProviderError."""
        init, spec = self._running_init(), self._instance.read_spec()
        if spec is None:
            raise NotRunning(f"cluster {self.name} is just starting: wait until it is Ready")
        limited_volumes.make(init, count=count, mebibytes=mebibytes)
        api = self._api()
        for volume in api.released_volumes(limited_volumes.STORAGE_CLASS):
            limited_volumes.empty(init, volume)
            api.delete("persistentvolume", volume)
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch, "volumes.json")
            file.write_text(limited_volumes.manifests(spec, count=count, mebibytes=mebibytes))
            api.apply(file)

    def _start(self, programs: Programs) -> None:
        folder = self._instance.folder
        _remove_contents(folder)
        self._instance.logs.mkdir()
        self._say(f"starting the node of cluster {self.name}")
        with (self._instance.logs / "supervisor.log").open("ab") as log:
            subprocess.run(
                [
                    # In its own session, because `up` ends and the node stays.
                    *("setsid", "--fork"),
                    *("unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork"),
                    *("--kill-child=KILL", "--propagation", "private", "--"),
                    *(sys.executable, "-m", "zonequake_cluster.supervisor"),
                    *(str(folder), str(programs.folder)),
                ],
                env={**os.environ, MARK: str(folder)},
                cwd="/",
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        init = self._wait_for_init()
        addresses = network.connect(self._instance.interface, init)
        spec = self._spec(addresses)
        write_credentials(spec, folder)
        for name, content in render_all(spec).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        # Last: the supervisor waits for this file, and then finds all others in place.
        _write_whole(self._instance.spec_file, msgspec.json.encode(spec))
        self._make_usable(programs)
        _write_whole(self.kubeconfig, (folder / "kubeconfigs" / "admin").read_bytes())

    def _spec(self, addresses: network.Addresses) -> InstanceSpec:
        plugins = requirements.cni_folder()
        assert plugins is not None, "checked before"
        return InstanceSpec(
            name=self.name,
            key=self._instance.key,
            node=f"zonequake-{self.name}",
            host_address=str(addresses.host),
            node_address=str(addresses.node),
            prefix_length=addresses.wire.prefixlen,
            dns_address=str(addresses.dns),
            service_range=str(addresses.services),
            pod_range=str(addresses.pods),
            snapshotter=_snapshotter(self._instance.folder),
            cni_folder=str(plugins),
            started_unix_ns=time.time_ns(),
        )

    def _make_usable(self, programs: Programs) -> None:
        """Waits for each component, and adds the pause image and the first objects."""
        api = Api(
            kubectl=programs.kubectl,
            kubeconfig=self._instance.folder / "kubeconfigs" / "admin",
            context=None,
        )
        deadline = time.monotonic() + _READY_TIMEOUT_S
        with tempfile.TemporaryDirectory() as scratch:
            archive = Path(scratch, "pause.tar")
            program = programs.pause.read_bytes()
            archive.write_bytes(
                program_archive(program, image=PAUSE_IMAGE, machine=platform.machine())
            )
            self._until(lambda: bool(import_archive(self._running_init(), archive)), deadline)
        self._until(lambda: _applied(api, self._instance.folder / "manifests.yaml"), deadline)
        self._until(lambda: api.ready_nodes() == (1, 1), deadline)
        # No pod can be created in a namespace before its service account exists.
        self._until(lambda: api.exists("serviceaccount", "default", "default"), deadline)
        self._look_at_policies()

    def _look_at_policies(self) -> None:
        """Waits until network policies are in force; only says so if they can't be, as a kernel
        without IP sets still runs a node for everything else.
        """
        deadline = time.monotonic() + _POLICIES_TIMEOUT_S
        while not (self._instance.folder / POLICIES_ENFORCED).exists():
            if time.monotonic() >= deadline:
                log = self._instance.logs / "enforce-policies.log"
                self._say(f"warning: this node does not enforce network policies: see {log}")
                return
            time.sleep(_API_POLL_S)

    def _until(self, condition: Callable[[], bool], deadline: float) -> None:
        """Polls a condition until it holds; a missing answer counts as not true."""
        while True:
            reason = "it does not exist yet"
            try:
                if condition():
                    return
            except NotRunning as error:
                raise StartFailed(
                    f"the node's supervisor ended: see {self._instance.logs / 'supervisor.log'}"
                ) from error
            except ProviderError as error:
                reason = str(error)
            if time.monotonic() >= deadline:
                raise StartFailed(
                    f"cluster {self.name} was not Ready within {_READY_TIMEOUT_S:.0f} s "
                    f"({reason}): see the logs in {self._instance.logs}"
                )
            time.sleep(_API_POLL_S)

    def _wait_for_init(self) -> int:
        deadline = time.monotonic() + _INIT_TIMEOUT_S
        while (init := self._init()) is None:
            if time.monotonic() >= deadline:
                raise StartFailed(
                    f"the node's namespaces were not there within {_INIT_TIMEOUT_S:.0f} s: "
                    f"see {self._instance.logs / 'supervisor.log'}"
                )
            time.sleep(_POLL_S)
        return init

    def _end(self) -> None:
        processes.end_marked(MARK, str(self._instance.folder), timeout_s=_END_TIMEOUT_S)
        network.disconnect(self._instance.interface)
        cgroups.remove(self._instance.cgroup, timeout_s=_END_TIMEOUT_S)

    def _end_keeping_logs(self) -> None:
        """Ends all processes after a failed start; keeps the logs until `down`."""
        self._end()
        for path in self._instance.folder.iterdir():
            if path != self._instance.logs:
                _remove_tree(path)

    def _has_traces(self) -> bool:
        return (
            bool(processes.find_marked(MARK, str(self._instance.folder)))
            or bool(cgroups.find(self._instance.cgroup))
            or Path("/sys/class/net", self._instance.interface).exists()
        )

    def _init(self) -> int | None:
        return processes.find_init(MARK, str(self._instance.folder))

    def _running_init(self) -> int:
        init = self._init()
        if init is None:
            raise NotRunning(
                f"cluster {self.name} does not run: start it with `zonequake cluster up`"
            )
        return init

    def _api(self) -> Api:
        programs = Programs(folder=self._instance.bin)
        return Api(kubectl=programs.kubectl, kubeconfig=self.kubeconfig, context=None)


def _applied(api: Api, manifests: Path) -> bool:
    api.apply(manifests)
    return True


def _snapshotter(folder: Path) -> str:
    """Chooses containerd's snapshotter: an overlay can't have its upper layer on another
    overlay."""
    done = subprocess.run(
        ["stat", "--file-system", "--format=%T", str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    return "native" if done.stdout.strip() == "overlayfs" else "overlayfs"


def _write_whole(path: Path, content: bytes) -> None:
    """Writes a file atomically, readable by its owner only."""
    written = path.with_name(f"{path.name}.new")
    written.touch(mode=0o600)
    written.write_bytes(content)
    written.replace(path)


def _remove_contents(folder: Path) -> None:
    for path in folder.iterdir():
        _remove_tree(path)


def _remove_tree(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
