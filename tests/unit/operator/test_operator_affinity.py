"""Apache Ignite 3's rendezvous: its vectors, and what follows from its construction."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zonequake_operator.nodes.affinity import _mix, java_hash_code, rendezvous

names = st.sets(st.text(min_size=1, max_size=12), min_size=0, max_size=12)


def mix(node_hash: int, partition: int) -> int:
    """Rank of one node for one partition."""
    return int(_mix(np.array([node_hash], np.uint64), np.array([partition], np.uint64))[0, 0])


def test_single_values_are_those_of_ignite() -> None:
    assert java_hash_code("A") == 65
    assert java_hash_code("ü") == 252, "UTF-16 units, not bytes"
    assert java_hash_code("𐍈") == 0xD800 * 31 + 0xDF48
    assert mix(65, 0) == 5840034749268619250
    assert mix(1, 0) == 6614235796240398542


def test_a_partition_is_the_high_half_of_what_is_mixed() -> None:
    # By the same steps over Python's integers, each cut to 64 bits.
    assert mix(65, 1) == 7371094789894997718
    assert mix(65, 64_999) == -7241405017805636774


def test_the_order_of_seven_nodes_is_that_of_ignite() -> None:
    assert rendezvous("ABCDEFG", 1, 7) == [tuple("BECFADG")]


def test_the_set_of_ignites_own_test_is_found() -> None:
    nodes = [f"idrrt_tmrr_{i}" for i in range(5)]
    assert set(rendezvous(nodes, 1, 3)[0]) == {f"idrrt_tmrr_{i}" for i in (0, 1, 2)}


def test_nodes_that_hash_alike_are_ordered_by_name() -> None:
    assert java_hash_code("Aa") == java_hash_code("BB")
    assert rendezvous(["BB", "Aa"], 5, 2) == [("Aa", "BB")] * 5


def test_ignites_balance_holds() -> None:
    counts: dict[str, int] = {}
    for nodes in rendezvous([f"Node {i}" for i in range(50)], 10_000, 4):
        for node in nodes:
            counts[node] = counts.get(node, 0) + 1
    assert (min(counts.values()), max(counts.values())) == (716, 858)


def test_a_join_moves_replicas_only_to_the_new_node() -> None:
    nodes = [f"n{i}" for i in range(5)]
    before, after = rendezvous(nodes, 1024, 3), rendezvous([*nodes, "n5"], 1024, 3)
    moved = [set(b) - set(a) for a, b in zip(before, after, strict=True)]
    assert all(m in (set(), {"n5"}) for m in moved)
    assert 450 < sum(map(len, moved)) < 600  # ideal 512


@given(nodes=names, replicas=st.integers(1, 12), partitions=st.integers(1, 20))
def test_sizes_prefixes_and_input_order(nodes: set[str], replicas: int, partitions: int) -> None:
    sets = rendezvous(nodes, partitions, replicas)
    assert len(sets) == partitions
    assert rendezvous(sorted(nodes, reverse=True), partitions, replicas) == sets
    more = rendezvous(nodes, partitions, replicas + 1)
    for small, large in zip(sets, more, strict=True):
        assert len(small) == len(set(small)) == min(replicas, len(nodes))
        assert large[: len(small)] == small


def test_sixty_five_thousand_partitions_on_a_hundred_nodes_are_quick() -> None:
    began = time.process_time()
    rendezvous([f"n{i}" for i in range(100)], 65_000, 3)
    assert time.process_time() - began < 20, "a second where nothing else runs"
