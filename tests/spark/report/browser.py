"""A headless Chromium for tests, driven as a person would: real clicks, wheels and keys.

python -m tests.spark.report.browser PAGE PICTURE WIDTH [HEIGHT] [#ADDRESS]
"""

from __future__ import annotations

import base64
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NO_BROWSER = "no Chromium with its driver here (chromium, chromedriver)"
PATIENCE_S = 100


def is_there() -> bool:
    """Whether this machine has a browser and its driver."""
    return any(map(shutil.which, _BROWSERS)) and shutil.which("chromedriver") is not None


@contextmanager
def opened(folder: Path) -> Iterator[Chrome]:
    """A browser that keeps its profile in `folder`; it ends with the block."""
    options = ChromeOptions()
    options.binary_location = next(found for name in _BROWSERS if (found := shutil.which(name)))
    for argument in (
        "--headless=new",
        "--no-sandbox",  # tests run as root
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--user-data-dir={folder}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(PATIENCE_S)
        driver.set_script_timeout(PATIENCE_S)
        yield driver
    finally:
        driver.quit()


def resize(driver: Chrome, width: int, height: int) -> None:
    """Gives the page this many pixels; narrower than any window on a desktop can be."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def wait(driver: Chrome) -> WebDriverWait[Chrome]:
    """Waits for conditions of the page."""
    return WebDriverWait(driver, PATIENCE_S, poll_frequency=0.05)


def picture(driver: Chrome, file: Path, *, whole: bool = True) -> None:
    """Writes the page as PNG; `whole`: with all that lies below the window."""
    asked = {"format": "png", "captureBeyondViewport": whole}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", asked)
    file.write_bytes(base64.b64decode(shot["data"]))


def entries(driver: Chrome, log: str) -> list[dict[str, Any]]:
    """What a log of the browser says since it was last asked: `browser` or `performance`."""
    ask: Any = driver.get_log
    return list(ask(log))


if __name__ == "__main__":
    page, target, wide, *rest = sys.argv[1:]
    with opened(Path("/tmp/zonequake-browser")) as browser:
        resize(browser, int(wide), int(rest[0]) if rest else 1000)
        browser.get(Path(page).resolve().as_uri() + (rest[1] if len(rest) > 1 else ""))
        wait(browser).until(lambda d: d.execute_script("return document.readyState") == "complete")
        picture(browser, Path(target), whole=not rest[1:])
        for entry in entries(browser, "browser"):
            print(entry["level"], entry["message"])
