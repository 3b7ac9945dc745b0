"""The report in a browser: findings, phases and clocks on the axis, and where a click leads.

Real clicks, wheels, drags and keys in a headless Chromium, on pages of made-up runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.spark.report import browser
from tests.spark.report.made_up_pages import HOSTILE, SECONDS, write_page

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not browser.is_there(), reason=browser.NO_BROWSER),
]

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser.opened(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {
        "three": write_page(folder / "three"),
        "many": write_page(folder / "many", partitions=128, busy=True),
        "hostile": write_page(folder / "hostile", hostile=HOSTILE),
    }


@pytest.fixture(autouse=True)
def wide(request: pytest.FixtureRequest) -> None:
    if "driver" in request.fixturenames:
        browser.resize(request.getfixturevalue("driver"), 1400, 1000)


def load(driver: Chrome, page: Path, address: str = "") -> None:
    """Opens a page as from a mail: nothing of an earlier view is left."""
    driver.get("about:blank")
    driver.get(page.as_uri() + address)
    browser.wait(driver).until(lambda d: d.find_elements(By.CSS_SELECTOR, ".axis .tick"))
    settled(driver)


def settled(driver: Chrome) -> None:
    """Waits until the page has drawn, and written its address."""
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => "
        "setTimeout(done, 250)))"
    )


def find(driver: Chrome, selector: str) -> list[WebElement]:
    """The elements that a person can see."""
    script = "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility())"
    return list(driver.execute_script(script, selector) or [])


def view(driver: Chrome) -> tuple[float, float]:
    """The seconds that the plots show."""
    (plot, *_) = find(driver, "#time .tall svg.plot")
    from_s, _, long_s, _ = map(float, str(plot.get_dom_attribute("viewBox")).split())
    return from_s, from_s + long_s


def address(driver: Chrome) -> dict[str, str]:
    """What the address keeps."""
    kept = parse_qs(driver.current_url.partition("#")[2])
    return {name: values[0] for name, values in kept.items()}


def click(driver: Chrome, element: WebElement) -> None:
    """Moves the pointer there and presses, as a person does; fails if another element is on top."""
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()
    settled(driver)


def scrolled(driver: Chrome) -> float:
    return float(str(driver.execute_script("return scrollY")))


def pins_of(driver: Chrome, selector: str) -> list[WebElement]:
    return find(driver, f"{selector} .pin")


def detail(driver: Chrome) -> str:
    (box,) = find(driver, "#time .detail")
    return str(box.text)


def test_kinds_stand_in_order_of_severity_with_their_counts(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    load(driver, pages["three"])
    rows = [" ".join(one.text.split()) for one in find(driver, ".kinds .label")]
    assert [row.split()[1] for row in rows] == ["lost-writes", "stale-reads", "linearizability"]
    data = json.loads(str(driver.execute_script("return document.all['run-data'].textContent")))
    for row, kind in zip(rows, data["kinds"], strict=True):
        assert row.split()[-1] == str(kind["count"])
    total = sum(int(one.text or 1) for one in pins_of(driver, ".kinds"))
    assert total == sum(kind["count"] for kind in data["kinds"]) > 1200


def test_a_click_on_a_finding_shows_its_operations_and_the_log_of_its_node(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    load(driver, pages["three"])
    (pin,) = pins_of(driver, ".kinds .row:first-child")  # both lost writes, near to each other
    assert pin.text == "2"
    click(driver, pin)
    assert "2 findings" in detail(driver)
    chips = find(driver, ".detail .chip")
    assert ["47.250 s" in chips[0].text, "47.500 s" in chips[1].text] == [True, True]
    click(driver, chips[1])
    assert "lost-writes · lost in z1/2 at 47.500 s · 22:30:47.500 UTC" in detail(driver)
    (named,) = find(driver, ".detail tr.named")
    assert named.text.split()[0] == "47.500"
    assert len(find(driver, ".detail .ops tr")) == 13
    lines = find(driver, ".detail .log .line")
    assert "heartbeat 47500" in " ".join(line.text for line in lines)
    assert all("zq-default-0: heartbeat" in line.text for line in lines)
    assert 10 <= len(lines) <= 24
    assert "FROM findings" in str(find(driver, ".detail details")[0].get_attribute("textContent"))
    assert address(driver)["at"] == "47.250000"
    click(driver, find(driver, ".detail .close")[0])
    assert not find(driver, ".detail")
    assert "at" not in address(driver)


def test_rows_of_partitions_show_findings_and_open_by_kind(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    load(driver, pages["three"])
    names = [one.text.split()[0] for one in find(driver, ".partition .label")]
    assert names == ["z1/2", "z1/0", "z1/1"], "the most severe first"
    click(driver, find(driver, ".partition .label")[0])
    opened = [one.text.split("\n")[0] for one in find(driver, ".row.below .label")]
    assert len(opened) == 3
    click(driver, pins_of(driver, ".row.below")[0])
    assert "in z1/2" in detail(driver)
    # A kind's name leaves that kind alone in the rows of partitions.
    click(driver, find(driver, ".detail .close")[0])
    click(driver, find(driver, ".kinds .label")[0])
    assert [one.text for one in pins_of(driver, ".partition")] == ["2"]
    assert address(driver)["only"] == "lost-writes/lost"


def test_wheel_drag_buttons_and_keys_zoom_and_move(driver: Chrome, pages: dict[str, Path]) -> None:
    load(driver, pages["three"])
    assert view(driver) == (0, SECONDS)
    (plot, *_) = find(driver, "#time .tall .area")
    origin = ScrollOrigin.from_element(plot, 0, 0)
    ActionChains(driver).scroll_from_origin(origin, 0, -800).perform()
    settled(driver)
    wheeled = view(driver)
    assert 30 < wheeled[0] < 60 < wheeled[1] < 90
    ActionChains(driver).move_to_element(plot).click_and_hold().move_by_offset(
        200, 0
    ).release().perform()
    settled(driver)
    dragged = view(driver)
    long_s = wheeled[1] - wheeled[0]
    assert dragged[1] - dragged[0] == pytest.approx(long_s, rel=0.01)
    assert dragged[0] == pytest.approx(wheeled[0] - 200 * long_s / plot.size["width"], rel=0.02)
    for button, key in (("right", Keys.ARROW_RIGHT), ("in", "+"), ("left", Keys.ARROW_LEFT)):
        before = view(driver)
        click(driver, find(driver, f"[data-do={button}]")[0])
        pressed = view(driver)
        assert pressed != before
        click(driver, find(driver, "[data-do=whole]")[0])
        assert view(driver) == (0, SECONDS)
        load(driver, pages["three"], f"#from={before[0]}&to={before[1]}")
        find(driver, "#time .lanes")[0].send_keys(key)
        settled(driver)
        assert view(driver) == pytest.approx(pressed, abs=0.01)
        load(driver, pages["three"], f"#from={pressed[0]}&to={pressed[1]}")


def test_marks_come_apart_when_time_is_stretched(driver: Chrome, pages: dict[str, Path]) -> None:
    load(driver, pages["three"], "#from=47&to=48")
    assert [one.text for one in pins_of(driver, ".kinds .row:first-child")] == ["", ""]
    second = pins_of(driver, ".kinds .row:first-child")[1]
    area = find(driver, ".kinds .row:first-child .area")[0]
    middle = second.rect["x"] + second.rect["width"] / 2 - area.rect["x"]
    assert middle / area.rect["width"] == pytest.approx(0.5, abs=0.01), "47.5 of 47 to 48"


def test_an_address_brings_the_same_view_and_finding_back(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    load(driver, pages["three"], "#from=40&to=60")
    click(driver, pins_of(driver, ".kinds .row:nth-child(2)")[3])
    chips = find(driver, ".detail .chip")
    if len(chips) > 1:
        click(driver, chips[1])
    said, seen, url = detail(driver), view(driver), driver.current_url
    driver.get("about:blank")
    driver.get(url)
    settled(driver)
    assert detail(driver) == said
    assert view(driver) == pytest.approx(seen, abs=0.002)
    assert driver.current_url == url


def test_times_further_down_lead_to_their_place_on_the_axis(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    load(driver, pages["three"])
    (of_fault,) = [one for one in find(driver, "table a") if one.text == "50.00 s"]
    click(driver, of_fault)
    assert view(driver) == pytest.approx((38, 74), abs=0.01), "as much time around it as it took"
    # A page scrolls by whole pixels.
    assert -1 < find(driver, "#time")[0].rect["y"] - scrolled(driver) < 300
    (of_violation,) = [one for one in find(driver, ".card p a") if one.text == "47.250 s"]
    click(driver, of_violation)
    assert "lost-writes · lost in z1/2 at 47.250 s" in detail(driver)


def test_next_and_previous_walk_through_all_findings(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    load(driver, pages["three"], "#from=70&to=78")
    click(driver, find(driver, "[data-find=next]")[0])
    click(driver, find(driver, "[data-find=next]")[0])
    first = float(address(driver)["at"])
    find(driver, "#time .lanes")[0].send_keys("n")
    settled(driver)
    second = float(address(driver)["at"])
    assert second > first
    find(driver, "#time .lanes")[0].send_keys("p")
    settled(driver)
    assert float(address(driver)["at"]) == first
    from_s, to_s = view(driver)
    assert from_s <= first <= to_s


def test_phases_faults_and_the_wall_clock_stand_on_the_axis(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    load(driver, pages["three"])
    phases = [one.text for one in find(driver, ".phases .words")]
    assert phases == ["preload", "before", "faults", "recovery", "quiet", "final"]
    assert [one.text for one in find(driver, ".faults .words")] == ["kill-leader", "slow-disk"]
    ticks = [one.text.split("\n") for one in find(driver, "#time .axis .tick")]
    assert ["40 s", "22:30:40"] in ticks
    assert "2023-11-14" in find(driver, "#time .axis .label")[0].text
    load(driver, pages["three"], "#from=45.2&to=45.6")
    ticks = [one.text.split("\n") for one in find(driver, "#time .axis .tick")]
    assert ["45.3 s", "22:30:45.300"] in ticks
    assert [one.text for one in find(driver, ".phases .words")] == ["faults"]


def test_a_narrow_screen_needs_no_sideways_scrolling_and_keeps_letters_readable(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    for page in (pages["three"], pages["many"]):
        browser.resize(driver, 400, 900)
        load(driver, page)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 400
        heights = driver.execute_script(
            "return [...document.querySelectorAll('#time .label, #time .tick, #time .pin')]"
            ".filter(e => e.textContent && e.offsetParent)"
            ".map(e => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(heights) >= 10
        card, checks = driver.execute_script(
            "const t = document.querySelector('.checks');"
            "return [t.closest('.card').clientWidth, t.closest('.card').scrollWidth]"
        )
        assert checks <= card, "what was checked is cut off"
        cut = driver.execute_script(
            "return [...document.querySelectorAll('.card > .stacked')].map(t => t.closest('.card'))"
            ".map(card => card.scrollWidth - card.clientWidth)"
        )
        assert len(cut) > 2, "faults, windows, and metrics of each of them"
        assert max(cut) <= 0, "faults, windows or metrics are cut off"
        letters = driver.execute_script(
            "return [...document.querySelectorAll('.curve-chart text')]"
            ".filter(e => e.checkVisibility())"
            ".map(e => 12 * e.getScreenCTM().a)"
        )
        assert min(letters) >= 10
        header = driver.execute_script("return document.querySelector('#windows tr').offsetHeight")
        assert header == 0, "each cell has its label"
        click(driver, pins_of(driver, ".kinds")[0])
        (box,) = find(driver, ".detail")
        assert box.rect["width"] <= 400


def test_128_partitions_are_readable_and_the_file_small(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    assert pages["many"].stat().st_size <= MOST_BYTES
    load(driver, pages["many"])
    assert len(find(driver, ".partition")) == 24
    click(driver, find(driver, ".show-all")[0])
    boxes = driver.execute_script(
        "return [...document.querySelectorAll('.partition')].map(e => e.getBoundingClientRect())"
    )
    assert len(boxes) == 128
    tops, heights = ([box[name] for box in boxes] for name in ("y", "height"))
    assert min(heights) >= 12
    assert all(b - a >= h - 0.5 for a, b, h in zip(tops, tops[1:], heights[:-1], strict=False))
    click(driver, pins_of(driver, ".partition")[-1])
    assert "in z1/" in detail(driver)


def test_pins_of_a_row_do_not_cover_each_other(driver: Chrome, pages: dict[str, Path]) -> None:
    for width in (1400, 400):
        browser.resize(driver, width, 900)
        load(driver, pages["many"])
        row = pins_of(driver, ".kinds .row:first-child")
        boxes = sorted((one.rect["x"], one.rect["width"]) for one in row)
        overlaps = [
            x + wide - after for (x, wide), (after, _) in pairwise(boxes) if x + wide > after + 6
        ]
        assert len(boxes) > 5
        assert overlaps == [], width


def test_what_a_run_says_is_never_run_and_nothing_is_loaded(
    driver: Chrome, pages: dict[str, Path]
) -> None:
    browser.entries(driver, "performance")
    load(driver, pages["hostile"])
    click(driver, pins_of(driver, ".kinds .row:first-child")[0])
    assert HOSTILE in detail(driver), "shown as it is"
    title = str(driver.execute_script("return document.title"))
    assert title.startswith("made-up")
    asked = [
        json.loads(entry["message"])["message"] for entry in browser.entries(driver, "performance")
    ]
    urls = [
        one["params"]["request"]["url"]
        for one in asked
        if one["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in urls if not url.startswith(("file:", "about:", "data:"))] == []
    assert [
        e["message"] for e in browser.entries(driver, "browser") if e["level"] == "SEVERE"
    ] == []
