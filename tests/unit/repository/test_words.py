"""The words that the style page replaces stand nowhere, and one that is planted is found."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.words import tracked
from tests.unit.repository.test_layout import tracked_files

ROOT = Path(__file__).resolve().parents[3]


def words(*files: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "words.py"), *files],
        capture_output=True,
        text=True,
        check=False,
    )


def test_before_a_commit_the_same_files_are_looked_at() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = {hook["id"]: hook for hook in local["hooks"]}
    assert hooks["words"]["entry"] == ".venv/bin/python scripts/words.py"
    chosen, left_out = (re.compile(hooks["words"][key]) for key in ("files", "exclude"))
    names = [path.relative_to(ROOT).as_posix() for path in tracked_files()]
    looked_at = {name for name in names if chosen.search(name) and not left_out.search(name)}
    assert looked_at == {*names} & {*tracked()}


def test_a_new_file_is_looked_at_before_it_is_added(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    copy = shutil.copy(ROOT / "scripts" / "words.py", tmp_path / "scripts")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("The group begins anew.\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    done = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("docs/page.md:1: 'anew'")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("The group begins anew.", "'anew': write"),
        ("It waits For ever.", "'For ever': write"),
        ('raise ValueError("wrong words")', "'wrong words': write"),
        ("Exit codes: 0 done, 254 wrong usage", "'wrong usage': write"),
        ("an error that nobody expected", "'nobody expected': write"),
        ("4,000 ms behind the proof", "'behind the proof': write"),
        ("an analysed run", "'analysed': write"),
    ],
)
def test_a_planted_word_is_found_in_its_line(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"A sound line.\n{line}\n")
    done = words(str(file))
    assert done.returncode == 1
    assert f"{file}:2: {told}" in done.stdout


def test_names_of_code_are_not_words(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("`begun_anew`, `a-group-begins-anew` and renewed\n")
    assert words(str(file)).returncode == 0


@pytest.mark.parametrize(
    "docstring", ["What it holds.", "Who leads.", "Of this node.", "Where it is.", "How it goes."]
)
@pytest.mark.parametrize("define", ["def", "async def"])
def test_a_planted_docstring_without_a_verb_is_found(
    tmp_path: Path, define: str, docstring: str
) -> None:
    file = tmp_path / "module.py"
    file.write_text(f'{define} held() -> int:\n    """{docstring}"""\n    return 1\n')
    done = words(str(file))
    assert done.returncode == 1
    assert f"{file}:2: {docstring.split()[0]!r}: write a verb first" in done.stdout


def test_a_docstring_with_a_verb_and_one_of_a_class_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '"""A module. Is it read? It is."""\n\n\n'
        'class Held:\n    """The numbers held."""\n\n'
        '    def number(self) -> int:\n        """Returns what is held."""\n        return 1\n'
    )
    assert words(str(file)).returncode == 0


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('"""Who leads."""\n', "1: 'Who': write a noun first"),
        ('class A:\n    """Those that wait."""\n', "2: 'Those': write a noun first"),
        ('def a() -> int:\n    """Would it last? It would."""\n', "2: 'Would': write a verb first"),
        ('def a() -> int:\n    """Is it over?"""\n', "2: 'Is it over?': write a verb first"),
        ('def a() -> int:\n    """Until it ends."""\n', "2: 'Until': write a verb first"),
        ('X = 1\n"""The age.\n\nWhoever reads it."""\n', "4: 'Whoever': write the node"),
        ('raise ValueError("somebody else wrote it")\n', "1: 'somebody': write the node"),
        ('said = f"not judged: nobody probed {1}"\n', "1: 'nobody': write the node"),
        ('said = "not judged:\\nNobody probed"\n', "1: 'Nobody': write the node"),
        ("X = 1\n# Everybody gets in.\n", "2: 'Everybody': write the node"),
        ("KEPT = 1  # until nobody has it\n", "1: 'nobody': write the node"),
    ],
)
def test_a_planted_riddle_is_found_in_its_line(tmp_path: Path, source: str, told: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(source)
    done = words(str(file))
    assert done.returncode == 1
    assert f"{file}:{told}" in done.stdout


@pytest.mark.parametrize("begin", ["The", "A", "An"])
@pytest.mark.parametrize("define", ["def", "async def"])
def test_a_planted_docstring_of_a_function_that_begins_with_an_article_is_found(
    tmp_path: Path, define: str, begin: str
) -> None:
    file = tmp_path / "module.py"
    file.write_text(f'class A:\n    {define} held(self) -> int:\n        """{begin} number."""\n')
    done = words(str(file))
    assert done.returncode == 1
    assert f"{file}:3: {begin!r}: write a verb first" in done.stdout


@pytest.mark.parametrize("decorator", ["property", "cached_property", "functools.cached_property"])
def test_a_docstring_of_a_property_may_begin_with_an_article(
    tmp_path: Path, decorator: str
) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        f'class A:\n    @{decorator}\n    def held(self) -> int:\n        """The number."""\n'
    )
    assert words(str(file)).returncode == 0


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("scenarios/a.yaml", "Nobody probed."),
        ("page.html.j2", "<p>Nobody probed.</p>"),
        ("chart.yaml", "# Nobody asks it."),
        ("workflow.yml", "on: push # Nobody asks it."),
        ("script.sh", "true # Nobody asks it."),
        ("Makefile", "all: ## Nobody asks it."),
        ("Dockerfile.agent", "# Nobody asks it."),
    ],
)
def test_a_file_that_is_no_page_of_docs_names_no_people(
    tmp_path: Path, name: str, line: str
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"\n{line}\n")
    done = words(str(file))
    assert done.returncode == 1
    assert f"{file}:2: 'Nobody': write the node" in done.stdout


def test_words_for_people_stay_in_names_and_pages(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        'NOBODY = 0\n"""`test_nobody_leads`; analyses have others."""\nnobody = NOBODY\n'
    )
    assert words(str(file)).returncode == 0
    page = tmp_path / "page.md"
    page.write_text("Nobody asks it.\n")
    assert words(str(page)).returncode == 0
