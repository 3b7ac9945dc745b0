"""Starts load pods as processes, talks to them over HTTP, and reads what they wrote."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import msgspec

import zonequake_load
import zonequake_target_store
from tests.patience import PATIENCE_S
from tests.processes.store.ports import free_ports
from tests.warm_processes import WarmProcess
from zonequake_load.pod.control import HistoryFiles, LoadPlan, LoadStatus, Phase

Line = dict[str, Any]


@dataclass
class LoadPod:
    name: str
    directory: Path
    plan_file: Path
    port: int
    environment: dict[str, str]
    process: WarmProcess | None = None

    def spawn(self) -> None:
        self.directory.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            # The code that the test imports, also when that isn't the installed one.
            "PYTHONPATH": os.pathsep.join(
                str(Path(package.__path__[0]).parent)
                for package in (zonequake_load, zonequake_target_store)
            ),
            "ZQ_LOAD_PLAN": str(self.plan_file),
            "ZQ_LOAD_DIR": str(self.directory),
            "ZQ_LOAD_PORT": str(self.port),
            "ZQ_LOAD_POD": self.name,
            "ZQ_BIND": "127.0.0.1",
            **self.environment,
        }
        log = self.directory.parent / f"{self.name}.log"
        self.process = WarmProcess(("-m", "zonequake_load"), environment, log)

    def signal(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


class LoadPods:
    """Load pods of one plan under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment: dict[str, str] = {}
        self.pods: list[LoadPod] = []
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> LoadPods:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pod in self.pods:
            if pod.process is not None and pod.process.poll() is None:
                pod.signal(signal.SIGKILL)
        assert self._session is not None
        await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    async def start(self, plan: LoadPlan) -> None:
        plan_file = self.directory / "plan.json"
        plan_file.write_bytes(msgspec.json.encode(plan))
        for ordinal in range(plan.pods):
            name, (port,) = f"load-{ordinal}", free_ports(1)
            pod = LoadPod(name, self.directory / name, plan_file, port, self.environment)
            self.pods.append(pod)
            pod.spawn()
        for pod in self.pods:
            await self.wait_until_up(pod)

    async def wait_until_up(self, pod: LoadPod) -> LoadStatus:
        give_up_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s:
            try:
                return await self.status(pod)
            except aiohttp.ClientError:
                assert pod.process is not None
                assert pod.process.poll() is None, (self.directory / f"{pod.name}.log").read_text()
                await asyncio.sleep(0.05)
        raise AssertionError(f"{pod.name} does not answer")

    async def status(self, pod: LoadPod) -> LoadStatus:
        async with self.session.get(f"http://127.0.0.1:{pod.port}/status") as response:
            return msgspec.json.decode(await response.read(), type=LoadStatus)

    async def enter(self, phase: Phase) -> None:
        for pod in self.pods:
            url = f"http://127.0.0.1:{pod.port}/phase"
            async with self.session.post(url, json={"phase": phase}) as response:
                assert response.status == 200, await response.text()

    async def complete(self, phase: Phase) -> list[LoadStatus]:
        """Enter a phase and wait until all pods have completed it."""
        await self.enter(phase)
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            statuses = [await self.status(pod) for pod in self.pods]
            if all(status.phase is phase and status.complete for status in statuses):
                return statuses
            await asyncio.sleep(0.05)
        logs = [(self.directory / f"{pod.name}.log").read_text() for pod in self.pods]
        raise AssertionError(f"{phase} is not complete: {statuses}\n" + "\n".join(logs))

    async def answered(self, *, operations: int, probes: int = 0) -> None:
        """Wait until each pod's load has had so many successes since it was started."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            counts = [(await self.status(pod)).counts.get(Phase.LOAD) for pod in self.pods]
            if all(
                each and each.operations.ok >= operations and each.probes.ok >= probes
                for each in counts
            ):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not {operations} operations and {probes} probes each: {counts}")

    async def collect(self) -> dict[str, bytes]:
        """All history files, as the chaos runner fetches them."""
        found: dict[str, bytes] = {}
        for pod in self.pods:
            base = f"http://127.0.0.1:{pod.port}/files"
            async with self.session.get(base) as response:
                files = msgspec.json.decode(await response.read(), type=HistoryFiles).files
            for file in files:
                async with self.session.get(f"{base}/{file.name}") as response:
                    assert response.status == 200
                    found[file.name] = await response.read()
                    assert len(found[file.name]) >= file.size_bytes
                half = file.size_bytes // 2
                part = {"Range": f"bytes={half}-"}
                async with self.session.get(f"{base}/{file.name}", headers=part) as response:
                    assert response.status == 206
                    assert (await response.read()).startswith(found[file.name][half:])
        return found


@dataclass
class Findings:
    """A whole run's history, checked against the contract on the way in."""

    lines: list[Line] = field(default_factory=list)
    completed: list[Line] = field(default_factory=list)
    torn: int = 0

    def of(self, **wanted: object) -> list[Line]:
        """Completions (an invoke without one counts as info) with these fields."""
        return [
            line
            for line in self.completed
            if all(line[name] == value for name, value in wanted.items())
        ]


_REPEATED = ("f", "process", "role", "zone", "partition", "key", "expected", "sched", "inv")


def steps_of(line: Line) -> list[Line]:
    """The operations of a line: itself, or the steps of a transaction with its outcome."""
    if line["f"] != "transaction":
        return [line]
    return [line | step for step in line["steps"]]


def check_contract(files: dict[str, bytes]) -> Findings:
    """Assert all that docs/history.md says of every history."""
    findings = Findings()
    homes: dict[int, str] = {}
    for name, content in files.items():
        *whole, rest = content.split(b"\n")
        findings.torn += bool(rest)
        for raw in whole:
            line = msgspec.json.decode(raw)
            findings.lines.append(line)
            assert homes.setdefault(line["process"], name) == name, "a process has one file"
    open_: dict[int, Line] = {}
    retired: set[int] = set()
    operations: set[str] = set()
    written: defaultdict[int, int] = defaultdict(int)
    for line in findings.lines:
        process = line["process"]
        assert line["sched"] <= line["inv"] <= line["time"]
        if line["type"] == "invoke":
            assert process not in retired, "a process that got an info is retired"
            assert process not in open_, "one outstanding operation at a time"
            assert line["op"] not in operations, "an operation's name is unique"
            operations.add(line["op"])
            open_[process] = line
            for step in steps_of(line):
                if step["f"] != "read":
                    assert isinstance(step["value"], int)
                    assert step["value"] > 0
                    written[step["value"]] += 1
            continue
        invoke = open_.pop(process)
        assert {n: line[n] for n in _REPEATED} == {n: invoke[n] for n in _REPEATED}
        assert line["op"] == invoke["op"]
        for asked, done in zip(steps_of(invoke), steps_of(line), strict=True):
            assert (asked["f"], asked["key"]) == (done["f"], done["key"])
            if asked["f"] != "read":
                assert asked["value"] == done["value"]
        if line["type"] == "ok":
            assert line["node"]
            assert line["term"] >= 1
            assert line["index"] >= 0
        if line["type"] == "info":
            retired.add(process)
        findings.completed.append(line)
    findings.completed += [invoke | {"type": "info"} for invoke in open_.values()]
    assert not [value for value, times in written.items() if times > 1], "written values are unique"
    return findings


def check_final_reads(findings: Findings) -> None:
    """Every key is read finally by two processes or more, and nothing acknowledged is lost.

    A register shows a value that was written, and that no acknowledged write began after; a list
    shows each acknowledged element once, in the order of its indexes, and nothing never appended.
    """
    by_key: defaultdict[str, list[Line]] = defaultdict(list)
    for line in findings.completed:
        for step in steps_of(line):
            by_key[step["key"]].append(step)
    for key, lines in by_key.items():
        final = [line for line in lines if line["role"] == "final" and line["type"] == "ok"]
        assert len({line["process"] for line in final}) >= 2, f"{key} has no two final reads"
        assert all(line["value"] == final[0]["value"] for line in final)
        value = final[0]["value"]
        writes = [line for line in lines if line["f"] != "read" and line["type"] != "fail"]
        attempted = {line["value"] for line in writes}
        acknowledged = [
            line for line in writes if line["type"] == "ok" and line["applied"] is not False
        ]
        if any(line["f"] == "append" for line in writes):
            assert len(set(value or [])) == len(value or [])
            assert set(value or []) <= attempted
            acknowledged.sort(key=lambda line: line["index"])
            inside = set(value or [])
            assert {line["value"] for line in acknowledged} <= inside
            order = [line["value"] for line in acknowledged]
            assert [v for v in value or [] if v in set(order)] == order
        elif value is not None:
            assert value in attempted
            (source,) = [line for line in writes if line["value"] == value]
            if source["type"] == "ok":
                assert not [line for line in acknowledged if line["inv"] > source["time"]]
        else:
            assert not acknowledged, f"{key} was written and is gone"
