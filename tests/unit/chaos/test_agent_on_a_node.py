"""The fault agent's own logic, without namespaces: what it waits for, and whom it trusts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from zonequake_agent import break_links, ending, pods
from zonequake_agent.delayer import Delayer
from zonequake_agent.disk import filling
from zonequake_agent.link_fault import LinkFault
from zonequake_agent.queue_socket import HeldPacket, QueueSocket
from zonequake_agent.slow_line import SlowLine

UID = "7b7b7b7b-1111-2222-3333-444455556666"
ORDER = '{"name": "ZQ-0000000b", "seconds": 60, "delay_ms": 5}'
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('here', flush=True); {}"


class Queues:
    """Two queues that each give a packet of the same number in one piece."""

    def receive(self) -> list[HeldPacket]:
        return [HeldPacket(3, 1, 40), HeldPacket(2, 1, 40)]


def line() -> SlowLine:
    return SlowLine(delay_ms=5.0, jitter_ms=0.0, bytes_per_second=0)


def test_packets_of_both_queues_that_come_at_once_are_told_apart() -> None:
    queues = cast("QueueSocket", Queues())
    delayer = Delayer(queues, {2: line(), 3: line()}, random.Random(1))
    delayer._take()
    assert [held[-1].queue for held in delayer._held] == [2, 3]


def test_a_delayer_that_never_listens_is_ended_and_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[int] = []
    real = subprocess.Popen

    def noted(*args: Any, **kwargs: Any) -> Any:
        process = real(*args, **kwargs)
        started.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(break_links, "_READY_S", 0.2)
    monkeypatch.setattr(break_links, "_saved", lambda uid: "")
    monkeypatch.setattr(pods, "in_network", lambda uid, command: ["sleep", "60"])
    with pytest.raises(break_links.LinkTrouble, match=r"did not listen within 0\.2 s"):
        break_links.apply(UID, LinkFault.of(ORDER), ORDER)
    assert [ending.runs(pid) for pid in started] == [False]


def test_a_sweep_that_cannot_undo_one_fault_goes_on_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved = """*filter
:ZQ-0000000{n}-in - [0:0]
-A INPUT ! -i lo -m comment --comment zonequake-until-1 -j ZQ-0000000{n}-in
COMMIT
"""
    monkeypatch.setattr(pods, "all_uids", lambda: ["1", "2"])
    monkeypatch.setattr(break_links, "_saved", lambda uid: saved.replace("{n}", uid))

    def undo(uid: str, name: str) -> None:
        if uid == "1":
            raise break_links.LinkTrouble("somebody holds the lock")

    monkeypatch.setattr(break_links, "undo", undo)
    first, second = break_links.sweep(100.0)
    assert first.startswith("ZQ-00000001 ")
    assert "could not be undone: somebody holds the lock" in first
    assert second == "ZQ-00000002 at the pod with UID 2 was undone"


def test_a_process_that_ignores_its_end_is_killed_and_none_is_left() -> None:
    code = DEAF.format("time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout is not None
        deaf.stdout.readline()
        with pytest.MonkeyPatch.context() as patch:
            kill = os.kill

            def patiently(pid: int, number: int) -> None:
                """What is killed ends when it has its turn on a busy machine."""
                patch.setattr(ending, "_PATIENCE_S", 60.0 if number == signal.SIGKILL else 0.3)
                kill(pid, number)

            patch.setattr(os, "kill", patiently)
            assert ending.end([deaf.pid]) == set()
    assert deaf.returncode == -9
    assert not ending.runs(deaf.pid)


def test_a_process_that_outlives_its_kill_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(ending, "runs", lambda pid: True)
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    monkeypatch.setattr(break_links, "_saved", lambda uid: "")
    monkeypatch.setattr(break_links, "delayers", lambda uid, name=None: [4_000_000])
    with pytest.raises(
        break_links.LinkTrouble, match=r"are still running after SIGKILL, as \[4000000\]"
    ):
        break_links.undo(UID)


def test_a_link_in_the_place_of_the_fill_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod could have put it there, and it would lead to a file of the node."""
    monkeypatch.setattr(pods, "workers", lambda uid: [os.getpid()])
    monkeypatch.setattr(filling, "_check", lambda pid, path: None)
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    volume.mkdir()
    (volume / filling.FILE_NAME).symlink_to(outside)
    for act in (filling.fill, filling.look):
        with pytest.raises(OSError, match="symbolic links"):
            act(UID, str(volume))
    assert not outside.exists()
