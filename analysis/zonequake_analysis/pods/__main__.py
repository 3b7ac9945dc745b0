"""Entry point of the analysis's image; becomes the process that its arguments name."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from zonequake_analysis.errors import PodError
from zonequake_analysis.pods import commands
from zonequake_analysis.pods.template import SECRET_VARIABLE, with_secret

_USAGE = 254
_WORK = Path("/work")


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Replaces this process by the one that `arguments` name; returns only if it can't."""
    try:
        command = command_of(arguments, environment)
    except PodError as error:
        print(f"zonequake/analysis: {error}", file=sys.stderr)  # noqa: T201
        return _USAGE
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


def command_of(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    settings: Path = commands.SETTINGS,
    work: Path = _WORK,
) -> list[str]:
    """Returns the command of the pod; of `analyze` it writes the executors' template into `work`.

    Any other first argument is the command itself. Raises PodError.
    """
    match list(arguments):
        case ["executor"]:
            return commands.executor(environment)
        case ["driver", *rest]:
            return commands.driver(rest, environment)
        case ["analyze", uri]:
            template = work / commands.EXECUTOR_TEMPLATE
            pod = yaml.safe_load((settings / commands.EXECUTOR_TEMPLATE).read_text())
            pod = with_secret(pod, environment.get(SECRET_VARIABLE, ""))
            template.write_text(yaml.safe_dump(pod))
            return commands.analyze(uri, environment, template=template)
        case [first, *_] if first != "analyze":
            return list(arguments)
    raise PodError("expected `executor`, `driver …`, `analyze URI` or a command")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
