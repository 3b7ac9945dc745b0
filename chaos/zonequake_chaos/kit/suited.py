"""Checks that a target has all that a scenario asks for. Pure."""

from __future__ import annotations

from zonequake_chaos.kit.target import TargetPackage
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_kube.errors import UsageError


def check_suited(package: TargetPackage, run: ChaosRun) -> None:
    """Raises UsageError with every part of the scenario that the target does not support."""
    problems = [*package.refuses.of(run), *package.unsuited(run)]
    if problems:
        raise UsageError(
            f"{run.metadata.name} can't be run with --target {package.name}: " + "; ".join(problems)
        )
