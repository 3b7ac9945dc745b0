"""Names of nodes with and without the release, and pools whose names end alike."""

from __future__ import annotations

import pytest

from zonequake_chaos.scenario.node_names import node_named, node_of_pools

SIZES = {"hot": 2, "very-hot": 1}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("hot-1", "hot-1"),
        ("zq-hot-1", "hot-1"),
        ("very-hot-0", "very-hot-0"),
        ("zq-very-hot-0", "very-hot-0"),
        ("hot-2", None),
        ("shot-1", None),
    ],
)
def test_a_node_is_of_the_pool_with_the_longest_name_that_fits(
    name: str, meant: str | None
) -> None:
    assert node_of_pools(name, SIZES) == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [("zq-hot-0", "zq-hot-0"), ("very-hot-0", "zq-very-hot-0"), ("hot-0", None), ("shot-0", None)],
)
def test_a_short_name_stands_for_a_node_if_it_can_be_no_other(name: str, meant: str | None) -> None:
    assert node_named(name, ("zq-hot-0", "zq-very-hot-0")) == meant
