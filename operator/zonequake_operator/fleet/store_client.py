"""The data nodes' admin API over HTTP (docs/interfaces.md, Admin protocol)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import msgspec

from zonequake_operator.errors import NodeUnreachable
from zonequake_protocol.admin import Order, OrderBatch, OrderReplies, ReplicasReport
from zonequake_tls.credentials import Credentials
from zonequake_tls.identity import TlsRole

_T = TypeVar("_T")

ADMIN_PORT = 8080
ORDERS_PORT = 7003
"""The same, and the only one that takes orders, where there is TLS."""
REPORT_TIMEOUT_S = 1.0
"""A node that can't report within this time is taken as silent for the round."""
ORDERS_TIMEOUT_S = 10.0
FORGET_S = 60.0
"""An address that isn't asked for so long is no node's any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    asked_s: float
    data: bytes
    report: ReplicasReport


class StoreClient:
    """Talks to data nodes by address; with credentials, over TLS."""

    def __init__(self, credentials: Credentials | None, *, port: int | None = None) -> None:
        """`port`: another one than data nodes have."""
        self._credentials = credentials
        self._port = port or (ADMIN_PORT if credentials is None else ORDERS_PORT)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=4, keepalive_timeout=30)
        )
        self.may_order: Callable[[], bool] = lambda: True
        """Asked right before orders leave."""
        self._encoder = msgspec.json.Encoder()
        self._reports = msgspec.json.Decoder(ReplicasReport)
        self._heard: dict[str, _Heard] = {}
        """Reports by address. A node of hundreds of replicas that rest reports the same hundreds of
        kilobytes again and again.
        """
        self._replies = msgspec.json.Decoder(OrderReplies)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def replicas(self, address: str) -> ReplicasReport:
        """Returns the identity and the replicas of the node at this address. Raises
        NodeUnreachable.

        An answer that equals the one before is the same object.
        """
        url = self._url(address, "replicas")
        data = await self._call("GET", url, None, REPORT_TIMEOUT_S)
        now_s = asyncio.get_running_loop().time()
        before = self._heard.get(address)
        if before is not None and before.data == data:
            report = before.report
        else:
            report = self._decode(self._reports, url, data)
        self._heard = {a: h for a, h in self._heard.items() if now_s - h.asked_s < FORGET_S}
        self._heard[address] = _Heard(asked_s=now_s, data=data, report=report)
        return report

    async def send(self, address: str, orders: Sequence[Order]) -> OrderReplies:
        """Give orders; one reply for each. Raises NodeUnreachable."""
        url = self._url(address, "orders")
        if not self.may_order():
            raise NodeUnreachable(f"POST {url}: this operator no longer leads, and orders nothing")
        body = self._encoder.encode(OrderBatch(orders=list(orders)))
        replies = self._decode(
            self._replies, url, await self._call("POST", url, body, ORDERS_TIMEOUT_S)
        )
        if len(replies.replies) != len(orders):
            raise NodeUnreachable(
                f"{url}: found {len(replies.replies)} replies, expected {len(orders)}"
            )
        return replies

    def _url(self, address: str, path: str) -> str:
        scheme = "http" if self._credentials is None else "https"
        return f"{scheme}://{address}:{self._port}/admin/v1/{path}"

    async def _call(self, method: str, url: str, body: bytes | None, timeout_s: float) -> bytes:
        whom: dict[str, Any] = {}
        if (credentials := self._credentials) is not None:
            whom["ssl"] = credentials.for_connecting(TlsRole.STORE)
            whom["server_hostname"] = credentials.name_of(TlsRole.STORE)
        try:
            async with self._session.request(
                method,
                url,
                data=body,
                headers={"Content-Type": "application/json"} if body else None,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                **whom,
            ) as response:
                data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NodeUnreachable(f"{method} {url}: {type(error).__name__} {error}") from error
        if response.status != 200:
            raise NodeUnreachable(f"{method} {url}: {response.status} {data[:200]!r}")
        return data

    def _decode(self, decoder: msgspec.json.Decoder[_T], url: str, data: bytes) -> _T:
        try:
            return decoder.decode(data)
        except msgspec.DecodeError as error:
            raise NodeUnreachable(f"{url}: {error}") from error
