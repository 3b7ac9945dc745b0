"""Every script ends well with the shipped code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.scripts.every import SCRIPTS

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_no_rule_is_broken_by_a_script(script: Callable[[], None]) -> None:
    script()
