"""Entry point of the analysis's image; becomes the process that its arguments name."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from zonequake_analysis.errors import DriverUnreached, PodError
from zonequake_analysis.pods import commands
from zonequake_analysis.pods.driver_reached import check_driver
from zonequake_analysis.pods.template import SECRET_VARIABLE, with_secret
from zonequake_analysis.text.untrusted_text import one_line
from zonequake_analysis.verdict import EXIT_CODES, USAGE_EXIT_CODE, Verdict

_WORK = Path("/work")


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Replaces this process by the one that `arguments` name.

    An executor's first connects to the driver. Returns only if it can't, with the exit code: of a
    usage error, or of a failed harness.
    """
    try:
        command = command_of(arguments, environment)
        if list(arguments) == [commands.EXECUTOR]:
            check_driver(environment[commands.DRIVER_URL])
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except PodError as error:
        told, code = str(error), USAGE_EXIT_CODE
    except DriverUnreached as error:
        told, code = str(error), EXIT_CODES[Verdict.HARNESS_FAILED]
    except Exception as error:  # noqa: BLE001 - Python's own exit code would mean a violation
        found = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        told = (
            f"found {found}; expected the release's settings in {commands.SETTINGS}, room in "
            f"{_WORK}, and a command of this image: look at the pod, or install the release again"
        )
        code = EXIT_CODES[Verdict.HARNESS_FAILED]
    print(one_line(f"zonequake/analysis: {told}"), file=sys.stderr)  # noqa: T201
    return code


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
        case [commands.EXECUTOR]:
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
