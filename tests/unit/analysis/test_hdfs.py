"""What is ours of the way into HDFS: time limits, moves in a file, errors in words."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import hdfs_native
import pyarrow as pa
import pytest

from zonequake_analysis.cli import analyze
from zonequake_analysis.errors import LocationError
from zonequake_analysis.storage import hdfs, limits, systems
from zonequake_analysis.storage.causes import likely_cause
from zonequake_analysis.storage.location import Location

CONTENT = bytes(range(256)) * 50_000
"""More than one piece."""

SILENT = threading.Event()


class Reader:
    """A client's file, which panics behind its end, as that of hdfs-native does."""

    def __len__(self) -> int:
        return len(CONTENT)

    def read_range(self, offset: int, size: int) -> bytes:
        assert offset >= 0
        assert offset + size <= len(CONTENT), "panicked: Cannot read past end of the file"
        assert 0 < size <= hdfs._PIECE_BYTES
        return CONTENT[offset : offset + size]


class Writer:
    def __init__(self, client: Client, path: str) -> None:
        self.client, self.path = client, path
        self.written = b""

    def write(self, content: bytes) -> int:
        assert len(content) <= hdfs._PIECE_BYTES
        self.written += content
        return len(content)

    def close(self) -> None:
        assert self.path not in self.client.files
        self.client.files[self.path] = self.written


class Client:
    """A NameNode that says nothing to its first client."""

    made: list[Client] = []  # noqa: RUF012

    def __init__(self, uri: str, settings: dict[str, str]) -> None:
        self.uri, self.settings = uri, settings
        self.files: dict[str, bytes] = {}
        self.renamed: list[tuple[str, str, bool]] = []
        self.made.append(self)

    def delete(self, path: str, recursive: bool = False) -> bool:
        if self is self.made[0]:
            SILENT.wait()
        return self.files.pop(path, None) is not None

    def read(self, path: str) -> Reader:
        raise FileNotFoundError(path)

    def create(self, path: str, options: hdfs_native.WriteOptions) -> Writer:
        assert options.overwrite
        return Writer(self, path)

    def rename(self, src: str, dst: str, overwrite: bool) -> None:
        self.renamed.append((src, dst, overwrite))


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    monkeypatch.setattr(hdfs_native, "Client", Client)
    made: list[Client] = []
    monkeypatch.setattr(Client, "made", made)
    systems.file_system.cache_clear()
    return made


def test_an_answer_that_does_not_come_is_an_error_after_the_limit() -> None:
    with pytest.raises(TimeoutError, match=r"timed out: no answer for 0 s"):
        hdfs.within(0.05, SILENT.wait)


def test_a_refusal_is_an_oserror_without_the_servers_stack() -> None:
    def refuse() -> None:
        raise RuntimeError(
            'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: '
            'user=mallory\\n\\tat org.apache.hadoop.Checker.check(Checker.java:663)\\n\\tat x")'
        )

    with pytest.raises(OSError, match=r"user=mallory$"):
        hdfs.within(30.0, refuse)


@pytest.mark.parametrize("host", ["host:80x", "host:", "::1", "[::1", "a:1:2"])
def test_a_host_that_can_not_be_is_refused_with_what_is_expected(host: str) -> None:
    with pytest.raises(LocationError, match=r"found the host .*, expected hdfs://host:port"):
        Location.of(f"hdfs://{host}/x")


@pytest.mark.parametrize("host", ["", "host", "10.0.0.1:8020", "[::1]:8020", "name-service_1"])
def test_hosts_of_a_server_are_taken(host: str) -> None:
    assert str(Location.of(f"hdfs://{host}/x")) == f"hdfs://{host}/x"


def test_a_silent_server_gets_a_new_connection_the_next_time(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    within, limits_s = hdfs.within, list[float]()

    def sooner(limit_s: float, ask: Callable[[], object]) -> object:
        """Cuts the silence short, and nothing that a busy machine may be late with."""
        limits_s.append(limit_s)
        return within(0.05 if len(limits_s) == 2 else 60.0, ask)

    monkeypatch.setattr(hdfs, "within", sooner)
    place = Location.of("hdfs://host:8020/x")
    with pytest.raises(
        LocationError, match=r"hdfs://host:8020/x: nothing answers.*timed out"
    ) as told:
        place.delete()
    assert told.value.unreachable
    place.delete()
    assert len(clients) == 2
    assert limits_s == [limits.SILENT_S * limits.ATTEMPTS] * 4


def test_the_client_is_told_where_and_how_often_to_ask(clients: list[Client]) -> None:
    for uri, attempts in (("hdfs://host:8020/x", 0), ("hdfs:///x", limits.FIRST_ATTEMPTS)):
        Location(uri, attempts=attempts)._system()
    assert [client.uri for client in clients] == ["hdfs://host:8020/", "hdfs:///"]
    settings = [client.settings["dfs.client.failover.max.attempts"] for client in clients]
    assert settings == [str(limits.ATTEMPTS - 1), str(limits.FIRST_ATTEMPTS - 1)]
    assert {client.settings["dfs.client.socket-timeout"] for client in clients} == {"15000"}


def test_an_absent_server_is_told_of_within_a_minute() -> None:
    assert limits.FIRST_ATTEMPTS * limits.SILENT_S <= 50


def test_a_file_is_written_under_another_name_and_renamed_over_the_old_one(
    clients: list[Client],
) -> None:
    Location.of("hdfs://host:8020/x").write(CONTENT)
    (client,) = clients
    ((draft, content),) = client.files.items()
    assert content == CONTENT
    assert draft.startswith("/x.")
    assert client.renamed == [(draft, "/x", True)]


@pytest.mark.parametrize(
    "read",
    [
        lambda stream: stream.read_at(10, len(CONTENT) - 4),
        lambda stream: stream.read_at(10, len(CONTENT) + 100),
        lambda stream: stream.read_at(10_000_000, 100),
        lambda stream: (stream.size(), stream.seek(-5, 2), stream.read(), stream.tell()),
        lambda stream: (stream.seek(7), stream.seek(3, 1), stream.read(4), stream.read()),
        lambda stream: stream.read(),
    ],
    ids=["over the end", "behind the end", "pieces", "from the end", "from here", "all"],
)
def test_moves_within_a_file_are_those_of_a_local_one(
    tmp_path: Path, read: Callable[[pa.NativeFile], object]
) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    there = pa.PythonFile(hdfs._Reading(Reader(), 30.0), mode="r")  # type: ignore[arg-type]
    with (tmp_path / "file").open("rb") as file:
        here = pa.PythonFile(file, mode="r")
        assert read(there) == read(here)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("Connection refused (os error 111)", "nothing answers"),
        ("RPC listener disconnected", "nothing answers"),
        ("failed to lookup address information: Name or service not known", "nothing answers"),
        ("timed out: no answer for 45 s", "nothing answers"),
        ('InvalidArgument("No NameNode hosts found")', "write hdfs://host:port"),
        ('InvalidArgument("No fs.defaultFS setting found")', "HADOOP_CONF_DIR"),
        ('RPCError("org.…AccessControlException", "Permission denied: user=m', "needs rights"),
        ('RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "…', "safe mode"),
        ('DataTransferError("All DataNodes failed: [DatanodeInfoProto {', "no DataNode"),
        ("could only be written to 0 of the 1 minReplication nodes. There are 0", "no DataNode"),
    ],
)
def test_what_hdfs_says_is_told_with_its_likely_cause(said: str, cause: str) -> None:
    assert cause in likely_cause(said)


def test_without_the_client_a_sentence_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    systems.file_system.cache_clear()
    monkeypatch.delitem(sys.modules, "zonequake_analysis.storage.hdfs")
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    assert analyze("hdfs://host:8020/x") == 255
    told = capsys.readouterr().err
    assert "hdfs://host:8020/ needs the package hdfs-native here and on each executor" in told
    assert "pip install 'zonequake[hdfs]'" in told
    assert "Traceback" not in told
