"""Writes the reference of the command line as Markdown, from the typer apps themselves."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from unittest.mock import MagicMock

import click
import typer.main
from typer.cli import get_docs_for_click

UNNEEDED = {"cramjam", "google", "pandas", "py4j", "pyarrow", "pyspark"}
"""Packages that commands import and use only when they run: half a gigabyte, left out here."""


class _StandIns(MetaPathFinder, Loader):
    """Imports packages of `UNNEEDED` as modules in which every name exists."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        wanted = fullname.partition(".")[0] in UNNEEDED
        return ModuleSpec(fullname, self, is_package=True) if wanted else None

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = _anything  # type: ignore[method-assign]


def _anything(name: str) -> MagicMock:
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock(name=name)


def reference() -> str:
    """Returns all commands in the groups of `--help`, and `kubectl zq` after them."""
    sys.meta_path.append(_StandIns())  # after the others: what is installed is imported
    cli = importlib.import_module("zonequake_chaos.commands.cli")
    mounted = importlib.import_module("zonequake_chaos.commands.mounted").MOUNTED
    groups: dict[str, list[str]] = {}
    for name, command in typer.main.get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        groups.setdefault(command.rich_help_panel, []).append(
            _text(f"zonequake {name}", _app(mounted[name]) if name in mounted else command)
        )
    groups["kubectl plugin"] = [_text("kubectl zq", _app("zonequake_ctl.zq.cli"))]
    return "\n\n".join(f"## {group}\n\n" + "\n".join(texts) for group, texts in groups.items())


def _app(module: str) -> click.Command:
    return typer.main.get_command(importlib.import_module(module).app)


def _text(words: str, command: click.Command) -> str:
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), indent=2, name=words)
    text = re.sub(r"^Example: (.+)$", r"**Example**: `\1`", text, flags=re.MULTILINE)
    # What stands in angle brackets is a tag to Markdown, but within code.
    return "`".join(
        part if number % 2 else part.replace("<", "&lt;")
        for number, part in enumerate(text.split("`"))
    )
