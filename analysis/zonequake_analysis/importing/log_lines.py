"""Lines of Jepsen's log, as old tests kept them, as EDN entries. Pure.

    INFO  jepsen.util - 0 :invoke :write 4        {:process 0, :type :invoke, :f :write, :value 4}

Other lines of such a log become blank, so that line numbers stay those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_LOGGED = re.compile(
    r"INFO\s+jepsen\.\w+ - (?P<process>\d+|:nemesis)\s+(?P<type>:\w+)\s+(?P<f>:[\w-]+)"
    r"\s+(?P<value>\[[^\]]*\]|\S+)"
)
_LOG = re.compile(r"(?:INFO|WARN|DEBUG|ERROR)\s+jepsen")
_TIMED_OUT = (":timed-out", ":timeout")


def without_prefix(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines of a log as EDN entries; those of any other text unchanged."""
    is_log: bool | None = None
    for line in lines:
        if is_log is None and line.strip():
            is_log = _LOG.match(line) is not None
        if not is_log:
            yield line
            continue
        found = _LOGGED.match(line)
        if found is None:
            yield "\n"
            continue
        value = found["value"]
        told = f":error {value}" if value.startswith(_TIMED_OUT) else f":value {value}"
        yield (f"{{:process {found['process']}, :type {found['type']}, :f {found['f']}, {told}}}\n")
