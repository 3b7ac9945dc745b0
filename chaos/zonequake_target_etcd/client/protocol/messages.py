"""etcd's messages of keys, transactions and members, in protobuf. Pure.

Only fields that are used are declared here, with the numbers of etcd's own `rpc.proto` and
`kv.proto`; what else an answer holds is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "etcdserverpb"

_BYTES, _TEXT, _SIGNED, _UNSIGNED, _BOOL = "bytes", "string", "int64", "uint64", "bool"
_REPEATED, _ONE_OF = "repeated ", "oneof "

_FIELDS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "ResponseHeader": {
        "member_id": (2, _UNSIGNED),
        "revision": (3, _SIGNED),
        "raft_term": (4, _UNSIGNED),
    },
    "KeyValue": {"key": (1, _BYTES), "mod_revision": (3, _SIGNED), "value": (5, _BYTES)},
    "RangeRequest": {"key": (1, _BYTES), "serializable": (7, _BOOL)},
    "RangeResponse": {"header": (1, "ResponseHeader"), "kvs": (2, _REPEATED + "KeyValue")},
    "PutRequest": {"key": (1, _BYTES), "value": (2, _BYTES)},
    "PutResponse": {"header": (1, "ResponseHeader")},
    "RequestOp": {
        "request_range": (1, _ONE_OF + "RangeRequest"),
        "request_put": (2, _ONE_OF + "PutRequest"),
    },
    "ResponseOp": {
        "response_range": (1, _ONE_OF + "RangeResponse"),
        "response_put": (2, _ONE_OF + "PutResponse"),
    },
    "Compare": {
        "result": (1, _SIGNED),
        "target": (2, _SIGNED),
        "key": (3, _BYTES),
        "mod_revision": (6, _ONE_OF + _SIGNED),
        "value": (7, _ONE_OF + _BYTES),
    },
    "TxnRequest": {
        "compare": (1, _REPEATED + "Compare"),
        "success": (2, _REPEATED + "RequestOp"),
        "failure": (3, _REPEATED + "RequestOp"),
    },
    "TxnResponse": {
        "header": (1, "ResponseHeader"),
        "succeeded": (2, _BOOL),
        "responses": (3, _REPEATED + "ResponseOp"),
    },
    "MemberListRequest": {"linearizable": (1, _BOOL)},
    "Member": {"ID": (1, _UNSIGNED), "name": (2, _TEXT)},
    "MemberListResponse": {
        "header": (1, "ResponseHeader"),
        "members": (2, _REPEATED + "Member"),
    },
}
"""Fields of each message: number, and type. An enum is a number here, as it is on the wire."""

_MOD, _VALUE = 2, 3
"""What a Compare looks at; its `result` of zero is EQUAL."""


def _declared() -> descriptor_pb2.FileDescriptorProto:
    proto = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="zonequake/etcd.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, declared) in fields.items():
            kind = declared.removeprefix(_REPEATED).removeprefix(_ONE_OF)
            added = message.field.add(name=field, number=number)
            added.label = (
                proto.LABEL_REPEATED if declared.startswith(_REPEATED) else proto.LABEL_OPTIONAL
            )
            if kind in _FIELDS:
                added.type, added.type_name = proto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type = proto.Type.Value(f"TYPE_{kind.upper()}")
            if declared.startswith(_ONE_OF):
                if not message.oneof_decl:
                    message.oneof_decl.add(name="one")
                added.oneof_index = 0
    return file


def _types() -> Mapping[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_declared())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _FIELDS
    }


TYPES = _types()
"""Classes of messages by their names."""


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A call of etcd's: its path, and the types of request and answer."""

    path: str
    request: Any
    answer: Any


RANGE = Method("/etcdserverpb.KV/Range", TYPES["RangeRequest"], TYPES["RangeResponse"])
PUT = Method("/etcdserverpb.KV/Put", TYPES["PutRequest"], TYPES["PutResponse"])
TXN = Method("/etcdserverpb.KV/Txn", TYPES["TxnRequest"], TYPES["TxnResponse"])
MEMBERS = Method(
    "/etcdserverpb.Cluster/MemberList", TYPES["MemberListRequest"], TYPES["MemberListResponse"]
)
METHODS = (RANGE, PUT, TXN, MEMBERS)

_RequestOp, _Compare = TYPES["RequestOp"], TYPES["Compare"]


def put_request(key: bytes, value: bytes) -> Any:  # noqa: ANN401 - protobuf's classes have no types
    """Builds a write as a step of a transaction."""
    return _RequestOp(request_put=PUT.request(key=key, value=value))


def range_request(key: bytes) -> Any:  # noqa: ANN401
    """Builds a read of one key as a step of a transaction."""
    return _RequestOp(request_range=RANGE.request(key=key))


def has_value(key: bytes, value: bytes) -> Any:  # noqa: ANN401
    """Compares: the key is there and holds just this."""
    return _Compare(target=_VALUE, key=key, value=value)


def has_mod_revision(key: bytes, revision: int) -> Any:  # noqa: ANN401
    """Compares: the key was last written at this revision; 0: it isn't there."""
    return _Compare(target=_MOD, key=key, mod_revision=revision)
