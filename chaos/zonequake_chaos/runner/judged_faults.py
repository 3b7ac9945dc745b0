"""Records where the faults of a run landed, as the data nodes' own events show it."""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_analysis.verdict import Verdict
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.record.event_log import EventLog, RunEvent, from_store
from zonequake_chaos.runner.injection import FaultResults
from zonequake_chaos.runner.landings import Hit, Landing, Miss, judge, stopped_gracefully
from zonequake_chaos.runner.plan.run_plan import StepState
from zonequake_chaos.runner.problems import Problems
from zonequake_chaos.runner.progress import RunProgress


async def record_and_judge(
    deployment: Deployment,
    observer: Observer,
    done: FaultResults,
    *,
    since_wall_ns: int,
    log: EventLog,
    progress: RunProgress,
    problems: Problems,
) -> list[str]:
    """Writes the members' own events to `log`, and judges the faults by them; returns what could
    not be collected.
    """
    nodes = sorted(observer.view().nodes)
    recorded, missing = await deployment.recorded(nodes, since_wall_ns=since_wall_ns)
    events: list[RunEvent] = []
    for node, found in recorded.items():
        log.append_store_events(node, found)
        events += [from_store(node, event) for event in found]
    seen = [*events, *observer.stages_seen]
    judge_faults(done, seen, log=log, progress=progress, problems=problems)
    return missing


def judge_faults(
    done: FaultResults,
    events: Sequence[RunEvent],
    *,
    log: EventLog,
    progress: RunProgress,
    problems: Problems,
) -> None:
    """Judges where each fault that is bound to a stage landed, and whether each kill was one.

    Writes `fault.hit` and `fault.missed` to `log` and to the plan; a miss makes the run unknown.
    """

    def missed(fault: str, miss: Miss) -> None:
        log.emit("fault.missed", {"fault": fault, "reason": miss.reason})
        step = progress.plan.step(f"fault:{fault}")
        step.state, step.note = StepState.MISSED, miss.reason
        problems.add(Verdict.UNKNOWN, f"{fault} missed: {miss.reason}")

    for kill in done.kills:
        graceful = stopped_gracefully(kill, events)
        if graceful is not None:
            missed(kill.fault, graceful)
    for landing in done.landings:
        match judge(landing, events):
            case Hit() as hit:
                _emit_hit(landing, hit, log)
                at = f" at {hit.progress:.0%}" if hit.progress is not None else ""
                progress.plan.step(f"fault:{landing.fault}").note = (
                    f"{landing.victim} died in {hit.stage.value}{at} of "
                    f"{landing.place[0]}/{landing.place[1]}"
                )
            case Miss() as miss:
                missed(landing.fault, miss)


def _emit_hit(landing: Landing, hit: Hit, log: EventLog) -> None:
    log.emit(
        "fault.hit",
        {
            "fault": landing.fault,
            "stage": hit.stage,
            "progress": hit.progress,
            "partition": landing.place[1],
            "asked": list(landing.asked),
            "victim": landing.victim,
        },
        place=landing.place,
        node=landing.victim,
        at=landing.injected,
    )
