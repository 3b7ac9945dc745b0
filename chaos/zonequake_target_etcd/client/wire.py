"""Requests to etcd by gRPC.

One question matters: did a request *certainly* never leave (`NotSent`), or may it have
(`OutcomeUnknown`)? gRPC's statuses don't say so: UNAVAILABLE stands for a refused connection and
for one that broke under the request. Therefore a request is given to gRPC only when its connection
is there, and whatever fails from then on may have left, unless etcd itself says that it was not
done (`errors`). gRPC repeats nothing by itself: its retries are off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from zonequake_load.errors import NotSent, OutcomeUnknown
from zonequake_target_etcd.client.protocol.errors import answered
from zonequake_target_etcd.client.protocol.messages import METHODS, Method
from zonequake_target_etcd.client.tls import ClientTls

CONNECT_TIMEOUT_S = 0.3
"""A member on the same network answers in milliseconds; a dead one must not cost more than this."""

_OPTIONS = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 300),
    # The kernel gives a connection up when sent data stays unacknowledged for the time-out. etcd
    # closes connections that ping it more often than every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 1_000),
)

_NEEDS_LEADER = (("hasleader", "true"),)
"""Makes a member without a leader refuse at once, and certainly. Otherwise it would keep the
request for seconds, and its outcome would be unknown.
"""

_READY = grpc.ChannelConnectivity.READY
_FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE
_ENDS = (_READY, _FAILED)
"""The states in which an attempt to connect has ended."""


class _Link:
    """The connection to one endpoint, and its calls."""

    def __init__(self, address: str, tls: ClientTls | None, name: str) -> None:
        self.received = 0
        self.name = name
        self._address = address
        self._tls = tls
        self._refused = ""
        """Why the last connection was that was refused; empty once there is one."""
        # gRPC's own time for one attempt to connect.
        options = (*_OPTIONS, ("grpc.min_reconnect_backoff_ms", int(CONNECT_TIMEOUT_S * 1e3)))
        if tls is None:
            self._channel = grpc.aio.insecure_channel(address, options=options)
        else:
            named = (*options, ("grpc.ssl_target_name_override", name))
            self._channel = grpc.aio.secure_channel(address, tls.credentials, named)
        self.calls = {
            method: self._channel.unary_unary(
                method.path, request_serializer=method.request.SerializeToString
            )
            for method in METHODS
        }

    @property
    def is_ready(self) -> bool:
        return self._channel.get_state() is _READY

    async def connect(self, timeout_s: float) -> None:
        """Returns when the connection is there. Raises NotSent."""
        try:
            async with asyncio.timeout(timeout_s):
                while (state := self._channel.get_state(try_to_connect=True)) not in _ENDS:
                    await self._channel.wait_for_state_change(state)
        except TimeoutError:
            raise NotSent(
                f"cannot connect to {self._address} within {timeout_s * 1e3:.0f} ms"
            ) from None
        except grpc.aio.UsageError as error:
            raise _given_up(self._address, error) from None
        if state is _FAILED:
            raise NotSent(f"cannot connect to {self._address}{await self._why()}")
        self._refused = ""

    async def _why(self) -> str:
        """Returns why a connection is refused; if it takes too long to ask, also what it was."""
        if self._tls is None:
            return ""
        try:
            why = await self._tls.refusal(self._address, self.name, CONNECT_TIMEOUT_S)
            self._refused = f", before: {why}"
        except TimeoutError:
            why = f"no answer within {CONNECT_TIMEOUT_S * 1e3:.0f} ms{self._refused}"
        return f" by TLS as {self.name}: {why}"

    async def close(self, grace_s: float | None = None) -> None:
        await self._channel.close(grace_s)


def _given_up(address: str, error: grpc.aio.UsageError) -> NotSent:
    """Returns the error of a request that gRPC refused to take, as its channel was closed."""
    return NotSent(f"the connection to {address} was given up before it was used: {error}")


class EtcdWire:
    """One connection to each endpoint; to be used in a running event loop.

    `name_of` returns the name that the certificate of the member at an address must have. A pod may
    get the address of another one, whose connection is then given up.
    """

    def __init__(self, tls: ClientTls | None, name_of: Callable[[str], str]) -> None:
        self._tls, self._name_of = tls, name_of
        self._links: dict[str, _Link] = {}
        self._retiring: set[asyncio.Task[None]] = set()

    async def ask(
        self,
        address: str,
        method: Method,
        message: Any,  # noqa: ANN401 - protobuf's classes have no types
        *,
        timeout_s: float,
        needs_leader: bool,
    ) -> Any:  # noqa: ANN401
        """Returns the answer, of the type that `method` names.

        Raises:
            NotSent: there was no connection, or it was given up before.
            OutcomeUnknown: no answer, or none of etcd's, came within `timeout_s`.
            EtcdError: etcd answered with an error.
        """
        link = self._links.get(address)
        name = "" if self._tls is None else self._name_of(address)
        if link is not None and link.name != name:
            self._retire(address, link, timeout_s)
            link = None
        if link is None:
            link = self._links[address] = _Link(address, self._tls, name)
        if not link.is_ready:
            loop = asyncio.get_running_loop()
            before = loop.time()
            await link.connect(min(timeout_s, CONNECT_TIMEOUT_S))
            timeout_s = max(0.001, timeout_s - (loop.time() - before))
        received = link.received
        metadata = _NEEDS_LEADER if needs_leader else None
        try:
            raw = await link.calls[method](message, timeout=timeout_s, metadata=metadata)
            link.received += 1
            return method.answer.FromString(raw)
        except grpc.aio.AioRpcError as error:
            code = error.code()
            # Said by the gRPC of either side, or by etcd, which has the request's deadline.
            if code is grpc.StatusCode.DEADLINE_EXCEEDED:
                if link.received == received:
                    self._retire(address, link, timeout_s)
                raise OutcomeUnknown(
                    f"no answer from {address} within {timeout_s * 1e3:.0f} ms"
                ) from None
            link.received += 1
            raise answered(code.value[0], error.details() or code.name) from None
        except grpc.aio.UsageError as error:
            # Another request gave the connection up while this one waited for it.
            raise _given_up(address, error) from None
        except DecodeError as error:
            raise OutcomeUnknown(f"{address} sent what isn't etcd's: {error}") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise OutcomeUnknown(f"connection to {address} closed by the client") from None

    async def close(self) -> None:
        """Close all; what is outstanding is `OutcomeUnknown`."""
        links, self._links = self._links, {}
        await asyncio.gather(*(link.close() for link in links.values()), *self._retiring)

    def _retire(self, address: str, link: _Link, grace_s: float) -> None:
        """Sends nothing more on the connection of an endpoint that has gone silent or is another
        member: one that was cut off for a while is reached by a new one long before the old one
        tries again. What is outstanding may yet end.
        """
        if self._links.get(address) is link:
            del self._links[address]
            task = asyncio.create_task(link.close(grace_s))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
