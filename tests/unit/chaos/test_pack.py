"""The archive of a run: whole enough to be judged again, and without what leads to the cluster."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import yaml

from zonequake_chaos.commands.pack import pack_runs
from zonequake_kube.errors import UsageError

KUBECONFIG = "/where-keys-are/kubeconfig"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"
PARQUET = b"PAR1" + TOKEN.encode()


def a_run(folder: Path) -> Path:
    for name in ("history", "columns", "logs", "metrics", "tables/ops"):
        (folder / name).mkdir(parents=True)
    place = {"kubeconfig": KUBECONFIG, "context": "x", "namespace": "n", "release": "zq"}
    (folder / "run.yaml").write_text(yaml.safe_dump({"cluster": {**place, "version": "v1"}}))
    (folder / "report.html").write_text(f"<pre>kubeconfig: {KUBECONFIG}</pre>")
    (folder / "history" / "a.jsonl").write_text('{"type":"ok"}\n')
    (folder / "logs" / "operator.log").write_text(
        f"GET /\nAuthorization: Bearer abcdefghijklmnopqrstuvwx\n{KEY}\nusing {TOKEN} now\n"
    )
    (folder / "metrics" / "m.parquet").write_bytes(PARQUET)
    (folder / "tables" / "ops" / "x.parquet").write_bytes(PARQUET)
    (folder / "columns" / "load-0.jsonl.0.arrows").write_bytes(b"derived")
    return folder


def contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        files = {member.name: opened.extractfile(member) for member in opened.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_it_holds_all_that_a_judgement_rests_on_and_not_what_is_derived(tmp_path: Path) -> None:
    run = a_run(tmp_path / "leader-kill")
    packed = pack_runs([run], tmp_path / "out" / "a.tar.gz")
    files = contents(tmp_path / "out" / "a.tar.gz")
    assert set(files) == {
        "leader-kill/run.yaml",
        "leader-kill/report.html",
        "leader-kill/history/a.jsonl",
        "leader-kill/logs/operator.log",
        "leader-kill/metrics/m.parquet",
    }
    assert files["leader-kill/history/a.jsonl"] == b'{"type":"ok"}\n'
    assert packed.files == 5


def test_neither_the_kubeconfigs_path_nor_a_token_nor_a_key_leaves(tmp_path: Path) -> None:
    packed = pack_runs([a_run(tmp_path / "leader-kill")], tmp_path / "a.tar.gz")
    for name, data in contents(tmp_path / "a.tar.gz").items():
        if not name.endswith(".parquet"):
            for secret in (KUBECONFIG, TOKEN, "MIIEow", "abcdefghijklmnopqrstuvwx"):
                assert secret.encode() not in data, name
    assert packed.removed == {
        "kubeconfig path": 2,
        "private key": 1,
        "token": 1,
        "credential": 1,
    }
    log = contents(tmp_path / "a.tar.gz")["leader-kill/logs/operator.log"]
    assert log.startswith(b"GET /\n")
    assert b"using (token removed) now" in log


def test_a_series_is_packed_with_what_is_told_of_all_and_never_packs_itself(tmp_path: Path) -> None:
    a_run(tmp_path / "chaos" / "seed-1")
    a_run(tmp_path / "chaos" / "seed-2")
    (tmp_path / "chaos" / "junit.xml").write_text("<testsuites/>")
    for _ in range(2):
        pack_runs([tmp_path / "chaos"], tmp_path / "chaos" / "a.tar.gz")
    files = set(contents(tmp_path / "chaos" / "a.tar.gz"))
    assert {"chaos/junit.xml", "chaos/seed-1/run.yaml", "chaos/seed-2/run.yaml"} <= files
    assert "chaos/a.tar.gz" not in files
    assert not any("tables" in name or "columns" in name for name in files)


def test_what_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no run folder and holds none"):
        pack_runs([tmp_path], tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


@pytest.mark.parametrize("out", ["leader-kill", "leader-kill/run.yaml/a.tar.gz"])
def test_an_archive_that_cannot_be_created_is_wrong_usage(tmp_path: Path, out: str) -> None:
    run = a_run(tmp_path / "leader-kill")
    with pytest.raises(UsageError, match=r"can't be written: .*, expected a file"):
        pack_runs([run], tmp_path / out)
