"""The operator with a planted fault that only a kill shows: it goes on only with what it began.

    forgetful_operator.py changes    sends changePeers and grants only for a pending it wrote itself
    forgetful_operator.py stops      stops redundant replicas only after a stable switch of its own

So are operators built that act on events ("pending was written") and not on what is stored.
"""

from __future__ import annotations

import sys
from typing import Any

from zonequake_operator import orders, rebalance
from zonequake_operator.__main__ import main
from zonequake_operator.groups import Group
from zonequake_operator.model import PartitionKeys


def forget(decision: str, consequence: str) -> None:
    """Let `orders.<consequence>` follow only from `rebalance.<decision>` of this process."""
    decided: set[str] = set()
    decide, follow = getattr(rebalance, decision), getattr(orders, consequence)

    def deciding(*arguments: Any) -> PartitionKeys:
        decided.update(a.name for a in arguments if isinstance(a, Group))
        keys: PartitionKeys = decide(*arguments)
        return keys

    def following(keys: PartitionKeys, group: Group, *rest: Any) -> list[Any]:
        told: list[Any] = follow(keys, group, *rest)
        return told if group.name in decided else []

    setattr(rebalance, decision, deciding)
    setattr(orders, consequence, following)


FAULTS = {
    "changes": ("_set_pending", "_changes"),
    "stops": ("_stable_switch", "_stops"),
}

if __name__ == "__main__":
    forget(*FAULTS[sys.argv[1]])
    main()
