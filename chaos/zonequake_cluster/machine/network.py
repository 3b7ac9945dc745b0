"""The addresses of an embedded node, and its only link to the host.

A node has its own network namespace, with its pods, services and kube-proxy's rules; the host has
one veth with a network of four addresses, and no rule and no forwarding for it.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.errors import NoFreeNetwork, StartFailed
from zonequake_cluster.machine.locks import lock_folder

#: The node's end of the veth, as the supervisor finds it.
NODE_INTERFACE = "node0"

#: Blocks of 65,536 addresses, in the order in which they are tried. 10.64 and up first: home and
#: cloud networks are numbered from 10.0 on. 198.18/15 is for benchmarks (RFC 2544).
CANDIDATES = (
    *(ipaddress.IPv4Network(f"10.{second}.0.0/16") for second in range(64, 255)),
    *(ipaddress.IPv4Network(f"172.{second}.0.0/16") for second in range(16, 32)),
    *(ipaddress.IPv4Network(f"198.{second}.0.0/16") for second in (18, 19)),
)
_LOCK_WAIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The parts of one block: veth .0.0/30, DNS .0.10, services .64.0/18, pods .128.0/17."""

    block: ipaddress.IPv4Network

    @property
    def wire(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network((self.block.network_address, 30))

    @property
    def host(self) -> ipaddress.IPv4Address:
        return self.block[1]

    @property
    def node(self) -> ipaddress.IPv4Address:
        return self.block[2]

    @property
    def dns(self) -> ipaddress.IPv4Address:
        return self.block[10]

    @property
    def services(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network((self.block[64 * 256], 18))

    @property
    def pods(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network((self.block[128 * 256], 17))


def choose(used: Iterable[ipaddress.IPv4Network]) -> Addresses:
    """Returns the first candidate that overlaps nothing in `used`. Raises NoFreeNetwork."""
    taken = list(used)
    for block in CANDIDATES:
        if not any(block.overlaps(network) for network in taken):
            return Addresses(block=block)
    raise NoFreeNetwork(
        f"the machine routes every range that the node could use ({CANDIDATES[0]} to "
        f"{CANDIDATES[-1]}): remove a route (`ip route`), or name another cluster with --context"
    )


def parse_used(routes: str, links: str) -> list[ipaddress.IPv4Network]:
    """Parses the networks in `ip -json route` and `ip -json address`, without the default route."""
    used = [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in json.loads(routes or "[]")
        if route["dst"] != "default"
    ]
    used += [
        ipaddress.IPv4Network((address["local"], address["prefixlen"]), strict=False)
        for link in json.loads(links or "[]")
        for address in link.get("addr_info", ())
        if address["family"] == "inet"
    ]
    return used


def connect(interface: str, init_pid: int) -> Addresses:
    """Chooses a network and creates the veth from the host to the namespace of `init_pid`.

    One process at a time on the machine: the next one sees the choice as a route.
    """
    with lock_folder(Path(tempfile.gettempdir()), wait_s=_LOCK_WAIT_S) as held:
        if not held:
            raise StartFailed(
                f"the network's lock was not free within {_LOCK_WAIT_S:.0f} s: "
                "another cluster start hangs; stop it and try again"
            )
        used = parse_used(
            _ip("-json", "-4", "route", "show", "table", "all"), _ip("-json", "-4", "address")
        )
        addresses = choose(used)
        _ip(
            *("link", "add", interface, "type", "veth"),
            *("peer", "name", NODE_INTERFACE, "netns", str(init_pid)),
        )
        prefix = addresses.wire.prefixlen
        _ip("address", "add", f"{addresses.host}/{prefix}", "dev", interface)
        _ip("link", "set", interface, "up")
    return addresses


def disconnect(interface: str) -> None:
    """Removes the host's end of the veth, and so the other; does nothing if there is none."""
    if Path("/sys/class/net", interface).exists():
        subprocess.run(["ip", "link", "delete", interface], check=False, capture_output=True)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise StartFailed(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout
