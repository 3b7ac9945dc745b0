"""`zonequake run` as a pipeline calls it, a process of its own, against a made-up cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from junitparser import Error, JUnitXml

from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_ctl.context import ReleasePlace

QUICK = (
    *("--set", "times={beforeSeconds: 0.2, afterSeconds: 0.2, quietSeconds: 0}"),
    *("--set", "load={registerRate: 10}", "--set", "faults.0.times=1"),
)
_COMMAND = "from zonequake_chaos.commands.cli import main; main()"
_IMPATIENT = (
    "from zonequake_chaos.cleanup import prove, undo; undo.ZONE_GONE_S = 2.0; "
    f"prove.clean_up.__kwdefaults__['within_s'] = 2.0; {_COMMAND}"
)
"""The same, by a caller that waits two seconds for what must be gone, not a minute."""


async def started(
    place: ReleasePlace, *words: str, command: str = _COMMAND
) -> asyncio.subprocess.Process:
    where = ("--kubeconfig", str(place.kubeconfig), "--context", str(place.context))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", command, *words, *where),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "COLUMNS": "200"},
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str]:
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def results(junit: Path) -> list[dict[str, str]]:
    """Of each suite, which cases err, and with what."""
    return [
        {case.name: str(case.result[0].message) for case in suite if case.result}
        for suite in JUnitXml.fromfile(str(junit))
    ]


async def test_two_runs_without_an_analysis_are_unknown_and_told_of_in_one_file(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    out, summary = tmp_path / "out", tmp_path / "summary.md"
    words = ("run", "leader-kill", *QUICK, "--no-analyze", "--repeat", "2", "--seed", "3")
    process = await started(place, *words, "--out", str(out), "--summary", str(summary))
    code, output = await ended(process)
    assert code == 2, output
    assert results(out / "junit.xml") == [{"analysis": "no analysis requested: --no-analyze"}] * 2
    assert summary.read_text().startswith("# ? leader-kill: unknown in 2 runs")
    suites: list[Any] = list(JUnitXml.fromfile(str(out / "junit.xml")))
    assert {case.name for case in suites[0]} == {"harness", "cleanup", "analysis"}
    properties = {one.name: one.value for one in suites[1].properties()}
    assert properties["seed"] == "4"
    assert properties["kubernetes"] == "v1.34.4"
    assert properties["replay"].startswith("zonequake run leader-kill --seed 4 --set ")


async def test_a_namespace_that_does_not_agree_is_wrong_usage_and_told_of(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    cluster.namespace_labels = {}
    junit = tmp_path / "junit.xml"
    code, output = await ended(await started(place, "run", "leader-kill", "--junit", str(junit)))
    assert code == 254, output
    ((name, message),) = results(junit)[0].items()
    assert name == "harness"
    assert "zonequake.io/chaos" in message


async def test_an_interrupt_ends_with_255_and_leaves_a_junit_file_and_no_debt(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("run", "leader-kill", "--set", "times={beforeSeconds: 60}", "--no-analyze")
    process = await started(place, *words, "--seed", "1", "--out", str(out))
    while cluster.phases.get("zq-load-chaos-0") != "load":  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0.05)
    process.send_signal(signal.SIGINT)
    code, output = await ended(process)
    assert code == 255, output
    (suite,) = JUnitXml.fromfile(str(out / "junit.xml"))
    (harness,) = [case for case in suite if case.name == "harness"]
    assert isinstance(harness.result[0], Error)
    assert harness.result[0].message == "interrupted"
    assert CleanupJournal(out).debts == []


async def test_what_cannot_be_undone_ends_with_4_as_a_case_of_its_own(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    cluster.keeps_zones = True
    out = tmp_path / "out"
    words = ("run", "leader-kill", *QUICK, "--no-analyze", "--seed", "1", "--out", str(out))
    code, output = await ended(await started(place, *words, command=_IMPATIENT))
    assert code == 4, output
    (suite,) = JUnitXml.fromfile(str(out / "junit.xml"))
    cases = {case.name: case for case in suite}
    assert cases["cleanup"].result[0].type == "cleanup-not-proven"
    assert "chaos" in cases["cleanup"].result[0].message
    assert cases["harness"].result == []
