"""Files that appear whole under their name, or not at all."""

from __future__ import annotations

import uuid
from pathlib import Path


def write_whole(file: Path, content: bytes | memoryview) -> None:
    """Writes a file beside its place and renames it: a reader sees the old one or the new one.

    No other process has the draft's name, on any machine that shares the folder.
    """
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        draft.write_bytes(content)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
