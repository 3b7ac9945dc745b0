"""`zonequake sql` against the real API server, and the operator's word about tables."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.kube.operator.addresses import address
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.background_load import BackgroundLoad
from tests.kube.operator.machine import Machine
from zonequake_chaos.commands.cli import main

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube

Sql = Callable[..., "subprocess.CompletedProcess[str]"]


def sql_at(api: ApiServer) -> Sql:
    """The command as a shell runs it, but in this process: another one would import for 1.5 s."""

    def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        place = (f"--kubeconfig={api.kubeconfig}", f"--namespace={api.namespace}")
        words = ["zonequake", "sql", text, *place, *options]
        with (
            patch.object(sys, "argv", words),
            redirect_stdout(StringIO()) as out,
            redirect_stderr(StringIO()) as told,
            pytest.raises(SystemExit) as ended,
        ):
            main()
        code = ended.value.code
        assert isinstance(code, int)
        return subprocess.CompletedProcess(words, code, out.getvalue(), told.getvalue())

    return run


@pytest.fixture(scope="module")
def api(api_server: ApiServer) -> ApiServer:
    return api_server.in_namespace("sql")


@pytest.fixture
def sql(api: ApiServer) -> Iterator[Sql]:
    yield sql_at(api)
    for kind in ("zt", "dz"):
        api.kubectl("delete", kind, "--all")


def spec(api: ApiServer, kind: str, name: str) -> Any:
    found = api.get(kind, name)
    return None if found is None else found["spec"]


def test_the_documents_statements_become_resources(api: ApiServer, sql: Sql) -> None:
    done = sql(
        """
        CREATE ZONE IF NOT EXISTS Accounts WITH DATA_NODES_AUTO_ADJUST_SCALE_UP = 300,
            DATA_NODES_AUTO_ADJUST_SCALE_DOWN = 300_000, PARTITIONS = 2; // both
        ALTER ZONE Accounts WITH DATA_NODES_FILTER = ‘(“US” || “EU”) && “SSD”’;
        CREATE TABLE t … WITH PRIMARY_ZONE = Accounts;
        """
    )
    assert done.returncode == 0, done.stderr
    zone = api.get("dz", "accounts")
    assert zone["metadata"]["annotations"]["zonequake.io/sql-name"] == "Accounts"
    assert zone["spec"]["dataNodesFilter"] == "(“US” || “EU”) && “SSD”"
    assert zone["spec"]["dataNodesAutoAdjustScaleDown"] == 300_000
    assert spec(api, "zt", "t") == {"primaryZone": "accounts"}

    assert sql("ALTER ZONE ACCOUNTS WITH DATA_NODES_AUTO_ADJUST = 1000").returncode == 0
    found = spec(api, "dz", "accounts")
    assert found["dataNodesAutoAdjust"] == 1000
    assert not {"dataNodesAutoAdjustScaleUp", "dataNodesAutoAdjustScaleDown"} & found.keys()

    assert "Accounts" in sql("SELECT * FROM TABLES").stdout
    assert "drop it first" in sql("DROP ZONE accounts").stderr
    assert sql("DROP TABLE t; DROP ZONE accounts; DROP ZONE IF EXISTS accounts").returncode == 0
    assert spec(api, "dz", "accounts") is None


def test_a_slip_in_the_last_statement_changes_nothing(api: ApiServer, sql: Sql) -> None:
    for text in ("CREATE ZONE z; DROP ZONE y", "CREATE ZONE z; DROP ZON z"):
        done = sql(text)
        assert (done.returncode, "line 1, column 2" in done.stderr) == (254, True), done.stderr
        assert spec(api, "dz", "z") is None


def test_a_dry_run_prints_what_the_api_server_takes(api: ApiServer, sql: Sql) -> None:
    done = sql("CREATE ZONE a.b WITH REPLICAS = 2; CREATE TABLE t WITH PRIMARY_ZONE = a.b; "
               "ALTER ZONE a.b SET REPLICAS = 4; SELECT * FROM ZONES", "--dry-run")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert spec(api, "dz", "a.b") is None
    applied = api.kubectl("apply", "--filename", "-", stdin=done.stdout)
    assert applied.returncode == 0, applied.stderr
    assert spec(api, "dz", "a.b")["replicas"] == 4
    assert spec(api, "zt", "t") == {"primaryZone": "a.b"}


def table(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "Table",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_table_without_a_zone_is_refused_with_a_sentence(api: ApiServer) -> None:
    done = api.apply(table("t", {}))
    assert done.returncode != 0
    assert "a table lives in the partitions of a zone; set spec.primaryZone" in done.stderr


def test_a_table_moves_only_while_the_operator_says_that_it_is_empty(
    api: ApiServer, sql: Sql
) -> None:
    def say(status: dict[str, Any]) -> None:
        api.patch("zt", "t", {"status": status}, subresource="status")

    assert sql("CREATE ZONE a; CREATE ZONE b; CREATE TABLE t WITH PRIMARY_ZONE = a").returncode == 0
    moved = table("t", {"primaryZone": "b"})
    assert "primaryZone can't be changed unless status.holdsData" in api.apply(moved).stderr
    say({"holdsData": True, "primaryZone": "a"})
    assert "primaryZone can't be changed" in api.apply(moved).stderr
    assert "holds data in the zone a" in sql("ALTER TABLE t SET PRIMARY_ZONE = b").stderr
    say({"holdsData": False, "primaryZone": "a"})
    assert sql("ALTER TABLE t SET PRIMARY_ZONE = b").returncode == 0
    assert spec(api, "zt", "t") == {"primaryZone": "b"}
    back = api.apply(table("t", {"primaryZone": "a"}))
    assert back.returncode != 0, "what was said of the zone a isn't true of b"


async def write_a_key(zone: str) -> None:
    load = BackgroundLoad(zone=zone, seeds=[f"{address(0)}:7002"], partitions=2)
    await load.open()
    await load.close()


def test_an_operator_says_which_zone_holds_data(machine: Machine) -> None:
    api, sql = machine.api, sql_at(machine.api)
    machine.want(1)
    machine.start(0)
    done = sql(
        "CREATE ZONE z WITH PARTITIONS = 2; CREATE ZONE other WITH PARTITIONS = 1;"
        "CREATE TABLE t WITH PRIMARY_ZONE = z; CREATE TABLE lost WITH PRIMARY_ZONE = other;"
    )
    assert done.returncode == 0, done.stderr
    api.apply(table("astray", {"primaryZone": "nowhere"}))
    machine.start_operator()

    def said(name: str) -> Any:
        return (api.get("zt", name).get("status") or {}).get("holdsData")

    def reason(name: str) -> Any:
        found = (api.get("zt", name).get("status") or {}).get("conditions", [])
        return found[0]["reason"] if len(found) == 1 else None

    wait_until(lambda: said("t") is False and said("lost") is False)
    wait_until(lambda: (reason("t"), reason("astray")) == ("ZoneFound", "ZoneMissing"))
    version = api.get("zt", "t")["metadata"]["resourceVersion"]
    asyncio.run(write_a_key("z"))
    wait_until(lambda: said("t") is True)
    assert said("lost") is False
    assert api.get("zt", "t")["metadata"]["resourceVersion"] != version
    assert "holds data" in sql("ALTER TABLE t SET PRIMARY_ZONE = other").stderr
    assert sql("ALTER TABLE lost SET PRIMARY_ZONE = z").returncode == 0
    wait_until(lambda: said("lost") is True)
    shown = sql("DESCRIBE TABLE GROUP Z").stdout
    held = [line.split() for line in shown.splitlines() if "HOLDS_DATA" in line]
    assert held == [["HOLDS_DATA", "lost:", "yes"], ["HOLDS_DATA", "t:", "yes"]]
    assert sql("DROP TABLE t; DROP TABLE lost; DROP ZONE z").returncode == 0
    assert api.get("dz", "z") is None
