"""Files that appear whole under their name, or not at all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(file: Path, content: bytes | memoryview) -> None:
    """Writes a file beside its place and renames it: a reader sees the old one or the new one.

    No other process has the draft's name, on any machine that shares the folder.
    """
    with _drafted(file) as draft:
        draft.write_bytes(content)


def copy_whole(source: Path, file: Path) -> None:
    """Does the same with the content of another file, in parts."""
    with _drafted(file) as draft:
        shutil.copyfile(source, draft)


@contextmanager
def _drafted(file: Path) -> Iterator[Path]:
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        yield draft
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
