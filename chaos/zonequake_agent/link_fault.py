"""A fault of a pod's links, as the harness orders it, and the packets that it affects. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_NAME = re.compile(r"ZQ-[0-9a-f]{8}")


class OrderRefused(Exception):
    """Raised for an invalid order; the text names the field and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault:
    """A fault of one pod's links: its effect, the packets that it affects, and its duration.

    `name`: of the fault's chains, `ZQ-` and eight hexadecimal digits. `inbound`, `outbound`: the
    packets to the pod, and those from it; the loopback interface is never affected. `addresses`:
    only packets from and to them; empty: any. `ports`: only TCP with one of them at either end;
    empty: everything. `seconds`: the kernel itself ends it after that.

    Exactly one of: `lost_percent` (100: a cut), or a delay (`delay_ms` with `jitter_ms` on either
    side of it, and `bytes_per_second` in each direction; 0: no limit).
    """

    name: str
    seconds: float
    inbound: bool = True
    outbound: bool = True
    addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    lost_percent: float = 0.0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    bytes_per_second: int = 0

    @classmethod
    def of(cls, text: str) -> LinkFault:
        """Reads an order, a JSON object of these fields. Raises OrderRefused."""
        try:
            fields = json.loads(text)
            order = cls(
                **fields
                | {
                    "addresses": tuple(fields.get("addresses", ())),
                    "ports": tuple(fields.get("ports", ())),
                }
            )
        except (ValueError, TypeError) as error:
            raise OrderRefused(f"expected an object of a fault's fields: {error}") from error
        order.check()
        return order

    @property
    def delays(self) -> bool:
        return self.delay_ms > 0 or self.bytes_per_second > 0

    @property
    def queue(self) -> int:
        """The number of the netfilter queue for inbound packets; the next one is for outbound
        ones."""
        return int(self.name.removeprefix("ZQ-"), 16) % 32_000 * 2

    def check(self) -> None:
        """Checks the fields. Raises OrderRefused."""
        if not _NAME.fullmatch(self.name):
            raise OrderRefused(f"name {self.name!r}: expected ZQ- and eight hexadecimal digits")
        if self.seconds <= 0:
            raise OrderRefused(f"seconds {self.seconds}: expected more than 0")
        if not (self.inbound or self.outbound):
            raise OrderRefused("found neither inbound nor outbound, expected at least one")
        if not 0 <= self.lost_percent <= 100:
            raise OrderRefused(f"lost_percent {self.lost_percent}: expected 0 to 100")
        if self.jitter_ms > self.delay_ms:
            raise OrderRefused(
                f"jitter_ms {self.jitter_ms}: expected at most delay_ms, {self.delay_ms}"
            )
        if self.delays == (self.lost_percent > 0):
            raise OrderRefused("expected either lost_percent, or delay_ms or bytes_per_second")
