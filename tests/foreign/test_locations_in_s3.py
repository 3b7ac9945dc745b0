"""A run's place in a real S3: what each verb does there, also beside a busy server's refusals."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.foreign.faulty_s3 import Fault, each_third, relayed
from tests.foreign.place_verbs import each_verb
from tests.foreign.s3_server import BUCKET, SECRET_KEY, S3Server, serving
from tests.processes.store.ports import free_ports
from zonequake_analysis.errors import FolderHeld, LocationError
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.storage import analysis_lock, limits, systems
from zonequake_analysis.storage.location import Location

pytestmark = pytest.mark.timeout(900)  # compiles, the first time


@pytest.fixture(autouse=True)
def environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Location:
    """A prefix of its own for each test."""
    return Location.of(f"s3://{BUCKET}/{request.node.name[:60]}")


@each_verb
def test_each_verb_of_a_place_works(run: Location, steps: Callable[[Location], None]) -> None:
    steps(run.parent / steps.__name__)


def test_folders_of_several_files_are_deleted_with_all_in_them(run: Location) -> None:
    """pyarrow deletes a folder among its files; this store refuses that until the last is gone."""
    for folder in (run / "tables" / "ops", run / "tables" / "metrics" / "hour=1"):
        for number in range(3):
            (folder / f"part-{number}").write(b"x")
    (run / "tables").delete_folder()
    assert (run / "tables").all_below("") == []
    (run / "tables").delete_folder()


@pytest.mark.parametrize("size_bytes", [0, 100, 30_000_000], ids=["empty", "one put", "parts"])
def test_a_file_appears_whole_whatever_happens_to_requests(
    run: Location, server: S3Server, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    content = os.urandom(size_bytes)
    with relayed(server.endpoint, each_third) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        file = Location.of(str(run)) / "file"
        for _ in range(3):
            file.write(content)
            assert file.read_bytes() == content
    assert relay.faults
    assert not [path for method, path in relay.requests if "copy" in path.lower()]


def test_an_upload_that_breaks_off_leaves_the_old_file(
    run: Location, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "file").write(b"old")
    parts = 0

    def plan(_: int, method: str, path: str) -> Fault | None:
        nonlocal parts
        if method == "PUT" and "partNumber" in path:
            parts += 1
            return Fault.RESET if parts > 1 else None
        return None

    monkeypatch.setattr(limits, "ATTEMPTS", 2)
    with relayed(server.endpoint, plan) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        with pytest.raises(LocationError, match="nothing answers"):
            (Location.of(str(run)) / "file").write(os.urandom(40_000_000))
    assert parts > 1
    assert (run / "file").read_bytes() == b"old"


def test_a_file_is_copied_in_parts_over_breaking_connections(
    run: Location, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(90_000_000)
    (tmp_path / "file").write_bytes(content)
    with relayed(server.endpoint, each_third) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        (Location.of(str(run)) / "file").copy_from(tmp_path / "file")
    assert relay.faults
    assert (run / "file").read_bytes() == content


def test_a_copy_that_breaks_off_leaves_the_old_file(
    run: Location, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "file").write(b"old")
    (tmp_path / "file").write_bytes(os.urandom(60_000_000))
    parts = 0

    def plan(_: int, method: str, path: str) -> Fault | None:
        nonlocal parts
        parts += method == "PUT" and "partNumber" in path
        return Fault.RESET if parts > 1 and method == "PUT" else None

    monkeypatch.setattr(limits, "ATTEMPTS", 2)
    with relayed(server.endpoint, plan) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        with pytest.raises(LocationError, match="nothing answers"):
            (Location.of(str(run)) / "file").copy_from(tmp_path / "file")
        gc.collect()  # the stream that broke off is dropped
    assert (run / "file").read_bytes() == b"old"


_COPIED = """
import resource, sys
from pathlib import Path
from zonequake_analysis.storage.location import Location

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

place = Location.of(sys.argv[1])
(place / "small").copy_from(Path(sys.argv[2]))
before = peak_mb()
(place / "large").copy_from(Path(sys.argv[3]))
print(peak_mb() - before)
"""


def test_a_copy_to_a_slow_store_never_holds_the_file_in_memory(
    run: Location, server: S3Server, tmp_path: Path
) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"x")
    with large.open("wb") as file:
        file.truncate(400_000_000)

    def slow(_: int, method: str, path: str) -> None:
        if "partNumber" in path:
            time.sleep(0.3)

    with relayed(server.endpoint, slow) as relay:
        grown_mb = subprocess.run(
            [sys.executable, "-c", _COPIED, str(run), small, large],
            env={**os.environ, "AWS_ENDPOINT_URL": relay.endpoint},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert int(grown_mb) < 150
    assert (run / "large").size_bytes() == 400_000_000


def test_history_lines_are_read_whole_over_breaking_connections(
    run: Location, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = '{"schema":1,"type":"ok","f":"write","process":3,"op":"3-%d","time":%d}'
    text = "\n".join(line % (n, n) for n in range(30_000))
    (tmp_path / "load-0.jsonl").write_text(text)
    (run / "load-0.jsonl").write(text.encode())

    def rows(files: list[Path | Location]) -> list[dict[str, object]]:
        parts = byte_ranges(files, 300_000)
        return [row for p in parts for batch in kept_lines(p) for row in batch.to_pylist()]

    with relayed(server.endpoint, each_third) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        found = rows([Location.of(str(run)) / "load-0.jsonl"])
    assert len(found) == 30_000
    assert found == rows([tmp_path / "load-0.jsonl"])
    assert {Fault.SLOW_DOWN, Fault.RESET, Fault.CUT} <= set(relay.faults)


def test_an_answer_that_never_comes_is_asked_for_again(
    run: Location, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "file").write(b"content")
    monkeypatch.setattr(limits, "SILENT_S", 1.0)
    with relayed(server.endpoint, lambda n, *_: Fault.SILENT if n == 0 else None) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        assert (Location.of(str(run)) / "file").read_bytes() == b"content"
    assert relay.faults == [Fault.SILENT]


def test_a_store_that_stays_too_busy_is_told_of(
    run: Location, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ATTEMPTS", 2)
    with relayed(server.endpoint, lambda *_: Fault.SLOW_DOWN) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        with pytest.raises(LocationError, match="too busy") as told:
            Location.of(str(run)).listed()
    assert str(run) in str(told.value)
    assert not told.value.unreachable


def test_a_bucket_that_is_not_there_is_told_of_by_each_verb() -> None:
    nowhere = Location.of("s3://nowhere/run")
    with pytest.raises(LocationError, match=r"s3://nowhere/run.* no .*bucket"):
        nowhere.listed()
    with pytest.raises(LocationError, match="there is no such bucket"):
        (nowhere / "file").write(b"content")


def test_wrong_credentials_are_told_of_and_never_shown(
    run: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-" + SECRET_KEY)
    place = Location.of(str(run))
    systems.file_system.cache_clear()  # one that is there has its credentials already
    with pytest.raises(LocationError, match="refuses these credentials") as told:
        place.listed()
    systems.file_system.cache_clear()
    assert SECRET_KEY not in str(told.value)
    assert SECRET_KEY not in repr(place)


def test_an_endpoint_that_nothing_listens_at_is_told_of_within_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    place = Location.of(f"s3://{BUCKET}/run")
    begun_s = time.monotonic()
    with pytest.raises(LocationError, match="nothing answers at this store") as told:
        place.check_reachable()
    assert time.monotonic() - begun_s < 60
    assert told.value.unreachable


def test_a_pickled_place_is_the_same_one_in_a_process_that_knows_no_endpoint(
    run: Location, server: S3Server
) -> None:
    (run / "file").write(b"content")
    code = (
        "import pickle, sys; place = pickle.loads(sys.stdin.buffer.read());"
        "sys.stdout.buffer.write(place.read_bytes())"
    )
    environment = {**os.environ, **server.environment()}
    del environment["AWS_ENDPOINT_URL"], environment["AWS_REGION"]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(run / "file"),
        env=environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"content"
    assert SECRET_KEY.encode() not in pickle.dumps(run / "file")


def test_a_server_with_tls_is_trusted_by_its_own_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = tmp_path / "cert", tmp_path / "key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=s3", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )  # fmt: skip
    with serving(tmp_path / "server", tls={"cert": cert, "key": key}) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        place = Location.of(f"s3://{BUCKET}/run")
        with pytest.raises(LocationError, match="TLS was refused"):
            place.check_reachable()
        systems.file_system.cache_clear()
        monkeypatch.setenv("AWS_CA_BUNDLE", str(cert))
        (place / "file").write(b"content")
        assert (place / "file").read_bytes() == b"content"


def test_one_analysis_at_a_time_holds_a_prefix(run: Location) -> None:
    (run / "history" / "load-0.jsonl").write(b"{}")
    with analysis_lock.locked_prefix(run):
        with (
            pytest.raises(FolderHeld, match="another process analyses it"),
            analysis_lock.locked_prefix(run),
        ):
            pass
        assert len(run.listed()) == 1, "who gives way leaves nothing"
    assert run.listed() == []
    with analysis_lock.locked_prefix(run):
        pass


def test_of_many_analyses_that_begin_at_once_one_at_most_goes_on(run: Location) -> None:
    inside, most, refused = 0, 0, 0
    count = threading.Lock()
    begin = threading.Barrier(6)

    def analyse() -> None:
        nonlocal inside, most, refused
        begin.wait()
        try:
            with analysis_lock.locked_prefix(run):
                with count:
                    inside += 1
                    most = max(most, inside)
                with count:
                    inside -= 1
        except FolderHeld:
            with count:
                refused += 1

    threads = [threading.Thread(target=analyse) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 1
    assert refused >= 1
    assert run.listed() == []


def test_a_killed_analysis_holds_its_prefix_only_as_long_as_it_may_live(
    run: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = run / f"{analysis_lock.PREFIX}of-a-killed-one"
    left.write(b"host")
    with pytest.raises(FolderHeld), analysis_lock.locked_prefix(run):
        pass
    monkeypatch.setattr(analysis_lock, "DEAD_AFTER_S", -1.0)  # as if that time had gone by
    with analysis_lock.locked_prefix(run):
        assert left not in run.listed()


def test_an_analysis_that_lives_renews_its_lock(
    run: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis_lock, "RENEW_S", 0.05)
    with analysis_lock.locked_prefix(run) as still_ours:
        (own,) = run.listed()
        first_s = run.modified_s()[own.name]
        deadline_s = time.monotonic() + 60
        while run.modified_s()[own.name] == first_s:
            assert time.monotonic() < deadline_s
        still_ours()


def test_an_analysis_that_could_not_tell_that_it_lives_writes_no_verdict(
    run: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    with analysis_lock.locked_prefix(run) as still_ours:
        monkeypatch.setattr(analysis_lock, "DEAD_AFTER_S", -1.0)
        with pytest.raises(FolderHeld, match="another one may hold the run"):
            still_ours()
