"""PostgreSQL with Patroni: what asynchronous replication loses, and synchronous one must not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.scenarios.secrets_of_targets import hosts_of, make_secrets
from tests.cluster.scenarios.test_targets_on_a_node import checked, kept
from zonequake_cluster.supply.certificate_authority import Authority

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1200)]

LAGGING = str(Path(__file__).parents[3] / "docs" / "examples" / "lagging-standbys.yaml")
LAG = "maximum_lag_on_failover=1073741824"
STRICT = "synchronous_mode=true, synchronous_mode_strict=true"
MEMBERS, CLIENT = "patroni-members", "patroni-client"
SSL = ("ssl=on", "ssl_cert_file=/tls/tls.crt", "ssl_key_file=/tls/tls.key")
ONE = (
    *("zones.0.partitions=1", "times={beforeSeconds: 4, afterSeconds: 4}"),
    *("load.processes=16", "load.probeRate=50"),
)


def test_the_target_keeps_what_the_checks_rely_on(release: Release, tmp_path: Path) -> None:
    done = checked(release, "patroni", tmp_path / "run", f"target.args=[{STRICT}]")
    kept(done)
    assert "altered, dumps" in done.stdout


def test_asynchronous_replication_keeps_all_but_what_a_kill_may_lose(
    release: Release, tmp_path: Path
) -> None:
    done = checked(release, "patroni", tmp_path / "run")
    assert "altered, dumps" in done.stdout
    if done.returncode == 0:
        kept(done)
        return
    problems = yaml.safe_load((tmp_path / "run" / "run.yaml").read_text())["harness"]["problems"]
    lost = ("was acknowledged, and nothing of it is there", "such reads)")
    assert problems, done.stdout + done.stderr
    for said in problems:
        assert said.startswith("killed: "), problems
        assert any(word in said for word in lost), problems


def test_members_with_tls_keep_it_too(release: Release, tmp_path: Path) -> None:
    authority = Authority.made("a test's Patroni", datetime.now(UTC))
    hosts = hosts_of("patroni", release.place)
    signed = {
        MEMBERS: authority.sign("postgres", hosts=hosts),
        CLIENT: authority.sign("load"),
    }
    named = (f"harness.targetSecrets={{{MEMBERS},{CLIENT}}}",)
    release.plant("", more=named)  # makes the namespace, too
    asyncio.run(make_secrets(release.place, authority, signed))
    args = ", ".join([STRICT, *(f"postgresql.parameters.{each}" for each in SSL)])
    secrets = (f"target.secrets={{/tls: {MEMBERS}}}", f"target.clientSecret={CLIENT}")
    done = checked(
        release, "patroni", tmp_path / "run", f"target.args=[{args}]", *secrets, more=named
    )
    kept(done)
    assert "altered, dumps" in done.stdout


def test_a_failover_of_asynchronous_replication_loses_what_was_acknowledged(
    run_scenario: Any,
) -> None:
    judged = run_scenario(LAGGING, f"target.args=[{LAG}]", target="patroni")
    assert judged.exit_code == 1, judged.output
    assert "lost-writes" in judged.failed_checks()
    leaders = [event["data"] for event in judged.events("leader.change")]
    assert len({each["leader"] for each in leaders}) > 1
    print(judged.says("lost-writes"))


def test_strictly_synchronous_replication_loses_nothing_in_the_same_run(run_scenario: Any) -> None:
    judged = run_scenario(LAGGING, f"target.args=[{LAG}, {STRICT}]", target="patroni")
    assert judged.exit_code == 0, judged.output
    leaders = [event["data"] for event in judged.events("leader.change")]
    assert len({each["leader"] for each in leaders}) > 1, "no failover"
    print(judged.says("availability"))


@pytest.mark.parametrize("mode", ["", STRICT])
def test_primaries_are_killed_under_load(run_scenario: Any, mode: str) -> None:
    """Without a lag only the last milliseconds before a kill are lost, if any."""
    judged = run_scenario(
        "leader-kill", *ONE, "faults.0.times=2", f"target.args=[{mode}]", target="patroni"
    )
    print(mode or "asynchronous", judged.verdict["verdict"], judged.failed_checks())
    assert judged.exit_code in ((0,) if mode else (0, 1)), judged.output
    assert len({e["data"]["term"] for e in judged.events("leader.change")}) > 1, "no failover"


def test_a_standbys_own_state_is_found_stale(run_scenario: Any) -> None:
    cut = "{name: cut, type: network_partition, trigger: {when: settled}, holdSeconds: 8"
    faults = f"faults=[{cut}, between: [[follower], [others]]}}]"
    judged = run_scenario("local-reads", *ONE, faults, target="patroni")
    assert judged.exit_code == 1, judged.output
    assert "stale-reads" in judged.failed_checks()
