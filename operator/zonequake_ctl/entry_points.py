"""The installed programs. They start with nothing but the standard library: a wheel without extras
has no more. Then they print which extras are missing, instead of a traceback.
"""

from __future__ import annotations

import importlib
import sys

from zonequake_kube.errors import USAGE_EXIT_CODE

_OWN = "zonequake_"


def zonequake() -> None:
    """Runs `zonequake`."""
    _run("zonequake", "zonequake_chaos.commands.cli", "chaos")


def kubectl_zq() -> None:
    """Runs `kubectl-zq`, which kubectl calls for `kubectl zq`."""
    _run("kubectl-zq", "zonequake_ctl.zq.cli", "chaos,operator")


def _run(program: str, module: str, extras: str) -> None:
    try:
        main = importlib.import_module(module).main
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(_OWN):
            raise
        print(  # noqa: T201
            f"{program} can't start: found no Python package {error.name}, expected those of "
            f"zonequake[{extras}]: pip install 'zonequake[{extras}]'",
            file=sys.stderr,
        )
        sys.exit(USAGE_EXIT_CODE)
    main()
