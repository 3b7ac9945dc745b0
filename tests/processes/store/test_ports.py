"""Ports for the processes of a test: no other test is given them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.store.ports import BLOCK_PORTS, LOWEST, Ports, free_ports

pytestmark = pytest.mark.processes

TAKE_MANY = "from ports import free_ports; print(*free_ports(600), flush=True); input()"


@pytest.fixture
def ports() -> Iterator[Callable[[], Ports]]:
    """Each call is as another process that takes from one and the same block, free until then.

    It lies below those that all others take.
    """
    highest = LOWEST - BLOCK_PORTS
    made: list[Ports] = []

    def of(lowest: int) -> Ports:
        made.append(Ports(lowest, lowest + BLOCK_PORTS))
        return made[-1]

    def is_ours(lowest: int) -> bool:
        try:
            of(lowest).take(1)
        except RuntimeError:
            return False
        made[-1].release()
        return True

    block = next(lowest for lowest in range(highest, 1024, -BLOCK_PORTS) if is_ours(lowest))
    yield lambda: of(block)
    for each in made:
        each.release()


def test_each_port_is_handed_out_once_and_when_there_are_no_more_it_says_so(
    ports: Callable[[], Ports],
) -> None:
    mine = ports()
    taken = mine.take(100) + mine.take(100)
    assert len(set(taken)) == 200
    with pytest.raises(RuntimeError, match=f"needed {BLOCK_PORTS}; other runs hold the rest"):
        mine.take(BLOCK_PORTS)


def test_what_one_process_holds_no_other_gets_until_it_ends(ports: Callable[[], Ports]) -> None:
    first, second = ports(), ports()
    first.take(1)
    with pytest.raises(RuntimeError, match="found 0 free ports"):
        second.take(1)
    first.release()
    assert len(ports().take(1)) == 1


def test_a_port_on_which_a_process_listens_is_passed_over(ports: Callable[[], Ports]) -> None:
    mine = ports()
    (port,) = mine.take(1)
    with socket.create_server(("127.0.0.1", port + 1)):
        assert port + 1 not in mine.take(3)


def test_processes_at_the_same_time_have_no_port_in_common() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TAKE_MANY],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = {int(port) for port in other.stdout.readline().split()}
        assert len(theirs) == 600
        assert not theirs & set(free_ports(600))
        other.communicate("\n")
    assert other.returncode == 0
