"""Links between nodes, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from zonequake_store.network.framing import FrameFlush
from zonequake_store.network.peer_protocol import Hello, Messages
from zonequake_store.network.transport import Transport
from zonequake_store.raft.messages import Message, MessageKind, Peer


class Seen:
    """What a transport was told, in order."""

    def __init__(self) -> None:
        self.all: list[tuple[str, object]] = []

    def received(self, node: str, frame: object) -> None:
        self.all.append((node, frame))

    def ended(self, node: str, process: str) -> None:
        self.all.append((node, f"{process} has ended"))


def transport(name: str, seen: Seen | None = None, *, process: str = "1") -> Transport:
    """`name` at a port of its own, which it tells once it listens."""

    def hello() -> Hello:
        assert made._listener is not None
        return Hello(name, f"{name}-{process}", f"127.0.0.1:{made._listener.port}", "")

    seen = seen or Seen()
    made = Transport(
        domain="",
        port=0,
        hello=hello,
        received=seen.received,
        ended=seen.ended,
        frame_flush=FrameFlush(),
    )
    return made


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.002)


def a_vote(to: str) -> Messages:
    """One message that an election is made of, and one that it isn't."""
    a, b = Peer("a", "1"), Peer(to, "1")
    kinds = (MessageKind.PRE_VOTE, MessageKind.APPEND)
    return Messages([("g", [Message(kind=kind, to=b, sender=a, term=7) for kind in kinds])])


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Answers no SYN, as a pod's old address: a listener whose backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def connected(link: Transport, node: str) -> None:
    await until(lambda: link._connection_to(node) is not None)


@pytest.fixture
def rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links try again, and give up an attempt, after more than any test takes."""
    for name in ("_FIRST_BACKOFF_S", "_LONGEST_BACKOFF_S", "_CONNECT_TIMEOUT_S"):
        monkeypatch.setattr(f"zonequake_store.network.peer_link.{name}", 120.0)


@pytest.mark.usefixtures("rare")
async def test_a_peer_that_calls_from_a_new_address_is_called_back_though_the_old_one_still_waits(
    silent_address: str,
) -> None:
    a, b = transport("a"), transport("b")
    await a.listen("127.0.0.1", 0, None)
    await b.listen("127.0.0.1", 0, None)
    try:
        a.told({"b": silent_address})
        a.greet("b")
        await until(lambda: a._links["b"].trying == silent_address)
        b.told({"a": a.hello().peer_address})
        b.greet("a")
        await connected(a, "b")
    finally:
        await a.close()
        await b.close()


@pytest.mark.usefixtures("rare")
async def test_an_attempt_that_leads_where_the_peer_says_it_is_goes_on_when_it_calls() -> None:
    """Else two nodes that call each other at once give up each other's attempts forever."""
    accepted = 0

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.read()
        writer.close()
        await writer.wait_closed()

    a = transport("a")
    await a.listen("127.0.0.1", 0, None)
    server = await asyncio.start_server(late, "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        a.told({"b": address})
        a.greet("b")
        await until(lambda: accepted == 1)
        for _ in range(5):
            a.learn(Hello("b", "b-1", address, ""))
            await asyncio.sleep(0.05)
        await a.close()
        await asyncio.sleep(0.1)  # for the other ends to close, too
    assert accepted == 1


@pytest.fixture
async def two() -> AsyncIterator[tuple[Transport, Transport, Seen]]:
    """a, connected to b for so long that the end of a connection is news, and what a is told."""
    seen = Seen()
    a, b = transport("a", seen), transport("b")
    await a.listen("127.0.0.1", 0, None)
    await b.listen("127.0.0.1", 0, None)
    a.told({"b": b.hello().peer_address})
    b.told({"a": a.hello().peer_address})
    a.greet("b")
    b.greet("a")
    await connected(a, "b")
    await connected(b, "a")
    outgoing = a._links["b"].connection
    assert outgoing is not None
    outgoing.opened_s -= 10.0
    yield a, b, seen
    await a.close()
    await b.close()


@pytest.mark.usefixtures("rare")
async def test_the_end_of_a_process_is_noticed_at_once(
    two: tuple[Transport, Transport, Seen],
) -> None:
    _, b, seen = two
    await b.close()
    await until(lambda: ("b", "b-1 has ended") in seen.all)
    await asyncio.sleep(0.3)
    assert seen.all.count(("b", "b-1 has ended")) == 1


async def test_nothing_of_an_ended_process_comes_after_its_end(
    two: tuple[Transport, Transport, Seen],
) -> None:
    a, _, seen = two
    assert [each.process for each in a.incoming] == [("b", "b-1")]
    a.found_ended("b", "b-1")
    await until(lambda: not a.incoming)
    assert seen.all == [("b", "b-1 has ended")]


async def test_a_peer_that_only_ends_its_connections_has_not_ended(
    two: tuple[Transport, Transport, Seen],
) -> None:
    a, b, seen = two
    for connection in list(b.incoming):
        connection.abort()
    await asyncio.sleep(0.05)
    await connected(a, "b")
    assert seen.all == []


async def test_a_connection_that_the_network_took_proves_nothing(
    two: tuple[Transport, Transport, Seen],
) -> None:
    a, b, seen = two
    assert b._listener is not None
    b._listener.close()
    connection = a._links["b"].connection
    assert connection is not None
    connection.connection_lost(OSError(errno.ETIMEDOUT, "no answer"))
    await asyncio.sleep(0.3)
    assert seen.all == []


async def test_a_new_process_at_the_old_address_ends_the_one_before(
    two: tuple[Transport, Transport, Seen],
) -> None:
    a, b, seen = two
    a.learn(Hello("b", "b-2", b.hello().peer_address, ""))
    assert seen.all == [("b", "b-1 has ended")]


async def test_a_new_process_elsewhere_ends_nothing(
    two: tuple[Transport, Transport, Seen],
) -> None:
    a, b, seen = two
    a.learn(Hello("b", "b-2", "127.0.0.9:1", ""))
    await b.close()
    await asyncio.sleep(0.2)
    assert seen.all == []


async def test_what_an_election_is_made_of_waits_for_its_connection() -> None:
    seen = Seen()
    a, b = transport("a"), transport("b", seen)
    await a.listen("127.0.0.1", 0, None)
    await b.listen("127.0.0.1", 0, None)
    try:
        a.told({"b": b.hello().peer_address})
        assert not a.send_messages("b", a_vote("b")), "the rest is lost"
        await until(lambda: bool(seen.all))
        ((node, frame),) = seen.all
        assert isinstance(frame, Messages)
        assert (node, [each.kind for each in frame.groups[0][1]]) == ("a", [MessageKind.PRE_VOTE])
    finally:
        await a.close()
        await b.close()


@pytest.mark.usefixtures("rare")
async def test_a_link_that_backs_off_tries_at_once_for_an_election() -> None:
    seen = Seen()
    a, b = transport("a"), transport("b", seen)
    await a.listen("127.0.0.1", 0, None)
    port = await b.listen("127.0.0.1", 0, None)
    try:
        assert b._listener is not None
        b._listener.close()
        a.told({"b": f"127.0.0.1:{port}"})
        a.greet("b")
        await asyncio.sleep(0.3)  # it was refused, and will try again in minutes
        assert await b.listen("127.0.0.1", port, None) == port
        a.send_messages("b", a_vote("b"))
        await until(lambda: bool(seen.all))
    finally:
        await a.close()
        await b.close()
