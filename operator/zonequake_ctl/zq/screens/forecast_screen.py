"""The screen of `kubectl zq plan`: the partitions that would move, their targets, and the amount of
data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from zonequake_ctl.zq.screens.findings import duration_text, few_replicas_text, partitions_text
from zonequake_ctl.zq.screens.forecast import Forecast, ForecastStep, Move
from zonequake_ctl.zq.screens.screen import change_text
from zonequake_kube.objects import Json
from zonequake_operator.groups.reports import is_majority
from zonequake_operator.resources.model import ZoneSpec
from zonequake_protocol.admin import ReplicaSize

MAX_WAITS = 5
"""Partitions that can't be decided yet and are named one by one."""

MAX_ROWS = 12
"""Partitions that are shown one by one, unless all are asked for."""

Sizes = Mapping[int, ReplicaSize | None]


def forecast_screen(
    name: str,
    *,
    changes: Iterable[str],
    spec: ZoneSpec,
    foretold: Forecast,
    sizes: Sizes,
    show_all: bool,
    lost: Sequence[int] = (),
) -> RenderableType:
    """Renders the whole answer. `sizes`: what a copy takes, by partition; None or absent: not
    known. `lost`: partitions without their majority now.
    """
    shown = [Text(f"  {change}", style="bold") for change in changes]
    title = "if this were applied (nothing is)" if shown else "as its spec is now"
    parts: list[RenderableType] = [Text(f"Zone {name}, {title}:"), *shown]
    if spec.replicas > 1 and not is_majority(spec.replicas - 1, spec.replicas):
        parts.append(Text(f"{few_replicas_text(spec.replicas)}.", style="yellow"))
    if spec.paused:
        parts.append(
            Text("The zone is paused: all below happens when it is resumed.", style="yellow")
        )
    if lost:
        which = partitions_text(lost)
        verb = "has lost its" if len(lost) == 1 else "have lost their"
        parts.append(
            Text(
                f"{which} {verb} majority: nothing moves there before it is served again "
                f"(kubectl zq status {name} shows what that waits for)",
                style="red",
            )
        )
    steps = foretold.steps
    for step in steps:
        parts += [Text(""), *_step(step, spec, sizes, show_all=show_all)]
    if not any(step.moves or step.created for step in steps):
        waits = any(step.waits for step in steps)
        parts += [
            Text(""),
            Text("Nothing else would move.", style="yellow")
            if waits
            else Text("No partition would move.", style="green"),
        ]
    if foretold.unseen:
        nodes = ", ".join(sorted({node for node, _ in foretold.unseen}))
        parts += [
            Text(""),
            Text(
                f"Replicas on {nodes} wait for their start order and couldn't be inspected: the "
                "moves of their partitions depend on their data, and aren't forecast.",
                style="yellow",
            ),
        ]
    return Group(*parts)


def spec_changes(before: Json, after: Json) -> list[str]:
    """`replicas: 3 -> 5`, for each field that differs; an absent field is shown as a dash."""

    if not before:
        return ["new: " + ", ".join(f"{key} {after[key]}" for key in sorted(after))]

    def shown(spec: Json, key: str) -> str:
        return str(spec.get(key, "-"))

    return [
        f"{key}: {shown(before, key)} -> {shown(after, key)}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _step(
    step: ForecastStep, spec: ZoneSpec, sizes: Sizes, *, show_all: bool
) -> Iterable[RenderableType]:
    when = f"In {duration_text(step.after_ms / 1000)}" if step.after_ms else "At once"
    nodes = ", ".join(step.data_nodes) or "none"
    text = Text()
    text.append(when, style="bold")
    text.append(f"  data nodes: {nodes}")
    yield text
    if step.problem:
        yield Text(step.problem, style="red")
    if not step.data_nodes:
        match = f" that match {spec.filter}" if spec.filter else ""
        yield Text(
            f"There would be no data nodes{match}: partitions stay where they are, and new ones "
            "don't begin",
            style="yellow",
        )
    elif len(step.data_nodes) < spec.replicas:
        yield Text(
            f"{spec.replicas} replicas are wanted, but there are {len(step.data_nodes)} data "
            "nodes: each partition gets as many replicas as there are nodes",
            style="yellow",
        )
    wanted = {node for move in step.moves for node in move.copies}
    if wanted & set(step.away):
        yield Text(
            f"Copies to {', '.join(sorted(wanted & set(step.away)))} wait: not there now",
            style="yellow",
        )
    if step.created:
        yield from _created(step.created)
    if step.waits:
        more = len(step.waits) - MAX_WAITS
        yield Text("\n".join(step.waits[:MAX_WAITS]), style="yellow")
        if more > 0:
            yield Text(f"and {more} more partitions wait", style="yellow")
    yield from _resets(step.moves)
    moves = tuple(move for move in step.moves if move.reset_to is None)
    if moves:
        yield from _moves(moves, spec, sizes, show_all=show_all)


def _created(created: Mapping[int, tuple[str, ...]]) -> Iterable[RenderableType]:
    counts = Counter(node for nodes in created.values() for node in nodes)
    yield Text(
        f"{len(created)} partitions begin, with {sum(counts.values())} replicas: "
        + ", ".join(f"{count} on {node}" for node, count in sorted(counts.items()))
    )


def _resets(moves: Iterable[Move]) -> Iterable[RenderableType]:
    alike: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for move in moves:
        if move.reset_to is not None:
            key = (move.reset_to, move.before, move.after)
            alike.setdefault(key, []).append(move.partition)
    for (node, before, after), numbers in alike.items():
        which = partitions_text(numbers)
        verb = "goes" if len(numbers) == 1 else "go"
        then = [other for other in after if other != node]
        yield Text(
            f"RESET {which} of {', '.join(before)}: {verb} on from {node} alone, and what that "
            "lacks is given up"
            + (
                f"; then {', '.join(then)} {'copies' if len(then) == 1 else 'copy'} from it"
                if then
                else ""
            ),
            style="bold red",
        )


def _moves(
    moves: tuple[Move, ...], spec: ZoneSpec, sizes: Sizes, *, show_all: bool
) -> Iterable[RenderableType]:
    yield Text(_summary(moves, spec, sizes))
    waiting = sum(move.waits for move in moves)
    if waiting:
        yield Text(f"{waiting} of them wait until a move that runs already is over")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("PARTITION", "FROM", "CHANGE", "BYTES"):
        table.add_column(column, justify="right" if column == "BYTES" else "left")
    shown = moves if show_all else moves[:MAX_ROWS]
    for move in shown:
        table.add_row(
            str(move.partition),
            " ".join(move.before),
            change_text(move.before, move.after),
            _size_text(move, sizes),
        )
    yield table
    if len(shown) < len(moves):
        yield Text(f"and {len(moves) - len(shown)} more (--all)", style="dim")
    yield Text("")
    yield _by_node(moves, sizes)


def _summary(moves: tuple[Move, ...], spec: ZoneSpec, sizes: Sizes) -> str:
    copies = sum(len(move.copies) for move in moves)
    words = [
        f"{len(moves)} of {spec.partitions} partitions would move"
        if copies
        else f"{len(moves)} of {spec.partitions} partitions would give up replicas, nothing moves"
    ]
    if not copies:
        return words[0]
    known = {move.partition: size for move in moves if (size := sizes.get(move.partition))}
    total_bytes = sum(
        known[move.partition].copy_bytes * len(move.copies)
        for move in moves
        if move.partition in known
    )
    words.append(f"{copies} {'copy' if copies == 1 else 'copies'}, {decimal(total_bytes)}")
    unknown = sum(move.partition not in known for move in moves if move.copies)
    if unknown:
        noun = "partition" if unknown == 1 else "partitions"
        words.append(f"without {unknown} {noun} of unknown size")
    rate = spec.catch_up_bytes_per_second
    if rate and known:
        # A leader feeds all its newcomers out of one rate, and leaders work beside each other.
        longest_s = max(
            known[m.partition].copy_bytes * len(m.copies) / rate
            for m in moves
            if m.partition in known
        )
        words.append(
            f"at {decimal(rate)}/s for each partition not before {duration_text(longest_s)}"
        )
    return ", ".join(words)


def _size_text(move: Move, sizes: Sizes) -> str:
    if not move.copies:
        return "0"
    size = sizes.get(move.partition)
    return decimal(size.copy_bytes * len(move.copies)) if size is not None else "unknown"


def _by_node(moves: tuple[Move, ...], sizes: Sizes) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("NODE", "GETS", "BYTES", "GIVES UP"):
        table.add_column(column, justify="left" if column == "NODE" else "right")
    gets, erases = Counter[str](), Counter[str]()
    gets_bytes = Counter[str]()
    for move in moves:
        size = sizes.get(move.partition)
        gets.update(move.copies)
        erases.update(move.erased)
        for node in move.copies:
            gets_bytes[node] += size.copy_bytes if size is not None else 0
    for node in sorted(gets.keys() | erases.keys()):
        table.add_row(node, str(gets[node]), decimal(gets_bytes[node]), str(erases[node]))
    return table
