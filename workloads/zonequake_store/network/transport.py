"""Links between data nodes: one outgoing connection per peer, frames of many groups in each.

A node sends on the connection that it opened and receives on those that others opened. Both sides
begin with a Hello, which names the process and its addresses: a pod that came back under another
IP address connects, says so, and the others drop their dead connection and call back at once,
without waiting for DNS. The answer proves that an address still belongs to the node: IP addresses
are used again for other pods.

Nothing here is reliable, nor need it be: what does not fit the buffer, or finds no connection, is
dropped, and Raft sends it again. Only what an election is made of waits for a connection that is
being opened: followers of one leader have nothing else to say to each other, and so no connection.

A connection that the other side ended is opened again at once. What becomes of that can prove that
the peer's process has ended (`endings`), and then `ended` is called: with nothing left unread of
what that process sent, so that all that comes from the node later is another one's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from zonequake_store.network.framing import FrameConnection, FrameFlush
from zonequake_store.network.heartbeat_slots import ReceivedSlots
from zonequake_store.network.peer_link import OutgoingConnection, PeerLink
from zonequake_store.network.peer_protocol import Frame, Hello, Messages, decode_frame, encode_frame
from zonequake_tls.connection_limits import ConnectionLimits
from zonequake_tls.credentials import Credentials
from zonequake_tls.identity import TlsRole
from zonequake_tls.listener import Admission, Listener, listen

# Several snapshot pieces and APPENDs in flight fit; what is more would only arrive too late.
_MAX_UNSENT_BYTES = 8 * 1024 * 1024
# Room is left for the messages of all groups, which catch-up must not crowd out.
_MAX_UNSENT_BULK_BYTES = 4 * 1024 * 1024
MOST_PEERS = 512
"""Connections that others opened: one for each node, and a while those of processes before."""
MOST_LEARNED = 1024
"""The most nodes whose reported addresses are kept; a stranger could make up any number."""


class _Incoming(FrameConnection):
    def __init__(self, transport: Transport) -> None:
        super().__init__(transport.frame_flush, transport.limits)
        self._owner = transport
        self.process: tuple[str, str] | None = None
        """Node and incarnation of the process that opened it, once it has sent its Hello."""
        self._heard = ReceivedSlots()

    def opened(self) -> None:
        self._owner.incoming.add(self)

    def closed(self) -> None:
        self._owner.incoming.discard(self)

    def frame_received(self, frame: memoryview) -> None:
        decoded = decode_frame(frame)
        if isinstance(decoded, Hello):
            self.process = decoded.node, decoded.process_incarnation
            self.send(encode_frame(self._owner.hello()))
            self._owner.learn(decoded)
        elif self.process is None:
            self.close()
        elif isinstance(decoded, Messages):
            self._owner.received(self.process[0], self._heard.in_full(decoded))
        else:
            self._owner.received(self.process[0], decoded)


class Transport:
    """All links of a node.

    `hello()` returns this node's identity; `received(node, frame)` takes frames of peers;
    `ended(node, process_incarnation)` is called when the end of a process is proven. `domain`:
    peers are found as `<node>.<domain>:<port>`; empty: only by addresses in orders and from peers.
    """

    def __init__(
        self,
        *,
        domain: str,
        port: int,
        hello: Callable[[], Hello],
        received: Callable[[str, Frame], None],
        ended: Callable[[str, str], None],
        frame_flush: FrameFlush,
        credentials: Credentials | None = None,
    ) -> None:
        self._credentials = credentials
        self._domain = domain
        self._port = port
        self.hello = hello
        self.received = received
        self._ended = ended
        self.frame_flush = frame_flush
        self.incoming: set[_Incoming] = set()
        self.limits = ConnectionLimits("peers", most=MOST_PEERS)
        self._links: dict[str, PeerLink] = {}
        self._ordered: dict[str, str] = {}
        self._learned: dict[str, Hello] = {}
        self._listener: Listener | None = None

    @property
    def has_names(self) -> bool:
        """Returns whether peers are found by their names."""
        return bool(self._domain)

    async def listen(self, host: str, port: int, admission: Admission | None) -> int:
        """Open the listener; returns its port."""
        self._listener = await listen(lambda: _Incoming(self), host, port, admission=admission)
        return self._listener.port

    async def dial(self, host: str, port: int) -> tuple[asyncio.BaseTransport, OutgoingConnection]:
        """Connect. Raises OSError."""
        loop = asyncio.get_running_loop()
        if self._credentials is None:
            return await loop.create_connection(
                lambda: OutgoingConnection(self.frame_flush), host, port
            )
        return await loop.create_connection(
            lambda: OutgoingConnection(self.frame_flush),
            host,
            port,
            ssl=self._credentials.for_connecting(TlsRole.STORE),
            server_hostname=self._credentials.name_of(TlsRole.STORE),
        )

    def renew_after_s(self) -> float | None:
        """Returns how long a connection is used; None: forever. Not the same for all of them, since
        they all began with the node.
        """
        if self._credentials is None:
            return None
        return self._credentials.settings.renew_s * random.uniform(0.75, 1.0)  # noqa: S311

    async def close(self) -> None:
        """Close every connection and the listener."""
        links = list(self._links.values())
        for link in links:
            link.task.cancel()
        await asyncio.gather(*(link.task for link in links), return_exceptions=True)
        for link in links:
            if link.connection is not None:
                link.connection.close()
        for incoming in list(self.incoming):
            incoming.close()
        self.limits.close()
        if self._listener is not None:
            self._listener.close()

    def told(self, addresses: dict[str, str]) -> None:
        """Addresses out of an order."""
        self._ordered.update(addresses)

    def greet(self, node: str) -> None:
        """Connects before there is anything to send. A restarted node announces its present address
        this way, so that a leader other than the one it answers need not look for it later.
        """
        self._connection_to(node)

    def send(self, node: str, frame: bytes) -> bool:
        """Send a frame; False: it was dropped, or cannot arrive now."""
        connection = self._connection_to(node)
        if connection is not None:
            connection.send(frame)
        return connection is not None

    def send_bulk(self, node: str, frame: bytes) -> bool:
        """Send a frame of many, large ones; False: too much waits already, or it cannot arrive."""
        connection = self._connection_to(node)
        if connection is None or connection.unsent_bytes > _MAX_UNSENT_BULK_BYTES:
            return False
        connection.send(frame)
        return True

    def send_messages(self, node: str, messages: Messages) -> bool:
        """Send Raft's messages; False: they were dropped but for those that an election is made
        of, or cannot arrive now."""
        connection = self._connection_to(node)
        if connection is not None:
            connection.send(encode_frame(connection.said.shortened(messages)))
        elif self._links[node].connection is None:
            self._links[node].keep(messages)
        return connection is not None

    def _connection_to(self, node: str) -> OutgoingConnection | None:
        """Returns the connection to a node, if it can take more now."""
        link = self._links.get(node)
        if link is None:
            link = self._links[node] = PeerLink(self, node)
        link.used_s = asyncio.get_running_loop().time()
        connection = link.connection
        if connection is None or not connection.is_open:
            return None
        return connection if connection.unsent_bytes <= _MAX_UNSENT_BYTES else None

    def client_addresses(self) -> dict[str, str]:
        """Client addresses of all nodes that ever said hello."""
        return {node: hello.client_address for node, hello in self._learned.items()}

    def client_address(self, node: str) -> str | None:
        """Returns a node's client address, if it ever said hello."""
        hello = self._learned.get(node)
        return hello.client_address if hello else None

    def learn(self, hello: Hello) -> None:
        """Stores a peer's identity and address."""
        known, link = self._learned.get(hello.node), self._links.get(hello.node)
        if link is not None:
            ended = link.ending.heard(hello.peer_address, hello.process_incarnation)
            self.found_ended(hello.node, ended)
        if known is None and len(self._learned) >= MOST_LEARNED:
            return  # it is found by its name, or by what orders say
        self._learned[hello.node] = hello
        if link is None:
            return
        restarted = link.incarnation not in (None, hello.process_incarnation)
        moved = known is not None and known.peer_address != hello.peer_address
        # Two nodes that call each other at the same time would else give up each other's attempts
        # again and again, the longer a handshake takes the more often.
        elsewhere = link.connection is None and link.trying != hello.peer_address
        if restarted or moved or elsewhere:
            link.incarnation = hello.process_incarnation
            link.call_back()
        elif link.connection is None:
            link.called()

    def found_ended(self, node: str, process: str | None) -> None:
        """Records that a process of this node was proven to have ended, if it isn't None."""
        known = self._learned.get(node)
        if process is None or (known is not None and known.process_incarnation != process):
            return
        for connection in list(self.incoming):
            if connection.process == (node, process):
                connection.abort()
        self._ended(node, process)

    def disbelieve(self, node: str, address: str) -> None:
        """Records that an address did not lead to the node."""
        learned = self._learned.get(node)
        if learned is not None and learned.peer_address == address and self._domain:
            # The client address stays: only a wrong hint comes of it.
            self._learned[node] = msgspec.structs.replace(learned, peer_address="")

    def addresses_of(self, node: str) -> list[str]:
        """Returns the addresses to try, best first: what the node said itself, its name, what
        orders said.
        """
        candidates: list[str] = []
        learned = self._learned.get(node)
        if learned is not None and learned.peer_address:
            candidates.append(learned.peer_address)
        if self._domain:
            candidates.append(f"{node}.{self._domain}:{self._port}")
        ordered = self._ordered.get(node)
        if ordered and ordered not in candidates:
            candidates.append(ordered)
        return candidates

    def forget(self, link: PeerLink) -> None:
        """Forgets a link that was not used for long."""
        if self._links.get(link.node) is link:
            del self._links[link.node]
