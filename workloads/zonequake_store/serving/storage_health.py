"""The state of a node's storage, as it is shown to the operator and to Prometheus."""

from __future__ import annotations

from typing import Protocol


class StorageHealth(Protocol):
    """Says whether anything is stored now, and whether writes are taken."""

    @property
    def failure(self) -> str | None:
        """The reason that nothing is stored here any more, or None."""

    @property
    def is_full(self) -> bool:
        """Whether something waits for room."""

    @property
    def problem(self) -> str | None:
        """The reason that no write is taken here, or None."""
