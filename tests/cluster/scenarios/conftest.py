"""The release on the session's cluster, and runs of scenarios against it, through the command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.planted_nodes import faults_of_nodes
from tests.foreign.porcupine_judge import Judge, judged_run
from tests.kube.operator.audit_log import Refusal, calls, lacking
from tests.patience import PATIENCE_S
from zonequake_analysis.cli import analyze
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.images.build import build_all
from zonequake_ctl.context import DEFAULT_NAMESPACE, DEFAULT_RELEASE, ReleasePlace
from zonequake_ctl.release.access import CONTEXT, write_access
from zonequake_ctl.release.install import install_release
from zonequake_kube.errors import NotFound
from zonequake_kube.objects import is_ready


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A run's exit code and folder."""

    exit_code: int
    folder: Path
    output: str

    @property
    def verdict(self) -> dict[str, Any]:
        found = json.loads((self.folder / "verdict.json").read_text())
        assert isinstance(found, dict)
        return found

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def failed_checks(self) -> set[str]:
        return {c["name"] for c in self.verdict["checks"] if c["verdict"] == "violated"}

    def says(self, check: str) -> str:
        """The summary of one check."""
        return next(str(c["summary"]) for c in self.verdict["checks"] if c["name"] == check)


CHAOS = "zonequake:zq-chaos"
AGENTS = "app.kubernetes.io/component=fault-agent"
Run = Callable[..., Judged]


class Release:
    """The chart on the session's cluster, with at most one planted fault at a time.

    Images are built and loaded once: another fault is a `helm upgrade`, which restarts all nodes.
    The fault agent is there only for who asks for it, since faults on the node are then made by it
    and no more by the machine itself; its coming and going restarts nothing.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.place = ReleasePlace(
            kubeconfig=cluster.kubeconfig,
            context=cluster.context,
            namespace=DEFAULT_NAMESPACE,
            release=DEFAULT_RELEASE,
            embedded=True,
        )
        self._cluster = cluster
        self.images: dict[str, str] = {}
        """References by the chart's names."""
        self._load_images()
        self._installed: tuple[str, bool, tuple[str, ...]] | None = None
        self.logs = cluster.kubeconfig.parent / "logs"
        """Of the node's components; the API server's audit log is one of them."""
        self.provoked: set[Refusal] = set()
        """Refusals that a test asked for."""

    def check_rights(self, since: datetime) -> None:
        """A run begun then was made under the chaos account, and no request was refused."""
        refused = lacking(self.logs) - self.provoked
        assert refused == set(), "rights that the chart's accounts lack (docs/security.md)"
        assert self.calls(since) > 20, "the run had another account"

    def calls(self, since: datetime) -> int:
        """How often the chaos account has called the API server from then on."""
        return calls(self.logs, CHAOS, since)

    def as_chaos_account(self) -> ReleasePlace:
        """The place as the chart's chaos account sees it: no run needs more than that."""
        assert self.place.kubeconfig is not None
        # Beside the embedded cluster's own: faults on the node find the node by that.
        out = self.place.kubeconfig.with_name("kubeconfig-chaos")
        asyncio.run(write_access(self.place, out))
        return replace(self.place, kubeconfig=out, context=CONTEXT)

    def plant(self, fault: str, *, agent: bool = False, more: tuple[str, ...] = ()) -> None:
        """Has every data node run with `fault`, or with none if it is empty; with or without the
        fault agent; with `more` of the chart's values."""
        if (fault, agent, more) == self._installed:
            return
        self._installed = None
        if agent:
            self._load_images(also=["agent"])
        values = [*more, *([f"store.plantedFault={fault}"] if fault else [])]
        values += ["faultAgent.enabled=true"] if agent else []
        values += ["harness.targetAccount=true"]
        asyncio.run(install_release(self.place, images=self.images, values=values))
        asyncio.run(self._until_the_agent_is_ready() if agent else self._until_the_agent_is_gone())
        found = asyncio.run(faults_of_nodes(self.place))
        assert set(found.values()) == {fault}, f"wanted {fault!r} in every data node, got {found}"
        self._installed = (fault, agent, more)

    def installed_by_another_tool(self) -> None:
        """A test installed the release in its own way: the next one has it again."""
        self._installed = None

    def _load_images(self, also: Sequence[str] = ()) -> None:
        for name, image in build_all(progress=print, also=also).items():
            if name not in self.images:
                self._cluster.load_image(image.archive)
            self.images[name] = image.ref

    async def _until_the_agent_is_ready(self) -> None:
        """Only data nodes are waited for as the release is installed."""
        async with await self.place.connect() as kube:
            of_agent = kube.in_namespace(f"{self.place.namespace}-faults")
            deadline_s = time.monotonic() + PATIENCE_S
            while not (pods := await of_agent.find("Pod", AGENTS)) or not all(map(is_ready, pods)):
                assert time.monotonic() < deadline_s, "no agent becomes Ready"
                await asyncio.sleep(0.3)

    async def _until_the_agent_is_gone(self) -> None:
        """An agent that ends undoes every fault on its node, the next test's too."""
        async with await self.place.connect() as kube:
            of_agent = kube.in_namespace(f"{self.place.namespace}-faults")
            deadline_s = time.monotonic() + PATIENCE_S
            with contextlib.suppress(NotFound):
                while await of_agent.namespace_labels() is not None:
                    assert time.monotonic() < deadline_s, "the agent's namespace does not go"
                    await asyncio.sleep(0.3)


@pytest.fixture(scope="session")
def release(embedded_cluster: EmbeddedCluster) -> Release:
    """This checkout's images on the cluster; a test installs the chart by `plant`.

    Nothing is uninstalled: the cluster goes with the session.
    """
    return Release(embedded_cluster)


@pytest.fixture
def run_scenario(release: Release, tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """Runs `zonequake run` as a user does, on data nodes with `fault` planted (none by default).

    With `agent`, faults on the node are made by the fault agent's pod. Without `plant` the release
    stays as a test installed it; `meanwhile` is called with the run's folder, in a thread beside
    it. The run's folder is judged as by `zonequake analyze`, in the session that all runs share;
    with `whole` by the run itself. Every history is judged by Porcupine too, whose verdict must be
    ours.
    """

    def run(
        scenario: str,
        *overrides: str,
        seed: int = 1,
        fault: str = "",
        target: str = "zonequake",
        agent: bool = False,
        whole: bool = False,
        plant: bool = True,
        meanwhile: Callable[[Path], None] | None = None,
    ) -> Judged:
        if plant:
            release.plant(fault, agent=agent)
        place = release.as_chaos_account()
        folder = tmp_path / f"{Path(scenario).stem}-{seed}"
        assert place.context is not None
        begin = datetime.now(UTC)
        beside = threading.Thread(target=meanwhile or (lambda _: None), args=(folder,))
        beside.start()
        done = subprocess.run(
            [
                *(str(Path(sys.executable).parent / "zonequake"), "run", scenario),
                *("--kubeconfig", str(place.kubeconfig), "--context", place.context),
                *("--seed", str(seed), "--out", str(folder), "--target", target),
                *(word for override in overrides for word in ("--set", override)),
                *(() if whole else ("--no-analyze",)),
            ],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
            check=False,
        )
        beside.join()
        release.check_rights(begin)
        code, output = done.returncode, done.stdout + done.stderr
        has_history = any((folder / "history").glob("*.jsonl"))
        if not whole and has_history:
            request.getfixturevalue("spark")
            code = analyze(folder)
            checks = json.loads((folder / "verdict.json").read_text())["checks"]
            said = [f"{c['name']}: {c['summary']}" for c in checks if c["verdict"] != "passed"]
            output += "\n".join(said)
        judged = Judged(exit_code=code, folder=folder, output=output)
        if (folder / "verdict.json").exists() and has_history:
            outside = judged_run(Judge.build(), folder)
            assert not outside.disagreement, outside
            print(f"{scenario}, seed {seed}: Porcupine agrees on {outside.keys} keys")
        return judged

    return run
