"""Bytes that no text file of a run has: another encoding than UTF-8, and NUL. Pure.

An editor may put a byte order mark before UTF-8; it says nothing, and is left out everywhere.
"""

from __future__ import annotations

import codecs

MARK = codecs.BOM_UTF8
_OTHERS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def without_mark(content: bytes) -> bytes:
    """Returns the content of a file, or its first line, without a byte order mark of UTF-8."""
    return content.removeprefix(MARK)


def strange_bytes(content: bytes) -> tuple[int, str] | None:
    """Returns on which line, from 1 on, the content is no text in UTF-8, with what was found and
    what to do; else None.
    """
    for mark, encoding in _OTHERS:
        if content.startswith(mark):
            return 1, f"found text in {encoding}, expected UTF-8: save the file as UTF-8"
    if (nul := content.find(b"\0")) >= 0:
        count = content.count(0)
        return _line(content, nul), (
            f"found {count:,} NUL byte{'s' if count > 1 else ''}, as a machine that lost power may "
            "leave, expected text: copy the file again from where it was written, or delete them"
        )
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return _line(content, error.start), (
            f"found the byte 0x{content[error.start]:02x}, which is no UTF-8 ({error.reason}), "
            "expected text in UTF-8"
        )
    return None


def _line(content: bytes, at: int) -> int:
    return content.count(b"\n", 0, at) + 1
