"""Lets mkdocs show pages that GitHub shows, too: fills in what is generated, and mends links.

`scripts/docs.sh` puts this folder and the source roots on the path.

A page says `<!-- generated: commands -->` where a reference made from the program belongs. A link
to a file outside docs/ leads to the repository; one to a function, as `path.py#Class.method`, to
its line.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import commands
import schemas

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = {
    "commands": commands.reference,
    "resources": schemas.resources,
    "scenario": schemas.scenario,
    "history": schemas.history,
    "python": lambda: "\n\n".join(f"::: {name}" for name in PYTHON),
}
PYTHON = (
    "zonequake_chaos.testing.pytest_plugin.zonequake",
    "zonequake_chaos.testing.scenario.OwnScenario",
    "zonequake_chaos.testing.scenario.Result",
    "zonequake_analysis.cli.analyze",
    "zonequake_analysis.cli.judge_folder",
)
_MARK = re.compile(r"<!-- generated: (\w+) -->")
_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?:#([^)\s]+))?(?=\))")


def on_config(config: MkDocsConfig) -> None:
    """Names the repository: as the environment says, else as git's remote does."""
    asked = ["git", "config", "--get", "remote.origin.url"]
    remote = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    given = os.environ.get("ZONEQUAKE_REPOSITORY_URL") or remote.strip().removesuffix(".git")
    config.repo_url = given if given.startswith("https://") else None


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns the page as mkdocs is to render it."""
    markdown = _MARK.sub(lambda mark: GENERATED[mark[1]](), markdown)
    # GitHub wants a bar in a table's code escaped; Python-Markdown shows the backslash.
    markdown = markdown.replace("\\|", "|")
    folder = (DOCS / page.file.src_uri).parent

    def mended(link: re.Match[str]) -> str:
        path = (folder / link[1]).resolve()
        if path.is_relative_to(DOCS) or not path.is_relative_to(ROOT) or not path.exists():
            return link[0]
        base = f"{config.repo_url}/blob/main" if config.repo_url else ROOT.as_uri()
        anchor = link[2]
        if anchor and path.suffix == ".py":
            anchor = f"L{line_of(path, anchor)}"
        return f"{base}/{path.relative_to(ROOT)}" + (f"#{anchor}" if anchor else "")

    return _LINK.sub(mended, markdown)


def line_of(path: Path, name: str) -> int:
    """Returns the line in which `Class.method` or `function` is defined. Raises KeyError."""
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    for part in name.split("."):
        nodes = [
            below
            for node in nodes
            for below in ast.iter_child_nodes(node)
            if getattr(below, "name", None) == part
        ]
    if not nodes:
        raise KeyError(f"{path}: {name}")
    return nodes[0].lineno  # type: ignore[attr-defined]
