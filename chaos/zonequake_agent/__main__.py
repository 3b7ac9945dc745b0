"""`python -m zonequake_agent VERB …`: one answer as JSON on standard output.

Exit code 3: no process of the pod runs on this node. 1: it could not be done, and standard error
says why.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from zonequake_agent import pods

ABSENT = 3


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="zonequake_agent")
    verbs = parser.add_subparsers(dest="verb", required=True)
    listed = verbs.add_parser("processes", help="the pod's processes")
    listed.add_argument("uid")
    entered = verbs.add_parser("inside", help="runs a command in the pod's namespaces")
    entered.add_argument("uid")
    entered.add_argument("namespaces", help="comma-separated, as nsenter names them")
    entered.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(words)
    try:
        match asked.verb:
            case "processes":
                _answer([asdict(process) for process in pods.processes(asked.uid)])
            case "inside":
                command = pods.inside(asked.uid, asked.namespaces.split(","), asked.command)
                os.execvp(command[0], command)  # noqa: S606 - its output and exit code are ours
    except pods.PodAbsent as error:
        sys.stderr.write(f"{error}\n")
        return ABSENT
    return 0


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
