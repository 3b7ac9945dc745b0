"""The client of a system whose members take operations as HTTP requests with JSON bodies."""

from __future__ import annotations

from abc import ABC
from typing import TypeVar

import aiohttp
import msgspec

from zonequake_load.errors import NotSent, OutcomeUnknown
from zonequake_load.targets.member_client import Attempt, MemberClient

CONNECT_TIMEOUT_S = 0.3
"""A dead member must not cost more than this."""

_Answer = TypeVar("_Answer")


class HttpMemberClient(MemberClient, ABC):
    """Sends the requests of an attempt; a target extends it by `attempt` and `examine`."""

    def connect(self) -> None:
        self._session = aiohttp.ClientSession()

    async def disconnect(self) -> None:
        await self._session.close()

    async def ask(
        self, attempt: Attempt, path: str, body: object = None, *, answer: type[_Answer]
    ) -> _Answer:
        """Returns the member's answer to a POST of `body`, or to a GET without one.

        Raises NotSent if no connection came about, so that the request certainly did not leave, and
        OutcomeUnknown for whatever goes wrong later, an answer of another form too.
        """

        async def request(timeout_s: float) -> _Answer:
            try:
                async with self._session.request(
                    "GET" if body is None else "POST",
                    f"http://{attempt.address}{path}",
                    data=None if body is None else msgspec.json.encode(body),
                    timeout=aiohttp.ClientTimeout(timeout_s, sock_connect=CONNECT_TIMEOUT_S),
                ) as response:
                    return msgspec.json.decode(await response.read(), type=answer)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise NotSent(f"cannot connect to {attempt.address}: {error}") from None
            except (TimeoutError, aiohttp.ClientError, OSError, msgspec.MsgspecError) as error:
                why = str(error) or type(error).__name__
                raise OutcomeUnknown(f"no answer from {attempt.address}: {why}") from None

        return await attempt.send(request)
