"""How faults are planted into the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.planted.registry import Planted

Patch = pytest.MonkeyPatch


def changed_result(patch: Patch, module: object, name: str, changed: Callable[..., Any]) -> None:
    """`changed(result, *arguments)` instead of what a function gives."""
    real = getattr(module, name)
    patch.setattr(module, name, lambda *args, **kwargs: changed(real(*args, **kwargs), *args))


def planted(scenario: str, what: str, apply_: Callable[[Patch], None], name: str) -> Planted:
    """A fault of the operator's."""
    return Planted(name=name, area="operator", scenario=scenario, what=what, apply=apply_)
