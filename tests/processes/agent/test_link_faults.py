"""The fault agent on real network namespaces: real packets, real rules, real deadlines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.processes.agent.conftest import FakePod

LASTS_S = (6, 24)
"""Long enough for another program to begin and find a link cut, and be without an answer for a
while; the second one also on a machine that has stood still."""

_TALK = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 7001), timeout=120)
for line in sys.stdin:
    started = time.monotonic()
    data = b"x" * int(line)
    connection.sendall(data)
    left = len(data)
    while left:
        left -= len(connection.recv(1 << 20))
    print(round((time.monotonic() - started) * 1000, 1), flush=True)
"""


class Talk:
    """One TCP connection that is kept; each word takes its bytes there and back."""

    def __init__(self, source: FakePod, to: FakePod) -> None:
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", source.namespace, sys.executable, "-c", _TALK, to.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def took_ms(self, size: int = 1) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{size}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def least(found: list[float | None]) -> float:
    """Of some round trips: a delay is in each of them, and a busy machine not in all."""
    return min(ms for ms in found if ms is not None)


def at_best(trips: Callable[[], float], *, below_ms: float) -> bool:
    """Whether one is so short, however busy the machine is: a delay would be in all of them."""
    give_up_s = time.monotonic() + PATIENCE_S
    while trips() >= below_ms:
        if time.monotonic() > give_up_s:
            return False
    return True


def test_a_cut_is_for_the_named_addresses_alone_and_ends_when_it_is_undone(
    pods: list[FakePod],
) -> None:
    victim, other, third = pods
    name = victim.apply(lost_percent=100, addresses=[other.address])
    assert victim.is_cut_off_from(other)
    assert other.is_cut_off_from(victim)
    assert None not in victim.reaches(third, 1) + third.reaches(victim, 1)
    assert victim.counts(name)["dropped"] >= 2
    victim.agent("undo", name)
    assert None not in victim.reaches(other, 1)
    assert "ZQ-" not in victim.rules()


@pytest.mark.parametrize(("way", "opposite"), [("inbound", "outbound"), ("outbound", "inbound")])
def test_a_one_way_cut_drops_one_direction_alone(
    pods: list[FakePod], way: str, opposite: str
) -> None:
    victim, other, _ = pods
    listening = _datagrams(victim if way == "outbound" else other)
    name = victim.apply(lost_percent=100, ports=[], **{way: True, opposite: False})
    # What goes the other way arrives, though no answer comes back: TCP would hide that.
    source, to = (other, victim) if way == "outbound" else (victim, other)
    with listening:
        _send_datagram(source, to)
        assert listening.communicate(timeout=PATIENCE_S)[0] == "hello\n"
    with _datagrams(to := other if way == "outbound" else victim) as deaf:
        _send_datagram(victim if way == "outbound" else other, to)
        with pytest.raises(subprocess.TimeoutExpired):
            deaf.communicate(timeout=0.7)
        deaf.kill()
    assert victim.counts(name)["dropped"] >= 1


def test_rules_that_meet_no_packet_have_dropped_none(pods: list[FakePod]) -> None:
    victim, other, _ = pods
    name = victim.apply(lost_percent=100, ports=[7099])
    assert None not in victim.reaches(other, 5)
    assert victim.counts(name)["dropped"] == 0


def test_a_lossy_link_loses_about_its_share_and_says_how_many_passed(pods: list[FakePod]) -> None:
    victim, other, _ = pods
    name = victim.apply(lost_percent=30, outbound=False)
    with Talk(other, victim) as talk:
        for _ in range(60):
            talk.took_ms()
    counts = victim.counts(name)
    share = counts["dropped"] / (counts["dropped"] + counts["passed"])
    assert counts["passed"] > 60
    assert 0.1 < share < 0.5


def test_a_slow_link_delays_each_direction_and_resets_no_connection(pods: list[FakePod]) -> None:
    victim, other, third = pods
    with Talk(other, victim) as talk:
        assert at_best(talk.took_ms, below_ms=20)
        name = victim.apply(delay_ms=40)
        assert least(other.reaches(victim)) > 78
        assert least(victim.reaches(other)) > 78
        assert at_best(lambda: least(third.reaches(other)), below_ms=20), (
            "links of others are as they were"
        )
        assert min(talk.took_ms() for _ in range(5)) > 78
        said = json.loads(str(victim.counts(name)["delayed"]))
        assert said["packets"] > 10
        assert 39 < said["mean_held_ms"] < 10_000
        victim.agent("undo", name)
        assert at_best(talk.took_ms, below_ms=20), "the same connection goes on, at its old pace"
    assert victim.agent("leftovers") == []


def test_a_slow_link_of_one_direction_delays_it_once(pods: list[FakePod]) -> None:
    victim, other, _ = pods
    victim.apply(delay_ms=40, outbound=False)
    assert least(other.reaches(victim)) > 39
    assert at_best(lambda: least(other.reaches(victim)), below_ms=78)


def test_a_narrow_link_passes_no_more_bytes_than_it_may(pods: list[FakePod]) -> None:
    victim, other, _ = pods
    with Talk(other, victim) as talk:
        assert at_best(lambda: talk.took_ms(200_000), below_ms=450)
        victim.apply(bytes_per_second=400_000)
        # There and back are counted apart and overlap.
        assert talk.took_ms(200_000) > 450


def test_jitter_spreads_the_delays(pods: list[FakePod]) -> None:
    victim, other, _ = pods
    victim.apply(delay_ms=30, jitter_ms=25, outbound=False)
    trips = [ms for ms in other.reaches(victim, 25) if ms is not None]
    assert max(trips) > 35
    assert at_best(lambda: least(other.reaches(victim, 25)), below_ms=25)


def is_cut_for_a_while(victim: FakePod, other: FakePod, seconds: float) -> bool:
    victim.apply(lost_percent=100, seconds=seconds)
    return other.is_cut_off_from(victim)


def test_the_kernel_ends_a_fault_at_its_deadline_though_no_process_is_left(
    pods: list[FakePod],
) -> None:
    victim, other, _ = pods
    victim.apply(delay_ms=300, ports=[7099], seconds=1)
    assert any(is_cut_for_a_while(victim, other, seconds) for seconds in LASTS_S)
    assert at_best(lambda: least(other.reaches(victim)), below_ms=20)
    give_up_s = time.monotonic() + PATIENCE_S
    left = victim.agent("leftovers")
    while any("delayer" in one for one in left):
        assert time.monotonic() < give_up_s, left
        left = victim.agent("leftovers")
    assert left, "rules that match nothing any more, for the cleanup"
    swept = subprocess.run(
        [sys.executable, "-m", "zonequake_agent", "sweep"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert victim.uid in swept.stdout
    assert victim.agent("leftovers") == []


def test_a_sweep_leaves_what_has_not_expired(pods: list[FakePod]) -> None:
    victim = pods[0]
    name = victim.apply(lost_percent=100)
    subprocess.run([sys.executable, "-m", "zonequake_agent", "sweep"], check=True)
    assert victim.agent("leftovers") == [f"rules of {name}"]


def test_packets_pass_when_a_delayer_is_killed(pods: list[FakePod]) -> None:
    victim, other, _ = pods
    victim.apply(delay_ms=200)
    assert least(other.reaches(victim, 2)) > 390
    left = victim.agent("leftovers")
    assert isinstance(left, list)
    pid = next(int(one.split()[-1]) for one in left if one.startswith("delayer"))
    os.kill(pid, signal.SIGKILL)
    assert at_best(lambda: least(other.reaches(victim)), below_ms=50)
    victim.agent("undo")
    assert victim.agent("leftovers") == []


def test_a_fault_put_in_twice_is_there_once_and_undone_twice_is_gone(pods: list[FakePod]) -> None:
    victim = pods[0]
    order = {"name": "ZQ-0000000a", "seconds": 60, "delay_ms": 5}
    victim.agent("apply", json.dumps(order))
    victim.agent("apply", json.dumps(order))
    left = victim.agent("leftovers")
    assert isinstance(left, list)
    assert [one.split()[0] for one in left] == ["rules", "delayer"]
    for _ in range(2):
        victim.agent("undo")
    assert victim.agent("leftovers") == []


def test_undoing_one_fault_leaves_the_other(pods: list[FakePod]) -> None:
    victim = pods[0]
    first, second = victim.apply(lost_percent=100), victim.apply(lost_percent=10)
    victim.agent("undo", first)
    assert victim.agent("leftovers") == [f"rules of {second}"]


def test_a_fault_that_several_undo_at_once_is_undone_for_all_of_them(pods: list[FakePod]) -> None:
    victim = pods[0]
    for _ in range(5):
        victim.apply(lost_percent=100)
        words = [sys.executable, "-m", "zonequake_agent", "undo", victim.uid]
        undoing = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(4)]
        said = [one.communicate(timeout=PATIENCE_S)[1] for one in undoing]
        assert [one.returncode for one in undoing] == [0] * 4, said
        assert victim.agent("leftovers") == []


def test_an_agent_that_ends_takes_its_faults_along(pods: list[FakePod]) -> None:
    victim = pods[0]
    victim.apply(delay_ms=20)
    # For this pod alone: an embedded cluster may run on the machine, with faults of its own.
    code = (
        "import sys; from zonequake_agent import pods, watch;"
        "pods.all_uids = lambda: [sys.argv[1]]; watch.watch()"
    )
    watching = subprocess.Popen([sys.executable, "-c", code, victim.uid])
    give_up_s = time.monotonic() + PATIENCE_S
    while not catches(watching.pid, signal.SIGTERM):  # it still imports
        assert time.monotonic() < give_up_s
        time.sleep(0.02)
    watching.send_signal(signal.SIGTERM)
    assert watching.wait(timeout=PATIENCE_S) == 0
    assert victim.agent("leftovers") == []


def catches(pid: int, number: int) -> bool:
    """Whether a process has its own way with this signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


def _datagrams(pod: FakePod) -> subprocess.Popen[str]:
    code = (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('0.0.0.0', 9));"
        "print('bound', flush=True); print(s.recv(100).decode())"
    )
    started = subprocess.Popen(
        ["ip", "netns", "exec", pod.namespace, sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "bound\n"
    return started


def _send_datagram(source: FakePod, to: FakePod) -> None:
    code = (
        "import socket, sys; s = socket.socket(type=socket.SOCK_DGRAM);"
        "s.sendto(b'hello', (sys.argv[1], 9))"
    )
    subprocess.run(
        ["ip", "netns", "exec", source.namespace, sys.executable, "-c", code, to.address],
        check=False,
        stderr=subprocess.DEVNULL,
    )
