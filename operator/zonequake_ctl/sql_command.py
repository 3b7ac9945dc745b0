"""`zonequake sql`: reads the resources, carries out what the statements come to, prints.

All statements are understood and planned before the first one is carried out, so that a slip in the
last one leaves nothing half done. A refusal by the API server, or a change by another client
meanwhile, may still end a batch in its middle; the screen then shows what was done before.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

from zonequake_ctl.context import NoCluster, ReleasePlace
from zonequake_ctl.options import UserOptions
from zonequake_ctl.sql.parser import parse
from zonequake_ctl.sql.statements import Statement
from zonequake_ctl.sql.translate import (
    TABLE,
    ZONE,
    Catalog,
    Create,
    Delete,
    ResourceChange,
    Translation,
    Update,
    translate,
)
from zonequake_ctl.sql.views import Rows
from zonequake_kube.client import Kube
from zonequake_kube.errors import Conflict, NotFound, UsageError, unreadable
from zonequake_kube.options import expanded

ATTEMPTS = 3
"""Attempts at a change that another client's write kept from being stored."""
DROP_PATIENCE_S = 60.0
"""How long DROP ZONE waits for its replicas to be erased; the operator allows silent nodes 30 s."""
DROP_LOOK_S = 0.5

_MARK = "\0"
"""Stands before statements that begin like an option, until they are read."""


class _Command(TyperCommand):
    """Takes statements that begin with a comment (`-- …`) as statements."""

    def parse_args(
        self,
        ctx: Any,  # noqa: ANN401 - typer keeps this class to itself
        args: list[str],
    ) -> list[str]:
        """Options are words: what begins like one and has blanks in it is a comment."""
        return super().parse_args(
            ctx, [_MARK + each if _is_comment(each) else each for each in args]
        )


def _is_comment(argument: str) -> bool:
    name = argument.partition("=")[0]
    return argument.startswith("--") and ("\n" in argument or any(map(str.isspace, name)))


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, soft_wrap=True)
notes = Console(stderr=True, highlight=False, soft_wrap=True)


@app.command(cls=_Command, epilog="Example: zonequake sql 'DESCRIBE ZONE orders'")
@expanded
def sql(
    statements: Annotated[str | None, typer.Argument(help="Statements, separated by ';'.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read statements from a file; - is stdin.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the resources; change nothing."),
    ] = False,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="With --dry-run: contact no cluster; assume no zones and tables exist.",
        ),
    ] = False,
    *,
    where: UserOptions,
) -> None:
    """Create, alter, drop and describe zones and tables in SQL (docs/sql.md)."""
    if offline and not dry_run:
        raise UsageError("--offline changes nothing: expected --dry-run beside it")
    text = _text(statements, file)
    parsed = parse(text)
    if offline:
        _print_plan(parsed, Catalog(offline=True), text, where.namespace)
        return
    try:
        place = where.place()
    except NoCluster:
        if not dry_run:
            raise
        notes.print("no cluster: as if there were no zones and tables yet")
        _print_plan(parsed, Catalog(offline=True), text, where.namespace)
        return
    asyncio.run(_at(place, parsed, text, dry_run=dry_run))


def _text(statements: str | None, file: Path | None) -> str:
    if statements is not None and file is not None:
        raise UsageError("found statements and --file, expected one of them: leave out the other")
    if statements is None and file is None:
        raise UsageError("expected statements, or a file with them: zonequake sql 'SELECT …'")
    if statements is not None:
        return statements.removeprefix(_MARK)
    try:
        return sys.stdin.read() if str(file) == "-" else Path(str(file)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} can't be read: {unreadable(error)}, expected a file with SQL statements"
        ) from error


async def _at(place: ReleasePlace, parsed: list[Statement], text: str, *, dry_run: bool) -> None:
    async with await place.connect() as kube:
        world = await _read(kube)
        if dry_run:
            _print_plan(parsed, world, text, place.namespace)
            return
        for statement in parsed:  # refuses before anything is changed
            world = world.after(translate(statement, world, text).changes)
        for statement in parsed:
            _print(await _carry_out(kube, statement, text))


async def _carry_out(kube: Kube, statement: Statement, text: str) -> Translation:
    attempt = 1
    while True:
        outcome = translate(statement, await _read(kube), text)
        try:
            done = [await _change(kube, change) for change in outcome.changes]
        except Conflict as error:
            if error.status != 409 or attempt == ATTEMPTS:
                raise
            attempt += 1
        else:
            return outcome if all(done) else replace(outcome, notice=_unfinished(outcome))


def _unfinished(outcome: Translation) -> str:
    names = ", ".join(change.name for change in outcome.changes)
    return (
        f"{names} is being dropped, and still there after {DROP_PATIENCE_S:.0f} s: does an "
        "operator run? See docs/operator.md, Deleting a zone"
    )


async def _read(kube: Kube) -> Catalog:
    try:
        zones, tables, topologies = await asyncio.gather(
            kube.find(ZONE), kube.find(TABLE), kube.find("LogicalTopology")
        )
    except NotFound as error:
        raise UsageError(
            f"the cluster has no zones and tables ({error}); install the chart first: "
            "zonequake install"
        ) from error
    return Catalog(
        zones={zone["metadata"]["name"]: zone for zone in zones},
        tables={table["metadata"]["name"]: table for table in tables},
        topology=topologies[0] if topologies else None,
    )


async def _change(kube: Kube, change: ResourceChange) -> bool:
    """Carries out one change; returns whether it is complete."""
    match change:
        case Create():
            await kube.create(dict(change.resource))
        case Update():
            version = change.resource["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": dict(change.patch)}
            await kube.patch(change.kind, change.name, patch)
        case Delete():
            await kube.delete(change.kind, change.name, uid=change.uid)
            return await _gone(kube, change)
    return True


async def _gone(kube: Kube, change: Delete) -> bool:
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + DROP_PATIENCE_S
    while any(one["metadata"]["uid"] == change.uid for one in await kube.find(change.kind)):
        if loop.time() > give_up_s:
            return False
        await asyncio.sleep(DROP_LOOK_S)
    return True


# --------------------------------------------------------------------------------------- printing


def _print_plan(parsed: list[Statement], world: Catalog, text: str, namespace: str) -> None:
    """Prints the resources as YAML documents, and what is no resource as comments between them."""
    shown = ""
    for statement in parsed:
        outcome = translate(statement, world, text)
        world = world.after(outcome.changes)
        shown += "".join(_as_yaml(change, namespace) for change in outcome.changes)
        comment = "" if outcome.rows is None else as_text(outcome.rows)
        if not outcome.changes and outcome.notice:
            comment += outcome.notice + "\n"
        shown += "".join(f"# {line}\n" for line in comment.splitlines())
    console.print(Text(shown), end="")


def _as_yaml(change: ResourceChange, namespace: str) -> str:
    if isinstance(change, Delete):
        return f"---\n# deleted: {change.kind} {change.name}\n"
    meta = change.resource["metadata"]
    shown: dict[str, Any] = {
        "apiVersion": change.resource["apiVersion"],
        "kind": change.kind,
        "metadata": {"name": change.name, "namespace": namespace}
        | {key: meta[key] for key in ("annotations", "labels") if meta.get(key)},
        "spec": change.resource["spec"],
    }
    return "---\n" + yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)


def _print(outcome: Translation) -> None:
    if outcome.rows is not None:
        width = console.width if console.is_terminal else None
        console.print(Text(as_text(outcome.rows, width=width)), end="")
    if outcome.notice:
        notes.print(Text(outcome.notice))


def as_text(found: Rows, *, width: int | None = None) -> str:
    """Columns as wide as their widest text, two blanks between them; nothing is cut.

    Where that is wider than `width`, the terminal's, each row becomes a block of lines instead.
    """
    wide = _aligned([found.columns, *found.rows])
    if width is None or not found.rows or max(map(len, wide)) <= width or len(found.columns) == 2:
        return "".join(line + "\n" for line in wide)
    blocks = (_aligned(list(zip(found.columns, row, strict=True))) for row in found.rows)
    return "\n".join("".join(line + "\n" for line in block) for block in blocks)


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
