"""Whatever cites the design ("hole 7", "design §3, Membership") finds a heading in docs/design."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DESIGN = ROOT / "docs" / "design"
CITING = (
    *("operator", "chaos", "workloads", "analysis", "charts", "docs", "tests"),
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
)
SUFFIXES = {".py", ".md", ".yaml"}

NUMBERS = r"\d+(?:(?:, and |, | and | or | to |-|–)\d+)*"
HOLES = re.compile(rf"\bholes? ({NUMBERS})\b", re.IGNORECASE)
HOLE_IN_A_NAME = re.compile(r"_hole_(\d+)_")
SECTIONS = re.compile(r"\bdesign (§\d+(?:[^.;\n]{0,12}? and §\d+)?)", re.IGNORECASE)
PARAGRAPHS = re.compile(r"\b[Dd]esign §(\d+)(?:, \"?| \")([A-Z][a-z]+(?: [a-z]+)?)\b")
"""A paragraph is named behind its section: design §3, Membership; design §6 "Scenario"."""
NOWHERE = re.compile(r"\bresearch(?: §\d+| \"|: [a-z0-9]+ §\d)", re.IGNORECASE)
"""A citation of notes that no page has."""


def headings(page: Path, prefix: str) -> list[str]:
    return re.findall(rf"^{prefix} (.+)$", page.read_text(), flags=re.MULTILINE)


@cache
def hole_numbers() -> frozenset[int]:
    titles = headings(DESIGN / "holes.md", "##")
    return frozenset(int(n) for title in titles for n in re.findall(r"^Hole (\d+): ", title))


@cache
def sections() -> dict[int, frozenset[str]]:
    """The numbered sections of the decisions, each with its paragraphs."""
    found: dict[int, frozenset[str]] = {}
    for part in re.split(r"^## §", (DESIGN / "decisions.md").read_text(), flags=re.MULTILINE)[1:]:
        paragraphs = re.findall(r"^### (.+)$", part, flags=re.MULTILINE)
        found[int(part.split()[0])] = frozenset(paragraphs)
    return found


def expanded(numbers: str) -> set[int]:
    """`6 to 9, 14` is 6, 7, 8, 9 and 14."""
    found: set[int] = set()
    for each in re.split(r", and |, | and | or ", numbers):
        first, *last = re.split(r" to |-|–", each)
        found |= set(range(int(first), int(last[-1] if last else first) + 1))
    return found


def unresolved(text: str) -> list[str]:
    """Citations in the text that have no heading."""
    # A citation may go on in the next line, of a comment, too.
    joined = re.sub(r"\s*\n\s*(?:#+ |\* )?", " ", text)
    wrong = []
    for numbers in (*HOLES.findall(joined), *HOLE_IN_A_NAME.findall(joined)):
        wrong += [f"hole {n}" for n in sorted(expanded(numbers) - hole_numbers())]
    for cited in SECTIONS.findall(joined):
        numbered = {int(n) for n in re.findall(r"§(\d+)", cited)}
        wrong += [f"design §{n}" for n in sorted(numbered - sections().keys())]
    for number, paragraph in PARAGRAPHS.findall(joined):
        names = sections().get(int(number), frozenset())
        begun = any(name.startswith(f"{paragraph} ") for name in names)
        if not begun and not {paragraph, paragraph.split()[0]} & names:
            wrong.append(f"design §{number}, {paragraph}")
    return wrong + NOWHERE.findall(joined)


def citing_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *CITING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    own = Path(__file__)
    return [p for p in paths if p.suffix in SUFFIXES and p.is_file() and p != own]


def test_every_citation_of_the_design_leads_to_a_heading() -> None:
    wrong = {str(path.relative_to(ROOT)): unresolved(path.read_text()) for path in citing_files()}
    assert {name: cited for name, cited in wrong.items() if cited} == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("as hole 99 says", ["hole 99"]),
        ("(design, holes 7 and 99)", ["hole 99"]),
        ("holes 14 to 16, 3", ["hole 16"]),
        ("# see holes 4,\n    # 5 and 99).", ["hole 99"]),
        ("def test_hole_99_is_mended() -> None:", ["hole 99"]),
        ("(design §99)", ["design §99"]),
        ("design §3 (holes) and §99.", ["design §99"]),
        ("(design §3, Friendship)", ["design §3, Friendship"]),
        ('design §6 "Theatre"', ["design §6, Theatre"]),
        ("(research §7, invariants 1 to 8)", ["research §7"]),
        ('Windows (research "Windows").', ['research "']),
        ("only gives. research: ignite3 §3.", ["research: ignite3 §3"]),
        ("research of 2014 (thesis §3)", []),
        ("design §4, Changes of peers", []),
        ("holes 1-5, 10, 13 and 15; design §3, Membership and Lease", []),
        ('design §3, "Data nodes"; Ongaro\'s thesis §9.6; design §3, hole 7', []),
    ],
)
def test_a_citation_without_a_heading_is_noticed(text: str, wrong: list[str]) -> None:
    assert unresolved(text) == wrong


def test_every_hole_has_one_heading_and_a_line_in_the_table_and_says_four_things() -> None:
    text = (DESIGN / "holes.md").read_text()
    assert sorted(hole_numbers()) == list(range(1, 16))
    for part in text.split("\n## Hole ")[1:]:
        number = part.partition(":")[0]
        for word in ("Rule", "Gap", "Here", "Held by"):
            assert f"\n**{word}.**" in part, f"hole {number} lacks {word}"
        assert f"| [{number}](#hole-{number}-" in text


def test_every_module_that_holds_a_hole_exists() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [Path(name).with_suffix("").parts for name in listed.stdout.split("\0") if name]
    known = {".".join(parts[-n:]) for parts in paths for n in (1, 2, 3)}
    held = re.findall(
        r"^\*\*Held by\.\*\*(.*?)(?=^## |\Z)",
        (DESIGN / "holes.md").read_text(),
        flags=re.MULTILINE | re.DOTALL,
    )
    rules_of_the_model = {"abstain", "token"}
    named = {name for each in held for name in re.findall(r"`([\w.]+)`", each)}
    assert named - known - rules_of_the_model == set()


def test_every_page_of_the_design_stands_in_its_index() -> None:
    index = (DESIGN / "README.md").read_text()
    pages = {str(p.relative_to(DESIGN)) for p in DESIGN.rglob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\((?!\.\.)([^)]+)\)", index)) == pages


def test_a_record_of_a_decision_is_short_and_has_its_four_parts() -> None:
    records = sorted((DESIGN / "adr").glob("*.md"))
    assert len(records) == 10
    for record in records:
        assert len(record.read_text().splitlines()) < 60, record.name
        assert headings(record, "##") == ["Context", "Decision", "Alternatives", "Consequences"]
