"""A window that a reset ended names it, and has a limit of its own."""

from __future__ import annotations

from zonequake_analysis.probes import Island, Vantage
from zonequake_analysis.run_folder import Event
from zonequake_analysis.windows import Unavailability, availability

SECOND = 1_000_000_000
PLACE = {"zone": "z", "partition": 0, "function": "write", "vantage": "load-0"}


def window(*events: Event) -> Unavailability:
    """From 10 s to 16 s."""
    failed = Island(
        **PLACE,
        silent=False,
        failed=60,
        possible=(10 * SECOND, 16 * SECOND),
        certain=(10 * SECOND + 1, 16 * SECOND - 1),
    )
    probed = Vantage(
        **PLACE, probes=300, failed=60, interval_ns=SECOND // 10, first_ns=0, last_ns=30 * SECOND
    )
    (found,) = availability([probed], [failed], events).windows
    return found


def event(kind: str, at_s: float, partition: int | None = 0, **data: object) -> Event:
    return Event(
        kind=kind,
        time=int(at_s * SECOND),
        zone="z",
        partition=partition,
        node="n2",
        data=data,
    )


def test_a_reset_within_the_window_is_among_its_causes_behind_the_fault() -> None:
    fault = event("fault.start", 9.9, fault="outage", type="node_outage", targets=["n0", "n1"])
    reset = event("group.reset", 15.5, lineage=5)
    led = event("leader.change", 15.6, leader="n2", term=3)
    found = window(fault, reset, led)
    assert [cause.kind for cause in found.causes] == ["fault.start", "group.reset", "leader.change"]
    assert found.causes[1].what == "reset: n2 goes on alone in lineage 5"
    assert found.by_reset


def test_a_reset_of_another_partition_or_after_the_window_explains_nothing() -> None:
    other = event("group.reset", 15.5, partition=1, lineage=5)
    late = event("group.reset", 16.5, lineage=5)
    assert not window(other, late).by_reset
