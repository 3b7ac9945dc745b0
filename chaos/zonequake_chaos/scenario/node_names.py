"""Names of data nodes in a scenario: pod names, also without the release, as in `default-0`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def node_named(name: str, nodes: Iterable[str]) -> str | None:
    """Returns the one of `nodes` that `name` stands for; None if there is none, or more than
    one."""
    known = list(nodes)
    if name in known:
        return name
    found = [node for node in known if node.endswith(f"-{name}")]
    return found[0] if len(found) == 1 else None


def node_of_pools(name: str, sizes: Mapping[str, int]) -> str | None:
    """Returns the `pool-ordinal` that `name` stands for; None if no pool has it.

    `sizes`: the number of nodes by pool. Where the names of two pools end alike, the longer is
    meant.
    """
    known = (f"{pool}-{ordinal}" for pool, size in sizes.items() for ordinal in range(size))
    meant = (node for node in known if f"-{name}".endswith(f"-{node}"))
    return max(meant, key=len, default=None)
