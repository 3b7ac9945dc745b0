"""A page counts what changes only where a test counts it too; or the count is soon out of date."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.simulation.planted.registry import all_planted
from tests.unit.repository.test_layout import ROOT
from tests.unit.simulation.test_every_rule_is_broken import rules_of_the_code
from zonequake_analysis.metrics.spans import MOST_FAULTS

TAKEN_ON_A_DAY = {"detection.md", "ignite-3.1.md", "performance.md", "record.md", "runs.md"}
"""Pages of what was measured: their counts are those of then."""

NUMBER = (
    r"[1-9][0-9,]*|(?:six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)"
    r"teen|twenty|thirty|forty|fifty)(?:-[a-z]+)?"
)
THING = (
    "alert|check|checker|command|condition|event|fault|hole|image|invariant|metric|mutation|"
    "package|page|record|rule|scenario|scene|script|system|table|target|test|trigger"
)
COUNT = re.compile(
    rf"(?<![\w.,=-])(?:{NUMBER}) (?:[a-z][a-z-]* )?(?:{THING})s\b", flags=re.IGNORECASE
)
HELD = {
    ("README.md", f"{len(rules_of_the_code())} rules"),
    ("README.md", f"{len(list(all_planted()))} faults"),
    ("docs/analysis.md", f"{MOST_FAULTS} faults"),
}
"""The counts that pages have, from what they count."""


def counts(text: str) -> list[str]:
    """Returns the phrases that count six or more of something that a change may add to."""
    return [found[0] for found in COUNT.finditer(" ".join(text.split()))]


def counted_in_pages() -> Iterator[tuple[str, str]]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "charts/zonequake/README.md"]
    for page in (*pages, *sorted((ROOT / "docs").rglob("*.md"))):
        if page.name not in TAKEN_ON_A_DAY:
            for phrase in counts(page.read_text()):
                yield page.relative_to(ROOT).as_posix(), phrase


def test_a_count_is_seen_across_lines_and_in_words() -> None:
    assert counts("Twenty-two alerts and 142\nfaults; `ten` open rules") == [
        "Twenty-two alerts",
        "142 faults",
    ]
    assert counts("two targets, 3.5 faults, replicas=5 targets") == []


def test_pages_count_only_what_is_counted_here() -> None:
    assert set(counted_in_pages()) == HELD


def test_the_table_of_planted_faults_has_all_of_them() -> None:
    page = (ROOT / "docs" / "detection.md").read_text()
    assert re.findall(r"^(\d+) faults:", page, flags=re.MULTILINE) == [
        f"{len(list(all_planted()))}"
    ]
