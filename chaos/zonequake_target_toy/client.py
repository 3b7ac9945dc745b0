"""The client in the load pods; it may import `zonequake_load` and what the load's image has."""

from __future__ import annotations

import aiohttp
import msgspec

from zonequake_load.errors import NotSent, OutcomeUnknown
from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.member_client import Attempt, MemberClient
from zonequake_protocol.client import Value

CONNECT_TIMEOUT_S = 0.3
"""A dead member must not cost more than this."""


class ToyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The server's answer, also to `/status`."""

    index: int
    term: int
    value: Value = None
    applied: bool = True


class ToyClient(MemberClient):
    """One HTTP request an operation."""

    def connect(self) -> None:
        self._session = aiohttp.ClientSession()

    async def disconnect(self) -> None:
        await self._session.close()

    async def examine(self, attempt: Attempt) -> None:
        await self._ask(attempt, "GET", "/status", None)

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        asked = {
            "f": operation.f,
            "key": operation.key,
            "value": operation.value,
            "expected": operation.expected,
        }
        found = await self._ask(attempt, "POST", "/execute", asked)
        refused = operation.f is Function.CAS and not found.applied
        return Outcome(
            type=Type.OK,
            attempts=0,
            value=found.value if refused or operation.f is Function.READ else None,
            applied=found.applied if operation.f is Function.CAS else None,
            node=attempt.address,
            lineage=0,
            term=found.term,
            index=found.index,
        )

    async def _ask(self, attempt: Attempt, method: str, path: str, asked: object) -> ToyAnswer:
        """Sends one request. Raises NotSent if it certainly did not leave, else OutcomeUnknown."""

        async def request(timeout_s: float) -> ToyAnswer:
            try:
                async with self._session.request(
                    method,
                    f"http://{attempt.address}{path}",
                    data=None if asked is None else msgspec.json.encode(asked),
                    timeout=aiohttp.ClientTimeout(timeout_s, sock_connect=CONNECT_TIMEOUT_S),
                ) as response:
                    return msgspec.json.decode(await response.read(), type=ToyAnswer)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise NotSent(f"cannot connect to {attempt.address}: {error}") from None
            except (TimeoutError, aiohttp.ClientError, OSError, msgspec.MsgspecError) as error:
                why = str(error) or type(error).__name__
                raise OutcomeUnknown(f"no answer from {attempt.address}: {why}") from None

        return await attempt.send(request)


def connect(context: ClientContext) -> ToyClient:
    """Builds the client; its seeds are the members' client ports."""
    return ToyClient(context.seeds, rng=context.rng)
