"""The options that a scenario gives an etcd's members, as arguments and by their variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.chaos.runner.test_runs_against_etcd import ask
from zonequake_chaos.commands.run import planned
from zonequake_kube.errors import UsageError


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("target.args=[--heartbeat-interval=300]", "--election-timeout 1000 must be at least 5"),
        ("target.env={ETCD_ELECTION_TIMEOUT: '100'}", "--election-timeout 100 must be at least 5"),
        (
            "target={args: [--heartbeat-interval=50], env: {ETCD_ELECTION_TIMEOUT: '249'}}",
            "5 times --heartbeat-interval 50 (target.env, target.args)",
        ),
        ("target.args=[--election-timeout]", "--election-timeout '': expected milliseconds"),
        ("target.env={ETCD_ELECTION_TIMEOUT: 1s}", "ETCD_ELECTION_TIMEOUT '1s': expected milli"),
        ("target.args=[--heartbeat-interval=0]", "'0': expected milliseconds, a whole number abo"),
        ("target.args=[--election-timeout=50001]", "50001 must be at most 50000 (target.args)"),
        (
            "target={args: [--snapshot-count=5], env: {ETCD_SNAPSHOT_COUNT: '5'}}",
            "target.args has --snapshot-count, and target.env has ETCD_SNAPSHOT_COUNT: etcd does",
        ),
        ("target.args=[--name, x]", "--name, which the run sets itself"),
        ("target.args=[--config-file, /a]", "--config-file, which the run sets"),
        ("target.env={ETCD_DATA_DIR: /a}", "target.env has ETCD_DATA_DIR, which the run sets"),
        ("target.args=[--unsafe-no-fsync]", "say zones.0.fsync=false"),
        ("target.args=[--unsafe-no-fsync=false]", "say zones.0.fsync=false"),
        ("target.env={ETCD_UNSAFE_NO_FSYNC: 'true'}", "say zones.0.fsync=false"),
        ("target.args=[--discovery=http://x]", "--discovery, by which members would find"),
        ("target.args=[--discovery-srv=x]", "--discovery-srv, by which members would find"),
        ("target.env={ETCD_DISCOVERY_SRV: x}", "ETCD_DISCOVERY_SRV, by which members would find"),
        ("target.args=[--force-new-cluster]", "make each member a cluster of its own"),
        ("target.env={ETCD_FORCE_NEW_CLUSTER: 'true'}", "make each member a cluster of its own"),
        ("target.args=[--enable-grpc-gateway=false]", "only by that gateway the run sees"),
        ("target.env={ETCD_ENABLE_GRPC_GATEWAY: 'false'}", "only by that gateway the run sees"),
        ("target.args=[--listen-client-http-urls=http://0.0.0.0:1]", "by HTTP too: leave it out"),
        ("target.args=[--help]", "--help, which is no setting of a member"),
        ("target.args=[-h]", "--h, which is no setting of a member"),
        ("target.args=[--version]", "--version, which is no setting of a member"),
        ("target.args=[snapshot-count=5]", "has 'snapshot-count=5': expected --NAME=VALUE"),
        ("target.args=[--snapshot-count=5, '6']", "has '6': expected --NAME=VALUE"),
        ("target.args=[--snapshot-count, '5', '6']", "has '6': expected --NAME=VALUE"),
        ("target.args=[--pre-vote, 'false']", "has 'false': expected --NAME=VALUE"),
        ("target.args=[--]", "has '--': expected --NAME=VALUE"),
    ],
)
def test_an_option_that_members_can_not_have_is_refused_before_the_run(
    override: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        planned(ask("leader-kill", tmp_path, override))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "override",
    [
        "target.args=[--heartbeat-interval=50, --election-timeout=500, --snapshot-count=1000]",
        "target.args=[--heartbeat-interval, '50', -election-timeout, '500', --pre-vote=false]",
        "target={args: [--election-timeout=5000], env: {ETCD_HEARTBEAT_INTERVAL: '1000'}}",
        "target.env={ETCD_SNAPSHOT_COUNT: '1000', GOFAIL_FAILPOINTS: raftBeforeSave=sleep(50)}",
        "target.args=[--enable-grpc-gateway, --experimental-corrupt-check-time=5s]",
    ],
)
def test_an_option_that_members_may_have_is_taken(override: str, tmp_path: Path) -> None:
    planned(ask("leader-kill", tmp_path, override))
