"""What `zonequake sql` says of what it did."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from zonequake_chaos.commands.cli import main
from zonequake_ctl import sql_command
from zonequake_ctl.sql.parser import parse
from zonequake_kube.client import Kube

ZONE = {"metadata": {"name": "z", "uid": "u"}, "spec": {}}


class HeldByItsFinalizer:
    """An API server whose zone stays while no operator runs."""

    def __init__(self, *, stays: bool) -> None:
        self._stays, self._deleted = stays, False

    async def find(self, kind: str) -> list[dict[str, Any]]:
        there = kind == "DistributionZone" and (self._stays or not self._deleted)
        return [ZONE] if there else []

    async def delete(self, kind: str, name: str, *, uid: str | None) -> None:
        self._deleted = True


@pytest.mark.parametrize(
    ("stays", "said"),
    [
        (False, "the zone z is dropped"),
        (True, "z is being dropped, and still there after 0 s: does an operator run?"),
    ],
)
async def test_a_zone_is_dropped_only_once_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, stays: bool, said: str
) -> None:
    monkeypatch.setattr(sql_command, "DROP_PATIENCE_S", 0.0)
    monkeypatch.setattr(sql_command, "DROP_LOOK_S", 0.0)
    text = "DROP ZONE z"
    (statement,) = parse(text)
    kube = cast("Kube", HeldByItsFinalizer(stays=stays))
    done = await sql_command._carry_out(kube, statement, text)
    assert done.notice.startswith(said)


Sql = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sql(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], unreachable: Path
) -> Sql:
    """The command as a shell runs it: exit code, output and errors."""
    monkeypatch.setenv("KUBECONFIG", str(unreachable))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["zonequake", "sql", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def unreachable(tmp_path: Path) -> Path:
    """A kubeconfig of a cluster without an answer."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    return path


def test_offline_a_dry_run_looks_at_no_cluster(sql: Sql) -> None:
    text = "CREATE ZONE z; ALTER TABLE GROUP z WITH REPLICAS = 4"
    assert sql(text, "--dry-run")[0] != 0
    code, out, error = sql(text, "--dry-run", "--offline")
    assert code == 0, error
    assert "replicas: 4" in out
    code, _, error = sql(text, "--offline")
    assert (code, "expected --dry-run beside it" in error) == (254, True)


@pytest.mark.parametrize("begin", ["-- a comment", "--a=b", "--"])
def test_a_text_may_begin_with_a_comment(sql: Sql, begin: str) -> None:
    text = f"{begin}\nCREATE ZONE z WITH REPLICAS = 2"
    code, out, error = sql(text, "--dry-run", "--offline")
    assert code == 0, error
    assert "replicas: 2" in out
    code, _, error = sql(f"{begin}\nCREATE ZON z", "--dry-run", "--offline")
    assert (code, error.split(":")[0]) == (254, "line 2, column 8")


def test_an_option_that_there_is_not_is_no_comment(sql: Sql) -> None:
    code, _, error = sql("CREATE ZONE z", "--dryrun")
    assert (code, "--dryrun" in error) == (254, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-f", "ok.sql", "CREATE ZONE y"), "found statements and --file, expected one of them"),
        ((), "expected statements, or a file with them"),
    ],
)
def test_statements_come_from_one_place(sql: Sql, arguments: tuple[str, ...], said: str) -> None:
    code, _, error = sql(*arguments)
    assert (code, said in error) == (254, True), error


@pytest.mark.parametrize("namespace", ["Bad NS", "a_b", "-a", "a" * 64, ""])
def test_a_namespace_that_there_cannot_be_is_refused(sql: Sql, namespace: str) -> None:
    code, out, error = sql("-n", namespace, "--dry-run", "--offline", "CREATE ZONE z")
    assert (code, out) == (254, "")
    assert f"--namespace: found {namespace!r}, expected" in error
    assert sql("-n", "ns-1", "--dry-run", "--offline", "CREATE ZONE z")[0] == 0


def test_a_kubeconfig_that_there_is_not_is_refused_in_a_dry_run_too(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setattr("zonequake_cluster.embedded.EmbeddedCluster.kubeconfig", tmp_path / "none")
    code, _, error = sql("--dry-run", "CREATE ZONE z")
    assert (code, "there is no kubeconfig" in error) == (254, True), error
    monkeypatch.delenv("KUBECONFIG")
    code, out, error = sql("--dry-run", "CREATE ZONE z")
    assert (code, "no cluster" in error, "name: z" in out) == (0, True, True)
