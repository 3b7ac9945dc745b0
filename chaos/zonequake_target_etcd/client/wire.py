"""Requests to etcd's JSON gateway over HTTP.

As in `connection`, one question matters: did a request *certainly* never leave (`NotSent`), or may
it have (`OutcomeUnknown`)? aiohttp says so by the class of its error: ClientConnectorError and
ConnectionTimeoutError come before a connection is there, everything else after that. It sends a
POST once; what it repeats on a connection that was closed are only methods that may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from zonequake_load.errors import NotSent, OutcomeUnknown

CONNECT_TIMEOUT_S = 0.3
"""A member on the same network answers in milliseconds; a dead one must not cost more than this."""

_NEEDS_LEADER = {"Grpc-Metadata-hasleader": "true"}
"""Makes a member without a leader refuse at once, and certainly. Otherwise it would keep the
request for seconds, and its outcome would be unknown.
"""


class EtcdWire:
    """One pool of connections to all endpoints; to be opened in a running event loop."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            headers={"Content-Type": "application/json"},
        )

    async def post(
        self,
        address: str,
        path: str,
        body: Mapping[str, object],
        *,
        timeout_s: float,
        needs_leader: bool,
    ) -> Mapping[str, Any]:
        """Returns the decoded answer, with any HTTP status.

        Raises:
            NotSent: there was no connection.
            OutcomeUnknown: no answer, or none in JSON, came within `timeout_s`.
        """
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.post(
                    f"http://{address}{path}",
                    data=msgspec.json.encode(body),
                    headers=_NEEDS_LEADER if needs_leader else None,
                    allow_redirects=False,
                ) as response,
            ):
                raw = await response.read()
                return msgspec.json.decode(raw, type=dict[str, Any])
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(f"cannot connect to {address}: {error}") from None
        except TimeoutError:
            raise OutcomeUnknown(
                f"no answer from {address} within {timeout_s * 1e3:.0f} ms"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            why = str(error) or type(error).__name__
            raise OutcomeUnknown(f"connection to {address} lost: {why}") from None
        except msgspec.MsgspecError as error:
            raise OutcomeUnknown(f"{address} sent what isn't etcd's: {error}") from None

    async def close(self) -> None:
        """Close all; what is outstanding is `OutcomeUnknown`."""
        await self._session.close()
