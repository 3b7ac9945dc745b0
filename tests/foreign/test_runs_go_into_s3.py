"""A run's record goes into a real S3, whole or not at all, and nothing of it is ever lost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from tests.foreign.faulty_s3 import Fault, each_third, relayed
from tests.foreign.runs_for_a_store import contents, made, zonequake
from tests.foreign.s3_server import BUCKET, SECRET_KEY, S3Server
from tests.unit.importing.test_jepsen import TUPLES
from zonequake_analysis.cli import analyze
from zonequake_analysis.errors import ImportRefused, LocationTaken
from zonequake_analysis.importing.command import Source, import_history, mark_of
from zonequake_analysis.importing.operations import Choices
from zonequake_analysis.storage import limits
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import write_mark
from zonequake_chaos.commands.upload import move_to_store
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_chaos.record.upload import mark_for
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import UsageError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TESTS = Path(__file__).parents[1]
QUICK = (
    *("--set", "times={beforeSeconds: 0.2, afterSeconds: 0.2, quietSeconds: 0}"),
    *("--set", "load={registerRate: 10}", "--seed", "1"),
)
CONSOLE = Console(width=300)


@pytest.fixture
def spool(tmp_path: Path) -> RunFolder:
    return made(tmp_path / "runs" / "one-1", "one-1")


@pytest.mark.long
async def test_a_run_goes_into_the_store_over_faults_and_is_judged_there(
    cluster: Any,
    release: ReleasePlace,
    server: S3Server,
    prefix: str,
    tmp_path: Path,
) -> None:
    uri = f"s3://{BUCKET}/{prefix}"
    with relayed(server.endpoint, each_third) as relay:
        code, said = await zonequake(
            *("run", "leader-kill", "--kubeconfig", str(release.kubeconfig), "--out", uri, *QUICK),
            folder=tmp_path,
            environment=server.environment(relay.endpoint),
        )
    there = server.bucket / prefix
    document = json.loads((there / "verdict.json").read_bytes())
    assert code == document["exit_code"], said
    assert document["verdict"] in ("passed", "unknown", "violated"), said
    assert {Fault.SLOW_DOWN, Fault.RESET, Fault.RESET_DONE} <= set(relay.faults)
    described = yaml.safe_load((there / "run.yaml").read_bytes())
    assert "history/zq-load-chaos-0.jsonl" in described["files"]
    for name, size_bytes in described["files"].items():
        assert (there / name).stat().st_size == size_bytes
    written = [path.partition("?")[0] for method, path in relay.requests if method == "PUT"]
    manifest = max(n for n, path in enumerate(written) if path.endswith("/run.yaml"))
    record = [n for n, p in enumerate(written) if "/history/" in p or p.endswith("events.jsonl")]
    assert max(record) < manifest, "the manifest comes last"
    assert not (there / ".upload.json").exists()
    assert list((tmp_path / "runs").iterdir()) == [], "the spool is gone"
    assert f"{uri}/report.html" in said
    for text in (said, *(text.decode(errors="replace") for text in contents(there).values())):
        assert SECRET_KEY not in text


JUDGED = """
from zonequake_analysis.judgement import verdict_json
from zonequake_analysis.verdict import Kind, Verdict
from zonequake_chaos.commands import run

def judged(place, lock):
    check = verdict_json.CheckEntry(
        name="all", kind=Kind.SAFETY, verdict=Verdict.PASSED, summary="", violations=0, checked=1
    )
    facts = verdict_json.read_facts(place)
    verdict_json.write_document(place, verdict_json.without_analysis([check], facts))
    return Verdict.PASSED

run._judged_here = judged
"""
"""Judges by what stands in the store, without Spark: that is shown above."""

OURS = f"""
import pytest

@pytest.mark.zonequake(scenario="leader-kill", seed=1, set={[QUICK[1], QUICK[3]]!r})
def test_ours(zonequake):
    result = zonequake.run()
    print("kept in", result.folder)
    assert result.passed
    assert b"ChaosRun" in (result.folder / "scenario.yaml").read_bytes()
"""


async def test_a_run_of_a_test_goes_into_the_store(
    cluster: Any,
    release: ReleasePlace,
    server: S3Server,
    prefix: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "conftest.py").write_text(JUDGED)
    (tmp_path / "test_ours.py").write_text(OURS)
    uri = f"s3://{BUCKET}/{prefix}"
    code, said = await zonequake(
        *("-p", "no:cacheprovider", "-p", "no:zonequake", "-s", "test_ours.py"),
        *("-p", "zonequake_chaos.testing.pytest_plugin", "--zonequake-out", uri),
        *("--zonequake-kubeconfig", str(release.kubeconfig), "--zonequake-context", "x"),
        folder=tmp_path,
        environment=server.environment(),
        program=("-m", "pytest"),
    )
    assert code == 0, said
    (there,) = (server.bucket / prefix).iterdir()
    assert there.name.startswith("test-ours-")
    assert f"kept in {uri}/{there.name}" in said
    assert {"run.yaml", "scenario.yaml", "verdict.json", "events.jsonl"} <= contents(there).keys()
    assert list((tmp_path / "runs").iterdir()) == [], "the spool is gone"
    assert not (tmp_path / "s3:").exists()


async def test_a_run_whose_harness_was_killed_is_uploaded_afterwards_and_nothing_is_lost(
    cluster: Any,
    release: ReleasePlace,
    server: S3Server,
    prefix: str,
    tmp_path: Path,
) -> None:
    uri = f"s3://{BUCKET}/{prefix}"
    killed = TESTS / "cluster" / "killed_harness"
    code, said = await zonequake(
        *("run", str(killed / "scenarios" / "mortal-loss.yaml"), "--seed", "1", "--out", uri),
        *("--kubeconfig", str(release.kubeconfig)),
        folder=tmp_path,
        environment=server.environment(),
        program=(str(killed / "mortal.py"), str(tmp_path / "steps"), "journal fsync", "3",
                 "after", "--"),
    )  # fmt: skip
    assert code == -9, said
    (spool,) = (tmp_path / "runs").iterdir()
    there = server.bucket / prefix
    before = contents(there)
    assert ".upload.json" in before
    assert "run.yaml" not in before
    assert await asyncio.to_thread(analyze, uri) == 255
    assert contents(there) == before, "no verdict on what is not whole"
    code, said = await zonequake(
        "upload", spool.name, folder=tmp_path, environment=server.environment()
    )
    assert code == 0, said
    assert f"next: zonequake analyze {uri}" in said
    assert contents(there) == contents(spool), "the folder stays"
    assert b"run.phase" in (there / "events.jsonl").read_bytes()
    assert (there / "cleanup.jsonl").stat().st_size > 0


def test_a_run_stays_in_its_spool_while_the_store_is_away_and_is_told_how_to_upload_it(
    spool: RunFolder,
    server: S3Server,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = f"s3://{BUCKET}/{prefix}"
    before = contents(spool.path)
    monkeypatch.setattr(limits, "ATTEMPTS", 2)
    tried = 0

    def plan(_: int, method: str, path: str) -> Fault | None:
        nonlocal tried
        tried += method == "PUT" and "/history/" in path
        return Fault.RESET if tried else None

    with relayed(server.endpoint, plan) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        why = move_to_store(spool, Location.of(uri), Console(width=300), clean=True)
    assert "nothing answers at this store" in why
    assert f"the run's record is whole in {spool.path}" in why
    assert f"zonequake upload {spool.path}" in why
    assert SECRET_KEY not in why
    assert contents(spool.path) == before
    assert not (server.bucket / prefix / "run.yaml").exists()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    assert analyze(uri) == 255
    assert "the run one-1 is not whole here" in capsys.readouterr().err
    assert move_to_store(spool, Location.of(uri), Console(width=300), clean=True) == ""
    assert contents(server.bucket / prefix) == before
    assert not spool.path.exists()


def test_a_run_that_is_still_to_be_cleaned_up_keeps_its_folder(
    spool: RunFolder, server: S3Server, prefix: str
) -> None:
    place = Location.of(f"s3://{BUCKET}/{prefix}")
    assert move_to_store(spool, place, CONSOLE, clean=False) == ""
    assert contents(spool.path) == contents(server.bucket / prefix)


def test_two_runs_never_share_a_place(
    spool: RunFolder, server: S3Server, prefix: str, tmp_path: Path
) -> None:
    place, other = Location.of(f"s3://{BUCKET}/{prefix}"), made(tmp_path / "runs" / "two", "two-2")
    mark_for(spool, place)
    mark_for(spool, place)
    with pytest.raises(UsageError, match=r"kept for the run one-1.*zonequake upload .*/one-1"):
        mark_for(other, place)
    assert move_to_store(spool, place, CONSOLE, clean=False) == ""
    assert "holds the run one-1" in move_to_store(other, place, CONSOLE, clean=True)
    assert other.path.exists()
    assert move_to_store(spool, place, CONSOLE, clean=False) == "", "the same run, once more"
    (server.bucket / f"{prefix}-2" / "history").mkdir(parents=True)
    (server.bucket / f"{prefix}-2" / "history" / "x.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="holds history, expected nothing there"):
        mark_for(other, Location.of(f"s3://{BUCKET}/{prefix}-2"))


@pytest.mark.parametrize(
    ("out", "code", "told"),
    [
        ("s3://nowhere/x", 255, "there is no bucket s3://nowhere"),
        (f"s3://{SECRET_KEY}@runs/x", 254, "expected no credentials"),
        ("ftp://host/x", 254, "expected a folder, or a URI"),
    ],
)
async def test_a_store_that_can_not_take_the_run_is_told_of_before_it_begins(
    cluster: Any,
    release: ReleasePlace,
    server: S3Server,
    prefix: str,
    tmp_path: Path,
    out: str,
    code: int,
    told: str,
) -> None:
    ended, said = await zonequake(
        *("run", "leader-kill", "--kubeconfig", str(release.kubeconfig), "--out", out, *QUICK),
        folder=tmp_path,
        environment=server.environment(),
    )
    assert (ended, told in said) == (code, True), said
    assert SECRET_KEY not in said
    assert "Traceback" not in said
    assert not any(name.startswith("runs/") for name in contents(tmp_path))


def test_an_imported_history_goes_into_the_store_as_into_a_folder(
    server: S3Server, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, uri = tmp_path / "history.edn", f"s3://{BUCKET}/{prefix}"
    file.write_text(TUPLES)
    place = Location.of(uri)
    with relayed(server.endpoint, each_third) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        import_history(Source.JEPSEN, [file], Location.of(uri), Choices())
    import_history(Source.JEPSEN, [file], tmp_path / "run", Choices())
    assert relay.faults
    assert contents(server.bucket / prefix) == contents(tmp_path / "run")
    with pytest.raises(LocationTaken, match="holds the run"):
        import_history(Source.JEPSEN, [file], place, Choices())
    file.write_text(TUPLES.replace(":cas", ":swap"))
    with pytest.raises(ImportRefused):
        import_history(Source.JEPSEN, [file], place / "refused", Choices())
    assert contents(server.bucket / prefix / "refused") == {}


def test_an_import_that_was_killed_is_not_taken_for_whole_and_can_be_repeated(
    server: S3Server, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, uri = tmp_path / "history.edn", f"s3://{BUCKET}/{prefix}"
    file.write_text(TUPLES)
    place = Location.of(uri)
    import_history(Source.JEPSEN, [file], place, Choices())
    (place / "run.yaml").delete()
    write_mark(place, mark_of(Source.JEPSEN, [file], place))  # as it stood until `run.yaml` came
    assert analyze(uri) == 255
    told = capsys.readouterr().err
    assert "is not whole here" in told
    assert f"zonequake import --from jepsen {file} --out {uri}" in told
    import_history(Source.JEPSEN, [file], place, Choices())
    assert set(contents(server.bucket / prefix)) == {"run.yaml", "history/imported.jsonl"}
