"""What the waits of several faults look for: a process that is gone, and one that is back."""

from __future__ import annotations

from zonequake_chaos.faults.life import Injury, Proof, Victim
from zonequake_chaos.state import ClusterView


async def until_processes_gone(injury: Injury) -> Proof:
    """Waits until no victim's process of before lives any more; returns what was seen.

    A process is gone when another one answers in its place, or when it is silent and its pod is
    replaced, restarted or ended: silence alone may be a slow answer. `gone_ns` is the first instant
    of that silence.
    """
    silent_ns: dict[str, int] = {}
    gone_ns: dict[str, int] = {}

    def seen(view: ClusterView) -> bool:
        for victim in injury.victims:
            if _answers_as_before(view, victim):
                silent_ns.pop(victim.node, None)
            else:
                silent_ns.setdefault(victim.node, view.at_ns)
                if victim.node not in gone_ns and _ended(view, victim):
                    gone_ns[victim.node] = silent_ns[victim.node]
        return len(gone_ns) == len(injury.victims)

    await injury.world.observer.wait(
        seen,
        timeout_s=injury.timeout_s,
        waiting_for=lambda _: (
            "no proof that the process has ended at "
            + ", ".join(v.node for v in injury.victims if v.node not in gone_ns)
        ),
    )
    return {"gone_ns": gone_ns, "victims": [_described(victim) for victim in injury.victims]}


async def until_back(injury: Injury) -> None:
    """Waits until every victim answers with a new process incarnation."""

    def missing(view: ClusterView) -> list[str]:
        return [v.node for v in injury.victims if not _new_process(view, v)]

    await injury.world.observer.wait(
        lambda view: not missing(view),
        timeout_s=injury.timeout_s,
        waiting_for=lambda view: f"no new process answers at {', '.join(missing(view))}",
    )


def _answers_as_before(view: ClusterView, victim: Victim) -> bool:
    node = view.node(victim.node)
    return (
        node is not None
        and node.report is not None
        and node.process_incarnation == victim.process_incarnation
    )


def _ended(view: ClusterView, victim: Victim) -> bool:
    """Whether the API server's word, or a new process, confirms the end."""
    node = view.node(victim.node)
    return (
        node is None
        or node.report is not None
        or node.pod.uid != victim.pod_uid
        or node.pod.restarts != victim.restarts
        or node.pod.phase != "Running"
    )


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
