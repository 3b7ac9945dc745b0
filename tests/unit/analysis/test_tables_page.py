"""docs/tables.md names every table and column with its type, as the code has them."""

from __future__ import annotations

import re

import pytest

from tests.histories.questions import PAGE, questions
from zonequake_analysis.tables.schemas import (
    ABOUT,
    OF_THE_VERDICT,
    TABLES,
    arrow_schema,
    columns_of,
)


def on_the_page(table: str) -> list[tuple[str, str]]:
    section = PAGE.read_text().partition(f"\n## `{table}`\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, flags=re.MULTILINE)


def test_the_page_has_a_section_of_each_table_in_their_order() -> None:
    headings = re.findall(r"^## `(\w+)`$", PAGE.read_text(), flags=re.MULTILINE)
    assert headings == list(TABLES) == list(ABOUT)


@pytest.mark.parametrize("table", TABLES)
def test_the_page_has_each_column_with_its_type(table: str) -> None:
    assert on_the_page(table) == list(columns_of(TABLES[table]).items())


def test_five_questions_have_a_query_each() -> None:
    assert len(questions()) == 5
    assert all(query.startswith("SELECT") for query in questions().values())


@pytest.mark.parametrize("table", OF_THE_VERDICT)
def test_a_table_of_the_verdict_has_a_schema_for_its_writer(table: str) -> None:
    assert arrow_schema(TABLES[table]).names == list(columns_of(TABLES[table]))
