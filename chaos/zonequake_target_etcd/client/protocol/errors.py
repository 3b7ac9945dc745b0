"""The error that etcd answers with, and which of them are certain. Pure.

Which errors are certain (etcd 3.6, the sources of `server/v3`): those that are raised before a
request is proposed, or in place of proposing it. What is said afterwards is not, among it

    request timed out, server stopped   the proposal may be committed yet
    database space exceeded             raised before the proposal, but also *after* the entry was
                                        applied (`quotaApplierV3.Put`): the write may have happened
"""

from __future__ import annotations

from zonequake_load.errors import AnsweredError

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

_UNKNOWN, _DEADLINE_EXCEEDED, _UNAVAILABLE = 2, 4, 14
_OF_ITS_ENDPOINT = frozenset({_UNKNOWN, _DEADLINE_EXCEEDED, _UNAVAILABLE})
"""gRPC's codes of errors that another endpoint may not have; the rest say something of the request
or of the whole cluster."""


class EtcdError(AnsweredError):
    """etcd answered with an error. `code` is gRPC's, `message` etcd's own words."""

    def __init__(self, *, code: int, message: str, certain: bool) -> None:
        super().__init__(message, certain=certain, blames_endpoint=code in _OF_ITS_ENDPOINT)
        self.code = code
        self.message = message


def answered(code: int, message: str) -> EtcdError:
    """Returns the error that etcd said in these words."""
    return EtcdError(code=code, message=message, certain=message in CERTAIN_ERRORS)
