"""`zonequake scenarios` says of each scenario what the runner demands of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from rich.console import Console
from typer.testing import CliRunner

from zonequake_chaos.commands import cli
from zonequake_chaos.faults.kinds.network import check_shell
from zonequake_chaos.faults.kinds.on_the_node import check_node
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import NodeShell
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.faults import AnyFault
from zonequake_chaos.scenario.needs import Need
from zonequake_kube.errors import UsageError

SHELL = cast("NodeShell", object())
NODE = cast("OwnMachine", object())


def admitted(faults: Sequence[AnyFault], node: OwnMachine | None, shell: NodeShell | None) -> bool:
    try:
        check_node(faults, node)
        check_shell(faults, shell)
    except UsageError:
        return False
    return True


def demanded(faults: Sequence[AnyFault]) -> Need:
    """The least with which the runner admits the faults."""
    if admitted(faults, None, None):
        return Need.API
    if admitted(faults, None, SHELL):
        return Need.AGENT
    assert admitted(faults, NODE, SHELL)
    return Need.EMBEDDED


@pytest.fixture(scope="module")
def listed() -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cli, "console", Console(width=5000))  # two lines each
        done = CliRunner().invoke(cli.app, ["scenarios"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    return dict(zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.parametrize("name", sorted(manifest.shipped()))
def test_a_scenario_says_what_the_runner_demands(name: str, listed: dict[str, str]) -> None:
    need = demanded(manifest.load(name).spec.faults)
    assert listed[name].endswith(f" {need.value}")
    assert listed[name].count("Needs") == 1, "the description says it, too"


def test_the_three_needs_all_occur() -> None:
    assert {demanded(manifest.load(name).spec.faults) for name in manifest.shipped()} == set(Need)
