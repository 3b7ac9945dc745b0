"""Names of data nodes in a scenario: pod names, also without the release, as in `default-0`."""

from __future__ import annotations

from collections.abc import Iterable


def node_named(name: str, nodes: Iterable[str]) -> str | None:
    """Returns the one of `nodes` that `name` stands for; None if there is none, or more than
    one."""
    known = list(nodes)
    if name in known:
        return name
    found = [node for node in known if node.endswith(f"-{name}")]
    return found[0] if len(found) == 1 else None
