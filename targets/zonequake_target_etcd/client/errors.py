"""The error that etcd answers with."""

from __future__ import annotations

from zonequake_load.errors import LoadError


class EtcdError(LoadError):
    """etcd answered with an error. `code` is gRPC's, `message` etcd's own words.

    `certain`: whether what was asked certainly has no effect, neither now nor later.
    """

    def __init__(self, *, code: int, message: str, certain: bool) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.certain = certain
