"""Tells unexpected errors of the event loop from ours."""

from __future__ import annotations

import traceback


def is_of_the_loop(error: BaseException) -> bool:
    """Returns whether the error is the event loop's own: no other code appears in its traceback.

    uvloop's compiled frames carry names like `uvloop/sslproto.pyx`.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and all(frame.filename.startswith("uvloop/") for frame in frames)
