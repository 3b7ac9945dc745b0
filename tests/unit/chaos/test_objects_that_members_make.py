"""Objects that members make themselves, such as the ConfigMaps of their leader, go with them."""

from __future__ import annotations

import asyncio
from typing import Any

from zonequake_chaos.cleanup.undo import pay
from zonequake_chaos.record.cleanup_journal import DeleteObjects


class Members:
    """An API server with a member, which makes its leader's ConfigMap again until it has ended."""

    def __init__(self) -> None:
        self.config_maps, self.pods, self.looks = ["leader"], ["m"], 0

    async def delete_all(self, kind: str, labels: str) -> None:
        if kind == "ConfigMap":
            self.config_maps = ["leader"] if self.pods else []

    async def find(self, kind: str, labels: str) -> list[Any]:
        self.looks += kind == "Pod"
        if self.looks > 2:
            self.pods = []
        return [{"metadata": {"name": name}} for name in self.pods] if kind == "Pod" else []

    async def delete(self, kind: str, name: str, *, grace_s: int) -> None:
        """The kubelet takes its time."""


def test_what_a_member_makes_while_it_ends_is_removed() -> None:
    members: Any = Members()
    debt = DeleteObjects(labels="zonequake.io/target=t", kinds=["StatefulSet", "ConfigMap"])
    asyncio.run(pay(members, debt, node=None, shell=None))
    assert (members.pods, members.config_maps) == ([], [])
