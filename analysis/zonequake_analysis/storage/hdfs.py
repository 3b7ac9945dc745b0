"""HDFS as one of pyarrow's file systems, by a client that needs neither Java nor libhdfs.

The client sends a request again, with growing pauses, if the NameNode can't be reached, but not a
change whose answer was lost. It would wait forever for a NameNode that says nothing, so each
request has a thread and a time limit here.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import TypeVar

import hdfs_native
import pyarrow as pa
from pyarrow import fs

from zonequake_analysis.storage import limits

_T = TypeVar("_T")
_FOLDER_MODE = 0o755
_PIECE_BYTES = 4 * 1024 * 1024
"""Most bytes of one request, so that a slow network is not taken for a silent server."""

_STACK = re.compile(r"(\\n|\n)(\\t|\t)at .*", re.DOTALL)


class Hdfs(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """The file system of one NameNode, or of one name service. Raises OSError."""

    def __init__(self, uri: str, attempts: int) -> None:
        """Takes `hdfs://host:port/`; opens no connection yet. Each request is sent up to `attempts`
        times."""
        self._uri, self._attempts = uri, attempts
        self._limit_s = limits.SILENT_S * attempts
        self._client = self._new_client()

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        try:
            found = self._answer(
                lambda client: list(client.list_status(selector.base_dir, selector.recursive))
            )
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        return [_info_of(one) for one in found]

    def create_dir(self, path: str, recursive: bool) -> None:
        self._answer(lambda client: client.mkdirs(path, _FOLDER_MODE, recursive))

    def delete_dir(self, path: str) -> None:
        self._answer(lambda client: client.delete(path, recursive=True))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        selector = fs.FileSelector(path, allow_not_found=missing_dir_ok)
        for found in self.get_file_info_selector(selector):
            self.delete_dir(found.path)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("nothing deletes all of HDFS")

    def delete_file(self, path: str) -> None:
        if not self._answer(lambda client: client.delete(path)):
            raise FileNotFoundError(path)

    def move(self, src: str, dest: str) -> None:
        """Renames a file, over another one if there is one, in one step."""
        self._answer(lambda client: client.rename(src, dest, overwrite=True))

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError("HDFS copies nothing by itself")

    def open_input_file(self, path: str) -> pa.NativeFile:
        reader = self._answer(lambda client: client.read(path))
        return pa.PythonFile(_Reading(reader, self._limit_s), mode="r")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: dict[str, str] | None) -> pa.NativeFile:
        del metadata  # files of HDFS have none
        options = hdfs_native.WriteOptions(overwrite=True)
        writer = self._answer(lambda client: client.create(path, options))
        return pa.PythonFile(_Writing(writer, self._limit_s), mode="w")

    def open_append_stream(self, path: str, metadata: dict[str, str] | None) -> pa.NativeFile:
        raise NotImplementedError("a file is written as a whole")

    def _info(self, path: str) -> fs.FileInfo:
        try:
            return _info_of(self._answer(lambda client: client.get_file_info(path)))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def _new_client(self) -> hdfs_native.Client:
        settings = {
            "dfs.client.failover.max.attempts": str(self._attempts - 1),
            "dfs.client.socket-timeout": str(int(limits.SILENT_S * 1000)),
        }
        return within(self._limit_s, lambda: hdfs_native.Client(self._uri, settings))

    def _answer(self, ask: Callable[[hdfs_native.Client], _T]) -> _T:
        client = self._client
        try:
            return within(self._limit_s, lambda: ask(client))
        except TimeoutError:
            self._client = self._new_client()  # the old one's connection may be dead
            raise


class _Reading(io.RawIOBase):
    """A file for reading. The client panics after the end, so it is never asked there."""

    def __init__(self, reader: hdfs_native.FileReader, limit_s: float) -> None:
        self._reader, self._limit_s = reader, limit_s
        self._at, self._size = 0, len(reader)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads so many bytes, or what is left: pyarrow takes fewer for the end of the file."""
        left = max(0, self._size - self._at)
        end = self._at + (left if size is None or size < 0 else min(size, left))
        pieces = []
        while self._at < end:
            at, wanted = self._at, min(end - self._at, _PIECE_BYTES)
            pieces.append(within(self._limit_s, partial(self._reader.read_range, at, wanted)))
            self._at += wanted
        return b"".join(pieces)

    def seek(self, offset: int, start: int = io.SEEK_SET, /) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[start]
        return self._at

    def tell(self) -> int:
        return self._at


class _Writing(io.RawIOBase):
    """A file for writing, which is complete when it is closed."""

    def __init__(self, writer: hdfs_native.FileWriter, limit_s: float) -> None:
        self._writer, self._limit_s = writer, limit_s

    def writable(self) -> bool:
        return True

    def write(self, content: bytes | memoryview, /) -> int:  # type: ignore[override]  # mypy: Buffer
        for start in range(0, len(content), _PIECE_BYTES):
            piece = bytes(content[start : start + _PIECE_BYTES])
            within(self._limit_s, partial(self._writer.write, piece))
        return len(content)

    def close(self) -> None:
        if not self.closed:
            super().close()
            within(self._limit_s, self._writer.close)


def within(limit_s: float, ask: Callable[[], _T]) -> _T:
    """Returns the answer of the client; its errors are OSError, without the NameNode's stack.

    Raises TimeoutError if none comes: then a thread is left behind.
    """
    answer: Future[_T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except RuntimeError as error:
            answer.set_exception(OSError(_STACK.sub("", str(error))))
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            answer.set_exception(error)

    threading.Thread(target=work, name="hdfs", daemon=True).start()
    if answer not in wait([answer], limit_s).done:
        raise TimeoutError(f"timed out: no answer for {limit_s:.0f} s")
    return answer.result()


def _info_of(found: hdfs_native.FileStatus) -> fs.FileInfo:
    return fs.FileInfo(
        found.path,
        fs.FileType.Directory if found.isdir else fs.FileType.File,
        size=None if found.isdir else found.length,
        mtime_ns=found.modification_time * 1_000_000,
    )
