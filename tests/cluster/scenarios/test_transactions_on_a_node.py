"""Recorded transactions on a real node, of systems that claim them and of one that doesn't."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from zonequake_analysis.many_runs.folders import read_run
from zonequake_kube.errors import USAGE_EXIT_CODE

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SHORT = "times={beforeSeconds: 4, afterSeconds: 3}"
TRANSACTIONS = "load.transactions={rate: 20}"
ONE = ("zones.0.replicas=1", "pools.0.replicas=1")


@pytest.mark.long
@pytest.mark.parametrize("target", ["zonequake", "etcd"])
def test_transactions_whose_leaders_are_killed_are_done_whole_and_in_an_order(
    run_scenario: Any, target: str
) -> None:
    judged = run_scenario("leader-kill", SHORT, "faults.0.times=2", TRANSACTIONS, target=target)
    assert judged.exit_code == 0, judged.output
    (check,) = [one for one in judged.verdict["checks"] if one["name"] == "transactions"]
    assert (check["verdict"], check["excluded"]) == ("passed", 0)
    assert check["checked"] > 0
    print(f"{target}: {check['summary']}")
    steps = pq.read_table(judged.folder / "tables" / "ops", columns=["step"], partitioning=None)
    assert pc.sum(pc.equal(steps["step"], 0)).as_py() == check["checked"]
    assert "faults.transaction.p99" in read_run(judged.folder).estimates


@pytest.mark.long
def test_a_target_that_claims_no_transactions_is_refused_before_the_cluster_is_asked(
    release: Release, tmp_path: Path
) -> None:
    release.plant("")
    place = release.as_chaos_account()
    assert place.context is not None
    begin = datetime.now(UTC)
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "zonequake"), "run", "leader-kill"),
            *("--kubeconfig", str(place.kubeconfig), "--context", place.context),
            *("--out", str(tmp_path / "run"), "--target", "toy"),
            *(word for override in (*ONE, TRANSACTIONS) for word in ("--set", override)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )
    assert done.returncode == USAGE_EXIT_CODE, done.stdout + done.stderr
    assert done.stderr.strip() == (
        "leader-kill can't be run with --target toy: load.transactions asks for transactions, "
        "which it does not claim: leave it out, or choose a target that does them"
    )
    assert release.calls(begin) == 0
    assert not (tmp_path / "run" / "run.yaml").exists()
