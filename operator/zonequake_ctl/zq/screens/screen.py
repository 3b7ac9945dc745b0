"""A zone on one screen: how it is, what is wrong, its timers, nodes and partitions, what moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from zonequake_ctl.zq.screens.findings import Severity, ZoneFinding, duration_text, findings
from zonequake_ctl.zq.screens.namespace_view import NamespaceView, ZoneView
from zonequake_ctl.zq.screens.progress import catching_up_text
from zonequake_operator.nodes.data_nodes import deadline_down_ms, deadline_up_ms
from zonequake_operator.planning.conditions import Health
from zonequake_operator.resources.model import PartitionState, Timer, ZoneSpec
from zonequake_protocol.admin import ReplicaRole, Stage

MAX_MOVES = 12
"""Moving partitions that are shown one by one."""

_STYLES = {
    Severity.LOST: "bold red",
    Severity.RISK: "red",
    Severity.WARNING: "yellow",
    Severity.NOTE: "",
}
_MARKS = {
    Severity.LOST: "LOST",
    Severity.RISK: "RISK",
    Severity.WARNING: "WARN",
    Severity.NOTE: "note",
}
_STATE_STYLES = {
    PartitionState.AVAILABLE: "green",
    PartitionState.DEGRADED: "yellow",
    PartitionState.READ_ONLY: "red",
    PartitionState.UNAVAILABLE: "bold red",
}


def screen(view: NamespaceView) -> RenderableType:
    """Every zone in sight, one after another; without any, the data nodes' pods."""
    if not view.zones:
        none = Text(f"There are no zones in namespace {view.namespace}.")
        nodes = (Text.assemble(f"{node}  ", _pod(view, node)) for node in sorted(view.pods))
        return Group(none, *nodes)
    parts: list[RenderableType] = []
    for number, zone in enumerate(view.zones):
        parts += [Text("")] if number else []
        parts += zone_parts(view, zone)
    return Group(*parts)


def zone_parts(view: NamespaceView, zone: ZoneView) -> list[RenderableType]:
    """One zone, top to bottom: the verdict first."""
    found = findings(view, zone)
    parts: list[RenderableType] = [_headline(view, zone, found), _settings(zone)]
    if found:
        parts += [Text(""), *(_finding(finding) for finding in found)]
    parts += [Text(""), _section("Partitions", _partitions(zone))]
    timers = list(_timers(view, zone))
    if timers:
        parts += [_section("Timers", Group(*timers))]
    parts += [Text(""), _nodes(view, zone)]
    moving = {n: h for n, h in zone.health.items() if h.is_moving}
    if moving:
        parts += [Text(""), _moves(view, zone, moving)]
    return parts


def _section(title: str, body: RenderableType) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=10, no_wrap=True)
    grid.add_column()
    grid.add_row(Text(title, style="bold"), body)
    return grid


def _headline(view: NamespaceView, zone: ZoneView, found: list[ZoneFinding]) -> Text:
    worst = min((finding.severity for finding in found), default=Severity.NOTE)
    health = zone.health.values()
    # A leader that lost its majority notices it an election time-out later.
    served = sum(one.view.leader is not None and not one.lost for one in health)
    total = zone.spec.partitions if zone.spec is not None else len(zone.partitions)
    moving = sum(one.is_moving for one in health)
    if zone.zone.deleting:
        words = "being deleted"
    elif zone.spec is None:
        words = "its spec can't be used"
    elif not view.reports:
        words = "unknown: no data node could be asked"
    elif served == total:
        words = f"all {total} partitions are served"
    elif all(one.view.state is None for one in health):
        words = f"starting, {total} partitions are to be served"
    else:
        words = f"{total - served} of {total} partitions are NOT served"
    if moving:
        words += f", {moving} of them moving"
    if zone.spec is not None and zone.spec.paused:
        words += ", PAUSED"
    text = Text()
    text.append(f"Zone {zone.zone.name}", style="bold")
    text.append("   ")
    text.append(words, style=_STYLES[worst] or "green")
    return text


def _settings(zone: ZoneView) -> Text:
    spec = zone.spec
    if spec is None:
        return Text(str(zone.zone.spec), style="red")
    words = [
        f"{spec.partitions} partitions, {spec.replicas} replicas each",
        spec.consistency_mode.value,
        spec.storage.value,
        f"changePeers {spec.change_peers.value}",
    ]
    if spec.catch_up_bytes_per_second:
        words.append(f"catch-up at most {decimal(spec.catch_up_bytes_per_second)}/s")
    if spec.filter:
        words.append(f"nodes: {spec.filter}")
    status = zone.zone.status
    words.append(f"revision {status.revision}")
    return Text("  ".join(words), style="dim")


def _finding(finding: ZoneFinding) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=4, no_wrap=True)
    grid.add_column()
    style = _STYLES[finding.severity]
    why = [Padding(Text(each, style="dim"), (0, 0, 0, 2)) for each in finding.why]
    said = Group(Text(finding.text, style=style), *why)
    grid.add_row(Text(_MARKS[finding.severity], style=style), said)
    return grid


def _partitions(zone: ZoneView) -> Text:
    counts = Counter(health.view.state for health in zone.health.values())
    text = Text()
    for state in PartitionState:
        if counts[state]:
            text.append(f"{counts[state]} {state.value}", style=_STATE_STYLES[state])
            text.append("  ")
    total = zone.spec.partitions if zone.spec is not None else len(zone.partitions)
    fresh = total - sum(counts[state] for state in PartitionState)
    if fresh:
        text.append(f"{fresh} not started yet", style="yellow")
    return text


def _timers(view: NamespaceView, zone: ZoneView) -> Iterable[Text]:
    status, spec = zone.zone.status, zone.spec
    state = status.data_nodes
    if spec is None:
        return
    if state is not None:
        deadlines = (deadline_up_ms(state, spec.timers), deadline_down_ms(state, spec.timers))
        known = state.up is not None and state.up.nodes <= state.nodes
        verbs = ("scale-up confirms" if known else "scale-up adds", "scale-down removes")
        for timer, deadline_ms, verb in zip((state.up, state.down), deadlines, verbs, strict=True):
            if timer is not None:
                yield _timer(view, verb, timer.nodes, timer.armed_ms, deadline_ms, spec)
    if status.reset is not None:
        deadline_ms = status.reset.armed_ms + spec.reset_timeout_s * 1000
        yield _timer(
            view,
            "reset of partitions without a majority, after the loss of",
            status.reset.nodes,
            status.reset.armed_ms,
            deadline_ms,
            spec,
        )


def _timer(
    view: NamespaceView,
    verb: str,
    nodes: Iterable[str],
    armed_ms: int,
    deadline_ms: int | None,
    spec: ZoneSpec,
) -> Text:
    if deadline_ms is None:
        when = "never, its time-out is Infinite:"
    elif spec.paused:
        when = "not while the zone is paused:"
    else:
        left_s = (deadline_ms - view.now_ms) / 1000
        when = f"in {duration_text(left_s)}" if left_s > 0 else "now"
    armed = duration_text((view.now_ms - armed_ms) / 1000)
    return Text(f"{when} {verb} {', '.join(sorted(nodes))} (armed {armed} ago)")


def _nodes(view: NamespaceView, zone: ZoneView) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("NODE", "IN THE ZONE", "ANSWERS", "LEADS", "REPLICAS", "POD", "REMARKS"):
        table.add_column(column, justify="right" if column in ("LEADS", "REPLICAS") else "left")
    for node in view.nodes():
        held = zone.replicas_on(node)
        answers = node in view.reports
        leads = sum(health.view.leader == node for health in zone.health.values())
        table.add_row(
            node,
            _membership(view, zone, node),
            Text("yes") if answers else Text("no", style="red"),
            str(leads) if answers or leads else "?",
            str(len(held)) if answers else "?",
            _pod(view, node),
            _remarks(view, zone, node),
        )
    return table


def _membership(view: NamespaceView, zone: ZoneView, node: str) -> Text:
    state = zone.zone.status.data_nodes
    waiting: tuple[tuple[Timer | None, str], ...] = (
        ((state.up, "not yet"), (state.down, "left, still kept")) if state is not None else ()
    )
    for timer, words in waiting:
        came_back = timer is not None and state is not None and timer is state.up
        if timer is not None and node in timer.nodes - (zone.data_nodes if came_back else set()):
            return Text(words, style="yellow")
    if node in zone.data_nodes:
        return Text("yes") if node in view.topology.nodes else Text("left", style="red")
    if node not in view.topology.nodes:
        words = "left" if node in view.topology.departed else "has not joined"
        return Text(words, style="dim")
    return Text("no, filtered out" if zone.spec is not None and zone.spec.filter else "no")


def _pod(view: NamespaceView, node: str) -> Text:
    pod = view.pods.get(node)
    if pod is None:
        return Text("none", style="red")
    if pod.deleting:
        return Text("terminating", style="yellow")
    text = Text(
        pod.phase.lower() if pod.phase != "Running" else "ready" if pod.ready else "unready"
    )
    if not pod.ready:
        text.stylize("yellow")
    if pod.restarts:
        text.append(f", {pod.restarts} restart{'s' if pod.restarts > 1 else ''}")
    return text


def _remarks(view: NamespaceView, zone: ZoneView, node: str) -> str:
    report = view.reports.get(node)
    if report is None:
        return view.unheard.get(node, "")
    remarks = []
    if report.node.draining:
        remarks.append("is draining")
    if report.node.storage_problem:
        remarks.append(report.node.storage_problem)
    roles = Counter(replica.role for replica in zone.replicas_on(node))
    for role, words in (
        (ReplicaRole.BROKEN, "broken"),
        (ReplicaRole.WAITING, "waiting for its start order"),
    ):
        if roles[role]:
            remarks.append(f"{roles[role]} {words}")
    return "; ".join(remarks)


def _moves(view: NamespaceView, zone: ZoneView, moving: dict[int, Health]) -> Group:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("MOVING", "FROM", "TO", "STAGE", "CATCHING UP", "THEN"):
        table.add_column(column)
    for number, health in list(moving.items())[:MAX_MOVES]:
        keys = health.keys
        stable, pending, planned = keys.stable, keys.pending, keys.planned
        before = stable.nodes if stable is not None else ()
        after = pending.nodes if pending is not None else before
        leading = zone.groups[number].leading
        table.add_row(
            str(number),
            " ".join(before),
            change_text(before, after),
            _stage(view, health),
            "\n".join(catching_up_text(one) for one in (leading.progress if leading else ())),
            " ".join(planned.nodes) if planned is not None else "",
        )
    parts: list[RenderableType] = [table]
    if len(moving) > MAX_MOVES:
        parts.append(Text(f"and {len(moving) - MAX_MOVES} more", style="dim"))
    total = _total_progress(zone, moving)
    if total is not None:
        parts.append(Text(total))
    return Group(*(Padding(part, 0) for part in parts))


def change_text(before: Iterable[str], after: Iterable[str]) -> Text:
    """`+c -a`: what comes and what goes, or that the set stays."""
    added, removed = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    if not added and not removed:
        return Text("the same, with new incarnations", style="dim")
    text = Text()
    text.append(" ".join(f"+{node}" for node in added), style="green")
    text.append(" " if added and removed else "")
    text.append(" ".join(f"-{node}" for node in removed), style="red")
    return text


def _stage(view: NamespaceView, health: Health) -> str:
    pending = health.keys.pending
    kind = " (reset)" if pending is not None and pending.force else ""
    if health.view.stage is Stage.NONE:
        wanted = pending.nodes if pending is not None else ()
        away = [node for node in wanted if node not in view.reports] if view.reports else []
        if health.view.leader is None:
            return f"waits for its leader{kind}"
        return (f"waits for {', '.join(away)}" if away else "about to begin") + kind
    locked = health.keys.pending_lock is not None
    granted = ", granted" if locked and health.view.stage is Stage.CATCHING_UP else ""
    return f"{health.view.stage.value}{granted}{kind}"


def _total_progress(zone: ZoneView, moving: dict[int, Health]) -> str | None:
    running = [
        progress
        for number in moving
        if (leading := zone.groups[number].leading) is not None
        for progress in leading.progress
    ]
    total_bytes = sum(progress.bytes_total for progress in running)
    if not total_bytes:
        return None
    done_bytes = sum(progress.bytes_done for progress in running)
    done, total = decimal(done_bytes), decimal(total_bytes)
    return f"{done} of {total} are copied ({done_bytes / total_bytes:.0%})"
