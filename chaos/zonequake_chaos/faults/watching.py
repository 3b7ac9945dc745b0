"""Conditions that several faults wait for: a process that is gone, and one that is back."""

from __future__ import annotations

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import Injection, Proof, Victim
from zonequake_chaos.observe.view import ClusterView


async def until_processes_gone(injection: Injection) -> Proof:
    """Waits until the old process of every victim is certainly dead.

    Certain means: SIGKILL was reported, or another process answers in its place, or it is silent
    and the kubelet reports that its container ended. Silence alone may be a slow answer, and a
    missing pod object proves nothing: a grace-0 delete removes it before the kubelet acts. Of a
    victim that was silent before, an answer in the same pod proves nothing either.

    Raises FaultFailed for a victim that was dead before: its end is no effect of the fault.
    """
    gone_ns = dict(injection.killed_ns)
    dead = [v.node for v in injection.victims if not v.runs and v.node not in gone_ns]
    if dead:
        raise FaultFailed(
            f"{injection.name}: the container of {', '.join(dead)} did not run before the fault, "
            "expected a process to end: let the victim come back first (waitRecovered), or choose "
            "another"
        )

    def seen(view: ClusterView) -> bool:
        for victim in injection.victims:
            if victim.node not in gone_ns and _ended(view, victim):
                gone_ns[victim.node] = view.at_ns
        return len(gone_ns) == len(injection.victims)

    await injection.world.observer.wait(
        seen,
        timeout_s=injection.timeout_s,
        waiting_for=lambda _: (
            "no proof that the process has ended at "
            + ", ".join(v.node for v in injection.victims if v.node not in gone_ns)
        ),
    )
    for victim in injection.victims:
        injection.world.observer.process_ended(
            victim.node, process=victim.process_incarnation, at_ns=gone_ns[victim.node]
        )
    return {"gone_ns": gone_ns, "victims": [_described(victim) for victim in injection.victims]}


async def until_back(injection: Injection) -> None:
    """Waits until every victim answers with a new process incarnation."""

    def missing(view: ClusterView) -> list[str]:
        return [v.node for v in injection.victims if not _new_process(view, v)]

    await injection.world.observer.wait(
        lambda view: not missing(view),
        timeout_s=injection.timeout_s,
        waiting_for=lambda view: f"no new process answers at {', '.join(missing(view))}",
    )


async def until_answering(injection: Injection) -> None:
    """Waits until every victim answers again, with its old process or a new one."""
    names = {victim.node for victim in injection.victims}
    await injection.world.observer.wait(
        lambda view: names <= {n.name for n in view.nodes.values() if n.answers},
        timeout_s=injection.timeout_s,
        waiting_for=lambda _: f"{', '.join(sorted(names))} must answer again",
    )


def _ended(view: ClusterView, victim: Victim) -> bool:
    node = view.node(victim.node)
    if node is None:
        return False
    if node.report is not None and victim.process_incarnation is not None:
        return node.process_incarnation != victim.process_incarnation
    if node.pod.uid != victim.pod_uid:
        return node.answers
    return node.pod.restarts != victim.restarts or not node.pod.runs


def _new_process(view: ClusterView, victim: Victim) -> bool:
    node = view.node(victim.node)
    return (
        node is not None
        and node.report is not None
        and node.process_incarnation != victim.process_incarnation
    )


def _described(victim: Victim) -> dict[str, object]:
    return {
        "node": victim.node,
        "pod_uid": victim.pod_uid,
        "process_incarnation": victim.process_incarnation,
    }
