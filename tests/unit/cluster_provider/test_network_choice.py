from __future__ import annotations

import ipaddress
import itertools

import pytest

from zonequake_cluster.errors import NoFreeNetwork
from zonequake_cluster.machine.network import CANDIDATES, Addresses, choose, parse_used

Network = ipaddress.IPv4Network


def test_the_first_block_is_taken_on_a_machine_without_private_networks() -> None:
    assert choose([Network("192.0.2.0/24")]).block == Network("10.64.0.0/16")


def test_a_block_of_which_any_part_is_routed_is_left_out() -> None:
    assert choose([Network("10.64.0.0/30")]).block == Network("10.65.0.0/16")
    assert choose([Network("10.64.255.7/32"), Network("10.65.3.0/24")]).block == Network(
        "10.66.0.0/16"
    )


def test_a_route_to_all_of_10_moves_the_node_to_172() -> None:
    assert choose([Network("10.0.0.0/8")]).block == Network("172.16.0.0/16")


def test_a_machine_that_routes_everything_is_told_what_to_do() -> None:
    used = [Network("10.0.0.0/8"), Network("172.16.0.0/12"), Network("198.18.0.0/15")]
    with pytest.raises(NoFreeNetwork, match="--context"):
        choose(used)


def test_the_parts_of_a_block_do_not_overlap() -> None:
    for block in CANDIDATES:
        parts = Addresses(block=block)
        networks = [parts.wire, Network(parts.dns), parts.services, parts.pods]
        for one, other in itertools.combinations(networks, 2):
            assert not one.overlaps(other), block
        assert all(network.subnet_of(block) for network in networks)
        assert {parts.host, parts.node} == set(parts.wire.hosts())


def test_routes_and_addresses_are_read_from_ip_and_the_default_is_left_out() -> None:
    routes = '[{"dst":"default","gateway":"192.0.2.1"},{"dst":"10.1.0.0/16"},{"dst":"10.9.9.9"}]'
    links = (
        '[{"ifname":"eth0","addr_info":[{"family":"inet","local":"192.0.2.2","prefixlen":24},'
        '{"family":"inet6","local":"fd00::2","prefixlen":64}]},{"ifname":"down0"}]'
    )
    assert parse_used(routes, links) == [
        Network("10.1.0.0/16"),
        Network("10.9.9.9/32"),
        Network("192.0.2.0/24"),
    ]


def test_a_machine_without_routes_uses_nothing() -> None:
    assert parse_used("", "[]") == []
