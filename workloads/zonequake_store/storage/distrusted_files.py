"""The replicas that must not be started from what is stored, because a commit failed.

After a failed sync the kernel may show pages that the disk never got, and call them clean: a new
process would read them, tell its peers that it has them, and lose them with the next power loss. So
the file records which environment failed, and the replicas that were in it stay broken until they
are erased; they come back from their peers under new incarnations. Kept in memory by a kernel that
could not write it, the file lasts as long as the pages it warns of. The environment itself is
written again at the next start (`lmdb_files.renew`), so that no later replica rests on such pages.

If there is no other copy left, a person may delete the file: the replicas then start from what is
there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from zonequake_store.errors import StoreCorrupt
from zonequake_store.storage.lmdb_files import sync_file
from zonequake_store.storage.log_writes import GroupRecord


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    """`below`: the numbers that were given away when it failed; later ones are sound.

    `renewed`: the environment was written again since.
    """

    environment: str
    below: int
    reason: str
    renewed: bool = False


_failures_decoder = msgspec.json.Decoder(list[_Failure])


class DistrustedFiles:
    """The failures of earlier processes and of this one. Raises StoreCorrupt if unreadable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failures: list[_Failure] = []
        with contextlib.suppress(FileNotFoundError):
            try:
                self._failures = _failures_decoder.decode(path.read_bytes())
            except msgspec.DecodeError as error:
                raise StoreCorrupt(
                    f"{path} says which replicas to distrust, and cannot be read ({error}); erase "
                    "the data directory, and the replicas come back from their peers"
                ) from error

    def add(self, environment: str, *, below: int, reason: str) -> None:
        """Records that a commit in this environment failed. Never raises: the disk may take nothing
        more.
        """
        self._failures.append(_Failure(environment=environment, below=below, reason=reason))
        with contextlib.suppress(OSError):
            self._store()

    @property
    def to_renew(self) -> set[str]:
        """The environments in which pages may be that the disk never got."""
        return {failure.environment for failure in self._failures if not failure.renewed}

    def renewed(self, environment: str) -> None:
        """Records that the environment was written again."""
        self._failures = [
            msgspec.structs.replace(failure, renewed=True)
            if failure.environment == environment
            else failure
            for failure in self._failures
        ]
        with contextlib.suppress(OSError):  # then it is written again at the next start, too
            self._store()

    @property
    def lowest_sound_number(self) -> int:
        """Returns the number from which on no replica is distrusted."""
        return max((failure.below for failure in self._failures), default=1)

    def _store(self) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(self._failures))
        sync_file(fresh)
        fresh.replace(self._path)
        sync_file(self._path.parent)

    def of(self, record: GroupRecord) -> str | None:
        """Returns why a replica is not to be trusted, or None."""
        log = "log" if record.fsync else "log-unsynced"
        for failure in self._failures:
            number = record.data_number if failure.environment == "data" else record.number
            if failure.environment in (log, "data") and number < failure.below:
                return (
                    f"what is stored is not to be trusted: {failure.reason}. Erase it, and it "
                    f"comes back from its peers; if there is no other copy, delete {self._path}"
                )
        return None

    def settle(self, left: Iterable[GroupRecord]) -> None:
        """Forget the failures if none of these replicas is touched by them, and the environments
        were written again: the next start does that only by what stands here.
        """
        if self.to_renew or any(self.of(record) for record in left):
            return
        if self._failures:
            self._failures.clear()
            with contextlib.suppress(OSError):
                self._path.unlink()
