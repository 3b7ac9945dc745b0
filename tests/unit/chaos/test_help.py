"""The help of every command: what it does, where it stands, one example that can be parsed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

from zonequake_analysis.executors.command import app as executor_archive
from zonequake_analysis.importing.command import app as import_history
from zonequake_analysis.importing.metrics_command import app as import_metrics
from zonequake_analysis.inputs.column_files.command import app as columns
from zonequake_analysis.many_runs.compare_command import app as compare
from zonequake_analysis.many_runs.trend_command import app as trend
from zonequake_analysis.sql_shell.command import app as sql_shell
from zonequake_chaos.analysis_pods.command import app as analyze
from zonequake_chaos.commands.cli import app as zonequake
from zonequake_chaos.commands.target import app as target
from zonequake_cluster.cli import app as cluster
from zonequake_cluster.images.cli import app as images
from zonequake_ctl.kv.cli import app as kv
from zonequake_ctl.release.certificates_command import app as certificates
from zonequake_ctl.reset import app as reset
from zonequake_ctl.sql_command import app as sql
from zonequake_ctl.what_if.cli import app as what_if
from zonequake_ctl.zq.cli import app as zq
from zonequake_simulation.command import app as simulate

MOUNTED = {
    "analyze": analyze,
    "certificates": certificates,
    "cluster": cluster,
    "columns": columns,
    "compare": compare,
    "executor-archive": executor_archive,
    "images": images,
    "import": import_history,
    "import-metrics": import_metrics,
    "kv": kv,
    "reset": reset,
    "simulate": simulate,
    "sql": sql,
    "sql-shell": sql_shell,
    "target": target,
    "trend": trend,
    "what-if": what_if,
}
RIDDLES = {"anew", "behind", "nobody", "somebody", "whoever", "else."}
"""Words of no command's help; docs/style.md has others for them."""


Command = TyperCommand | TyperGroup


def known(command: object) -> Command:
    assert isinstance(command, TyperCommand | TyperGroup)
    return command


def inside(command: Command) -> dict[str, Command]:
    """The commands of a group by their names; none of a single command."""
    found = command.commands if isinstance(command, TyperGroup) else {}
    return {name: known(each) for name, each in found.items()}


def commands() -> Iterator[tuple[str, Command]]:
    """Each command with the words that call it."""
    for name, command in inside(known(typer.main.get_command(zonequake))).items():
        if name not in MOUNTED:
            yield f"zonequake {name}", command
    for name, app in [*MOUNTED.items(), ("zq", zq)]:
        found = known(typer.main.get_command(app))
        words = "kubectl zq" if name == "zq" else f"zonequake {name}"
        if isinstance(found, TyperGroup):
            yield from ((f"{words} {each}", command) for each, command in inside(found).items())
        else:
            yield words, found


ALL = dict(commands())


def test_every_mounted_command_is_looked_at() -> None:
    mounted = inside(known(typer.main.get_command(zonequake)))
    assert set(MOUNTED) <= set(mounted)
    groups = {name for name, command in mounted.items() if isinstance(command, TyperGroup)}
    unsaid = {name for name, command in mounted.items() if not command.epilog}
    assert groups | unsaid == set(MOUNTED)


@pytest.mark.parametrize("name", [*MOUNTED, "zq", "zonequake"])
def test_the_help_of_a_group_has_an_example_of_one_of_its_commands(name: str) -> None:
    group = known(typer.main.get_command({**MOUNTED, "zq": zq, "zonequake": zonequake}[name]))
    if isinstance(group, TyperGroup):
        examples = {f"Example: {words}" for words in ALL}
        assert any((group.epilog or "").startswith(example) for example in examples)


def test_commands_stand_in_groups() -> None:
    assert [c.callback for c in zonequake.registered_commands if not c.rich_help_panel] == []


@pytest.mark.parametrize("words", ALL)
def test_a_commands_help_has_an_example_that_can_be_parsed(words: str) -> None:
    command = ALL[words]
    assert command.epilog is not None
    example = command.epilog.removeprefix("Example: ")
    assert example != command.epilog
    given = example.removeprefix("export KUBECONFIG=$(").removesuffix(")")
    assert given.startswith(words)
    context = command.make_context(
        words, shlex.split(given.removeprefix(words)), resilient_parsing=True
    )
    assert context.args == []


@pytest.mark.parametrize("words", ALL)
def test_a_commands_help_says_what_it_does_in_plain_words(words: str) -> None:
    command = ALL[words]
    texts = [command.help or "", *(getattr(each, "help", "") or "" for each in command.params)]
    assert texts[0]
    assert [text for text in texts if RIDDLES & set(text.lower().split())] == []


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("zonequake_chaos.commands.cli", {"aiohttp", "kubernetes", "pyspark", "numpy"}),
        ("zonequake_analysis.executors.command", {"aiohttp", "numpy", "pyarrow", "pyspark"}),
        ("zonequake_analysis.importing.command", {"aiohttp", "numpy", "pyarrow", "pyspark"}),
        (
            "zonequake_analysis.importing.metrics_command",
            {"aiohttp", "numpy", "pyarrow", "pyspark"},
        ),
        ("zonequake_ctl.kv.cli", {"aiohttp", "kubernetes", "pyspark", "numpy"}),
        ("zonequake_ctl.what_if.cli", {"aiohttp", "kubernetes", "pyspark"}),
        (
            "zonequake_analysis.many_runs.compare_command",
            {"aiohttp", "kubernetes", "pyspark", "numpy", "pyarrow"},
        ),
        (
            "zonequake_analysis.many_runs.trend_command",
            {"aiohttp", "kubernetes", "pyspark", "numpy", "pyarrow"},
        ),
        (
            "zonequake_analysis.sql_shell.command",
            {"aiohttp", "kubernetes", "pyspark", "numpy", "pyarrow"},
        ),
    ],
)
def test_a_command_loads_nothing_large_that_it_does_not_need(
    module: str, unneeded: set[str]
) -> None:
    words = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    ).stdout.split()
    assert module in loaded
    assert not unneeded & set(loaded)


@pytest.mark.parametrize("name", MOUNTED)
def test_no_command_offers_a_completion_of_its_own(name: str) -> None:
    """Installed, it would be for a program of that name."""
    command = known(typer.main.get_command(MOUNTED[name]))
    offered = {flag for option in command.params for flag in option.opts}
    assert not {"--install-completion", "--show-completion"} & offered
