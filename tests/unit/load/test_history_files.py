"""History files: what a crash may cost, and what a restart learns."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from zonequake_load.errors import HistoryError
from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.pod.history import (
    HistoryClock,
    HistoryWriter,
    OperationRole,
    RecordedCall,
    Recorder,
)
from zonequake_load.pod.identity import begin_incarnation, replace_file
from zonequake_load.pod.recovery import read_past

CLOCK = HistoryClock(name="boot", monotonic_ns=lambda: 30, wall_ns=lambda: 40)


def call(
    operation: Operation, *, process: int = 3, n: int = 1, role: OperationRole = OperationRole.LOAD
) -> RecordedCall:
    return RecordedCall(
        operation=operation,
        process=process,
        op=f"{process}-{n}",
        role=role,
        partition=12,
        sched_ns=10,
        inv_ns=20,
    )


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_the_fields_of_the_contract_and_a_completion_repeats_its_invoke(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path, "pod-1", "z1", CLOCK)
    write = call(Operation(f=Function.WRITE, key="k17", value=281475043))
    recorder.invoke(write)
    recorder.complete(
        write,
        Outcome(type=Type.OK, attempts=2, node="zq-default-1", lineage=0, term=7, index=9),
    )
    recorder.close()
    invoke, ok = lines(tmp_path / "pod-1-load.jsonl")
    assert ok == {
        "schema": 1, "type": "ok", "f": "write", "process": 3, "op": "3-1", "role": "load",
        "zone": "z1", "partition": 12, "key": "k17", "value": 281475043, "expected": None,
        "applied": None, "found": None, "sched": 10, "inv": 20, "time": 30, "wall": 40,
        "clock": "boot", "node": "zq-default-1", "lineage": 0, "term": 7, "index": 9,
        "read": None, "error": None, "attempts": 2,
    }  # fmt: skip
    assert invoke == ok | {
        "type": "invoke", "time": 20, "node": None, "lineage": None, "term": None, "index": None,
        "attempts": None,
    }  # fmt: skip


def test_a_read_shows_what_it_read_and_a_failed_cas_what_it_found(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "pod-1", "z1", CLOCK)
    read = call(Operation(f=Function.READ, key="l"))
    recorder.invoke(read)
    recorder.complete(read, Outcome(type=Type.OK, attempts=1, value=[1, 2]))
    cas = call(Operation(f=Function.CAS, key="r", value=5, expected=4), n=2)
    recorder.invoke(cas)
    recorder.complete(cas, Outcome(type=Type.OK, attempts=1, value=9, applied=False))
    recorder.close()
    events = lines(tmp_path / "pod-1-load.jsonl")
    assert [(event["value"], event["read"]) for event in events[:2]] == [
        (None, "linearizable"),
        ([1, 2], "linearizable"),
    ]
    assert [(e["value"], e["expected"], e["applied"], e["found"]) for e in events[2:]] == [
        (5, 4, None, None),
        (5, 4, False, 9),
    ]


def test_probes_have_a_file_of_their_own_and_an_unused_file_does_not_appear(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path, "pod-1", "z1", CLOCK)
    recorder.invoke(call(Operation(f=Function.READ, key="p"), role=OperationRole.PROBE))
    recorder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["pod-1-probe.jsonl"]


def test_an_existing_file_is_never_written_again(tmp_path: Path) -> None:
    (tmp_path / "pod-1-load.jsonl").write_text("")
    recorder = Recorder(tmp_path, "pod-1", "z1", CLOCK)
    with pytest.raises(HistoryError, match="exists"):
        recorder.invoke(call(Operation(f=Function.READ, key="k")))


def test_a_full_disk_stops_the_load(tmp_path: Path) -> None:
    path = tmp_path / "full"
    file = HistoryWriter(path)
    file._descriptor = os.open("/dev/full", os.O_WRONLY)
    recorder = Recorder(tmp_path, "pod-1", "z1", CLOCK)
    recorder._load = file
    with pytest.raises(HistoryError, match="give the history more room"):
        recorder.invoke(call(Operation(f=Function.READ, key="k")))
    os.close(file._descriptor)


def test_no_line_follows_one_that_was_written_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operations that end while the load stops would be glued to it, and both be lost."""
    recorder = Recorder(tmp_path, "pod-1", "z1", CLOCK)
    begun = [call(Operation(f=Function.WRITE, key="k", value=n), n=n) for n in (1, 2)]
    for each in begun:
        recorder.invoke(each)
    write, left = os.write, [10]

    def full(descriptor: int, content: bytes) -> int:
        if not left:
            raise OSError(errno.ENOSPC, "no space left on device")
        return write(descriptor, content[: left.pop()])

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        with pytest.raises(HistoryError, match="no space left"):
            recorder.complete(begun[0], Outcome(type=Type.OK, attempts=1))
    with pytest.raises(HistoryError, match="a line before was not written in full"):
        recorder.complete(begun[1], Outcome(type=Type.INFO, attempts=1))
    recorder.close()
    recovered = read_past(tmp_path)
    assert (recovered.damaged, recovered.touched) == ([], {"k": 12})


async def test_a_sync_while_the_file_is_closed_is_harmless(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "pod-1", "z1", CLOCK)
    recorder.invoke(call(Operation(f=Function.READ, key="k")))
    syncing = asyncio.create_task(recorder.files[0].sync())
    await asyncio.sleep(0)
    recorder.close()
    await syncing
    assert len(lines(tmp_path / "pod-1-load.jsonl")) == 1


def drain(peer: socket.socket, received: bytearray, enough: threading.Event) -> None:
    while data := peer.recv(65_536):
        received.extend(data)
        if len(received) > 8 * 2_000:
            enough.set()


def test_a_killed_writer_has_written_every_invoke_whose_request_left(tmp_path: Path) -> None:
    """Kills a process that invokes and sends as fast as it can, ten times."""
    program = textwrap.dedent("""
        import socket, sys
        from pathlib import Path
        from zonequake_load.pod.history import OperationRole, RecordedCall, Recorder, machine_clock
        from zonequake_load.operation import Function, Operation
        recorder = Recorder(Path(sys.argv[1]), sys.argv[2], "z", machine_clock())
        peer = socket.create_connection(("127.0.0.1", int(sys.argv[3])))
        for n in range(1, 10_000_000):
            operation = Operation(f=Function.WRITE, key="k", value=n)
            recorder.invoke(RecordedCall(operation=operation, process=1, op=f"1-{n}", partition=0,
                                 role=OperationRole.LOAD, sched_ns=1, inv_ns=1))
            peer.sendall(n.to_bytes(8, "big"))
    """)
    for attempt in range(10):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            writer = subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path), f"w{attempt}", str(port)]
            )
            peer, _ = listener.accept()
            received = bytearray()
            enough = threading.Event()
            reader = threading.Thread(target=drain, args=(peer, received, enough))
            reader.start()
            assert enough.wait(120)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            reader.join()
            peer.close()
        last_left = len(received) // 8
        whole = (tmp_path / f"w{attempt}-load.jsonl").read_bytes().split(b"\n")[:-1]
        values = [json.loads(line)["value"] for line in whole]
        assert values == list(range(1, len(values) + 1))
        assert last_left <= len(values)


def test_a_restart_learns_from_the_files_and_forgives_a_torn_last_line(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "pod-1", "z1", CLOCK)
    done = call(Operation(f=Function.WRITE, key="a", value=1))
    recorder.invoke(done)
    recorder.complete(done, Outcome(type=Type.OK, attempts=1))
    recorder.invoke(call(Operation(f=Function.WRITE, key="b", value=2), n=2))
    final = call(Operation(f=Function.READ, key="a"), process=4, role=OperationRole.FINAL)
    recorder.invoke(final)
    recorder.complete(final, Outcome(type=Type.OK, attempts=1, value=1))
    recorder.close()
    with (tmp_path / "pod-1-load.jsonl").open("ab") as file:
        file.write(b'{"schema":1,"type":"ok","f":"write","pro')
    recovered = read_past(tmp_path)
    assert recovered.touched == {"a": 12, "b": 12}
    assert recovered.written == {"a"}
    assert recovered.finally_read == {"a": {4}}
    assert recovered.damaged == []


def test_a_damaged_line_in_the_middle_is_reported(tmp_path: Path) -> None:
    (tmp_path / "pod-1-load.jsonl").write_bytes(b"garbage\n")
    assert read_past(tmp_path).damaged == ["pod-1-load.jsonl"]


def test_incarnations_grow_on_disk_also_within_one_second(tmp_path: Path) -> None:
    assert [begin_incarnation(tmp_path, 1_000) for _ in range(3)] == [1_000, 1_001, 1_002]
    assert begin_incarnation(tmp_path, 5_000) == 5_000


def test_a_full_disk_leaves_what_is_kept_beside_the_history_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half of it could not be read, and the pod would never start again."""
    file = tmp_path / "state.json"
    replace_file(file, b'{"phase":"load"}')
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:5]))
    with pytest.raises(OSError, match="5 of 17 bytes written"):
        replace_file(file, b'{"phase":"final"}')
    assert file.read_bytes() == b'{"phase":"load"}'
