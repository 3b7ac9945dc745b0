"""`zonequake` with a fault planted into it, that tests of its cleaning must find.

python -m tests.cluster.killed_harness.planted WHAT
    forgetful STEPS_FILE PATTERN NUMBER WAY -- run SCENARIO ...
    blind clean RUN
    unpaying clean RUN
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.cluster.killed_harness import mortal
from zonequake_chaos.cleanup import leftovers, undo
from zonequake_chaos.cleanup.prove import clean_up
from zonequake_chaos.commands.cli import main
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.node_access.shell import PodOnNode
from zonequake_chaos.record.cleanup_journal import CleanupJournal


def forgetful() -> None:
    """Faults are done without a record of what will have to be undone."""
    journal: Any = CleanupJournal
    owe = journal.owe

    def forget(self: CleanupJournal, debt: Any) -> int:
        return 0 if "pod" in debt.__struct_fields__ else int(owe(self, debt))

    journal.owe = forget


def blind() -> None:
    """Only debts are paid: what is there isn't looked at."""
    leftovers.LOOKS.clear()


def unpaying() -> None:
    """Nothing that was done to a pod from its node is undone."""

    async def fail(_: object, pod: PodOnNode, fault: str = "") -> None:
        raise FaultFailed(f"pod {pod.name} can't be entered")

    vars(undo)["undo_links"] = vars(leftovers)["heal"] = fail
    cleaner: Any = clean_up
    cleaner.__kwdefaults__["within_s"] = 3.0  # it would come to the same in the end


if __name__ == "__main__":
    what, rest = sys.argv[1], sys.argv[2:]
    {"forgetful": forgetful, "blind": blind, "unpaying": unpaying}[what]()
    if what == "forgetful":
        own, rest = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
        mortal.install(mortal.Death(Path(own[0]), (own[1], int(own[2]), own[3])))
    sys.argv = ["zonequake", *rest]
    main()
