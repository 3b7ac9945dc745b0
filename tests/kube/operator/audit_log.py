"""What an API server refused, by its audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

DECISION = "authorization.k8s.io/decision"
ACCOUNT = "system:serviceaccount:"


class Refusal(NamedTuple):
    """A call that an account had no right to, in the namespace `where` ("": none); `resource` with
    its subresource."""

    namespace: str
    account: str
    verb: str
    group: str
    resource: str
    where: str


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """All lines of `audit.log` in this folder, and of the files that it was rotated to."""
    for path in sorted(folder.glob("audit*.log")):
        with path.open() as file:
            for line in file:
                if line.endswith("\n"):  # the last one may be written just now
                    yield json.loads(line)


def refusals(folder: Path) -> set[Refusal]:
    """Calls of service accounts that RBAC refused; what admission refused is none of them."""
    return _decided(folder, "forbid")


def lacking(folder: Path) -> set[Refusal]:
    """Refusals of what their account was never allowed, where no test takes rights away.

    An API server that has just begun refuses every request until it has read its rules.
    """
    return refusals(folder) - _decided(folder, "allow")


def _decided(folder: Path, decision: str) -> set[Refusal]:
    return {
        _call(entry)
        for entry in entries(folder)
        if (entry.get("annotations") or {}).get(DECISION) == decision
        and _user(entry).startswith(ACCOUNT)
    }


def calls(folder: Path, account: str, since: datetime) -> int:
    """How many calls of this account (namespace:name) were received from then on.

    A difference of two counts would be wrong: the server removes its oldest files.
    """
    return sum(
        _user(entry) == ACCOUNT + account
        and datetime.fromisoformat(entry["requestReceivedTimestamp"]) >= since
        for entry in entries(folder)
    )


def _user(entry: dict[str, Any]) -> str:
    """Empty where the server didn't come to know who asked."""
    return str(entry["user"].get("username", ""))


def _call(entry: dict[str, Any]) -> Refusal:
    namespace, account = _user(entry).removeprefix(ACCOUNT).split(":")
    about = entry.get("objectRef") or {}
    parts = (about.get("resource", entry["requestURI"]), about.get("subresource", ""))
    return Refusal(
        namespace=namespace,
        account=account,
        verb=entry["verb"],
        group=about.get("apiGroup", ""),
        resource="/".join(filter(None, parts)),
        where=about.get("namespace", ""),
    )
