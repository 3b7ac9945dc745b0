"""Faults of a pod's links: cut, lossy, slow; one way or both; all links or between two sides.

Each fault is a set of rules that the agent on the node adds to the victim's network namespace
(`zonequake_agent`). Rules that match no packet have no effect: such a fault counts as missed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence

from zonequake_chaos.faults.life import Injection, Proof, Victim, together
from zonequake_chaos.faults.watching import until_answering
from zonequake_chaos.node_access.agent_links import (
    LinkFaultEffect,
    break_links,
    holds,
    met,
    round_trip_ms,
    undo_links,
)
from zonequake_chaos.node_access.shell import NodeShell, shell_of
from zonequake_chaos.record.cleanup_journal import JoinNetwork
from zonequake_chaos.scenario.faults import (
    HELD_AT_MOST_S,
    AnyFault,
    ByAgent,
    Direction,
    Traffic,
)
from zonequake_kube.errors import UsageError

API_PORTS = (443, 6443)
MARGIN_S = 30.0
"""Longest time that a fault lasts beyond its end if the harness has died."""

_FELT = 0.7
"""Least growth of the median round trip, as a share of the delay."""


def check_shell(faults: Sequence[AnyFault], shell: NodeShell | None) -> None:
    """Raises UsageError where a fault needs the fault agent and there is none."""
    needed = [fault.name for fault in faults if isinstance(fault, ByAgent)]
    if needed and shell is None:
        raise UsageError(
            f"{', '.join(needed)}: these faults need the fault agent, which this release lacks: "
            "install it with --set faultAgent.enabled=true (docs/agent.md), or use an embedded "
            "cluster on this machine: `zonequake cluster up`"
        )


class LinkFaultLife(ABC):
    """The common part of faults of links; they differ in the agent's order and in the proof."""

    def __init__(self, *, traffic: Traffic, direction: Direction) -> None:
        self._traffic = traffic
        self._direction = direction

    @abstractmethod
    def harm(self) -> dict[str, object]:
        """Returns the part of the agent's order that defines the effect on a packet."""

    @abstractmethod
    async def wait_until_effective(self, injection: Injection) -> Proof: ...

    async def prepare(self, injection: Injection) -> None:
        for victim in injection.victims:
            injection.owe(
                JoinNetwork(
                    pod=victim.node,
                    uid=victim.pod_uid,
                    host=victim.host,
                    fault=_chain(injection, victim),
                )
            )

    async def inject(self, injection: Injection) -> None:
        await together(
            break_links(_shell(injection), victim.on_node, self._order(injection, victim))
            for victim in injection.victims
        )

    async def recover(self, injection: Injection) -> None:
        for victim in injection.victims:
            if not await holds(_shell(injection), victim.on_node, _chain(injection, victim)):
                injection.ended_early = (
                    f"{victim.node} is free of it: its pod was replaced, the fault was undone, or "
                    "its deadline has passed"
                )
        now = injection.world.observer.view().nodes if injection.opposite else {}
        for other in injection.opposite:
            address = now[other.node].pod.address if other.node in now else ""
            if address not in ("", other.address):
                injection.ended_early = (
                    f"{other.node} has the address {address} now, and its links were broken by "
                    f"that of its pod before, {other.address}"
                )
        await self._undo(injection)

    async def _undo(self, injection: Injection) -> None:
        await together(
            undo_links(_shell(injection), victim.on_node, _chain(injection, victim))
            for victim in injection.victims
        )

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_answering(injection)

    async def clean_up(self, injection: Injection) -> None:
        await self._undo(injection)
        injection.pay()

    async def met(self, injection: Injection) -> dict[str, LinkFaultEffect]:
        """Returns the counts of each victim's rules so far, by its name."""
        return {
            victim.node: await met(_shell(injection), victim.on_node, _chain(injection, victim))
            for victim in injection.victims
        }

    def described(self, injection: Injection) -> Proof:
        """Returns the part of a proof that all kinds share: all but the numbers."""
        between = {"opposite": [v.node for v in injection.opposite]} if injection.opposite else {}
        return {"traffic": self._traffic.value, "direction": self._direction.value, **between}

    def _order(self, injection: Injection, victim: Victim) -> dict[str, object]:
        ports = injection.world.observer.ports
        of_traffic = {
            Traffic.ALL: (),
            Traffic.PEERS: (ports.peers,),
            Traffic.CLIENTS: (ports.clients,),
            Traffic.CONTROL: API_PORTS,
        }
        lasts_s = HELD_AT_MOST_S if injection.held else injection.hold_s
        return {
            "name": _chain(injection, victim),
            "seconds": injection.timeout_s + lasts_s + MARGIN_S,
            "inbound": self._direction is not Direction.OUTBOUND,
            "outbound": self._direction is not Direction.INBOUND,
            "addresses": [v.address for v in injection.opposite],
            "ports": list(of_traffic[self._traffic]),
            **self.harm(),
        }


class NetworkPartition(LinkFaultLife):
    """Life of `NetworkPartitionSpec`. Effective once a packet of each victim was dropped."""

    def harm(self) -> dict[str, object]:
        return {"lost_percent": 100}

    async def wait_until_effective(self, injection: Injection) -> Proof:
        dropped: dict[str, int] = {}

        async def all_dropped() -> bool:
            dropped.update({n: found.dropped for n, found in (await self.met(injection)).items()})
            return all(dropped.values())

        await injection.until(
            all_dropped, waiting_for=lambda: f"packets dropped so far: {dropped or 'none'}"
        )
        return {"dropped": dropped, "cut": self._traffic.value, **self.described(injection)}


class NetworkLoss(LinkFaultLife):
    """Life of `NetworkLossSpec`. Effective once some packets of each victim were lost, and others
    not.
    """

    def __init__(self, *, traffic: Traffic, direction: Direction, percent: float) -> None:
        super().__init__(traffic=traffic, direction=direction)
        self._percent = percent

    def harm(self) -> dict[str, object]:
        return {"lost_percent": self._percent}

    async def wait_until_effective(self, injection: Injection) -> Proof:
        seen: dict[str, LinkFaultEffect] = {}

        async def lossy() -> bool:
            seen.update(await self.met(injection))
            return all(found.dropped and found.passed for found in seen.values())

        await injection.until(
            lossy, waiting_for=lambda: f"packets lost and passed so far: {_of_each(seen)}"
        )
        return {"percent": self._percent, "packets": _of_each(seen), **self.described(injection)}


class NetworkSlow(LinkFaultLife):
    """Life of `NetworkSlowSpec`. Effective once packets were held, and round trips to each victim
    have grown by most of the delay; for a rate alone, held packets are enough.

    A round trip is a TCP connection's first packet and its answer, from inside another member's
    network namespace. Without another member, or for links to the API server, the proof is only the
    number of packets that the delayer held, and for how long.
    """

    def __init__(
        self,
        *,
        traffic: Traffic,
        direction: Direction,
        delay_ms: float,
        jitter_ms: float,
        bytes_per_second: int,
    ) -> None:
        super().__init__(traffic=traffic, direction=direction)
        self._harm: dict[str, object] = {
            "delay_ms": delay_ms,
            "jitter_ms": jitter_ms,
            "bytes_per_second": bytes_per_second,
        }
        ways = 2 if direction is Direction.BOTH else 1
        self._felt_ms = _FELT * ways * (delay_ms - jitter_ms)
        self._before_ms: dict[str, float | None] = {}

    def harm(self) -> dict[str, object]:
        return self._harm

    async def prepare(self, injection: Injection) -> None:
        await super().prepare(injection)
        self._before_ms = await self._round_trips_ms(injection)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        seen: dict[str, LinkFaultEffect] = {}
        during_ms: dict[str, float | None] = {}

        async def slow() -> bool:
            seen.update(await self.met(injection))
            during_ms.update(await self._round_trips_ms(injection))
            held = all(found.delayed and found.mean_held_ms for found in seen.values())
            return held and all(
                before_ms is None or _grown(before_ms, during_ms[name], self._felt_ms)
                for name, before_ms in self._before_ms.items()
            )

        await injection.until(
            slow,
            waiting_for=lambda: (
                f"round trips of {self._before_ms} ms must grow by {self._felt_ms:g} ms and are "
                f"{during_ms}; held so far: {_of_each(seen)}"
            ),
        )
        return {
            "round_trip_ms": {"before": self._before_ms, "during": during_ms},
            "held": _of_each(seen),
            **self._harm,
            **self.described(injection),
        }

    async def _round_trips_ms(self, injection: Injection) -> dict[str, float | None]:
        """Measures from another member to each victim, at the port of the fault."""
        ports = injection.world.observer.ports
        port = ports.clients if self._traffic is Traffic.CLIENTS else ports.peers
        if self._traffic is Traffic.CONTROL:
            return {}
        nodes = injection.world.observer.view().nodes.values()
        others = injection.opposite or tuple(
            Victim.of(node)
            for node in nodes
            if node.name not in {v.node for v in injection.victims}
        )
        if not others:
            return {}
        return {
            victim.node: await round_trip_ms(
                _shell(injection), others[0].on_node, victim.address, port
            )
            for victim in injection.victims
        }


def _grown(before_ms: float, during_ms: float | None, felt_ms: float) -> bool:
    # No answer within the probe's time-out is slower than any requested delay. A rate delays a lone
    # probe by less than round trips vary anyway.
    return felt_ms == 0 or during_ms is None or during_ms - before_ms >= felt_ms


def _of_each(seen: dict[str, LinkFaultEffect]) -> dict[str, dict[str, object]]:
    return {
        name: {
            "dropped": found.dropped,
            "passed": found.passed,
            "delayed": found.delayed,
            "mean_held_ms": found.mean_held_ms,
            "longest_held_ms": found.longest_held_ms,
        }
        for name, found in seen.items()
    }


def _chain(injection: Injection, victim: Victim) -> str:
    """Returns the name of this fault's rules at this victim; it differs for each injection."""
    about = f"{injection.name}/{injection.sighting.at_ns}/{victim.pod_uid}"
    return f"ZQ-{hashlib.blake2b(about.encode(), digest_size=4).hexdigest()}"


def _shell(injection: Injection) -> NodeShell:
    return shell_of(injection.world.shell)
