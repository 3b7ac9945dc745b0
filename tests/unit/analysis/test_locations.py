"""Where a run may lie: which locations there are, and what a folder of this machine still is."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.foreign.place_verbs import each_verb
from zonequake_analysis.cli import analyze
from zonequake_analysis.errors import LocationError
from zonequake_analysis.storage.causes import without_secrets
from zonequake_analysis.storage.location import Location

SECRET = "a-secret-that-nobody-may-read"


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "path", "name"),
    [
        ("runs/x", "runs/x", "x"),
        ("runs/x/", "runs/x", "x"),
        (Path("runs/x"), "runs/x", "x"),
        (Path("files/x"), "files/x", "x"),
        ("file:///data/a%20run/", "/data/a run", "a run"),
        ("s3://bucket/runs/x/", "s3://bucket/runs/x", "x"),
        ("s3://bucket", "s3://bucket", "bucket"),
        ("gs://bucket/runs/x", "gs://bucket/runs/x", "x"),
        ("hdfs://host:8020/runs/x", "hdfs://host:8020/runs/x", "x"),
        ("hdfs:///runs/x", "hdfs:///runs/x", "x"),
    ],
)
def test_a_place_is_a_path_or_a_uri(given: str | Path, path: str, name: str) -> None:
    location = Location.of(given)
    assert (str(location), location.name) == (path, name)
    assert (location / "history" / "load-0.jsonl").name == "load-0.jsonl"
    assert pickle.loads(pickle.dumps(location)) == location


@pytest.mark.parametrize(
    "given",
    [
        f"s3://key:{SECRET}@bucket/x",
        f"s3://bucket/x?secret_key={SECRET}",
        f"gs://{SECRET}@bucket/x",
        f"hdfs://me:{SECRET}@host:8020/x",
        "ftp://host/x",
        "s3:///x",
        "file://host/x",
        "file://",
        "hdfs://",
        "hdfs:///",
        "",
        Path("s3://bucket/x"),
        "s3:/bucket/x",
        "hdfs:x",
        f"s3:/key:{SECRET}@bucket/x",
    ],
)
def test_a_uri_that_can_not_be_is_refused_and_no_password_in_it_is_shown(
    given: str | Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LocationError, match="expected") as told:
        Location.of(given)
    assert SECRET not in str(told.value)
    assert analyze(given) == 255
    assert SECRET not in capsys.readouterr().err


def test_an_endpoint_is_s3s_own_before_all_services_and_travels_with_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://all:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert Location.of("s3://bucket/x").endpoint == "http://all:9000"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3:9000/")
    location = Location.of("s3://bucket/x") / "file"
    assert (location.endpoint, location.region) == ("https://s3:9000", "eu-west-1")
    assert Location.of("gs://bucket/x").endpoint == ""


@pytest.mark.parametrize("endpoint", ["host:9000", f"https://me:{SECRET}@host:9000", "ftp://host"])
def test_an_endpoint_that_is_no_url_or_holds_a_password_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(LocationError, match="AWS_ENDPOINT_URL") as told:
        Location.of("s3://bucket/x")
    assert SECRET not in str(told.value)


def test_what_a_store_says_is_shown_without_the_processes_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    assert SECRET not in without_secrets(f"signed with {SECRET}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    assert without_secrets("me: some time (of me)") == "…: some time (of …)"


def test_a_folder_of_this_machine_is_listed_without_hidden_files_and_read_by_parts(
    tmp_path: Path,
) -> None:
    for name in ("b.jsonl", "a.jsonl", ".c.jsonl", "d.txt"):
        (tmp_path / name).write_text(f"{name}\nsecond\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "d.txt")
    location = Location.of(tmp_path)
    names = ["a.jsonl", "b.jsonl", "link.jsonl"]
    assert [file.name for file in location.listed(".jsonl")] == names
    assert {file.name for file in location.listed()} == {*names, ".c.jsonl", "d.txt"}
    assert [file.name for file in location.all_below(".jsonl")] == names
    assert Location.of(tmp_path / "nowhere").listed() == []
    file = location / "a.jsonl"
    assert file.size_bytes() == 15
    assert file.read_range(8, 6) == b"second"
    with file.open() as stream:
        stream.seek(8)
        assert stream.readline() == b"second\n"


@each_verb
def test_each_verb_of_a_place_works(tmp_path: Path, steps: Callable[[Location], None]) -> None:
    steps(Location.of(tmp_path / "run"))


def test_an_emptied_folder_is_there(tmp_path: Path) -> None:
    for _ in range(2):
        Location.of(tmp_path / "tables" / "ops").empty_folder()
        assert list((tmp_path / "tables" / "ops").iterdir()) == []
        (tmp_path / "tables" / "ops" / "part").write_bytes(b"content")
