"""The choice of a member client's next endpoint. Pure.

Requests go to all in turn: every member takes every request, and sends on to the leader what only
the leader can do, or refuses it. An endpoint that failed is *suspect* until it
answers again; it must be asked in the background, or each of its failures would cost a probe.
"""

from __future__ import annotations

from collections.abc import Container, Iterable


class Endpoints:
    """Addresses as `host:port`, each suspect or not."""

    def __init__(self, turn: int) -> None:
        self._all: list[str] = []
        self._suspects: set[str] = set()
        self._turn = turn

    def replace(self, addresses: Iterable[str]) -> None:
        """Replaces the endpoints by these. New ones are not suspect."""
        self._all = sorted(set(addresses))
        self._suspects.intersection_update(self._all)

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(self._all)

    @property
    def suspects(self) -> tuple[str, ...]:
        """Returns the endpoints that failed and have not answered since, sorted."""
        return tuple(sorted(self._suspects))

    def failed(self, address: str) -> None:
        """Records that the endpoint couldn't serve a request."""
        if address in self._all:
            self._suspects.add(address)

    def answered(self, address: str) -> None:
        """Records that the endpoint served a request."""
        self._suspects.discard(address)

    def choose(self, tried: Container[str], *, anyone: bool = False) -> str | None:
        """Chooses the next in turn that isn't suspect, else a suspect; of both rather one not in
        `tried`.

        `anyone`: suspects are as good as others. None if no address is known.
        """
        if not self._all:
            return None
        self._turn += 1
        first = self._turn % len(self._all)
        in_turn = self._all[first:] + self._all[:first]
        return min(in_turn, key=lambda one: (not anyone and one in self._suspects, one in tried))
