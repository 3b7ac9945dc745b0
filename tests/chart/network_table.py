"""Connections, as docs/security.md lists them."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.chart.network_model import Port, port_of

HEADING = "## Network policies"


class Connection(NamedTuple):
    """Kinds of pods, `api-server`, or `other`."""

    source: str
    target: str
    port: Port


def listed(page: str) -> dict[Connection, str]:
    """The reason of each connection in the page's table."""
    section = page.partition(f"{HEADING}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|(.*)\|(.*)\|(.*)\|(.*)\|$", section, flags=re.MULTILINE)
    found: dict[Connection, str] = {}
    for sources, targets, ports, why in (map(str.strip, row) for row in rows[2:]):
        for source in sources.split(", "):
            for target in targets.split(", "):
                for port in ports.split(", "):
                    connection = Connection(source, target, port_of(port))
                    assert connection not in found, f"{connection} is listed twice"
                    found[connection] = why
    return found
