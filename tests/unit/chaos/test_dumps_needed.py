"""A run compares replicas by their dumps, so a release that gives none is refused beforehand."""

from __future__ import annotations

import pytest

from zonequake_chaos.errors import GuardError
from zonequake_chaos.load.installation import Installation
from zonequake_target_store.package import TARGET


def installed(**words: str) -> Installation:
    data = {"release": "zq", "loadImage": "i:1", "loadPullPolicy": "Never", "storeService": "s"}
    return Installation.of({"metadata": {"namespace": "n"}, "data": {**data, **words}})


def test_a_release_that_keeps_its_dumps_in_is_refused_with_what_to_do() -> None:
    with pytest.raises(GuardError, match=r"--set harness\.dumps=true"):
        TARGET.check_release(installed(dumps="false"))


def test_one_that_gives_them_is_taken_and_so_is_one_from_before_that_word() -> None:
    TARGET.check_release(installed(dumps="true"))
    TARGET.check_release(installed())
