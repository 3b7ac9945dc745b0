"""The location of a run: a folder of this machine, or a prefix of an object store or of HDFS.

    runs/x   file:///data/runs/x   s3://bucket/runs/x   gs://bucket/runs/x   hdfs://host:8020/runs/x

Only this module of the analysis opens, lists, writes and deletes the files of a run: a store
through `pyarrow.fs`, a folder by `pathlib`, which takes every name and reports errors in one way. A
location is a value that travels to Spark's workers: it holds where the store is, but no open
connection. Each process takes credentials from its own environment.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote, urlsplit

from zonequake_analysis.errors import LocationError
from zonequake_analysis.storage import limits
from zonequake_analysis.storage.causes import in_words, patiently
from zonequake_analysis.storage.environment import s3_endpoint, s3_region
from zonequake_analysis.storage.stored_file import StoredFile
from zonequake_analysis.whole_files import copy_whole, write_whole

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

SCHEMES = ("file", "s3", "gs", "hdfs")
_TORN_URI = re.compile(rf"({'|'.join(SCHEMES)}):/?(?!/)")
"""A URI with fewer than two slashes."""
_HOST = re.compile(r"([^:\[\]]*|\[[0-9A-Fa-f:]+\])(:\d{1,5})?")
"""A name, or an address, perhaps with a port; or nothing."""

_BUFFER_BYTES = 1024 * 1024
"""Bytes read at once to find a line's end: a request to a store takes longer than a MiB."""

_PART_BYTES = 4 * 1024 * 1024
"""Bytes of a file that are read at once while it is copied."""

_PARTS_ON_THEIR_WAY = 8
"""Most of these parts that wait in memory for the store's answers."""


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A folder of a run, or a file in it.

    `path`: a path of this machine, or a URI. `endpoint`, `region`: of an S3 that isn't AWS's own
    choice; read once, when the location is named, so that workers use the same ones. `attempts`:
    most times that a request is sent; 0: `limits.ATTEMPTS`."""

    path: str
    endpoint: str = ""
    region: str = ""
    attempts: int = field(default=0, compare=False)

    @classmethod
    def of(cls, given: Path | str | Location) -> Location:
        """Returns the location that a path or URI names. Raises LocationError if it is none."""
        if isinstance(given, Location):
            return given
        text = str(given)
        scheme, found, rest = text.partition("://")
        if not found:
            if isinstance(given, Path) and _TORN_URI.match(text):
                raise LocationError(
                    f"found Path({text!r}), expected a str: a Path has no // of a URI"
                )
            if torn := _TORN_URI.match(text):
                rest = text[torn.end() :]
                rest = "…" if any(sign in rest for sign in "?#@") else rest
                right = f"{torn[1]}://{rest}"
                raise LocationError(
                    f"found {torn[0] + rest!r}, expected a URI such as {right}, or a path"
                )
            if not text:
                raise LocationError("found an empty text, expected a folder, or a URI")
            return cls(str(Path(text)))
        if scheme not in SCHEMES:
            raise LocationError(
                f"{scheme}://: expected a folder, or a URI that begins with "
                + ", ".join(f"{known}://" for known in SCHEMES)
            )
        # Never shown: a password in a URI must not reach a log.
        if any(sign in rest for sign in "?#") or "@" in rest.split("/")[0]:
            raise LocationError(
                f"{scheme}://…: expected no credentials and no options in a URI; give them by the "
                "environment (docs/storage.md)"
            )
        if scheme == "file":
            return cls(str(Path(_local_path(text))))
        authority, _, key = rest.partition("/")
        if scheme == "hdfs" and not authority and not key.strip("/"):
            raise LocationError(f"{text}: expected hdfs:///folder, or hdfs://host:port")
        if scheme == "hdfs" and not _HOST.fullmatch(authority):
            raise LocationError(
                f"{text}: found the host {authority!r}, expected hdfs://host:port/…"
            )
        if not authority and scheme != "hdfs":
            raise LocationError(f"{text}: expected {scheme}://bucket/prefix")
        uri = f"{scheme}://{authority}/{key.strip('/')}".rstrip("/")
        if scheme != "s3":
            return cls(uri)
        return cls(uri, endpoint=s3_endpoint(), region=s3_region())

    def __str__(self) -> str:
        return self.path

    def __truediv__(self, name: str) -> Location:
        return replace(self, path=f"{self.path.rstrip('/')}/{name}" if self.path else name)

    @property
    def local(self) -> Path | None:
        """The path, of a location on this machine; None of any other."""
        return None if "://" in self.path else Path(self.path)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return Path(self.path).name if self.local is not None else self.path.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The folder that this is in."""
        above = self.path.rpartition("/")[0] if self.local is None else str(self.local.parent)
        return replace(self, path=above)

    def resolve(self) -> Location:
        """Returns the same location for a process with another working directory."""
        return self if self.local is None else replace(self, path=str(self.local.resolve()))

    def check_reachable(self) -> None:
        """Asks once whether anything answers. Raises LocationError if nothing does."""
        if self.local is None:
            with in_words(self):
                self._system(limits.FIRST_ATTEMPTS).get_file_info(self._key())

    def exists(self) -> bool:
        """Returns whether a file is there, or a folder that isn't empty. Raises LocationError."""
        from pyarrow.fs import FileType

        if (path := self.local) is not None:
            return path.exists()
        with in_words(self):
            return bool(self._system().get_file_info(self._key()).type != FileType.NotFound)

    def size_bytes(self) -> int:
        """Returns the size of a file. Raises FileNotFoundError, LocationError."""
        if (path := self.local) is not None:
            return path.stat().st_size
        with in_words(self):
            size = self._system().get_file_info(self._key()).size
        if size is None:
            raise FileNotFoundError(f"{self}: found no file")
        return int(size)

    def listed(self, ending: str = "") -> list[Location]:
        """Returns the files of a folder whose names end so, by name; none if there is no folder.

        Hidden ones, such as drafts and a desktop's, are among them only without an `ending`. On
        this machine it also returns anything else with such a name: its reader refuses it.
        """
        if (path := self.local) is not None:
            names = [found.name for found in path.glob(f"*{ending}")]
        else:
            names = [name for name in self.modified_s() if name.endswith(ending)]
        return [self / name for name in sorted(names) if not (ending and name.startswith("."))]

    def check_listable(self) -> None:
        """Raises OSError if this folder is there, on this machine, and can't be listed or is none,
        of which `listed` says nothing."""
        if (path := self.local) is not None and path.exists():
            os.listdir(path)

    def all_below(self, ending: str) -> list[Location]:
        """Lists the files whose names end so, in this folder and all folders in it, by name; hidden
        ones as `listed` does."""
        if (path := self.local) is not None:
            names = [file.relative_to(path).as_posix() for file in path.rglob(f"*{ending}")]
        else:
            names = [name for name in self.sizes_below() if name.endswith(ending)]
        return [self / name for name in sorted(names) if not (ending and "/." in f"/{name}")]

    def sizes_below(self) -> dict[str, int]:
        """Returns the files in this folder and all folders in it, with their sizes in bytes.

        Raises LocationError.
        """
        if (path := self.local) is not None:
            files = (file for file in path.rglob("*") if file.is_file())
            return {file.relative_to(path).as_posix(): file.stat().st_size for file in files}
        from pyarrow.fs import FileSelector, FileType

        with in_words(self):
            infos = self._system().get_file_info(
                FileSelector(self._key(), recursive=True, allow_not_found=True)
            )
        beginning = len(self._key().rstrip("/")) + 1
        return {i.path[beginning:]: i.size or 0 for i in infos if i.type == FileType.File}

    def folders(self) -> list[Location]:
        """Returns the folders in this one, by name, without links; none if it isn't there.

        Raises OSError, LocationError.
        """
        return self.names_and_folders()[1]

    def names_and_folders(self) -> tuple[set[str], list[Location]]:
        """Returns the names of all that is in this folder, and the `folders`, from one listing.

        Raises OSError, LocationError.
        """
        if (path := self.local) is not None:
            inside = list(path.iterdir()) if path.is_dir() else []
            folders = [one.name for one in inside if one.is_dir() and not one.is_symlink()]
            return {one.name for one in inside}, [self / name for name in sorted(folders)]
        from pyarrow.fs import FileType

        infos = self._infos()
        found = {info.base_name for info in infos if info.type == FileType.Directory}
        if self.path.startswith("gs:"):  # pyarrow lists no prefixes there
            found |= {name.partition("/")[0] for name in self.sizes_below() if "/" in name}
        return {info.base_name for info in infos} | found, [self / name for name in sorted(found)]

    def modified_s(self) -> dict[str, float]:
        """Returns the files of a store's prefix by name, with their time by the store's clock.

        Raises LocationError.
        """
        from pyarrow.fs import FileType

        return {
            info.base_name: (info.mtime_ns or 0) / 1e9
            for info in self._infos()
            if info.type == FileType.File
        }

    def open(self) -> BinaryIO:
        """Opens a file for reading, seekable. Raises OSError as `Path.open`, LocationError."""
        if (path := self.local) is not None:
            return path.open("rb")
        with in_words(self):
            stream = self._system().open_input_file(self._key())
        return io.BufferedReader(StoredFile(stream, self), _BUFFER_BYTES)

    def read_bytes(self) -> bytes:
        """Reads a whole file. Raises OSError, LocationError."""
        if (path := self.local) is not None:
            return path.read_bytes()
        with in_words(self), self._system().open_input_file(self._key()) as stream:
            # A range of nothing is refused.
            size = stream.size()
            return bytes(patiently(lambda: stream.read_at(size, 0))) if size else b""

    def read_text(self) -> str:
        """Reads a whole file of UTF-8. Raises OSError, LocationError, UnicodeDecodeError."""
        return self.read_bytes().decode()

    def read_range(self, start: int, size: int) -> bytes:
        """Reads at most `size` bytes from `start` on. Raises OSError, LocationError."""
        if (path := self.local) is not None:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(size)
        with in_words(self), self._system().open_input_file(self._key()) as stream:
            return bytes(patiently(lambda: stream.read_at(size, start)))

    def write(self, content: bytes | memoryview) -> None:
        """Writes a file, which appears whole or not at all. Raises OSError, LocationError.

        On this machine it is renamed into its place. A store shows an object when its upload is
        complete; it is not renamed there, since a rename is a copy.
        """
        if (path := self.local) is not None:
            write_whole(path, content)
            return
        with in_words(self):
            if self.path.startswith("hdfs:"):
                self._write_renamed([content])
                return
            self._write_parts([content], self._key())

    def copy_from(self, file: Path) -> None:
        """Copies a file of this machine here, in parts, so that memory never holds all of it.

        It appears whole, or not at all; one that grows, as it was. Raises OSError, LocationError.
        """
        if (path := self.local) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            copy_whole(file, path)
            return
        with file.open("rb") as source:
            size_bytes = os.fstat(source.fileno()).st_size
            parts = _parts_of(source, size_bytes)
            with in_words(self):
                if self.path.startswith("hdfs:"):
                    self._write_renamed(parts)
                else:
                    self._write_parts(parts, self._key())
        # A stream that an error left open is completed when Python drops it.
        if self.size_bytes() != size_bytes:
            raise LocationError(f"{self}: the store has not as many bytes as {file}; try again")

    def delete(self) -> None:
        """Deletes a file, if it is there. Raises OSError, LocationError."""
        if (path := self.local) is not None:
            path.unlink(missing_ok=True)
            return
        with in_words(self), suppress(FileNotFoundError):
            self._system().delete_file(self._key())

    def empty_folder(self) -> None:
        """Makes the folder, and deletes everything in it. Raises OSError, LocationError."""
        self.delete_folder()
        self.make_folder()

    def delete_folder(self) -> None:
        """Deletes the folder and everything in it, if there is one; of a link the link alone.

        Raises OSError, LocationError.
        """
        if (path := self.local) is not None:
            if path.is_symlink():
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
            return
        with in_words(self):
            try:
                self._system().delete_dir_contents(self._key(), missing_dir_ok=True)
            except OSError as error:
                # One request names folders among their files: a store with real folders deletes
                # the files, and refuses the folders, as they weren't empty then.
                if "not empty" not in str(error):
                    raise
                self._system().delete_dir_contents(self._key(), missing_dir_ok=True)

    def make_folder(self) -> None:
        """Makes the folder, if the location has folders. Raises OSError, LocationError."""
        if (path := self.local) is not None:
            path.mkdir(parents=True, exist_ok=True)
            return
        if self.has_folders:
            with in_words(self):
                self._system().create_dir(self._key(), recursive=True)

    @property
    def has_folders(self) -> bool:
        """Whether folders exist by themselves; in an object store they are prefixes of names."""
        return not self.path.startswith(("s3:", "gs:"))

    def _infos(self) -> list[FileInfo]:
        """Returns what a store has right below this prefix. Raises LocationError."""
        from pyarrow.fs import FileSelector

        with in_words(self):
            found = self._system().get_file_info(FileSelector(self._key(), allow_not_found=True))
        if not found and not self.has_folders:
            self._check_bucket()
        return list(found)

    def _check_bucket(self) -> None:
        """Raises LocationError if there is no bucket: an empty listing doesn't tell."""
        bucket = replace(self, path="/".join(self.path.split("/")[:3]))
        if not bucket.exists():
            raise LocationError(f"{self}: there is no bucket {bucket} at this endpoint")

    def _write_parts(self, parts: Iterable[bytes | memoryview], key: str) -> None:
        stream = self._system().open_output_stream(key)
        for number, part in enumerate(parts, 1):
            stream.write(part)
            if number % _PARTS_ON_THEIR_WAY == 0:
                stream.flush()  # a slow store's requests wait in memory
        stream.close()  # nothing is there until then: it completes the upload

    def _write_renamed(self, parts: Iterable[bytes | memoryview]) -> None:
        draft = replace(self, path=f"{self.path}.{os.urandom(8).hex()}")
        self._write_parts(parts, draft._key())
        self._system().move(draft._key(), self._key())  # in one step, over an older one

    def _key(self) -> str:
        """Returns the path as pyarrow's file system takes it."""
        scheme, _, rest = self.path.partition("://")
        return "/" + rest.partition("/")[2] if scheme == "hdfs" else rest

    def _system(self, attempts: int | None = None) -> FileSystem:
        from zonequake_analysis.storage.systems import file_system

        scheme, _, rest = self.path.partition("://")
        authority = rest.partition("/")[0] if scheme == "hdfs" else ""
        return file_system(
            scheme,
            authority,
            self.endpoint,
            self.region,
            attempts=attempts or self.attempts or limits.ATTEMPTS,
            process=os.getpid(),
        )


def _parts_of(file: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    """Yields the first bytes of a file, so many or all that there are."""
    while part := file.read(min(_PART_BYTES, size_bytes)):
        size_bytes -= len(part)
        yield part


def _local_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise LocationError(f"{uri}: expected file:///path, without a host")
    if not parts.path:
        raise LocationError(f"{uri}: expected file:///path")
    return unquote(parts.path)
