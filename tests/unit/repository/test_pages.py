"""What pages list is all that there is."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import typer
import yaml
from typer.core import TyperGroup

from tests.unit.repository.exported_metrics import MODULES, exported, modules_with_metrics
from tests.unit.repository.test_layout import ROOT
from zonequake_chaos.commands.cli import app
from zonequake_chaos.commands.mounted import MOUNTED
from zonequake_chaos.scenario import manifest

DOCS, CHART = ROOT / "docs", ROOT / "charts" / "zonequake"


def parts_of_the_site() -> dict[str, set[str]]:
    """The pages below each part of the navigation, by the part's name."""
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    parts = re.findall(r"^  - (.+):\n((?: {6,}.*\n)+)", nav, flags=re.MULTILINE)
    return {part: set(re.findall(r"(\S+\.md)$", below, re.MULTILINE)) for part, below in parts}


def test_the_readme_and_the_index_sort_pages_into_the_parts_of_the_site() -> None:
    site = parts_of_the_site()
    assert len(site) == 5

    lists = (ROOT / "README.md").read_text().partition("## Further reading")[2]
    items = re.findall(r"^- \*\*(.+)\*\*: ((?:.+\n)+?)(?=- |\n)", lists, flags=re.MULTILINE)
    readme = {part: set(re.findall(r"\]\(docs/([^)#]+\.md)\)", text)) for part, text in items}
    assert list(readme) == list(site)
    assert {part: pages - site[part] for part, pages in readme.items() if pages - site[part]} == {}

    sections = (DOCS / "index.md").read_text().split("\n## ")[1:]
    index = {
        text.partition("\n")[0]: set(re.findall(r"\]\(([^).:#][^):#]*\.md)\)", text))
        for text in sections
    }
    assert index == {part: pages - {"index.md"} for part, pages in site.items()}


def test_tests_that_no_group_asks_for_are_said_with_their_reason() -> None:
    page = (DOCS / "testing.md").read_text()
    rows = page.partition("## What no group runs")[2].partition("\n## ")[0]
    conftests = (path.read_text() for path in (ROOT / "tests").rglob("conftest.py"))
    options = {
        name for text in conftests for name in re.findall(r'addoption\(\s*"(--[\w-]+)"', text)
    }
    asked = "".join(path.read_text() for path in (ROOT / "scripts").glob("*.py"))
    assert "--long" in options
    by_hand = [name for name in sorted(options) if f'"{name}"' not in asked]
    assert [name for name in by_hand if f"`pytest FILE {name}`" not in rows] == []
    files = re.findall(r"^\| `([^`]+)`, .+ \| .+ \| .+ \|$", rows, flags=re.MULTILINE)
    assert files
    assert [file for file in files if not (ROOT / "tests" / file).is_file()] == []


def test_every_section_of_a_report_is_explained_in_its_order() -> None:
    template = ROOT / "analysis" / "zonequake_analysis" / "report" / "page.html.j2"
    sections = re.findall(r"<h2>([^<]+?)\s*<", template.read_text())
    page = (DOCS / "how-to" / "read-a-report.md").read_text()
    rows = re.findall(r"^\| (.+?) \|", page, flags=re.MULTILINE)
    assert rows == ["section", "---", "the first card", *sections]


def test_every_shipped_scenario_says_what_it_is_to_find() -> None:
    page = (DOCS / "failure-modes.md").read_text()
    assert [name for name in manifest.shipped() if f"`{name}`" not in page] == []


def test_every_package_of_the_wheel_has_a_row_in_the_table_of_packages() -> None:
    page = (DOCS / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)/` \| `(\w+)` \|", page, flags=re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted("/".join(row) for row in rows) == sorted(packages)


def test_what_an_uninstall_leaves_is_on_the_page() -> None:
    page = (DOCS / "install.md").read_text()
    definitions = [path.read_text() for path in (CHART / "templates" / "crds").glob("*.yaml")]
    assert all("helm.sh/resource-policy: keep" in text for text in definitions)
    names = [re.findall(r"^  name: (\S+)$", text, flags=re.MULTILINE)[0] for text in definitions]
    assert sorted(re.findall(r"[a-z]+\.zonequake\.io", page.partition("delete crd")[2])) == sorted(
        names
    )
    storage = yaml.safe_load((CHART / "values.yaml").read_text())["store"]["storage"]
    assert storage["whenDeleted"] == "Retain"


def test_the_modules_of_high_availability_are_those_that_the_page_names() -> None:
    rooms = ROOT / "operator" / "zonequake_operator"
    page = (DOCS / "high-availability.md").read_text()
    first = re.findall(r"^\| (`.+?) \|", page, flags=re.MULTILINE)
    named = {name for cell in first for name in re.findall(r"`([a-z_]+)[`.]", cell)}
    modules = {path.stem for path in (rooms / "high_availability").glob("[!_]*.py")}
    assert modules <= named


@cache
def commands_below(name: str) -> frozenset[str]:
    """The sub-commands of a mounted command; none of one that isn't a group."""
    command = typer.main.get_command(import_module(MOUNTED[name]).app) if name in MOUNTED else None
    return frozenset(command.commands) if isinstance(command, TyperGroup) else frozenset()


def test_every_command_that_a_page_names_exists() -> None:
    top = typer.main.get_command(app)
    assert isinstance(top, TyperGroup)
    assert "renew" in commands_below("certificates")
    named = r"(?:^ {4}|`)zonequake ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?(?![\w=./-])"
    wrong = []
    for path in sorted(DOCS.rglob("*.md")):
        for name, second in set(re.findall(named, path.read_text(), flags=re.MULTILINE)):
            below = commands_below(name) if second else frozenset()
            if name not in top.commands or (below and second not in below):
                wrong.append(f"{path.relative_to(ROOT)}: zonequake {name} {second}".strip())
    assert wrong == []


def test_the_latency_allowed_to_rolling_restarts_is_what_the_page_says() -> None:
    page = " ".join((DOCS / "scenarios.md").read_text().split())
    for name in ("rolling-restart", "ha-rolling-restart"):
        wanted = manifest.load(name).spec.expectations
        assert wanted.p99_ratio == 3
        said = f"if p99 is above {wanted.p99_ratio_above_ms:g} ms, and {wanted.max_p99_ms:g} ms in"
        assert said in page, name


def metrics_of(page: str) -> dict[str, tuple[str, ...]]:
    """The metrics that the first cells of a page's tables name, with their labels."""
    cells = re.findall(r"^\| (`zonequake_[^|]+?) \|", page, flags=re.MULTILINE)
    named = re.findall(r"`(zonequake_\w+)(?:\{([\w,]+)\})?`", " ".join(cells))
    assert " ".join(cells).count("`zonequake_") == len(named)
    return {name: tuple(labels.split(",")) if labels else () for name, labels in named}


async def test_the_metrics_that_processes_tell_are_those_of_the_page(tmp_path: Path) -> None:
    assert modules_with_metrics() == MODULES
    told = await exported(tmp_path)
    assert len(told) > 60
    assert metrics_of((DOCS / "operator.md").read_text()) == told
