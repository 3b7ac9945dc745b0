"""Entry for `spark-submit … submit.py RUN`: the same job on any cluster, with submit's master."""

from __future__ import annotations

import sys

from zonequake_analysis.cli import analyze
from zonequake_analysis.ended_early import EndedEarly
from zonequake_analysis.verdict import USAGE_EXIT_CODE


def main(arguments: list[str]) -> int:
    """Analyses the one run folder or URI in `arguments`, and returns the exit code."""
    if len(arguments) != 1:
        print("usage: submit.py RUN", file=sys.stderr)  # noqa: T201
        return USAGE_EXIT_CODE
    early = EndedEarly(run=arguments[0])
    with early.at_sigterm():
        return analyze(arguments[0], begun=early.begin)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
