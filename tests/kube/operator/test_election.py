"""Two operators: one acts; one that stands still, or whose API server hangs, does no harm."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine
from tests.kube.operator.operators import Operators
from tests.kube.operator.severed import Line
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.kube


@pytest.fixture
def operators(machine: Machine) -> Iterator[Operators]:
    with closing(Operators(machine)) as found:
        yield found


def begin(operators: Operators, **environment: str) -> None:
    """Three nodes, a zone, and two operators of which the first leads."""
    machine = operators.machine
    machine.want(4)
    machine.start(*range(3))
    operators.start(**environment)
    wait_until(lambda: operators.leads(0))
    operators.start()
    machine.api.create_zone(partitions=4)
    wait_until(lambda: machine.is_whole(3))
    assert not operators.leads(1)
    assert operators.lease()["leaseTransitions"] == 1


def test_an_operator_that_stands_still_is_followed_by_the_other_and_ends_when_it_wakes(
    operators: Operators,
) -> None:
    machine = operators.machine
    begin(operators)
    first = operators.running[0]
    first.send_signal(signal.SIGSTOP)
    machine.start(3)
    wait_until(lambda: operators.leads(1))
    wait_until(lambda: machine.is_whole(4))
    assert operators.lease()["leaseTransitions"] == 2

    wait_until(lambda: all(p["status"].get("state") == "Available" for p in partitions(machine)))
    # Every view of the second one is written.
    machine.until_steady(lambda: partitions(machine), 6)
    before = [p["status"] for p in partitions(machine)]
    first.send_signal(signal.SIGCONT)
    assert first.wait(PATIENCE_S) == 1
    assert [p["status"] for p in partitions(machine)] == before
    assert "no longer leads" in (machine.folder / "operator-0.log").read_text()


def partitions(machine: Machine) -> list[dict[str, dict[str, object]]]:
    return machine.api.get("zp")["items"]  # type: ignore[no-any-return]


def test_an_operator_whose_api_server_hangs_ends_before_the_other_leads(
    operators: Operators, line: Line
) -> None:
    machine = operators.machine
    kubeconfig = machine.api.kubeconfig_of("operator", machine.folder, url=line.url)
    begin(operators, KUBECONFIG=str(kubeconfig))
    line.hang()
    assert operators.running[0].wait(PATIENCE_S) == 1
    wait_until(lambda: operators.leads(1))
    ended, led = operators.said(0, "no longer leads, and ends"), operators.said(1, " leads")
    assert ended is not None
    assert led is not None
    assert ended < led, "the other one waits for the whole duration"
    machine.start(3)
    wait_until(lambda: machine.is_whole(4))


def test_an_operator_that_ends_in_peace_is_followed_at_once(operators: Operators) -> None:
    begin(operators)
    first = operators.lease()["holderIdentity"]
    operators.running[0].terminate()
    operators.running[0].wait(PATIENCE_S)
    assert operators.lease().get("holderIdentity") != first, "the Lease is left to run out"
    wait_until(lambda: operators.leads(1))
