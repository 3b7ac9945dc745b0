"""Runs that are ended from outside, and what is proven once they are cleaned."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.cleanup import prove
from zonequake_chaos.commands.clean import abort_run, clean_run, find_run
from zonequake_chaos.commands.run import RunOptions, run_once
from zonequake_chaos.errors import GuardError, JournalFailed
from zonequake_chaos.record.cleanup_journal import (
    CleanupJournal,
    Debt,
    DeleteLoad,
    DeleteZone,
    RemoveFinalizer,
    RestoreScale,
)
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import HarnessError, UsageError

QUICK = [
    "times={beforeSeconds: 0.2, afterSeconds: 0.2, quietSeconds: 0}",
    "load={registerRate: 10}",
]
OUTAGE = "zonequake.io/outage"


def start(
    place: ReleasePlace, out: Path, *overrides: str
) -> asyncio.Task[tuple[RunFolder, HarnessReport]]:
    """The scenario node-outage, whose fault lasts a minute."""
    words = [*QUICK, "faults.0.holdSeconds=60", *overrides]
    asked = RunOptions(scenario="node-outage", overrides=words, seed=1, out=out, analyze=False)
    return asyncio.create_task(run_once(asked, place, Console(file=io.StringIO(), width=300)))


def left_by_a_dead_run(cluster: Any, folder: Path, place: ReleasePlace, run: str = "dead") -> None:
    """A folder and the traces of a harness that was killed in the middle of an outage."""
    RunFolder.create(folder)
    where = {
        "kubeconfig": str(place.kubeconfig),
        "context": "x",
        "namespace": "zonequake",
        "release": "zq",
        "version": "1",
    }
    (folder / "run.yaml").write_text(yaml.safe_dump({"run": run, "cluster": where}))
    journal = CleanupJournal(folder)
    journal.owe(RemoveFinalizer(pod="zq-default-0", finalizer=OUTAGE))
    cluster.pods["zq-default-0"]["metadata"]["finalizers"] = [OUTAGE, "other"]
    lock(cluster, run, folder)


def lock(cluster: Any, run: str, folder: Path | str = "/gone", replicas: int = 3) -> None:
    labels = {
        "app.kubernetes.io/component": "run",
        "app.kubernetes.io/instance": "zq",
        "zonequake.io/run": run,
    }
    cluster.objects["configmaps", "zq-run"] = {
        "metadata": {"name": "zq-run", "uid": "u", "labels": labels},
        "data": {
            "run": run,
            "host": "h",
            "folder": str(folder),
            "zones": "chaos",
            "volumes": "",
            "scale.zq-default": str(replicas),
        },
    }


def nowhere() -> ReleasePlace:
    raise AssertionError("a folder says itself where its run was")


def give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = prove.clean_up.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "within_s", 0.5)


@pytest.fixture(autouse=True)
def dead_runs_are_known_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonequake_chaos.cleanup.run_lock.ANSWER_S", 2.0)


@pytest.fixture
def live_runs_may_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one that doesn't answer in time on a busy machine counts as dead, and is cleaned."""
    monkeypatch.setattr("zonequake_chaos.cleanup.run_lock.ANSWER_S", 120.0)


async def test_clean_pays_what_a_killed_harness_owes_and_says_what_it_checked(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    for _ in range(2):
        proof = await clean_run(find_run(str(tmp_path / "run"), nowhere))
        assert proof.problems == []
        assert "finalizers on pods" in proof.checked
        assert cluster.pods["zq-default-0"]["metadata"]["finalizers"] == ["other"]
        assert ("configmaps", "zq-run") not in cluster.objects


async def test_an_unrecorded_debt_is_found_by_looking(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    cluster.stopped.add("zq-default-1")
    cluster.replicas = 4
    zone = {"spec": {"partitions": 1}, "metadata": {"labels": {"zonequake.io/run": "dead"}}}
    cluster._on_zone("PATCH", "chaos", zone)
    cluster.objects["distributionzones", "chaos"]["metadata"]["name"] = "chaos"
    proof = await clean_run(find_run(str(tmp_path / "run"), nowhere))
    assert proof.problems == []
    assert (cluster.stopped, cluster.replicas, cluster.zone) == (set(), 3, None)


async def test_an_operator_that_was_left_stopped_is_found_by_looking(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    labels = {"app.kubernetes.io/component": "operator"}
    cluster.pods["zq-operator-1"] = {
        "metadata": {"name": "zq-operator-1", "uid": "u", "labels": labels},
        "spec": {"containers": [{"name": "operator"}]},
        "status": {"phase": "Running"},
    }
    cluster.stopped.add("zq-operator-1")
    proof = await clean_run(find_run("dead", lambda: place))
    assert proof.problems == []
    assert cluster.stopped == set()


async def test_a_run_whose_folder_is_lost_is_cleaned_by_its_name_and_by_all(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    for word in ("dead", None):
        left_by_a_dead_run(cluster, tmp_path / f"folder-of-{word}", place)
        proof = await clean_run(find_run(word, lambda: place))
        assert proof.problems == []
        assert cluster.pods["zq-default-0"]["metadata"]["finalizers"] == ["other"]
        assert ("configmaps", "zq-run") not in cluster.objects


async def test_a_name_that_no_lock_bears_is_said_since_it_may_be_misspelled(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    unknown = "run locks (none names daed)"
    assert unknown in (await clean_run(find_run("daed", lambda: place))).checked
    known = await clean_run(find_run("dead", lambda: place))
    assert not any("none names" in words for words in known.checked)


async def test_what_cannot_be_undone_is_not_proven_and_the_lock_stays(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    give_up_soon(monkeypatch)

    kept = cluster._on_pod

    async def without_patches(method: str, name: str, body: dict[str, Any]) -> Any:
        return await kept("GET" if method == "PATCH" else method, name, body)

    cluster._on_pod = without_patches
    proof = await clean_run(find_run(str(tmp_path / "run"), nowhere))
    assert not proof.proven
    assert any("carries the finalizer zonequake.io/outage" in p for p in proof.problems)
    assert ("configmaps", "zq-run") in cluster.objects


async def test_without_an_api_server_nothing_is_proven(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    give_up_soon(monkeypatch)
    assert place.kubeconfig is not None
    config = place.kubeconfig.read_text()
    place.kubeconfig.write_text(config.replace(str(cluster.address[1]), "1"))
    proof = await clean_run(find_run(str(tmp_path / "run"), nowhere))
    assert any("doesn't answer" in problem for problem in proof.problems)
    place.kubeconfig.unlink()
    proof = await clean_run(find_run(str(tmp_path / "run"), nowhere))
    assert any("nothing is proven" in problem for problem in proof.problems)


async def test_a_debt_of_another_version_is_not_forgotten(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    with (tmp_path / "run" / "cleanup.jsonl").open("a") as file:
        file.write('{"number":9,"debt":{"type":"unfreeze_the_moon"}}\n')
    proof = await clean_run(find_run(str(tmp_path / "run"), nowhere))
    assert len(proof.problems) == 1
    assert "unfreeze_the_moon" in proof.problems[0]


async def test_a_run_that_was_cleaned_by_name_takes_nothing_from_the_next_one(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    """Its folder lay elsewhere, and its journal says still what the next run owns now."""
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    journal = CleanupJournal(tmp_path / "run")
    journal.owe(RestoreScale(stateful_set="zq-default", replicas=3))
    journal.owe(DeleteZone(zone="chaos"))
    journal.owe(DeleteLoad(name="zq-load-chaos"))
    assert (await clean_run(find_run("dead", lambda: place))).proven
    lock(cluster, "alive", replicas=5)
    cluster.replicas = 5
    zone = {"spec": {"partitions": 1}, "metadata": {"labels": {"zonequake.io/run": "alive"}}}
    cluster._on_zone("PATCH", "chaos", zone)
    cluster.deleted.clear()
    assert (await clean_run(find_run(str(tmp_path / "run"), nowhere))).proven
    assert cluster.zone == "chaos"
    assert (cluster.replicas, cluster.deleted) == (5, [])
    assert cluster.objects["configmaps", "zq-run"]["data"]["run"] == "alive"


@pytest.mark.parametrize("owner", ["alive", None])
async def test_a_run_without_a_lock_deletes_no_zone_that_took_the_name_of_its_own(
    owner: str | None, cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    """It was cleaned by name; the zone is a run's of another release, whose lock isn't read, or a
    person's."""
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    CleanupJournal(tmp_path / "run").owe(DeleteZone(zone="chaos"))
    assert (await clean_run(find_run("dead", lambda: place))).proven
    labels = {"zonequake.io/run": owner} if owner else {}
    cluster._on_zone("PATCH", "chaos", {"spec": {"partitions": 1}, "metadata": {"labels": labels}})
    cluster.objects["distributionzones", "chaos"]["metadata"]["name"] = "chaos"
    assert (await clean_run(find_run(str(tmp_path / "run"), nowhere))).proven
    assert cluster.zone == "chaos"


async def test_two_cleaners_at_once_both_prove_it(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    run = find_run(str(tmp_path / "run"), nowhere)
    by_name = find_run("dead", lambda: place)
    first, second = await asyncio.gather(clean_run(run), clean_run(by_name))
    assert (first.problems, second.problems) == ([], [])


async def test_an_abort_during_a_clean_waits_for_its_end_and_proves_it_again(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    left_by_a_dead_run(cluster, tmp_path / "run", place)
    run = find_run(str(tmp_path / "run"), nowhere)
    cleaning = asyncio.create_task(clean_run(run))
    await asyncio.sleep(0.01)
    said: list[str] = []
    aborted = await abort_run(run, said.append)
    assert said, "another process held the folder"
    assert cleaning.done()
    assert (aborted.problems, (await cleaning).problems) == ([], [])


@pytest.mark.usefixtures("live_runs_may_be_late")
@pytest.mark.parametrize("by_name", [False, True])
async def test_an_aborted_run_heals_collects_cleans_and_fails_the_harness(
    by_name: bool, cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    running = start(place, tmp_path / "run")
    await asyncio.wait_for(cluster.held.wait(), timeout=120)
    word = RunFolder.open(tmp_path / "run").run_id() if by_name else str(tmp_path / "run")
    said: list[str] = []
    proof = await abort_run(find_run(word, lambda: place), said.append)
    assert proof.problems == []
    assert "asked to end" in said[0]
    folder, report = await asyncio.wait_for(running, timeout=120)
    assert report.verdict is Verdict.HARNESS_FAILED
    assert "aborted by `zonequake abort`" in report.problems
    assert report.interrupted
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods.values())
    assert cluster.zone is None
    assert list((folder.path / "history").iterdir()), "what there was is collected"
    again = await abort_run(find_run(str(tmp_path / "run"), nowhere), said.append)
    assert again.problems == []
    assert len(said) == 1, "a node that has ended is asked nothing"


@pytest.mark.usefixtures("live_runs_may_be_late")
async def test_a_run_that_is_under_way_is_not_cleaned_but_to_be_aborted(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_chaos.commands.clean.OTHER_CLEANER_S", 0.2)
    running = start(place, tmp_path / "run")
    await asyncio.wait_for(cluster.held.wait(), timeout=120)
    name = RunFolder.open(tmp_path / "run").run_id()
    with pytest.raises(UsageError, match="zonequake abort"):
        await clean_run(find_run(str(tmp_path / "run"), nowhere))
    with pytest.raises(UsageError, match=f"{name} is under way"):
        await clean_run(find_run(name, lambda: place))
    with pytest.raises(UsageError, match="is in use by run"):
        await start(place, tmp_path / "second")
    assert not (tmp_path / "second").exists()
    await abort_run(find_run(name, lambda: place), print)
    await running


async def test_consent_that_is_taken_away_ends_the_run_and_heals(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    running = start(place, tmp_path / "run")
    await asyncio.wait_for(cluster.held.wait(), timeout=120)
    cluster.namespace_labels.pop("zonequake.io/chaos")
    _, report = await asyncio.wait_for(running, timeout=120)
    assert report.verdict is Verdict.UNKNOWN
    assert any("does not allow chaos" in problem for problem in report.problems)
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods.values())
    assert cluster.zone is None


async def test_a_run_whose_lock_cannot_be_read_any_more_ends_and_says_so(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_up_soon(monkeypatch)
    running = start(place, tmp_path / "run")
    await asyncio.wait_for(cluster.held.wait(), timeout=120)
    cluster.objects["configmaps", "zq-run"]["data"].pop("host")
    _, report = await asyncio.wait_for(running, timeout=120)
    assert report.work is Verdict.HARNESS_FAILED
    assert any("the watch of the run failed: ConfigMap zq-run" in p for p in report.problems)
    assert any("is not a run lock" in p for p in report.unclean or [])
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods.values())
    with pytest.raises(HarnessError, match="is not a run lock"):
        await start(place, tmp_path / "next")


async def test_a_fault_waits_for_no_later_look_at_the_consent(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_chaos.runner.run_limits._FAR_S", 1000.0)
    running = start(place, tmp_path / "run")
    while not cluster.phases:  # noqa: ASYNC110  the made-up cluster has no event for it
        await asyncio.sleep(0.02)
    cluster.namespace_labels.pop("zonequake.io/chaos")
    _, report = await asyncio.wait_for(running, timeout=120)
    assert any("does not allow chaos" in problem for problem in report.problems)
    assert not cluster.held.is_set(), "the fault was never done"


async def test_a_run_that_lasts_longer_than_it_may_is_ended_and_healed(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    held = {
        "name": "never",
        "type": "reached",
        "trigger": {"when": "key", "key": "chain", "length": 9},
    }
    outage = {
        "name": "outage",
        "type": "node_outage",
        "target": {"role": "any"},
        "heldUntil": "never",
    }
    faults = f"faults={json.dumps([outage, held])}"
    running = start(place, tmp_path / "run", faults, "maxDurationSeconds=3")
    _, report = await asyncio.wait_for(running, timeout=120)
    assert report.verdict is Verdict.UNKNOWN
    assert "ended early: the run may last 3 s, which have passed" in report.problems
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods.values())


@pytest.mark.parametrize(
    ("labels", "override", "words"),
    [
        ({"zonequake.io/chaos-max-seconds": None}, "", "does not say how long chaos may last"),
        ({"zonequake.io/chaos-max-seconds": "soon"}, "", "is 'soon', expected seconds"),
        ({"zonequake.io/chaos": "no"}, "", "does not allow chaos"),
        ({}, "maxDurationSeconds=7200", "is 7200, and the namespace allows 3600 s"),
        ({"zonequake.io/chaos-max-seconds": "30"}, "", "the plan takes at least 60.2 s"),
    ],
)
async def test_a_foreign_namespace_says_both_that_and_how_long(
    labels: dict[str, str | None],
    override: str,
    words: str,
    cluster: Any,
    place: ReleasePlace,
    tmp_path: Path,
) -> None:
    for key, value in labels.items():
        cluster.namespace_labels.pop(key)
        if value is not None:
            cluster.namespace_labels[key] = value
    with pytest.raises(GuardError, match=words):
        await start(place, tmp_path / "run", *filter(None, [override]))
    assert not (tmp_path / "run").exists()
    assert ("configmaps", "zq-run") not in cluster.objects


async def test_a_place_is_not_embedded_because_it_is_called_so(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    cluster.namespace_labels.clear()
    said = ReleasePlace(
        kubeconfig=place.kubeconfig, context="x", namespace="zonequake", release="zq", embedded=True
    )
    with pytest.raises(GuardError):
        await start(said, tmp_path / "run")


async def test_an_event_log_on_a_full_disk_does_not_keep_a_run_from_healing(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").symlink_to("/dev/full")
    running = start(place, tmp_path / "run")
    await asyncio.wait_for(cluster.held.wait(), timeout=120)
    await abort_run(find_run(str(tmp_path / "run"), nowhere), print)
    _, report = await asyncio.wait_for(running, timeout=120)
    assert any("No space left on device" in problem for problem in report.problems)
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods.values())
    assert cluster.zone is None


async def test_a_journal_that_cannot_be_written_lets_no_fault_in(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owe = CleanupJournal.owe

    def full_at_the_finalizer(journal: CleanupJournal, debt: Debt) -> int:
        if isinstance(debt, RemoveFinalizer):
            raise JournalFailed("the disk is full")
        return owe(journal, debt)

    monkeypatch.setattr(CleanupJournal, "owe", full_at_the_finalizer)
    _, report = await asyncio.wait_for(start(place, tmp_path / "run"), timeout=120)
    assert report.verdict is Verdict.HARNESS_FAILED
    assert any("the disk is full" in problem for problem in report.problems)
    assert not cluster.held.is_set(), "the fault was never done"
    assert cluster.zone is None
