"""Injections of faults into a world of which a test plays what it needs."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from zonequake_chaos.faults.life import Injection, Victim
from zonequake_chaos.record.clock import SystemClock
from zonequake_chaos.targeting.triggers import Sighting


def made_up_victim(node: str = "n0", **facts: Any) -> Victim:
    """A store's pod of uid `u`, never restarted, and its process `p`; `facts` stand for these."""
    usual: dict[str, Any] = {
        "pod_uid": "u",
        "container": "store",
        "restarts": 0,
        "process_incarnation": "p",
        "address": "",
        "host": "",
    }
    return Victim(node=node, **(usual | facts))


def made_up_injection(
    victims: Iterable[Victim] = (),
    *,
    name: str = "f",
    timeout_s: float = 1,
    hold_s: float = 0,
    **world: object,
) -> Injection:
    """An injection into a world that has these things, and a clock if none is among them."""
    played: Any = SimpleNamespace(**({"clock": SystemClock()} | world))
    return Injection(
        world=played,
        name=name,
        victims=tuple(victims),
        sighting=Sighting(at_ns=0, what=""),
        timeout_s=timeout_s,
        hold_s=hold_s,
    )
