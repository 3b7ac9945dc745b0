"""The client in the load pods."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

from zonequake_load.errors import AnsweredError, NotSent, OutcomeUnknown
from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.member_client import Attempt, MemberClient

CONNECT_TIMEOUT_S = 0.3
"""A dead member must not cost more than this."""


class PysyncobjClient(MemberClient):
    """One HTTP request an operation; bounded reads are of the member's own state."""

    def connect(self) -> None:
        self._session = aiohttp.ClientSession()

    async def disconnect(self) -> None:
        await self._session.close()

    async def examine(self, attempt: Attempt) -> None:
        if not (await self._ask(attempt, "GET", "/status", None))["knows_leader"]:
            raise AnsweredError(f"{attempt.address} knows no leader", certain=True)

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        asked = {
            "f": operation.f,
            "key": operation.key,
            "value": operation.value,
            "expected": operation.expected,
            "local": operation.bounded,
        }
        found = await self._ask(attempt, "POST", "/execute", asked)
        if "error" in found:
            raise AnsweredError(found["error"], certain=found["certain"])
        refused = operation.f is Function.CAS and not found["applied"]
        return Outcome(
            type=Type.OK,
            attempts=0,
            value=found["value"] if refused or operation.f is Function.READ else None,
            applied=found["applied"] if operation.f is Function.CAS else None,
            node=attempt.address.partition(".")[0],
            lineage=0,
            term=1,
            index=found["index"],
        )

    async def _ask(self, attempt: Attempt, method: str, path: str, asked: object) -> dict[str, Any]:
        """Sends one request. Raises NotSent if it certainly did not leave, else OutcomeUnknown."""

        async def request(timeout_s: float) -> dict[str, Any]:
            try:
                async with self._session.request(
                    method,
                    f"http://{attempt.address}{path}",
                    data=None if asked is None else msgspec.json.encode(asked),
                    timeout=aiohttp.ClientTimeout(timeout_s, sock_connect=CONNECT_TIMEOUT_S),
                ) as response:
                    return msgspec.json.decode(await response.read(), type=dict[str, Any])
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise NotSent(f"cannot connect to {attempt.address}: {error}") from None
            except (TimeoutError, aiohttp.ClientError, OSError, msgspec.MsgspecError) as error:
                why = str(error) or type(error).__name__
                raise OutcomeUnknown(f"no answer from {attempt.address}: {why}") from None

        return await attempt.send(request)


def connect(context: ClientContext) -> PysyncobjClient:
    """Builds the client; its seeds are the members' client ports."""
    return PysyncobjClient(context.seeds, rng=context.rng)
