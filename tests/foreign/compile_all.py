"""Compiles what the tests of `make test` here need of other people's programs.

    python -m tests.foreign.compile_all

The group `foreign` runs it first: a build takes many minutes on a fresh machine, and the time
limits of tests count within their fixtures, too.
"""

from __future__ import annotations

from tests.foreign import s3_server, workflow_linter
from tests.foreign.porcupine_judge import Judge
from tests.foreign.raft_rs_build import find_cargo, load_raft_rs


def main() -> None:
    """Raises CalledProcessError if a build fails; what was built from the same sources stays."""
    Judge.build()
    s3_server.program()
    workflow_linter.program()
    if (cargo := find_cargo()) is not None:
        load_raft_rs(cargo)


if __name__ == "__main__":
    main()
