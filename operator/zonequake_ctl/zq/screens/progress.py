"""Says in words how far a catch-up is."""

from __future__ import annotations

from rich.filesize import decimal

from zonequake_protocol.admin import CatchUpProgress


def catching_up_text(progress: CatchUpProgress) -> str:
    """`zq-default-3 43 %, 12.0 MB of 28.1 MB of the log`.

    Both sizes are those of the transfer that runs; bytes that were sent twice count once.
    """
    text = f"{progress.peer.node} {progress.fraction:.0%}"
    if not progress.bytes_total:
        return text
    done, total = decimal(progress.bytes_done), decimal(progress.bytes_total)
    return f"{text}, {done} of {total} of the {progress.by}"
