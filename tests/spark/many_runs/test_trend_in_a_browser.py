"""The page of a trend in a browser: letters that can be read, and what the pointer shows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By

from tests.spark.report import browser
from zonequake_analysis.many_runs.trend_page import render_trend
from zonequake_analysis.many_runs.trend_rows import RUN, TrendRow, trends, without_rows

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not browser.is_there(), reason=browser.NO_BROWSER),
]

WIDE, NARROW = 1400, 400
DAY_NS = 86_400_000_000_000
BEGAN_NS = 1_795_000_000_000_000_000
RUNS = 160
CHANGED = (40, 80, 86, 120)
_BOXES = """
return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility())
  .map(e => [e.textContent, e.getBoundingClientRect(), e.closest('.plot').getBoundingClientRect()])
  .map(([words, b, plot]) => [words, b.left, b.right, b.top, b.bottom, plot.left, plot.right])
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser.opened(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of many versions, changes close to each other, outliers, and runs left out."""
    drawn = random.Random(7)
    rows = [without_rows(f"runs/x{n}", f"x{n}", f"runs/x{n}: " + "torn " * 30) for n in range(5)]
    level = 40_000.0
    for number in range(RUNS):
        known = {
            "run": f"leader-kill-against-a-long-name-{number}",
            "folder": f"runs/r{number}",
            "time_ns": BEGAN_NS + number * DAY_NS,
            "version": f"0.{number // 9}.0",
            "target": "zonequake",
            "scenario": "leader-kill",
        }
        rows.append(msgspec.convert(known | {"objective": RUN, "verdict": "passed"}, TrendRow))
        level *= 1.4 if number in CHANGED else 1.0
        for objective, unit in (("faults.all.p99", "ms"), ("faults.rate", "/s")):
            value = level * drawn.uniform(0.97, 1.03) * (20 if number == 100 else 1)
            rows.append(
                msgspec.convert(
                    known | {"objective": objective, "unit": unit, "value": value}, TrendRow
                )
            )
    file = tmp_path_factory.mktemp("pages") / "trend.html"
    file.write_text(render_trend(trends(rows), rows, "runs"))
    return file


def load(driver: Chrome, page: Path, width: int) -> None:
    browser.resize(driver, width, 900)
    driver.get(page.as_uri())
    browser.wait(driver).until(lambda d: d.find_elements(By.CSS_SELECTOR, "svg[data-series]"))


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_letters_keep_their_size_at_any_width(driver: Chrome, page: Path, width: int) -> None:
    load(driver, page, width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    sizes = driver.execute_script("""
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
        while (texts.nextNode()) {
          const e = texts.currentNode.parentElement, svg = e.closest('svg');
          if (!texts.currentNode.data.trim() || !e.checkVisibility()) continue;
          if (e.closest('script, title, desc')) continue;
          const scale = svg ? e.getScreenCTM().a : 1;
          found.push([parseFloat(getComputedStyle(e).fontSize) * scale, texts.currentNode.data]);
        }
        return found""")
    assert len(sizes) > 100
    assert min(sizes)[0] >= 10


@pytest.mark.parametrize("width", [WIDE, 640, NARROW])
def test_labels_of_a_drawing_neither_cover_each_other_nor_leave_it(
    driver: Chrome, page: Path, width: int
) -> None:
    load(driver, page, width)
    assert driver.execute_script("return document.querySelectorAll('.step').length") >= 8
    boxes = driver.execute_script(_BOXES, ".plot span:not(.axis):not(.over)")
    assert len(boxes) >= 12
    for words, left, right, _, _, first, last in boxes:
        assert first - 1 <= left < right <= last + 1, words
    for number, (words, left, right, top, bottom, *_) in enumerate(boxes):
        for other, from_x, to_x, from_y, to_y, *_ in boxes[:number]:
            is_apart = right <= from_x or to_x <= left or bottom <= from_y or to_y <= top
            assert is_apart, f"{words} covers {other}"
    for words, left, *_ in driver.execute_script(_BOXES, ".plot .axis"):
        assert left >= 0, f"{words} is cut off"


def test_tables_are_stacked_on_a_narrow_screen(driver: Chrome, page: Path) -> None:
    load(driver, page, NARROW)
    cut = driver.execute_script(
        "return [...document.querySelectorAll('.card')].filter(c => c.querySelector('table'))"
        ".map(card => card.scrollWidth - card.clientWidth)"
    )
    assert len(cut) == 3, "change points, versions, and what was left out"
    assert max(cut) <= 0


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_pointer_shows_the_run_under_it(driver: Chrome, page: Path, width: int) -> None:
    load(driver, page, width)
    drawing = driver.find_element(By.CSS_SELECTOR, "svg[data-series]")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", drawing)
    wide = drawing.rect["width"]
    for number in (0, 100, RUNS - 1):
        at = round((number + 0.5) / RUNS * wide - wide / 2)
        ActionChains(driver, duration=0).move_to_element_with_offset(drawing, at, 0).perform()
        told = str(driver.execute_script("return document.getElementById('tip').textContent"))
        shown = int(told.splitlines()[1].rpartition("-")[2])
        assert abs(shown - number) <= RUNS / wide
