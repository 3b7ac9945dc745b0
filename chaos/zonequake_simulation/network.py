"""The network between nodes and clients: delay, loss, doubling, reordering, one-way cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from zonequake_simulation.scenario import FaultKind
from zonequake_simulation.trace import TraceKind
from zonequake_simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """The conditions of the network. Shares in 0..1; delays are drawn evenly."""

    lost: float = 0.0
    doubled: float = 0.0
    fastest_us: int = 200
    slowest_us: int = 5_000
    is_storm: bool = False


CALM = Weather()


class Network:
    """Carries calls from one place to another, or drops them. Names are those of nodes and
    clients.
    """

    def __init__(self, world: World, weather: Weather) -> None:
        self._world = world
        self._random = world.stream("network")
        self.weather = weather
        self._cut: dict[tuple[str, str], list[FaultKind]] = {}
        """Reasons why a link is cut; several faults may cut one."""
        self._newest_us: dict[tuple[str, str], int] = {}
        """The time at which the newest arrival over a link was sent."""

    def cut(self, links: Iterable[tuple[str, str]], why: FaultKind) -> None:
        """Cuts these links (from, to) until as many calls of `mend`."""
        for link in links:
            self._cut.setdefault(link, []).append(why)

    def mend(self, links: Iterable[tuple[str, str]], why: FaultKind) -> None:
        """Undoes one `cut` of these links."""
        for link in links:
            reasons = self._cut[link]
            reasons.remove(why)
            if not reasons:
                del self._cut[link]

    def reaches(self, sender: str, to: str) -> bool:
        """Returns whether the link is not cut now."""
        return (sender, to) not in self._cut

    def blocked(self, sender: str, to: str) -> bool:
        """Returns whether the link is cut now, when a message would use it."""
        reasons = self._cut.get((sender, to), ())
        for why in reasons:
            self._world.bites(why)
        return bool(reasons)

    def send(
        self,
        sender: str,
        to: str,
        text: Callable[[], str],
        deliver: Callable[[], None],
        *,
        key: str | None = None,
        told: tuple[str, str] | None = None,
    ) -> None:
        """Calls `deliver` later, once, several times or never.

        `text`, `key` and `told` (sender and receiver, if not as given) are for the trace.
        """
        source, goal = told or (sender, to)
        random, weather, world = self._random, self.weather, self._world
        sent_us, link = world.now_us, (sender, to)
        copies = 1
        if weather.doubled and random.random() < weather.doubled:
            copies = 2
            world.tally["messages doubled"] += 1
        for _ in range(copies):
            if weather.lost and random.random() < weather.lost:
                world.tally["messages lost"] += 1
                if weather.is_storm:
                    world.bites(FaultKind.STORM)
                if world.tracing:
                    world.note(TraceKind.LOST, source, text(), peer=goal, key=key)
                continue

            def arrive() -> None:
                reasons = self._cut.get(link)
                if reasons is not None:
                    for why in reasons:
                        world.bites(why)
                    if world.tracing:
                        world.note(TraceKind.LOST, source, text(), peer=goal, key=key)
                    return
                if sent_us < self._newest_us.get(link, 0):
                    world.tally["messages overtaken"] += 1
                else:
                    self._newest_us[link] = sent_us
                if world.tracing:
                    world.note(
                        TraceKind.MESSAGE, goal, text(), peer=source, since_us=sent_us, key=key
                    )
                deliver()

            world.later(random.randrange(weather.fastest_us, weather.slowest_us), arrive)
