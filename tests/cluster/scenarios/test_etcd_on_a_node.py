"""An etcd of the embedded node's own build, put through the same scenarios and checks as our store.

What no client here wrote must pass, and what it says on purpose and stale must be found.
"""

from __future__ import annotations

from typing import Any

import pytest

from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.images.etcd import build_etcd_release

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
def test_members_of_an_older_release_are_dumped_and_compared(
    run_scenario: Any, embedded_cluster: EmbeddedCluster
) -> None:
    built = build_etcd_release("3.5.3", progress=print)
    embedded_cluster.load_image(built.archive)
    image = f"target.image={built.ref}"
    judged = run_scenario("leader-kill", SHORT, "faults.0.times=1", image, target="etcd")
    assert judged.exit_code == 0, judged.output
    audits = [event["data"] for event in judged.events("replica.audit")]
    assert len(audits) == 3
    assert len({(data["digest"], data["log_index"]) for data in audits}) == 1
