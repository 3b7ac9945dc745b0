"""One authenticated connection to a Kubernetes API server: requests, and what their failures mean.

The generated client reads the kubeconfig and authenticates; requests go over one aiohttp session
with a time-out each.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp.connector import NEEDS_CLEANUP_CLOSED
from kubernetes.aio import client as kube_client
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, kube_config, load_kube_config
from yaml import YAMLError

from zonequake_kube.errors import ClusterError, Conflict, NotFound, UsageError
from zonequake_kube.objects import Json

REQUEST_TIMEOUT_S = 15.0
MAX_WORDS = 1200
"""Characters of what a server says about a refusal."""


_CONFLICTS = {409, 422}
_UNUSABLE = (
    ConfigException,
    OSError,
    YAMLError,
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    RecursionError,
)
"""Exceptions of the client for files that are no kubeconfig, or a damaged one."""


class ApiConnection:
    """One connection to one cluster and namespace."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        configuration: kube_client.Configuration,
        namespace: str,
    ) -> None:
        self._session = session
        self._configuration = configuration
        self._host = str(configuration.host).rstrip("/")
        self.namespace = namespace
        self.held = contextlib.AsyncExitStack()
        """Closed before the connection is."""

    @classmethod
    async def open(cls, *, kubeconfig: Path | None, context: str | None, namespace: str) -> Self:
        """Connects as a kubeconfig says, by default $KUBECONFIG or ~/.kube/config.

        Raises UsageError if there is none, or it can't be read.
        """
        _require(str(kubeconfig or kube_config.KUBE_CONFIG_DEFAULT_LOCATION))
        configuration = kube_client.Configuration()
        try:
            await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        except _UNUSABLE as error:
            raise UsageError(
                f"no usable kubeconfig: {error}; give --kubeconfig and --context, "
                "or start a cluster with: zonequake cluster up"
            ) from error
        connector = aiohttp.TCPConnector(
            ssl=RESTClientObject(configuration).ssl_context,
            limit=0,
            keepalive_timeout=60,
            # A WebSocket's connection (exec) goes back to no pool: its closing handshake still runs
            # when the loop ends, and it would be left open, which the pytest plugin reports.
            enable_cleanup_closed=NEEDS_CLEANUP_CLOSED,
        )
        session = aiohttp.ClientSession(connector=connector)
        return cls(session=session, configuration=configuration, namespace=namespace)

    def in_namespace(self, namespace: str) -> Self:
        """Returns the same connection for another namespace; it lasts as long as this one."""
        return type(self)(
            session=self._session, configuration=self._configuration, namespace=namespace
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.held.aclose()
        # aiohttp aborts what hasn't said goodbye; asyncio can't abort TLS that was closed twice.
        with contextlib.suppress(AttributeError):
            await self._session.close()

    async def _credentials(self) -> dict[str, str]:
        settings: dict[str, Any] = dict(await self._configuration.auth_settings())
        return {entry["key"]: entry["value"] for entry in settings.values() if entry.get("value")}

    @contextlib.asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = REQUEST_TIMEOUT_S,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a request and yields the response, which is a success. Raises ClusterError."""
        try:
            response = await self._session.request(
                method,
                self._host + path,
                params=params,
                data=body,
                headers={**(headers or {}), **await self._credentials()},
                timeout=aiohttp.ClientTimeout(total=timeout_s, connect=5),
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ClusterError(
                f"the API server {self._host} doesn't answer: {str(error) or 'not in time'} "
                f"({type(error).__name__}, {method} {path})"
            ) from error
        try:
            if response.status >= 300:
                text = await response.text(errors="replace")
                raise _error(method, path, response.status, text)
            yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ClusterError(f"{method} {path}: {error!r} while reading") from error
        finally:
            # A response that wasn't read to its end (a watch) may not go back into the pool.
            response.close()

    async def _bytes(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        async with self._request(
            method, path, params=params, body=body, headers=headers, timeout_s=timeout_s
        ) as response:
            return await response.read()

    async def _json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> Json:
        data = await self._bytes(
            method,
            path,
            params=params,
            body=None if body is None else json.dumps(body).encode(),
            headers={"Accept": "application/json", "Content-Type": content_type},
        )
        found = json.loads(data)
        assert isinstance(found, dict)
        return found


def _require(paths: str) -> None:
    """Raises UsageError if none of the files exists: the client would log that as a warning, and
    then report missing keys of an empty file.
    """
    if not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path):
        raise UsageError(
            f"there is no kubeconfig {paths}: give --kubeconfig, set KUBECONFIG, or start a "
            "cluster with: zonequake cluster up"
        )


def _error(method: str, path: str, status: int, text: str) -> ClusterError:
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        message = text.strip()
    message = message if len(message) <= MAX_WORDS else f"{message[:MAX_WORDS]}…"
    sentence = f"{method} {path}: HTTP {status}: {message}"
    kind = NotFound if status == 404 else Conflict if status in _CONFLICTS else ClusterError
    return kind(sentence, status=status, words=message)
