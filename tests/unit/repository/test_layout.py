from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.unit.repository.sources import imported
from zonequake_chaos.scenario import manifest

ROOT = Path(__file__).resolve().parents[3]
SOURCE_ROOTS = ("operator", "chaos", "workloads", "analysis")


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_source_root_is_no_package(root: str) -> None:
    # operator/__init__.py would shadow the standard library's operator module.
    assert (ROOT / root).is_dir()
    assert not (ROOT / root / "__init__.py").exists()


@pytest.mark.parametrize("module", ["pip", "venv", "json.tool"])
def test_the_standard_library_works_from_the_root_of_the_repository(module: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_package_is_in_the_wheel_and_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    existing = sorted(
        str(init.parent.relative_to(ROOT))
        for root in SOURCE_ROOTS
        for init in (ROOT / root).glob("*/__init__.py")
    )
    assert sorted(packages) == existing
    for package in packages:
        assert (ROOT / package / "py.typed").is_file(), package


def test_no_tracked_file_names_a_folder_of_one_machine() -> None:
    own = re.compile(r"/(?:root|work|home/[a-z]+)/[\w.]")
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked_files()
        if path != Path(__file__)
        for match in own.finditer(text_of(path))
    ]
    assert found == []


def test_the_readme_begins_with_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert 0 < readme.index("make demo") < readme.index("make test")


def test_the_scenario_in_the_readme_can_be_read() -> None:
    block = (ROOT / "README.md").read_text().partition("    apiVersion:")
    text = textwrap.dedent((block[1] + block[2]).partition("\n\n")[0])
    run = manifest.parse(text, where="README.md")
    assert [fault.name for fault in run.spec.faults] == ["grow", "kill-the-newcomer"]


def test_every_link_between_the_documents_leads_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in tracked_files()
        if page.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def definitions(nodes: Iterable[ast.AST], within: str = "") -> Iterator[str]:
    """Names of functions and classes, with those of the classes that they are in."""
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{within}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from definitions(node.body, f"{within}{node.name}.")


def anchors_of(page: Path) -> set[str]:
    """What GitHub calls the page's headings; of a module the functions and classes in it."""
    if page.suffix == ".py":
        return set(definitions(ast.parse(page.read_text()).body))
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_every_link_to_a_heading_leads_to_one() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in tracked_files()
        if page.suffix == ".md"
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text_of(page))
        if "://" not in target
        and anchor not in anchors_of(page.parent / target if target else page)
    ]
    assert broken == []


def test_a_link_to_a_function_that_is_not_there_is_noticed() -> None:
    names = anchors_of(Path(__file__))
    assert "anchors_of" in names
    assert "anchors_of.headings" not in names


def test_every_module_that_a_text_names_is_there() -> None:
    paths = {str(path.relative_to(ROOT)) for path in tracked_files()}
    names = {path.rpartition("/")[2] for path in paths}
    absent = [
        f"{page.relative_to(ROOT)}: {named}"
        for page in tracked_files()
        if page.suffix in (".py", ".md", ".yaml", ".yml") and page.name != "CHANGELOG.md"
        for named in re.findall(r"`([\w/.-]+\.py)`", text_of(page))
        if named not in names and not any(f"/{path}".endswith(f"/{named}") for path in paths)
    ]
    assert absent == []


def test_the_tour_has_three_walks_of_at_most_twelve_steps_each_with_a_function() -> None:
    walks = (ROOT / "docs" / "tour.md").read_text().split("\n## ")[1:]
    assert [walk.partition("\n")[0] for walk in walks] == [
        "One write",
        "One lost pod",
        "One history line",
    ]
    for walk in walks:
        steps = re.findall(r"^\d+\. (.+(?:\n {3,}.+)*)", walk, flags=re.MULTILINE)
        assert 1 < len(steps) <= 12
        assert sum(".py#" in step for step in steps) >= len(steps) - 1


def test_every_page_has_one_line_in_the_index_and_a_place_in_the_site() -> None:
    docs = ROOT / "docs"
    pages = {
        str(page.relative_to(docs))
        for page in tracked_files()
        if page.suffix == ".md" and page.is_relative_to(docs) and "adr" not in page.parts
    } - {"index.md"}
    linked = re.findall(r"\]\(([^)#:]+\.md)\)", (docs / "index.md").read_text())
    site = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(page for page in linked if not page.startswith("..")) == sorted(pages)
    assert sorted(site) == sorted({*pages, "index.md"})


def test_ci_runs_what_a_user_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    commands = [line for line in script.splitlines() if line and not line.startswith(("#", "set "))]
    assert commands == ["exec make test"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_no_module_has_a_name_that_says_nothing(root: str) -> None:
    empty_names = {"utils", "util", "helpers", "helper", "common", "misc"}
    found = [p for p in (ROOT / root).rglob("*.py") if p.stem in empty_names]
    assert found == []


@pytest.mark.parametrize("client", ["kubernetes.aio", "kubernetes.client"])
def test_only_one_module_of_a_package_speaks_to_a_kubernetes_client(client: str) -> None:
    # Port forwarding exists in the synchronous client alone, so there may be one user of each.
    for root in SOURCE_ROOTS:
        for package in (ROOT / root).glob("*/__init__.py"):
            users = [
                str(path.relative_to(ROOT))
                for path in sorted(package.parent.rglob("*.py"))
                if any(name.startswith(client) for name, _ in imported(path))
            ]
            assert len(users) <= 1, users


def test_whatever_waits_for_test_all_is_said_with_its_reason() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    section = page.partition("## What only `make test-all` runs")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([^`]+)` \| .+ \| .+ \|$", section, flags=re.MULTILINE))
    tests = ROOT / "tests"
    marked = {
        str(path.relative_to(tests))
        for path in tests.rglob("*.py")
        if "pytest.mark.long" in path.read_text() and path != Path(__file__)
    }
    assert marked == named


MOST_MODULES = 15
"""In one folder; `__init__.py` aside."""

LARGER_FOLDERS = {
    "workloads/zonequake_store/raft": "one state machine, cut into files",
    "chaos/zonequake_simulation": "nodes know their checkers: a finer cut has arrows that run back",
    "chaos/zonequake_simulation/checks": "one rule a module",
}


def test_no_folder_of_product_code_is_crowded() -> None:
    modules: Counter[str] = Counter(
        str(path.parent.relative_to(ROOT))
        for path in tracked_files()
        if path.suffix == ".py"
        and path.name != "__init__.py"
        and path.relative_to(ROOT).parts[0] in SOURCE_ROOTS
    )
    crowded = {folder for folder, count in modules.items() if count > MOST_MODULES}
    assert crowded == set(LARGER_FOLDERS)


MOST_LINES = 420
"""In one module: what is longer holds a second idea, which a name of its own would say."""


def test_no_module_of_product_code_is_too_long() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in SOURCE_ROOTS
    }
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def module_name(path: Path) -> str:
    """Full name of a module of product code."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_module_is_imported_under_a_second_name() -> None:
    sources = [path for path in tracked_files() if path.suffix == ".py"]
    modules = {
        module_name(path) for path in sources if path.relative_to(ROOT).parts[0] in SOURCE_ROOTS
    }
    renamed = [
        f"{path.relative_to(ROOT)}: {name} as {second}"
        for path in sources
        for name, second in imported(path)
        if second not in {None, name.rpartition(".")[2]} and name in modules
    ]
    assert renamed == []


def test_contracts_of_imports_name_folders_and_ignore_nothing() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert [c["id"] for c in linter["contracts"] if "ignore_imports" in c] == []
    named = {
        str(init.parent.relative_to(ROOT / root)).replace("/", ".")
        for root in SOURCE_ROOTS
        for init in (ROOT / root).glob("*/__init__.py")
    }
    assert set(linter["root_packages"]) == named


def test_the_harness_is_at_most_35_percent_of_the_product() -> None:
    lines = Counter(
        {
            root: sum(
                text_of(path).count("\n")
                for path in tracked_files()
                if path.suffix == ".py" and path.is_relative_to(ROOT / root)
            )
            for root in SOURCE_ROOTS
        }
    )
    assert lines["chaos"] <= 0.35 * lines.total()


def test_every_folder_of_product_code_has_a_line_in_the_map() -> None:
    page = (ROOT / "docs" / "code.md").read_text()
    listed = set(re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE))
    folders = {
        str(path.parent.relative_to(ROOT / path.relative_to(ROOT).parts[0]))
        for path in tracked_files()
        if path.suffix == ".py"
        and path.name != "__init__.py"
        and path.relative_to(ROOT).parts[0] in SOURCE_ROOTS
    }
    assert listed == folders


PURE_CONTRACTS = ("pure-cores", "pure-cores-store-nothing")


def pure_cores(contract: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {each["id"]: each for each in project["tool"]["importlinter"]["contracts"]}
    named: list[str] = contracts[contract]["source_modules"]
    return named


def no_folders(names: Iterable[str]) -> list[str]:
    """Returns the names that aren't those of a folder of product code, with an `__init__.py`."""
    return [
        name
        for name in names
        if not any(
            (ROOT / root / name.replace(".", "/") / "__init__.py").is_file()
            for root in SOURCE_ROOTS
        )
    ]


def test_both_contracts_of_the_pure_cores_name_the_same_folders() -> None:
    first, second = map(pure_cores, PURE_CONTRACTS)
    assert first == second
    assert len(first) == len(set(first))


def test_the_contracts_of_the_pure_cores_name_no_single_module() -> None:
    for contract in PURE_CONTRACTS:
        assert no_folders(pure_cores(contract)) == []
    planted = ["zonequake_store.raft", "zonequake_store.raft.core", "zonequake_store.gone"]
    assert no_folders(planted) == planted[1:]


def test_the_map_calls_those_folders_pure_that_the_contracts_name() -> None:
    page = (ROOT / "docs" / "code.md").read_text()
    called = re.findall(r"^\| `([^`]+)` \| .*\bPure\b", page, flags=re.MULTILINE)
    assert sorted(name.replace("/", ".") for name in called) == sorted(pure_cores("pure-cores"))
