"""An Apache Ignite of three to five nodes, put through the same suite, scenarios and checks as our
store. The first run builds its image: the jars come from Maven Central.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.evidence_ignite.evidence import LIST, scenario_of
from benchmarks.evidence_ignite.rows import Row, System, read_rows
from tests.cluster.scenarios.secrets_of_targets import hosts_of, make_secrets
from tests.cluster.scenarios.test_targets_on_a_node import checked, kept
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_operator.nodes.affinity import rendezvous

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800), pytest.mark.long]

SMALL = (
    *("times={beforeSeconds: 20, afterSeconds: 8}", "load.processes=16"),
    *("load.registerRate=40", "load.listRate=20", "load.probeRate=40"),
)
"""What three nodes that have just started serve on two processors."""
NODES, CLIENT, PASSWORD = "ignite-nodes", "ignite-client", "a-password-of-stores"
LOST = {"zq-ignite-default-1", "zq-ignite-default-2"}
"""The nodes that the scenario `ha-majority-lost` takes away."""


def row(name: str) -> Row:
    """A row of the evidence: what a shipped scenario must be given for Ignite."""
    (found,) = [each for each in read_rows(LIST.read_text()) if each.name == name]
    return found


def test_ignite_keeps_what_the_checks_rely_on(release: Release, tmp_path: Path) -> None:
    kept(checked(release, "ignite", tmp_path / "run"))


def test_nodes_with_tls_for_clients_and_among_themselves_keep_it_too(
    release: Release, tmp_path: Path
) -> None:
    authority = Authority.made("a test's Ignite", datetime.now(UTC))
    signed = {
        NODES: authority.sign("node", hosts=hosts_of("ignite", release.place)),
        CLIENT: authority.sign("load"),
    }
    named = (f"harness.targetSecrets={{{NODES},{CLIENT}}}",)
    release.plant("", more=named)  # makes the namespace, too
    asyncio.run(make_secrets(release.place, authority, signed, password=PASSWORD))
    store = ("enabled=true", "keyStore.path=/tls/keystore.p12", f"keyStore.password={PASSWORD}")
    trust = ("trustStore.path=/tls/truststore.p12", f"trustStore.password={PASSWORD}")
    args = ", ".join(
        [
            *(f"ignite.clientConnector.ssl.{each}" for each in store),
            *(f"ignite.network.ssl.{each}" for each in (*store, *trust, "clientAuth=require")),
        ]
    )
    secrets = (f"target.secrets={{/tls: {NODES}}}", f"target.clientSecret={CLIENT}")
    done = checked(
        release, "ignite", tmp_path / "run", f"target.args=[{args}]", *secrets, more=named
    )
    kept(done)


def test_an_ignite_whose_primaries_are_killed_passes_every_check(run_scenario: Any) -> None:
    judged = run_scenario("leader-kill", *SMALL, "faults.0.times=2", target="ignite")
    assert judged.exit_code == 0, judged.output
    leaders = {event["data"]["leader"] for event in judged.events("leader.change")}
    victims = {event["data"]["targets"][0] for event in judged.events("fault.effective")}
    assert victims <= leaders
    print(judged.says("availability"))


def test_read_only_transactions_of_a_sound_ignite_are_found_stale(run_scenario: Any) -> None:
    judged = run_scenario("local-reads", *SMALL, target="ignite")
    assert judged.exit_code == 1, judged.output
    assert "stale-reads" in judged.failed_checks()
    assert "lost-writes" not in judged.failed_checks()
    print(judged.says("stale-reads"))


def test_a_lost_majority_goes_on_in_a_zone_that_is_highly_available(run_scenario: Any) -> None:
    """Three of the cluster's five voters are left; without them Ignite resets nothing."""
    names = [f"zq-ignite-default-{number}" for number in range(5)]
    hit = {n for n, nodes in enumerate(rendezvous(names, 4, 3)) if set(nodes) >= LOST}
    assert hit, "no partition loses its majority"
    lost = row("ha-majority-lost")
    judged = run_scenario(scenario_of(lost), *lost.given(System.IGNITE), *SMALL, target="ignite")
    assert judged.exit_code in (0, 1), judged.output
    assert judged.failed_checks() <= {"lost-writes", "stale-reads", "linearizability"}
    (begun,) = [
        e["time"] for e in judged.events("fault.effective") if e["data"]["type"] != "reached"
    ]
    (ended,) = [e["time"] for e in judged.events("fault.stop") if e["data"]["type"] != "reached"]
    away_ms = (ended - begun) / 1e6
    windows = {
        each["partition"]: each["certain_ms"]
        for each in judged.verdict["windows"]
        if each["partition"] in hit
    }
    assert set(windows) == hit, "a partition without a majority can't have served all the time"
    assert max(windows.values()) < away_ms, "they served again only when the nodes were back"
    print(windows, judged.says("lost-writes"))


def test_a_zone_moves_when_its_nodes_change_and_loses_nothing(run_scenario: Any) -> None:
    moved = row("scale-with-timers")
    judged = run_scenario(scenario_of(moved), *SMALL, target="ignite")
    assert judged.exit_code == 0, judged.output
    assert judged.events("stage.seen"), "no partition was seen to move"


def test_a_node_is_killed_while_it_gets_its_replicas(run_scenario: Any) -> None:
    killed = row("kill-while-installing")
    given = (*killed.given(System.IGNITE), *SMALL)
    judged = run_scenario(scenario_of(killed), *given, target="ignite")
    assert judged.exit_code == 0, judged.output
    assert {event["data"]["fault"] for event in judged.events("fault.hit")} >= {"kill-catching-up"}
