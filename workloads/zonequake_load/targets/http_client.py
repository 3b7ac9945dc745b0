"""The client of a system whose members take operations as HTTP requests with JSON bodies."""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection
from typing import TypeVar

import aiohttp
import msgspec

from zonequake_load.errors import AnsweredError, NotSent, OutcomeUnknown
from zonequake_load.targets.member_client import Attempt, MemberClient

CONNECT_TIMEOUT_S = 0.3
"""A dead member must not cost more than this."""

_SAID = 200
"""Bytes of an error's body that its text has."""

_Answer = TypeVar("_Answer")


class HttpMemberClient(MemberClient, ABC):
    """Sends the requests of an attempt; a target extends it by `attempt` and `examine`."""

    def connect(self) -> None:
        self._session = aiohttp.ClientSession()

    async def disconnect(self) -> None:
        await self._session.close()

    async def ask(
        self,
        attempt: Attempt,
        path: str,
        body: object = None,
        *,
        answer: type[_Answer],
        certain: Collection[int] = (),
    ) -> _Answer:
        """Returns the member's answer to a POST of `body`, or to a GET without one.

        `certain`: statuses by which the system says that nothing was done, and never will be.
        Raises NotSent if no connection came about, so that the request certainly did not leave;
        AnsweredError for another status than 2xx, a redirection too, as the member may have done
        what was asked before; OutcomeUnknown for whatever goes wrong else, an answer of another
        form too.
        """

        async def request(timeout_s: float) -> _Answer:
            try:
                async with self._session.request(
                    "GET" if body is None else "POST",
                    f"http://{attempt.address}{path}",
                    data=None if body is None else msgspec.json.encode(body),
                    timeout=aiohttp.ClientTimeout(timeout_s, sock_connect=CONNECT_TIMEOUT_S),
                    allow_redirects=False,
                ) as response:
                    said = await response.read()
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise NotSent(f"cannot connect to {attempt.address}: {error}") from None
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                why = str(error) or type(error).__name__
                raise OutcomeUnknown(f"no answer from {attempt.address}: {why}") from None
            if response.status // 100 != 2:
                words = said[:_SAID].decode(errors="replace")
                raise AnsweredError(
                    f"{attempt.address} answered {response.status}: {words}",
                    certain=response.status in certain,
                )
            try:
                return msgspec.json.decode(said, type=answer)
            except msgspec.MsgspecError as error:
                raise OutcomeUnknown(
                    f"{attempt.address} answered in another form: {error}"
                ) from None

        return await attempt.send(request)
