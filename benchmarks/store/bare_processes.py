"""The peers beside the store: processes that move the same frames and do nothing else.

python bare_processes.py echo PORT                  answers each frame with itself
python bare_processes.py beat PORT OTHER OTHER      what an idle node sends and hears, no more
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from zonequake_store.network.framing import FrameConnection
from zonequake_store.node.heartbeats import TICK_S
from zonequake_store.settings import HEARTBEAT_TICKS

# What 43 of 128 idle groups say to one peer (`repeats`): a number each.
BEAT = bytes(150)
ANSWER = bytes(149)


class Echo(FrameConnection):
    def frame_received(self, frame: memoryview) -> None:
        self.send(bytes(frame))


class Heard(FrameConnection):
    """A peer's heartbeats are answered on the connection that they came on."""

    def frame_received(self, frame: memoryview) -> None:
        if len(frame) == len(BEAT):
            self.send(ANSWER)


async def echo(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    await server.serve_forever()


async def beat(port: int, others: list[int]) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_server(Heard, "127.0.0.1", port)
    peers: list[Heard] = []
    for other in others:
        while True:
            try:
                _, connection = await loop.create_connection(Heard, "127.0.0.1", other)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                peers.append(connection)
                break
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        loop.call_later(TICK_S, tick)
        ticks += 1
        if ticks % HEARTBEAT_TICKS == 0:
            for peer in peers:
                peer.send(BEAT)

    tick()
    await asyncio.Event().wait()


if __name__ == "__main__":
    role, *ports = sys.argv[1:]
    if role == "echo":
        uvloop.run(echo(int(ports[0])))
    else:
        uvloop.run(beat(int(ports[0]), [int(port) for port in ports[1:]]))
