"""etcd's v3 API over its JSON gateway, as far as the load and the harness need it.

`EtcdApi` knows no network: it is given `post(path, body)`, a coroutine that returns the decoded
JSON of an answer, whatever its HTTP status was, and raises errors of its own if there was none. The
load posts to an endpoint, the harness through the API server's proxy of a pod.

The gateway writes 64-bit numbers as strings, bytes as base64, and leaves out what is zero. An error
is an object with `code` and `message`, which no other answer has.

Which errors are certain (etcd 3.6, the sources of `server/v3`): those that are raised before a
request is proposed, or in place of proposing it. What is said afterwards is not, among it

    request timed out, server stopped   the proposal may be committed yet
    database space exceeded             raised before the proposal, but also *after* the entry was
                                        applied (`quotaApplierV3.Put`): the write may have happened
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from zonequake_load.errors import EtcdError

PostJson = Callable[[str, Mapping[str, object]], Awaitable[Mapping[str, Any]]]

CERTAIN_ERRORS = frozenset(
    {
        # The interceptor, before the request is looked at.
        "etcdserver: no leader",  # the member was asked not to serve without one
        "etcdserver: not capable",
        "etcdserver: rpc not supported for learner",
        # Checks of the request itself.
        "etcdserver: key is not provided",
        "etcdserver: too many operations in txn request",
        "etcdserver: duplicate key given in txn request",
        "etcdserver: request is too large",
        # Too much is committed and not applied yet: not proposed.
        "etcdserver: too many requests",
        # Raft refused to take the proposal into its log: no leader, or one that hands over.
        "raft proposal dropped",
    }
)

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


class _Put(msgspec.Struct, frozen=True, kw_only=True):
    header: Header


class _TxnResponse(msgspec.Struct, frozen=True, kw_only=True):
    response_range: RangeResponse | None = None


class Txn(msgspec.Struct, frozen=True, kw_only=True):
    """`succeeded`: all compares held. `header.revision` is that of the write, if there was one."""

    header: Header
    succeeded: bool = False
    responses: list[_TxnResponse] = []

    @property
    def kvs(self) -> list[KeyValue]:
        """The key-values that the ranges of the branch that was taken found."""
        return [kv for one in self.responses if one.response_range for kv in one.response_range.kvs]


class EtcdStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one member. `leader`: the leader's member id, 0 if it knows none."""

    header: Header
    version: str = ""
    leader: int = 0
    raft_index: int = msgspec.field(name="raftIndex", default=0)
    raft_applied_index: int = msgspec.field(name="raftAppliedIndex", default=0)
    raft_term: int = msgspec.field(name="raftTerm", default=0)
    is_learner: bool = msgspec.field(name="isLearner", default=False)
    errors: list[str] = []

    @property
    def leads(self) -> bool:
        """Returns whether the member that answered leads."""
        return self.leader != 0 and self.leader == self.header.member_id


class EtcdMember(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is empty until the member has started once."""

    id: int = msgspec.field(name="ID")
    name: str = ""
    peer_urls: list[str] = msgspec.field(name="peerURLs", default_factory=list)
    client_urls: list[str] = msgspec.field(name="clientURLs", default_factory=list)


class _Members(msgspec.Struct, frozen=True, kw_only=True):
    header: Header
    members: list[EtcdMember] = []


class Hash(msgspec.Struct, frozen=True, kw_only=True):
    """Hash of a member's keys with all their revisions from `compact_revision` to `hash_revision`.

    Members that compacted at different revisions may have different hashes of the same state.
    """

    header: Header
    hash: int = 0
    compact_revision: int = 0
    hash_revision: int = 0


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
    """etcd's calls; each raises EtcdError if etcd answers with one, and what `post` raises."""

    def __init__(self, post: PostJson) -> None:
        self._post = post

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

    async def put(self, key: bytes, value: bytes) -> Header:
        """Write one key; the revision of the header is that of the write."""
        put = await self._ask("/v3/kv/put", {"key": _text(key), "value": _text(value)}, _Put)
        return put.header

    async def txn(
        self,
        *,
        compare: Sequence[Mapping[str, object]] = (),
        success: Sequence[Mapping[str, object]],
        failure: Sequence[Mapping[str, object]] = (),
    ) -> Txn:
        """`success` if all of `compare` hold, else `failure`; see `put_request` and its like."""
        body = {"compare": list(compare), "success": list(success), "failure": list(failure)}
        return await self._ask("/v3/kv/txn", body, Txn)

    async def status(self) -> EtcdStatus:
        """Returns the status of the member that answers."""
        return await self._ask("/v3/maintenance/status", {}, EtcdStatus)

    async def members(self) -> list[EtcdMember]:
        """All members, as the one that answers knows them."""
        body = {"linearizable": False}
        return (await self._ask("/v3/cluster/member/list", body, _Members)).members

    async def hash_kv(self, revision: int = 0) -> Hash:
        """Returns the hash of the member that answers, at `revision` (0: its newest)."""
        return await self._ask("/v3/maintenance/hashkv", {"revision": str(revision)}, Hash)

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
            member_id=hashed.header.member_id,
            revision=revision,
            hash=hashed.hash,
            compact_revision=hashed.compact_revision,
            kvs=tuple(kvs),
            log_index=after.raft_applied_index if at_rest else None,
        )

    async def _ask(self, path: str, body: Mapping[str, object], answer: type[T]) -> T:
        found = await self._post(path, body)
        code, message = found.get("code"), found.get("message")
        if isinstance(code, int) and isinstance(message, str):
            raise EtcdError(code=code, message=message, certain=message in CERTAIN_ERRORS)
        try:
            return msgspec.convert(found, answer, strict=False)
        except msgspec.ValidationError as error:
            message = f"found an answer of {path} that isn't etcd's: {error}: {str(found)[:200]}"
            raise EtcdError(code=_UNKNOWN, message=message, certain=False) from error


def put_request(key: bytes, value: bytes) -> Mapping[str, object]:
    """Renders a write as a step of a transaction."""
    return {"request_put": {"key": _text(key), "value": _text(value)}}


def range_request(key: bytes) -> Mapping[str, object]:
    """Renders a read of one key as a step of a transaction."""
    return {"request_range": {"key": _text(key)}}


def has_value(key: bytes, value: bytes) -> Mapping[str, object]:
    """Compares: the key is there and holds just this."""
    return {"target": "VALUE", "result": "EQUAL", "key": _text(key), "value": _text(value)}


def has_mod_revision(key: bytes, revision: int) -> Mapping[str, object]:
    """Compares: the key was last written at this revision; 0: it isn't there."""
    return {"target": "MOD", "result": "EQUAL", "key": _text(key), "mod_revision": str(revision)}


def prefix_end(prefix: bytes) -> bytes:
    """Returns the first key after all that begin with `prefix`."""
    assert prefix.rstrip(b"\xff"), "a prefix of nothing but 0xff has no end"
    whole = prefix.rstrip(b"\xff")
    return whole[:-1] + bytes([whole[-1] + 1])


_UNKNOWN = 2
"""gRPC's code for errors that have none."""


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
