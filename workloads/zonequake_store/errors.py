"""The errors of a data node.

StoreError
├── SettingsError        the environment does not describe a data node
├── StorageError
│   ├── DirectoryLocked  another process has the data directory open
│   ├── LaterFormat      a later release wrote the data directory
│   ├── StoreCorrupt     an environment is damaged as a whole
│   ├── LogCorrupt       a replica's log is damaged: the replica is broken
│   ├── StateCorrupt     a replica's cells are damaged: the replica is broken
│   ├── StorageFull      a map or the disk takes no more for now
│   └── StorageFailed    a write or a sync failed: what is stored is not known
├── CounterError         a partition's update counter contradicts itself: the replica is broken
└── ProtocolError        a peer or client sent something that is not of the protocol
"""

from __future__ import annotations


class StoreError(Exception):
    """Root of every error that the data node raises on purpose."""


class SettingsError(StoreError):
    """The environment does not describe a data node."""


class StorageError(StoreError):
    """The data directory cannot be used as it is."""


class DirectoryLocked(StorageError):
    """Another process has the data directory open."""


class LaterFormat(StorageError):
    """A later release wrote the data directory, in a format that this one doesn't know."""


class StoreCorrupt(StorageError):
    """An environment is damaged as a whole: nothing in it can be found."""


class LogCorrupt(StorageError):
    """A replica's log cannot be used as it is stored: the replica is broken."""


class StateCorrupt(StorageError):
    """A replica's applied state cannot be used as it is stored: the replica is broken."""


class StorageFull(StorageError):
    """A map or the disk takes no more; nothing of the request is stored."""

    def __init__(self, environment: str, message: str) -> None:
        super().__init__(message)
        self.environment = environment


class StorageFailed(StorageError):
    """A write or a sync failed: what the disk holds of it is not known, and never tried again."""

    def __init__(self, environment: str, message: str) -> None:
        super().__init__(message)
        self.environment = environment


class CounterError(StoreError):
    """A partition's update counter contradicts itself: the replica is broken."""


class ProtocolError(StoreError):
    """A peer or client sent something that is not of the protocol."""
