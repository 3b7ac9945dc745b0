"""`python -m zonequake_agent VERB …` prints one answer as JSON on standard output.

Exit code 3: no process of the pod is running on this node. 1: the verb failed, and standard error
says why.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from zonequake_agent import break_links, leftovers, pods, probe, wall_clock
from zonequake_agent.delayer import delay
from zonequake_agent.disk import filling, mounts, power, power_plan, tampering
from zonequake_agent.disk.tampering import FAILING_SYNCS, SYNCS, WRITES, TamperingKind
from zonequake_agent.link_fault import LinkFault, OrderRefused
from zonequake_agent.queue_socket import QueueRefused
from zonequake_agent.watch import watch

ABSENT = 3
_CALLS = {"syncs": SYNCS, "writes": WRITES}
_REFUSED = (
    OrderRefused,
    QueueRefused,
    break_links.LinkTrouble,
    tampering.NotTraced,
    tampering.NoSuchFile,
    mounts.SharedVolume,
    power_plan.Unsuited,
    power.NotMounted,
    wall_clock.ClockUnreachable,
    OSError,
)


def main(words: Sequence[str]) -> int:
    asked = _parser().parse_args(words)
    try:
        _do(asked)
    except pods.PodAbsent as error:
        sys.stderr.write(f"{error}\n")
        return ABSENT
    except _REFUSED as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zonequake_agent")
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_pods = {
        "apply": "Apply a link fault.",
        "undo": "Undo one link fault, or all of them.",
        "counts": "Print the packet counters of a link fault's rules.",
        "holds": "Print whether a link fault is active and not expired.",
        "leftovers": "List everything that faults left.",
        "heal": "Undo everything that faults left.",
        "probe": "Measure round trips from inside the pod to a port, in milliseconds.",
        "clock": "Print the offset of each process's wall clock, in seconds.",
        "step-clock": "Step the processes' wall clock by seconds; 0 restores the machine's.",
        "fail-syncs": "Make the pod's fsync, fdatasync and msync fail.",
        "failing-syncs": "Print how many syncs have failed so far.",
        "let-syncs-pass": "Stop making syncs fail.",
        "slow-disk": "Delay the pod's syncs or writes.",
        "slowed-disk": "Print how many calls were delayed so far.",
        "quicken-disk": "Stop delaying calls.",
        "volume": "Print what is needed to mount one of the pod's volumes again.",
        "mark-power": "Write and sync a marker into the volume, before its power is lost.",
        "lose-power": "Kill what uses the volumes, drop what wasn't synced, mount them again.",
        "restore-power": "Mount the volume again where it is missing, and delete its marker.",
        "fill": "Fill one of the pod's volumes.",
        "filled": "Print the state of a filled volume.",
        "empty": "Delete the file that fills the volume.",
    }
    made = {verb: verbs.add_parser(verb, help=text) for verb, text in of_pods.items()}
    for each in made.values():
        each.add_argument("uid")
    made["apply"].add_argument("order", help="a LinkFault as JSON")
    made["undo"].add_argument("name", nargs="?")
    made["counts"].add_argument("name")
    made["holds"].add_argument("name")
    made["probe"].add_argument("address")
    made["probe"].add_argument("port", type=int)
    made["probe"].add_argument("count", type=int)
    made["probe"].add_argument("timeout_s", type=float)
    made["step-clock"].add_argument("seconds", type=int)
    made["fail-syncs"].add_argument("seconds", type=float, help="Maximum duration in seconds.")
    made["slow-disk"].add_argument("seconds", type=float, help="Maximum duration in seconds.")
    made["slow-disk"].add_argument("delay_ms", type=float)
    made["slow-disk"].add_argument("calls", choices=sorted(_CALLS))
    made["slow-disk"].add_argument("patterns", nargs="*", help="Paths in the pod; default: all.")
    made["restore-power"].add_argument("volume", help="what `volume` printed")
    for verb in ("fill", "filled", "empty", "volume", "mark-power", "lose-power"):
        made[verb].add_argument("path", help="Mount path of the volume in the pod.")
    made["lose-power"].add_argument("further", nargs="*", help="UID and path of further pods.")
    trips = verbs.add_parser("round-trips", help="Measure round trips from this network namespace.")
    for name, kind in (
        ("address", str),
        ("port", int),
        ("count", int),
        ("timeout_s", float),
    ):
        trips.add_argument(name, type=kind)
    delayed = verbs.add_parser("delay", help="Run a delayer process; `apply` starts it.")
    for name in ("name", "uid", "order"):
        delayed.add_argument(name)
    delayed.add_argument("ready", type=int)
    verbs.add_parser("sweep", help="Undo expired faults once.")
    verbs.add_parser("watch", help="Undo expired faults repeatedly.")
    return parser


def _do(asked: argparse.Namespace) -> None:
    match asked.verb:
        case "apply":
            break_links.apply(asked.uid, LinkFault.of(asked.order), asked.order)
        case "undo":
            break_links.undo(asked.uid, asked.name)
        case "counts":
            _answer(break_links.counted(asked.uid, asked.name))
        case "holds":
            _answer(break_links.holds(asked.uid, asked.name, time.time()))
        case "leftovers":
            _answer(leftovers.left(asked.uid))
        case "heal":
            leftovers.heal(asked.uid)
        case "probe":
            ends = [asked.address, str(asked.port), str(asked.count), str(asked.timeout_s)]
            command = [sys.executable, "-m", "zonequake_agent", "round-trips", *ends]
            _become(pods.in_network(asked.uid, command))
        case "round-trips":
            _answer(
                probe.round_trips_ms(
                    asked.address, asked.port, asked.count, timeout_s=asked.timeout_s
                )
            )
        case "delay":
            delay(LinkFault.of(asked.order), asked.uid, ready=asked.ready)
        case "clock":
            _answer([asdict(wall_clock.step_of(pid)) for pid in pods.workers(asked.uid)])
        case "step-clock":
            stepped = [wall_clock.step(pid, asked.seconds) for pid in pods.workers(asked.uid)]
            _answer([asdict(each) for each in stepped])
        case "fail-syncs":
            _answer(asdict(tampering.begin(asked.uid, FAILING_SYNCS, seconds=asked.seconds)))
        case "failing-syncs":
            _answer(asdict(tampering.look(asked.uid, TamperingKind.FAILING)))
        case "let-syncs-pass":
            _answer(asdict(tampering.end(asked.uid, TamperingKind.FAILING)))
        case "slow-disk":
            paths = tampering.files(asked.uid, asked.patterns)
            order = tampering.slow(_CALLS[asked.calls], delay_ms=asked.delay_ms, paths=paths)
            _answer(asdict(tampering.begin(asked.uid, order, seconds=asked.seconds)))
        case "slowed-disk":
            _answer(asdict(tampering.look(asked.uid, TamperingKind.SLOW)))
        case "quicken-disk":
            _answer(asdict(tampering.end(asked.uid, TamperingKind.SLOW)))
        case "volume":
            _answer(asdict(power.look(asked.uid, asked.path)))
        case "mark-power":
            power.mark(asked.uid, asked.path)
            _answer(None)
        case "lose-power":
            words = [asked.uid, asked.path, *asked.further]
            lost = power.lose(list(zip(words[::2], words[1::2], strict=True)))
            _answer([asdict(each) for each in lost])
        case "restore-power":
            volume = power_plan.volume_from(json.loads(asked.volume))
            power.restore(asked.uid, volume)
            power.forget(volume)
            _answer(None)
        case "fill":
            _answer(asdict(filling.fill(asked.uid, asked.path)))
        case "filled":
            _answer(asdict(filling.look(asked.uid, asked.path)))
        case "empty":
            _answer(asdict(filling.empty(asked.uid, asked.path)))
        case "sweep":
            _answer(break_links.sweep(time.time()))
        case "watch":
            watch()


def _become(command: Sequence[str]) -> None:
    """Replaces this process by the command, which inherits output and exit code."""
    os.execvp(command[0], list(command))  # noqa: S606


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
