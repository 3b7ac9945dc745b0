"""`zonequake kv`: get, put, cas and append keys, one or several at once, for a first touch.

With `--address` the command speaks to data nodes directly. Otherwise it goes through the
Kubernetes API: one port-forward for each data node it needs (first any one, then the key's leader),
held by this process and ended with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from zonequake_ctl.kv.credentials import own_credentials
from zonequake_ctl.kv.words import FORMS, transaction_of, value_of
from zonequake_ctl.options import ReleaseOptions
from zonequake_kube.errors import ClusterError, UsageError
from zonequake_kube.options import expanded
from zonequake_load.client.client import Client
from zonequake_load.client.connection import (
    Connections,
    dialer,
    split_address,
)
from zonequake_load.errors import LoadError
from zonequake_load.operation import (
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)

ABSENT_EXIT_CODE = 3
"""The key is absent, or holds something else than a cas expected."""

_ATTEMPT_NS = 2_000_000_000

app = typer.Typer(
    add_completion=False,
    name="kv",
    help="Read and write keys, one or several in a transaction.",
    epilog="Example: zonequake kv get k1 --zone z1",
    no_args_is_help=True,
)


Key = Annotated[str, typer.Argument(help="Key; its hash decides the partition.")]
ZoneName = Annotated[str, typer.Option("--zone", "-z", help="Name of the DistributionZone.")]
Address = Annotated[
    list[str] | None,
    typer.Option(
        "--address", help="host:port of a data node. Default: through the Kubernetes API."
    ),
]


def _timeout(given_s: float) -> float:
    """Raises UsageError for a time in which nothing can be done."""
    if not 0 < given_s < math.inf:
        raise UsageError(f"--timeout: found {given_s:g}, expected a number of seconds above 0")
    return given_s


Timeout = Annotated[
    float,
    typer.Option("--timeout", help="Total time for all attempts, in seconds.", callback=_timeout),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneOptions(ReleaseOptions):
    """Names a zone of a release, or of the data nodes at `address`."""

    zone: ZoneName
    address: Address = None
    timeout: Timeout = 10.0


@app.command(epilog="Example: zonequake kv get colour --zone orders")
@expanded
def get(
    key: Key,
    where: ZoneOptions,
    bounded: Annotated[
        bool, typer.Option("--bounded", help="Read any replica's local state; may be stale.")
    ] = False,
    max_staleness_ms: Annotated[
        int,
        typer.Option(min=0, help="With --bounded: maximum staleness in ms; 0: unlimited."),
    ] = 0,
) -> None:
    """Print a register's value or a list's elements; exit code 3 if the key is absent."""
    operation = Operation(
        f=Function.READ, key=key, bounded=bounded, max_staleness_ms=max_staleness_ms
    )
    outcome = _run(operation, where)
    if outcome.value is None:
        _say(f"{key} is absent", outcome)
        raise typer.Exit(ABSENT_EXIT_CODE)
    value = outcome.value
    typer.echo("\n".join(map(str, value)) if isinstance(value, list) else value)
    _say("read", outcome)


@app.command(epilog="Example: zonequake kv put colour red --zone orders")
@expanded
def put(
    key: Key,
    value: Annotated[
        str, typer.Argument(help="Value; digits are stored as a number, anything else as text.")
    ],
    where: ZoneOptions,
) -> None:
    """Set a register."""
    operation = Operation(f=Function.WRITE, key=key, value=value_of(value))
    _say("written", _run(operation, where))


@app.command(epilog="Example: zonequake kv cas colour red blue --zone orders")
@expanded
def cas(
    key: Key,
    expected: Annotated[str, typer.Argument(help="Expected value; '' means absent.")],
    value: Annotated[str, typer.Argument(help="New value.")],
    where: ZoneOptions,
) -> None:
    """Set a register if it holds `expected`; exit code 3 if it does not."""
    operation = Operation(
        f=Function.CAS,
        key=key,
        value=value_of(value),
        expected=value_of(expected) if expected else None,
    )
    outcome = _run(operation, where)
    if not outcome.applied:
        found = "nothing" if outcome.value is None else repr(outcome.value)
        _say(f"not written: found {found}, expected {expected!r}", outcome)
        raise typer.Exit(ABSENT_EXIT_CODE)
    _say("written", outcome)


@app.command(epilog="Example: zonequake kv append events 7 --zone orders")
@expanded
def append(
    key: Key,
    value: Annotated[int, typer.Argument(help="Element to append.")],
    where: ZoneOptions,
) -> None:
    """Append an element to a list."""
    operation = Operation(f=Function.APPEND, key=key, value=value)
    _say("appended", _run(operation, where))


@app.command(epilog="Example: zonequake kv txn 'get colour' 'put size 3' --zone orders")
@expanded
def txn(
    steps: Annotated[list[str], typer.Argument(metavar="STEP...", help=f"Each of: {FORMS}.")],
    where: ZoneOptions,
) -> None:
    """Run several steps as one transaction, on keys of one or several partitions.

    Prints what each get found. Exit code 3 if a cas found another value: then nothing is done.
    """
    transaction = transaction_of(steps)
    outcome = _run(transaction, where)
    if not outcome.applied:
        found = "nothing" if outcome.value is None else repr(outcome.value)
        _say(f"not carried out: a cas found {found}", outcome)
        raise typer.Exit(ABSENT_EXIT_CODE)
    for step, result in zip(transaction.steps, outcome.results or (), strict=True):
        if step.f is Function.READ:
            typer.echo(f"{step.key}: {'absent' if result is None else result}")
    _say("carried out", outcome)


def _say(what: str, outcome: Outcome) -> None:
    place = f"{outcome.node}, term {outcome.term}, index {outcome.index}"
    typer.echo(f"{what} ({place})", err=True)


def _run(operation: Operation | TransactionOperation, where: ZoneOptions) -> Outcome:
    """Carry one operation out. Raises UsageError, ClusterError."""
    try:
        outcome = asyncio.run(_execute(operation, where))
    except LoadError as error:
        raise ClusterError(str(error)) from error
    match outcome.type:
        case Type.OK:
            return outcome
        case Type.FAIL:
            raise ClusterError(f"certainly not done, after {where.timeout:g} s: {outcome.error}")
        case _:
            raise ClusterError(
                f"it is not known whether this was done or will be: {outcome.error}; read the "
                "keys to see"
            )


async def _execute(operation: Operation | TransactionOperation, where: ZoneOptions) -> Outcome:
    deadline_ns = time.monotonic_ns() + int(where.timeout * 1e9)
    rng = random.Random()  # noqa: S311 - jitter
    with contextlib.ExitStack() as stack:
        if where.address:
            for address in where.address:
                _check(address)
            connections = Connections(dialer(own_credentials(os.environ)))
            client = Client(where.zone, where.address, rng=rng, connections=connections)
        else:
            # Only here: they take longer to load than an operation takes.
            from zonequake_ctl.kv.credentials import release_credentials
            from zonequake_ctl.kv.forwards import PortForwards

            place = where.place()
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="zonequake-tls-"))
            credentials = await release_credentials(place, Path(folder))
            forwards = await asyncio.to_thread(PortForwards.to_release, place, credentials)
            connections = Connections(forwards.dial)
            client = Client(where.zone, forwards.addresses, rng=rng, connections=connections)
            forwards.name_of = client.table.name_of
        return await _executed(client, operation, where.timeout, deadline_ns)


async def _executed(
    client: Client, operation: Operation | TransactionOperation, timeout_s: float, deadline_ns: int
) -> Outcome:
    await client.open(timeout_s)
    try:
        limits = Limits(deadline_ns=deadline_ns, attempt_ns=_ATTEMPT_NS, retry=True)
        return await client.execute(operation, limits, OnceId(f"kv-{secrets.token_hex(8)}", 1))
    finally:
        await client.close()


def _check(address: str) -> None:
    try:
        split_address(address)
    except ValueError as error:
        raise UsageError(f"{error}, for instance 127.0.0.1:7002") from error
