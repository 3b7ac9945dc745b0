"""The client in the load pods."""

from __future__ import annotations

from typing import Any

from zonequake_load.errors import AnsweredError
from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.http_client import HttpMemberClient
from zonequake_load.targets.member_client import Attempt

_Said = dict[str, Any]


class PysyncobjClient(HttpMemberClient):
    """One HTTP request an operation; bounded reads are of the member's own state."""

    async def examine(self, attempt: Attempt) -> None:
        if not (await self.ask(attempt, "/status", answer=_Said))["knows_leader"]:
            raise AnsweredError(f"{attempt.address} knows no leader", certain=True)

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        asked = {
            "f": operation.f,
            "key": operation.key,
            "value": operation.value,
            "expected": operation.expected,
            "local": operation.bounded,
        }
        found = await self.ask(attempt, "/execute", asked, answer=_Said)
        if "error" in found:
            raise AnsweredError(found["error"], certain=found["certain"])
        refused = operation.f is Function.CAS and not found["applied"]
        return Outcome(
            type=Type.OK,
            attempts=0,
            value=found["value"] if refused or operation.f is Function.READ else None,
            applied=found["applied"] if operation.f is Function.CAS else None,
            node=found["node"],
            **({} if operation.bounded else {"lineage": 0, "term": 1, "index": found["index"]}),
        )


def connect(context: ClientContext) -> PysyncobjClient:
    """Builds the client; its seeds are the members' client ports."""
    return PysyncobjClient(context.seeds, rng=context.rng)
