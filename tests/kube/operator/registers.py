"""Single writes and reads of a zone's partition 0, and how long it takes until it is writable."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from tests.kube.operator.relay import Relay
from tests.patience import PATIENCE_S
from zonequake_load.client.client import Client
from zonequake_load.operation import Function, Limits, OnceId, Operation, Outcome, Type


class Registers:
    """A client in a relay's loop, until that closes. `seeds`: the nodes' client addresses."""

    def __init__(self, loop: Relay, zone: str, seeds: Sequence[str]) -> None:
        self._loop = loop
        self._client = Client(zone, list(seeds), rng=random.Random(1))
        self._written = 0
        loop.at_close(self._client.close)
        loop.run(self._client.open(30.0))

    def write(self, key: str, value: int, *, within_s: float = PATIENCE_S) -> None:
        """Acknowledged, or the test fails."""
        done = self._write(key, value, within_s)
        assert done.type is Type.OK, done

    def is_writable(self, *, within_s: float) -> bool:
        """Is a write acknowledged in time?"""
        return self._write("probe", self._written, within_s).type is Type.OK

    def read(self, key: str, *, within_s: float = PATIENCE_S) -> object:
        """What a linearizable read finds."""
        found = self._execute(Operation(f=Function.READ, key=key), None, within_s)
        assert found.type is Type.OK, found
        return found.value

    def _write(self, key: str, value: int, within_s: float) -> Outcome:
        self._written += 1
        once = OnceId("registers", self._written)
        return self._execute(Operation(f=Function.WRITE, key=key, value=value), once, within_s)

    def _execute(self, operation: Operation, once: OnceId | None, within_s: float) -> Outcome:
        limits = Limits(
            deadline_ns=time.monotonic_ns() + round(within_s * 1e9),
            attempt_ns=500_000_000,
            retry=True,
        )
        return self._loop.run(self._client.execute(operation, limits, once))
