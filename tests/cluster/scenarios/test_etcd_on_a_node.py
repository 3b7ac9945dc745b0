"""An etcd of the embedded node's own build, put through the same scenarios and checks as our store.

What no client here wrote must pass, and what it says on purpose and stale must be found.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Judged

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SHORT = "times={beforeSeconds: 4, afterSeconds: 3}"


@pytest.mark.long
def test_an_etcd_whose_leaders_are_killed_passes_every_check(run_scenario: Any) -> None:
    judged = run_scenario("leader-kill", SHORT, "faults.0.times=2", target="etcd")
    assert judged.exit_code == 0, judged.output
    leaders = [event["data"]["leader"] for event in judged.events("leader.change")]
    victims = [event["data"]["targets"][0] for event in judged.events("fault.effective")]
    assert set(victims) <= set(leaders)
    assert len(judged.events("replica.audit")) == 3
    assert "against etcd 3." in (judged.folder / "report.html").read_text()
    print(judged.says("availability"))


@pytest.mark.long
def test_serializable_reads_of_a_sound_etcd_are_found_stale(run_scenario: Any) -> None:
    judged = run_scenario("local-reads", SHORT, target="etcd")
    assert judged.exit_code == 1, judged.output
    assert "stale-reads" in judged.failed_checks()
    assert "lost-writes" not in judged.failed_checks()
    print(judged.says("stale-reads"))


@pytest.mark.long
def test_members_of_an_older_release_are_dumped_and_compared(run_scenario: Any) -> None:
    version = "target.version=3.5.3"
    judged = run_scenario("leader-kill", SHORT, "faults.0.times=1", version, target="etcd")
    assert judged.exit_code == 0, judged.output
    assert version_of(judged) == "3.5.3"
    audits = [event["data"] for event in judged.events("replica.audit")]
    assert len(audits) == 3
    assert len({(data["digest"], data["log_index"]) for data in audits}) == 1


@pytest.mark.long
def test_a_failpoint_of_a_release_is_met(run_scenario: Any) -> None:
    """Each save of the log begins late, so that no write is done sooner than that."""
    late = "target.env={GOFAIL_FAILPOINTS: raftBeforeSave=sleep(30)}"
    judged = run_scenario(
        "leader-kill",
        SHORT,
        "faults.0.times=1",
        "target.version=3.5.5+failpoints",
        late,
        "load.registerRate=80",
        "load.listRate=40",
        target="etcd",
    )
    assert judged.exit_code == 0, judged.output
    assert version_of(judged) == "3.5.5"
    lasted = [one["time"] - one["inv"] for one in operations(judged) if is_done(one)]
    assert len(lasted) > 50
    assert min(lasted) > 30_000_000, f"the fastest write took {min(lasted) / 1e6:.0f} ms"


def operations(judged: Judged) -> list[dict[str, Any]]:
    """The lines of the run's history."""
    files = sorted((judged.folder / "history").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def is_done(line: dict[str, Any]) -> bool:
    return (line["type"], line["f"]) == ("ok", "write")


def version_of(judged: Judged) -> str:
    """The version that the members told."""
    return str(yaml.safe_load((judged.folder / "run.yaml").read_text())["target"]["version"])
