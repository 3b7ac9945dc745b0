"""The error that etcd answers with."""

from __future__ import annotations

from zonequake_load.errors import AnsweredError

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
