"""`kubectl zq` beside a real API server, a real operator and real data nodes."""

from __future__ import annotations

import asyncio
import random
import re
import time
import zipfile
from pathlib import Path

import pytest

from tests.kube.operator.addresses import client_addresses
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine
from tests.kube.operator.plugin_screens import StraightKube, connected, plan, status
from tests.patience import PATIENCE_S
from zonequake_ctl.zq.pausing import set_paused
from zonequake_ctl.zq.support_report import write_report
from zonequake_kube.client import Kube
from zonequake_kube.errors import UsageError
from zonequake_kube.objects import Json
from zonequake_load.client.client import Client
from zonequake_load.operation import Function, Limits, OnceId, Operation, Type
from zonequake_load.targets.keys import key_for_partition

pytestmark = pytest.mark.kube

PARTITIONS = 8
KEYS = 60
FILLER_BYTES = 4000
SETTLED = (("dz", "z"), ("zp", "z-0"))


async def fill() -> None:
    """Writes about so much into each partition."""
    client = Client("z", client_addresses(1), rng=random.Random(1))
    await client.open(PATIENCE_S)
    limits = Limits(
        deadline_ns=time.monotonic_ns() + round(PATIENCE_S * 1e9),
        attempt_ns=2_000_000_000,
        retry=True,
    )

    async def one(partition: int) -> None:
        for n in range(KEYS):
            key = key_for_partition(f"k{n}", partition, PARTITIONS)
            write = Operation(f=Function.WRITE, key=key, value=n, filler=b"f" * FILLER_BYTES)
            done = await client.execute(write, limits, OnceId(f"filler {partition}", n))
            assert done.type is Type.OK, done.error

    try:
        await asyncio.gather(*(one(partition) for partition in range(PARTITIONS)))
    finally:
        await client.close()


async def shown(machine: Machine, *patterns: str) -> str:
    """The screen, once it shows all of these."""
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        seen = await status(machine)
        missing = [each for each in patterns if re.search(each, seen) is None]
        if not missing:
            return seen
        assert time.monotonic() < give_up_s, f"{missing} in {seen}"
        await asyncio.sleep(0.1)


def stable_sets(machine: Machine) -> dict[int, list[str]]:
    found = machine.api.get("zp")["items"]
    return {p["spec"]["partition"]: p["status"]["stable"]["nodes"] for p in found}


async def plan_of_a_zone_that_changes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, *settings: str
) -> str:
    """The plan, where the zone changes once it was read, and before the server checks the wish."""
    tries = 0

    async def try_write(kube: StraightKube, manifest: Json, *, replaces: bool) -> Json:
        nonlocal tries
        tries += 1
        if tries == 1:
            await kube.patch("DistributionZone", "z", {"metadata": {"labels": {"new": "label"}}})
        return await Kube.try_write(kube, manifest, replaces=replaces)

    with monkeypatch.context() as patched:
        patched.setattr(StraightKube, "try_write", try_write)
        foretold = await plan(machine, *settings)
    assert tries > 1
    return foretold


async def test_a_zone_is_seen_foretold_paused_and_packed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Or the node that is silent in the end may have left before the screen is seen.
    machine.node_environment["ZQ_LEASE_SECONDS"] = str(round(PATIENCE_S))
    spec = {"partitions": PARTITIONS, "replicas": 2, "catchUpBytesPerSecond": 20_000}
    await asyncio.to_thread(machine.begin_zone, 3, want=4, **spec)
    await fill()
    await shown(
        machine,
        "all 8 partitions are served",
        r"8 partitions \(0-7\): 2 replicas: the loss of any one takes the majority",
    )

    # What is foretold is what then happens, in sets and in bytes.
    foretold = await plan(machine, "replicas=3")
    assert "replicas: 2 -> 3" in foretold
    assert await plan_of_a_zone_that_changes(machine, monkeypatch, "replicas=3") == foretold
    total = re.search(r"8 of 8 partitions would move, 8 copies, ([\d.]+) MB", foretold)
    assert total is not None
    assert float(total[1]) == pytest.approx(8 * KEYS * FILLER_BYTES / 1e6, rel=0.1)
    assert machine.status()["partitions"].get("moving", 0) == 0, "a plan changes nothing"
    assert machine.api.get("dz", "z")["spec"]["replicas"] == 2
    with pytest.raises(UsageError, match="partitions can't be changed"):
        await plan(machine, "partitions=9")

    machine.api.patch("dz", "z", {"spec": {"replicas": 3}})
    progress = r"CATCHING_UP +zq-default-\d \d+%, [\d.]+ kB of 2\d\d\.\d kB of the log"
    await shown(machine, progress, r"of [\d.]+ [kM]B are copied \(\d+%\)")
    machine.api.patch("dz", "z", {"spec": {"catchUpBytesPerSecond": 60_000}})
    await asyncio.to_thread(wait_until, lambda: machine.is_whole(3))
    assert all(len(nodes) == 3 for nodes in stable_sets(machine).values())

    # A paused zone is held, and says so; a node that joins is foretold for the time after.
    async with connected(machine) as kube:
        said = await set_paused(kube, "z", paused=True)
        assert "Zone z is paused" in said
        machine.start(3)
        await asyncio.to_thread(
            wait_until, lambda: "zq-default-3" in str(machine.api.get("topo", "topology"))
        )
        await shown(machine, "PAUSED")
        foretold = await plan(machine)
        assert "all below happens when it is resumed" in foretold
        expected = {
            int(number): sorted({*before.split(), added} - {removed})
            for number, before, added, removed in re.findall(
                r"^(\d+) +((?:zq-default-\d ?)+) +\+(zq-default-\d) -(zq-default-\d)",
                foretold,
                re.MULTILINE,
            )
        }
        assert expected, foretold
        await asyncio.sleep(1)
        assert not any("zq-default-3" in nodes for nodes in stable_sets(machine).values())
        assert "resumed" in await set_paused(kube, "z", paused=False)
    await asyncio.to_thread(wait_until, lambda: machine.is_whole(4))
    sets = stable_sets(machine)
    assert {n: sets[n] for n in expected} == expected
    moved = {number for number, nodes in sets.items() if "zq-default-3" in nodes}
    assert moved == expected.keys()

    # One that is lost, one that is silent: who is at risk, and why.
    machine.kill(1)
    machine.kill_unseen(2)
    await asyncio.to_thread(wait_until, lambda: not machine.conditions()["Ready"])
    await shown(
        machine,
        "NOT served",
        r"LOST .*majority lost, 1 of 3 members run",
        "zq-default-1 has left",
        "zq-default-2 doesn't answer",
        "StrongConsistency is reset by hand alone",
    )

    path = tmp_path / "report.zip"
    async with connected(machine) as kube:
        missing = await write_report(kube, path)
    with zipfile.ZipFile(path) as packed:
        names = {name.partition("/")[2] for name in packed.namelist()}
        assert "has left" in packed.read("report/status.txt").decode()
        assert b"stable" in packed.read("report/resources/partitions.yaml")
    assert {"pods/zq-default-0/replicas.json", "pods/zq-default-0/metrics.txt"} <= names
    assert "resources/networkpolicies.yaml" in names
    assert any("zq-default-2" in line for line in missing)


def columns(machine: Machine, kind: str, name: str) -> dict[str, str]:
    """One line of `kubectl get` by its heads; a cell ends where the next head begins."""
    heads, line = machine.api.kubectl("get", kind, name).stdout.splitlines()
    begins = [found.start() for found in re.finditer(r"\S+", heads)]
    ends = [*begins[1:], None]
    return {heads[a:b].strip(): line[a:b].strip() for a, b in zip(begins, ends, strict=True)}


def test_get_shows_the_armed_timers_and_what_a_partition_waits_for(machine: Machine) -> None:
    machine.begin_zone(
        3,
        want=4,
        partitions=1,
        dataNodesAutoAdjustScaleUp=600,
        consistencyMode="HighAvailability",
        partitionDistributionResetTimeout=300,
    )
    line = columns(machine, "dz", "z")
    assert (line["MODE"], line["ARMED"]) == ("HighAvailability", "")
    wait_until(lambda: columns(machine, "zp", "z-0")["STATE"] == "Available")
    assert columns(machine, "zp", "z-0")["WAITS-FOR"] == ""

    machine.start(3)
    at = r"at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    armed = rf"scale-up {at}: zq-default-3"
    wait_until(lambda: re.fullmatch(armed, columns(machine, "dz", "z")["ARMED"]) is not None)
    machine.kill(1)
    armed += rf"; scale-down never: zq-default-1; reset {at}: zq-default-1"
    wait_until(lambda: re.fullmatch(armed, columns(machine, "dz", "z")["ARMED"]) is not None)
    one_away = "zq-default-1 to serve again"
    wait_until(lambda: columns(machine, "zp", "z-0")["WAITS-FOR"] == one_away)
    machine.kill(2)
    lost = "1 more of zq-default-1, zq-default-2, for a majority"
    wait_until(lambda: columns(machine, "zp", "z-0")["WAITS-FOR"] == lost)

    machine.start(1, 2)
    wait_until(lambda: columns(machine, "zp", "z-0")["WAITS-FOR"] == "")
    back = "zq-default-1, zq-default-2"
    armed = rf"scale-up {at}: {back}, zq-default-3; reset {at}: {back}"
    wait_until(lambda: re.fullmatch(armed, columns(machine, "dz", "z")["ARMED"]) is not None)
    # Words for people cost a settled zone no write, in two rounds without any event.
    machine.until_steady(
        lambda: [machine.api.get(*named)["metadata"]["resourceVersion"] for named in SETTLED], 12
    )
