"""Requests of etcd's robustness tests (`EtcdRequest`, `MaybeEtcdResponse`) → steps. Pure.

    {"Type":"range","Range":{"Start":"k","End":"","Limit":0,"Revision":0}}
    {"Type":"txn","Txn":{"Conditions":[…],"OperationsOnSuccess":[…],"OperationsOnFailure":[…]}}

A transaction is read as what it did, according to its answer; whether its conditions on revisions
held isn't judged. A transaction without an answer may have done either of its lists. A key with a
delete, or with a lease, which deletes at its end, can't be judged, since the absence of the key is
then no single value any more. The place of an answer is its revision (docs/interfaces.md, "The
claimed order").
"""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_analysis.importing.json_lines import JsonObject
from zonequake_analysis.importing.operations import FAIL, INFO, OK, Function, Notes
from zonequake_analysis.importing.steps import KeyStep, LineSteps, Unjudged

_RANGE, _PUT, _DELETE = "range-operation", "put-operation", "delete-operation"
_NO_KEY = ("leaseGrant", "leaseRevoke", "defragment", "compact")
"""Requests that name no key; keys under a lease are found by their puts."""


def steps(request: JsonObject, response: JsonObject, notes: Notes) -> LineSteps:
    """Reads what a request did. Raises Unjudged and ImportRefused."""
    kind = request.text("Type")
    if kind in _NO_KEY:
        notes.left_out[f"requests of type {kind}"] += 1
        return LineSteps(outcome=OK)
    if kind == "range":
        return _range(request.object("Range"), response, notes)
    if kind == "txn":
        return _transaction(request.object("Txn"), response, notes)
    return request.refuse("Type", f"found {kind!r}, expected range, txn, {', '.join(_NO_KEY)}")


def _range(asked: JsonObject, response: JsonObject, notes: Notes) -> LineSteps:
    if asked.text("End"):
        notes.left_out["reads of several keys"] += 1
        return LineSteps(outcome=OK)
    if asked.get("Revision"):
        notes.left_out["reads of an old revision"] += 1
        return LineSteps(outcome=OK)
    key = asked.text("Start")
    error = _error(response)
    if error is not None:
        notes.left_out["reads without an answer"] += 1
        return LineSteps(outcome=FAIL, error=error)
    value = _read(key, response.object("Range"))
    return LineSteps(
        steps=(KeyStep(Function.READ, key, value),), outcome=OK, index=_revision(response)
    )


def _transaction(asked: JsonObject, response: JsonObject, notes: Notes) -> LineSteps:
    lists = [asked.objects("OperationsOnSuccess"), asked.objects("OperationsOnFailure")]
    deleted = [key for each in lists for operation in each for key in [_deleted(operation)] if key]
    if deleted:
        raise Unjudged("Input.Txn", "found a delete, or a lease", deleted)
    error = _error(response)
    if error is not None or response.get("Txn") is None:
        writes = [step for each in lists for step in _writes(each)]
        return LineSteps(steps=writes, outcome=INFO, error=error or "no answer")
    answer = response.object("Txn")
    done = lists[1] if answer.get("Failure") is True else lists[0]
    if asked.objects("Conditions"):
        notes.said["conditions on revisions aren't judged"] += 1
    results = answer.objects("Results")
    if len(results) != len(done):
        answer.refuse("Results", f"found {len(results)}, expected {len(done)}, one an operation")
    found: list[KeyStep] = []
    for operation, result in zip(done, results, strict=True):
        if operation.text("Type") != _RANGE:
            found.extend(_writes([operation]))
            continue
        options = operation.object("Range")
        if options.text("End"):
            notes.left_out["reads of several keys"] += 1
            continue
        key = options.text("Start")
        found.append(KeyStep(Function.READ, key, _read(key, result)))
    if not found:
        notes.left_out["transactions that did nothing to a single key"] += 1
    return LineSteps(steps=found, outcome=OK, index=_revision(response) if len(done) == 1 else None)


def _deleted(operation: JsonObject) -> str:
    """Returns the key that an operation deletes, or may delete when its lease ends; empty if
    none.
    """
    kind = operation.text("Type")
    if kind == _DELETE:
        return operation.object("Delete").text("Key")
    if kind == _PUT:
        put = operation.object("Put")
        return put.text("Key") if put.get("LeaseID") else ""
    if kind != _RANGE:
        operation.refuse("Type", f"found {kind!r}, expected {_RANGE}, {_PUT} or {_DELETE}")
    return ""


def _writes(operations: Sequence[JsonObject]) -> list[KeyStep]:
    puts = [each.object("Put") for each in operations if each.text("Type") == _PUT]
    return [KeyStep(Function.WRITE, put.text("Key"), _value(put)) for put in puts]


def _read(key: str, result: JsonObject) -> object:
    pairs = result.objects("KVs")
    if not pairs:
        return None
    if len(pairs) > 1 or pairs[0].text("Key") != key:
        result.refuse("KVs", f"found another key, or several, expected {key!r} alone")
    return _value(pairs[0])


def _value(holder: JsonObject) -> object:
    """Returns a value's text, or the hash that the tests keep of a long one."""
    value = holder.object("Value")
    if value.get("Hash"):
        return f"hash {value.integer('Hash')}"
    return value.text("Value")


def _error(response: JsonObject) -> str | None:
    error = response.text("Error") or response.text("ClientError")
    return error or ("the answer was lost" if response.get("Persisted") is True else None)


def _revision(response: JsonObject) -> int | None:
    revision = response.integer("Revision") if response.has("Revision") else 0
    return revision if 0 < revision < 2**32 else None
