"""etcd's v3 API over its JSON gateway, as far as the harness needs it.

The API server's proxy of a pod, by which the harness reaches members, carries HTTP/1.1 and no gRPC.
`EtcdApi` knows no network: it is given `post(path, body)`, a coroutine that returns the decoded
JSON of an answer, whatever its HTTP status was, and raises errors of its own if there was none.

The gateway writes 64-bit numbers as strings, bytes as base64, and leaves out what is zero. An error
is an object with `code` and `message`, which no other answer has.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from zonequake_target_etcd.client.protocol.errors import EtcdError, answered

PostJson = Callable[[str, Mapping[str, object]], Awaitable[Mapping[str, Any]]]
AskPeer = Callable[[int], Awaitable[Mapping[str, Any]]]
"""Asks for the hash at a revision by the member's port for peers: GET `PEER_HASH_PATH`, with the
revision as the JSON that `peer_hash_request` returns."""

PEER_HASH_PATH = "/members/hashkv"

PAGE_KEYS = 500
"""Keys in one answer of a dump: a few megabytes with fillers of some kilobytes."""

T = TypeVar("T")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The member that answered, and its revision and Raft term as it did."""

    member_id: int = 0
    revision: int = 0
    raft_term: int = 0


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """`mod_revision`: of the transaction that wrote it last."""

    key: bytes
    value: bytes = b""
    mod_revision: int


class RangeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Keys in their order as of `header.revision`, or of an older one that was asked for.

    `more`: the limit cut them off.
    """

    header: Header
    kvs: list[KeyValue] = []
    more: bool = False


class EtcdStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one member. `leader`: the leader's member id, 0 if it knows none."""

    header: Header
    version: str = ""
    leader: int = 0
    raft_index: int = msgspec.field(name="raftIndex", default=0)
    raft_applied_index: int = msgspec.field(name="raftAppliedIndex", default=0)
    raft_term: int = msgspec.field(name="raftTerm", default=0)
    errors: list[str] = []

    @property
    def leads(self) -> bool:
        """Returns whether the member that answered leads."""
        return self.leader != 0 and self.leader == self.header.member_id


class EtcdMember(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is empty until the member has started once."""

    id: int = msgspec.field(name="ID")
    name: str = ""


class _Members(msgspec.Struct, frozen=True, kw_only=True):
    header: Header
    members: list[EtcdMember] = []


class Hash(msgspec.Struct, frozen=True, kw_only=True):
    """Hash of a member's keys with all revisions from `compact_revision` to the one asked for.

    Members that compacted at different revisions may have different hashes of the same state.
    """

    header: Header
    hash: int = 0
    compact_revision: int = 0


class EtcdDump(msgspec.Struct, frozen=True, kw_only=True):
    """All keys with a prefix that one member holds at one revision, and its hash there.

    `log_index`: the last entry of the log that it had applied then; None if it was applying.
    """

    member_id: int
    revision: int
    hash: int
    compact_revision: int
    kvs: tuple[KeyValue, ...]
    log_index: int | None = None


class EtcdApi:
    """etcd's calls; each raises EtcdError if etcd answers with one, and what `post` raises.

    `ask_peer` is needed for hashes of releases whose gateway has none.
    """

    def __init__(self, post: PostJson, *, ask_peer: AskPeer | None = None) -> None:
        self._post = post
        self._ask_peer = ask_peer

    async def range(
        self,
        key: bytes,
        *,
        range_end: bytes | None = None,
        revision: int = 0,
        limit: int = 0,
        serializable: bool = False,
    ) -> RangeResponse:
        """One key, or those from `key` to before `range_end`, now or as of a `revision`.

        `serializable`: the member answers from its own state, however old.
        """
        body: dict[str, object] = {"key": _text(key)}
        if range_end is not None:
            body["range_end"] = _text(range_end)
        if revision:
            body["revision"] = str(revision)
        if limit:
            body["limit"] = str(limit)
        if serializable:
            body["serializable"] = True
        return await self._ask("/v3/kv/range", body, RangeResponse)

    async def status(self) -> EtcdStatus:
        """Returns the status of the member that answers."""
        return await self._ask("/v3/maintenance/status", {}, EtcdStatus)

    async def members(self) -> list[EtcdMember]:
        """All members, as the one that answers knows them."""
        body = {"linearizable": False}
        return (await self._ask("/v3/cluster/member/list", body, _Members)).members

    async def hash_kv(self, revision: int = 0) -> Hash:
        """Returns the hash of the member that answers, at `revision` (0: its newest).

        The gateway has this call since 3.6, and in later releases of 3.5. Members since 3.4 ask
        each other by their ports for peers; that answer names no member.
        """
        path = "/v3/maintenance/hashkv"
        try:
            return await self._ask(path, {"revision": str(revision)}, Hash)
        except EtcdError as error:
            if error.code != NOT_FOUND or self._ask_peer is None:
                raise
        return _understood(PEER_HASH_PATH, await self._ask_peer(revision), Hash)

    async def dump(self, prefix: bytes, *, revision: int = 0) -> EtcdDump:
        """Returns the content of the member that answers at `revision` (0: its newest), without
        asking others.

        Raises EtcdError, among others if the revision is compacted meanwhile.
        """
        before = await self.status()
        start, end, kvs = prefix, prefix_end(prefix), list[KeyValue]()
        while True:
            page = await self.range(
                start, range_end=end, revision=revision, limit=PAGE_KEYS, serializable=True
            )
            kvs += page.kvs
            revision = revision or page.header.revision
            if not page.more:
                break
            start = page.kvs[-1].key + b"\0"
        hashed = await self.hash_kv(revision)
        after = await self.status()
        # A status is no snapshot: only two that agree with the dump say at which entry it stands.
        still = {(s.raft_applied_index, s.header.revision) for s in (before, after)}
        at_rest = still == {(after.raft_applied_index, revision)} and after.raft_applied_index > 0
        return EtcdDump(
            member_id=after.header.member_id,
            revision=revision,
            hash=hashed.hash,
            compact_revision=hashed.compact_revision,
            kvs=tuple(kvs),
            log_index=after.raft_applied_index if at_rest else None,
        )

    async def _ask(self, path: str, body: Mapping[str, object], answer: type[T]) -> T:
        return _understood(path, await self._post(path, body), answer)


def peer_hash_request(revision: int) -> Mapping[str, object]:
    """Renders a request for a hash as members ask each other: numbers are no text there."""
    return {"revision": revision}


def digest_of(dump: EtcdDump) -> str:
    """Returns a digest that members with equal state agree on; the hash begins at the last
    compaction.
    """
    return f"{dump.hash:08x}, compacted {max(0, dump.compact_revision)}"


def prefix_end(prefix: bytes) -> bytes:
    """Returns the first key after all that begin with `prefix`."""
    assert prefix.rstrip(b"\xff"), "a prefix of nothing but 0xff has no end"
    whole = prefix.rstrip(b"\xff")
    return whole[:-1] + bytes([whole[-1] + 1])


_UNKNOWN = 2
"""gRPC's code for errors that have none."""

NOT_FOUND = 5
"""gRPC's code for a path that the gateway doesn't have."""


def _understood(path: str, found: Mapping[str, Any], answer: type[T]) -> T:
    code, message = found.get("code"), found.get("message")
    if isinstance(code, int) and isinstance(message, str):
        raise answered(code, message)
    try:
        return msgspec.convert(found, answer, strict=False)
    except msgspec.ValidationError as error:
        message = f"found an answer of {path} that isn't etcd's: {error}: {str(found)[:200]}"
        raise EtcdError(code=_UNKNOWN, message=message, certain=False) from error


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
