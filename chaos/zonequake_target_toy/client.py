"""The client in the load pods; it may import `zonequake_load` and what the load's image has."""

from __future__ import annotations

import msgspec

from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.http_client import HttpMemberClient
from zonequake_load.targets.member_client import Attempt
from zonequake_protocol.client import Value


class ToyAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server's answer. `node`: the name of the member that gave it.

    No field has a default: an answer in another form is no success.
    """

    node: str
    index: int
    term: int
    value: Value
    applied: bool


class ToyClient(HttpMemberClient):
    """One HTTP request an operation."""

    async def examine(self, attempt: Attempt) -> None:
        await self.ask(attempt, "/status", answer=dict)

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        asked = {
            "f": operation.f,
            "key": operation.key,
            "value": operation.value,
            "expected": operation.expected,
        }
        found = await self.ask(attempt, "/execute", asked, answer=ToyAnswer)
        refused = operation.f is Function.CAS and not found.applied
        return Outcome(
            type=Type.OK,
            attempts=0,
            value=found.value if refused or operation.f is Function.READ else None,
            applied=found.applied if operation.f is Function.CAS else None,
            node=found.node,
            lineage=0,
            term=found.term,
            index=found.index,
        )


def connect(context: ClientContext) -> ToyClient:
    """Builds the client; its seeds are the members' client ports."""
    return ToyClient(context.seeds, rng=context.rng)
