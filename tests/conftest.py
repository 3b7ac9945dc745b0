"""What all tests share: which of them wait for `make test-all`, and one Spark session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        action="store_true",
        help="run the tests marked `long` too, which `make test-all` runs (docs/testing.md)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what takes too long for each change, unless it is asked for."""
    if not config.getoption("--long"):
        left_out = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Takes Hypothesis's limit of 200 ms for an example from files that use it, before they load: a
    busy machine exceeds it."""
    if "hypothesis" in module_path.read_text(encoding="utf-8"):
        _patient_hypothesis()


@cache
def _patient_hypothesis() -> None:
    from hypothesis import settings

    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Removes Hypothesis's plugin where no test imported Hypothesis: its last hook would import it
    to say nothing, a third of the time of a single test."""
    plugins = session.config.pluginmanager
    if "hypothesis" not in sys.modules and plugins.has_plugin("hypothesispytest"):
        plugins.unregister(name="hypothesispytest")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests, tuned for many tiny jobs: interpreted, C1, one task."""
    # Only those who ask for it need Spark and Java.
    from zonequake_analysis.spark_pass.session import build_session
    from zonequake_analysis.spark_pass.settings import Size

    session = build_session(
        size=Size.SMALL, master="local[2]", settings={"spark.sql.shuffle.partitions": "1"}
    )
    yield session
    session.stop()
