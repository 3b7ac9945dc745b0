"""The store on pysyncobj: three members on loopback, asked by the load's client."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.store.ports import free_ports
from tests.unit.installed import place_of
from zonequake_chaos.conformance.alteration import altered
from zonequake_chaos.kit.member_set import MemberSet
from zonequake_chaos.kit.target_suitability import check_suited
from zonequake_chaos.scenario.manifest import load
from zonequake_chaos.scenario.run import RunTarget
from zonequake_kube.errors import UsageError
from zonequake_load.operation import Function, Limits, Operation, Outcome, Type
from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.context import ClientContext
from zonequake_protocol.admin import ReplicaRole
from zonequake_target_pysyncobj import package
from zonequake_target_pysyncobj.client import PysyncobjClient, connect

LIMIT_S = 120.0


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonequake_load.targets.http_client.CONNECT_TIMEOUT_S", 30.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 60.0)


class Group:
    """Three members, their files as they are mounted."""

    def __init__(self, folder: Path) -> None:
        for path, text in package.mounted().items():
            file = folder / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.folder = folder
        ports = free_ports(6)
        self.clients, self._peers = ports[:3], [f"127.0.0.1:{port}" for port in ports[3:]]
        self.processes = [self.start(number) for number in range(3)]

    def start(self, number: int) -> subprocess.Popen[bytes]:
        data = self.folder / f"m{number}"
        data.mkdir(exist_ok=True)
        command = [sys.executable, f"{self.folder}{package.FOLDER}/server.py"]
        command += ["--folder", str(data), "--port", str(self.clients[number])]
        command += ["--name", f"m-{number}"]
        command += ["--own", self._peers[number], "--others", *self._peers]
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.Popen(command, env=clean)

    def ask(self, number: int, path: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.clients[number]}{path}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def settled(self) -> list[dict[str, Any]]:
        """The statuses, once one leads, all know it and have applied the same."""
        give_up = time.monotonic() + LIMIT_S
        while time.monotonic() < give_up:
            try:
                found = [self.ask(number, "/status") for number in range(3)]
            except OSError:
                continue
            alike = len({(one["applied"], one["term"]) for one in found}) == 1
            if alike and sum(one["leads"] for one in found) == 1:
                return found
            time.sleep(0.1)
        raise AssertionError("the members have not settled")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    started = Group(tmp_path)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait()


async def each(group: Group, *operations: Operation) -> list[Outcome]:
    seeds = [f"127.0.0.1:{port}" for port in group.clients]
    client: PysyncobjClient = connect(
        ClientContext(zone="z", seeds=seeds, reads_at=ReadsAt.LEADER, rng=random.Random(1))
    )
    await client.open()
    outcomes = []
    for operation in operations:
        deadline_ns = time.monotonic_ns() + int(LIMIT_S * 1e9)
        limits = Limits(deadline_ns=deadline_ns, attempt_ns=int(30e9), retry=True)
        outcomes.append(await client.execute(operation, limits))
    await client.close()
    return outcomes


def test_members_agree_on_what_was_written_and_keep_it_over_a_kill(group: Group) -> None:
    group.settled()
    done = asyncio.run(
        each(
            group,
            Operation(f=Function.WRITE, key="k", value=1),
            Operation(f=Function.CAS, key="k", value=2, expected=1),
            Operation(f=Function.CAS, key="k", value=3, expected=1),
            Operation(f=Function.APPEND, key="l", value=7),
            Operation(f=Function.APPEND, key="l", value=8),
            Operation(f=Function.READ, key="l"),
        )
    )
    assert {one.type for one in done} == {Type.OK}
    assert {one.node for one in done} == {"m-0", "m-1", "m-2"}, "each answers by its own name"
    assert [one.applied for one in done] == [None, True, False, None, None, None]
    assert (done[2].value, done[5].value) == (2, [7, 8])
    places = [one.index for one in done if one.index is not None]
    assert len(places) == len(done)
    assert places == sorted(set(places)), "each has a place of its own, in their order"
    group.settled()
    dumps = [package.dumped(group.ask(number, "/dump")) for number in range(3)]
    assert len({(dump.applied, dump.digest) for dump in dumps}) == 1
    assert {key.key: (key.value, key.index) for key in dumps[0].keys} == {
        "k": (2, done[1].index),
        "l": ([7, 8], done[4].index),
    }
    before = package.status_of(group.ask(0, "/status"))
    group.processes[0].kill()
    group.processes[0].wait()
    group.processes[0] = group.start(0)
    roles = [package.status_of(one).role for one in group.settled()]
    assert sorted(roles) == [ReplicaRole.FOLLOWER, ReplicaRole.FOLLOWER, ReplicaRole.LEADER]
    after = package.status_of(group.ask(0, "/status"))
    assert after.storage == before.storage
    (read,) = asyncio.run(each(group, Operation(f=Function.READ, key="l")))
    assert read.value == [7, 8]


def test_a_value_that_is_altered_in_a_members_journal_is_dumped_as_altered(group: Group) -> None:
    value = 100_000_000_000_007
    group.settled()
    asyncio.run(each(group, Operation(f=Function.WRITE, key="k", value=value)))
    follower = next(number for number, said in enumerate(group.settled()) if not said["leads"])
    before = package.dumped(group.ask(follower, "/dump"))
    group.processes[follower].send_signal(signal.SIGSTOP)
    alters = package.TARGET.alters
    assert alters is not None
    words = [Path(sys.executable).name, str(group.folder / f"m{follower}")]
    words += [str(value), str(altered(value)), *alters.words]
    done = subprocess.run(
        [sys.executable, "-c", alters.program, *words], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == 1
    group.processes[follower].kill()
    group.processes[follower].wait()
    group.processes[follower] = group.start(follower)
    group.settled()
    after = package.dumped(group.ask(follower, "/dump"))
    assert [key.value for key in after.keys] == [altered(value)]
    assert after.storage == before.storage
    # Its return may have cost an election, and an entry.
    sound = package.dumped(group.ask((follower + 1) % len(group.processes), "/dump"))
    assert after.applied == sound.applied
    assert after.digest != sound.digest


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"zonequake\[pysyncobj\]"):
        package.mounted()
    run = load("leader-kill", ["target={name: pysyncobj}", "zones.0.partitions=1"])
    with pytest.raises(UsageError, match=r"zonequake\[pysyncobj\]"):
        check_suited(package.TARGET, run)


def test_a_member_is_told_the_names_that_outlive_pods() -> None:
    place = place_of(RunTarget())
    members = MemberSet.of(place, target="pysyncobj", program="python", ports=package.PORTS)
    args = package.PysyncobjMembers(kube=None).container(members)["args"]  # type: ignore[arg-type]
    assert "zq-pysyncobj-default-2.zq-target.ns.svc:7001" in args
    assert args[args.index("--name") + 1] == "$(POD)"
    assert args[args.index("--own") + 1] == "$(POD).zq-target.ns.svc:7001"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (
            "[--conf, '{\"raftMaxTimeot\": 0.8}']",
            "raftMaxTimeot: did you mean raftMaxTimeout?",
        ),
        ("[--conf, '{\"zzz\": 1}']", "with zzz, expected one of SyncObjConf's"),
        ("[--conf, '[1]']", "expected --conf and fields as a JSON object"),
        ("[--conf, '{bad']", "no JSON (Expecting property name enclosed in double quotes: line 1"),
        ("[--conf, '{bad']", 'for instance --conf and {"raftMaxTimeout": 0.8}'),
        ("[--conf]", "target.args has --conf: expected --conf and fields as a JSON object"),
        ("[--cnf, '{}']", "expected --conf and fields"),
        ("[--conf, '{}', '--conf={}']", "with --conf more than once: give all fields in one"),
        ('[--conf, \'{"journalFile": "/x"}\']', "journalFile, which the run sets itself"),
        ("[--conf, '{\"fullDumpFile\": null}']", "fullDumpFile, which the run sets itself"),
        ('[--conf, \'{"bindAddress": "a:1"}\']', "bindAddress, which the run sets itself"),
        ("[--conf, '{\"dynamicMembershipChange\": true}']", "and the members of a run are fixed"),
        ("[--conf, '{\"autoTick\": false}']", "autoTick, and members do nothing without it"),
        ('[--conf, \'{"password": "x"}\']', "password, for which the library needs another"),
        ('[--conf, \'{"onReady": "x"}\']', "onReady, which is a function of Python"),
        (
            '[--conf, \'{"connectionTimeout": "4"}\']',
            'connectionTimeout "4": expected a number that isn\'t negative',
        ),
        ("[--conf, '{\"raftMaxTimeout\": -1}']", "raftMaxTimeout -1: expected a number that isn't"),
        ("[--conf, '{\"raftMaxTimeout\": true}']", "raftMaxTimeout true: expected a number"),
        ("[--conf, '{\"raftMaxTimeout\": NaN}']", "raftMaxTimeout NaN: expected a number"),
        (
            "[--conf, '{\"raftMaxTimeout\": Infinity}']",
            "raftMaxTimeout Infinity: expected a number",
        ),
        ("[--conf, '{\"sendBufferSize\": 1.5}']", "sendBufferSize 1.5: expected a whole number"),
        ("[--conf, '{\"useFork\": 1}']", "useFork 1: expected true or false"),
        ('[--conf, \'{"pollerType": "x"}\']', 'expected "auto" or "poll" or "select"'),
        ("[--conf, '{\"tcp_keepalive\": [1, 2, 3]}']", "tcp_keepalive [1, 2, 3]: expected null"),
        (
            "[--conf, '{\"raftMaxTimeout\": 0.3}']",
            "the library expects raftMaxTimeout > raftMinTimeout",
        ),
    ],
)
def test_a_setting_that_the_library_passes_over_is_refused(args: str, why: str) -> None:
    run = load("leader-kill", [f"target={{name: pysyncobj, args: {args}}}", "zones.0.partitions=1"])
    with pytest.raises(UsageError, match=re.escape(why)):
        check_suited(package.TARGET, run)


@pytest.mark.parametrize(
    "conf",
    [
        '{"raftMaxTimeout": 0.8}',
        '{"raftMaxTimeout": 3, "logCompactionMinTime": 0.5, "logCompactionSplit": true}',
        '{"appendEntriesPeriod": 0.01, "appendEntriesBatchSizeBytes": 1000}',
        '{"appendEntriesUseBatch": true, "preferredAddrType": null, "tcp_keepalive": null}',
        '{"logCompactionMinEntries": 1000000000, "logCompactionMinTime": 1000000}',
    ],
)
def test_a_setting_of_the_library_is_taken(conf: str) -> None:
    args = f"[--conf, '{conf}']"
    run = load("leader-kill", [f"target={{name: pysyncobj, args: {args}}}", "zones.0.partitions=1"])
    check_suited(package.TARGET, run)
