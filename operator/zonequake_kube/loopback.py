"""HTTP calls to ports that a pod opens on its loopback alone, made from inside the pod.

The API server's proxy of pods shows no certificate, so it can't ask a server that demands one. Such
a server may also listen without TLS on its pod's loopback, which only the pod's own containers
reach; the right to enter one of them (pods/exec) is then the right to ask.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack

import msgspec

from zonequake_kube.client import Kube
from zonequake_kube.connection import MAX_WORDS, REQUEST_TIMEOUT_S
from zonequake_kube.errors import ClusterError, NotFound
from zonequake_kube.execution import Execution

_MORE_S = 2.0
"""Time beyond a call's own in which its answer must come: the program says what timed out."""

_ASK = """
import http.client, json, sys
for line in sys.stdin:
    asked = json.loads(line)
    connection = http.client.HTTPConnection("127.0.0.1", asked["port"], timeout=asked["timeout_s"])
    try:
        connection.request(asked["method"], asked["path"], asked["body"].encode())
        answer = connection.getresponse()
        said = {"status": answer.status, "text": answer.read().decode(errors="replace")}
    except (OSError, http.client.HTTPException) as error:
        said = {"status": 0, "text": f"{type(error).__name__}: {error}"}
    connection.close()
    print(json.dumps(said), flush=True)
"""


class _Answer(msgspec.Struct, frozen=True):
    """An HTTP answer, or with `status` 0 why there was none."""

    status: int
    text: str


class PodLoopback:
    """The loopback of pods that have a container with Python. One program in each of them makes all
    calls, one after another: to start one for each would take longer than the call.
    """

    def __init__(self, kube: Kube, container: str) -> None:
        self._kube = kube
        self._container = container
        self._programs: dict[str, tuple[Execution, AsyncExitStack]] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        kube.held.push_async_callback(self._close)

    async def ask(
        self,
        pod: str,
        port: int,
        path: str,
        *,
        method: str = "GET",
        body: bytes = b"",
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """Returns the body of a success. Raises NotFound, ClusterError."""
        asked = {"port": port, "path": path, "method": method, "timeout_s": timeout_s}
        line = msgspec.json.encode(asked | {"body": body.decode()}).decode() + "\n"
        call = f"{method} {path} at port {port} of the loopback of pod {pod}"
        try:
            async with asyncio.timeout(timeout_s + _MORE_S), self._turns[pod]:
                answer = msgspec.json.decode(await self._told(pod, line), type=_Answer)
        except TimeoutError as error:
            raise ClusterError(f"{call}: no answer within {timeout_s:g} s") from error
        if answer.status >= 300 or not answer.status:
            words = answer.text.strip()[:MAX_WORDS]
            kind = NotFound if answer.status == 404 else ClusterError
            said = f"HTTP {answer.status}: {words}" if answer.status else words
            raise kind(f"{call}: {said}", status=answer.status, words=words)
        return answer.text.encode()

    async def _told(self, pod: str, line: str) -> str:
        """Returns the program's answer; one that gave none is ended, as its next line would be the
        answer to something else.
        """
        if pod not in self._programs:
            held = AsyncExitStack()
            running = self._kube.executing(pod, self._container, ["python", "-c", _ASK], stdin=True)
            self._programs[pod] = await held.enter_async_context(running), held
        program, held = self._programs[pod]
        try:
            await program.say(line)
            return await program.line()
        except BaseException:
            self._programs.pop(pod, None)
            await held.aclose()
            raise

    async def _close(self) -> None:
        programs, self._programs = self._programs, {}
        for _, held in programs.values():
            await held.aclose()
