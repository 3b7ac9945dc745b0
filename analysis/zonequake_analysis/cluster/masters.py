"""Reads a Spark master's URL, before anything of Spark is imported."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from zonequake_analysis.cluster.connect_url import without_options
from zonequake_analysis.cluster.reach import LAST_PORT
from zonequake_analysis.errors import SessionError

STANDALONE, KUBERNETES = "spark://", "k8s://"
K8S_URL = "k8s://https://host:port"
_COUNT = r" *0*[1-9]\d{0,7} *"
_ON_THIS_MACHINE = re.compile(
    rf"local(\[(\*|{_COUNT})(,{_COUNT})?\]|-cluster\[{_COUNT},{_COUNT},{_COUNT}\])?"
)
"""`local-cluster[executors,cores,MB]` is Spark's own, for its tests."""
_PLACE = re.compile(r"([^:/@?#\s\[\]]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})")
_PORTS = {"https": 443, "http": 80}


def check_master(master: str) -> None:
    """Raises SessionError if this is no master that Spark can have."""
    if master.startswith(STANDALONE):
        standalone_places(master)
    elif master.startswith(KUBERNETES):
        api_server_place(master)
    elif master != "yarn" and _ON_THIS_MACHINE.fullmatch(master) is None:
        raise SessionError(
            f"--master: found {without_options(master) or 'an empty one'}, expected local, "
            f"local[4] (threads: 1 or more), local[*], spark://host:port, {K8S_URL} or yarn; "
            "sc://host:port is given by --remote"
        )


def standalone_places(master: str) -> list[tuple[str, int]]:
    """Returns the hosts and ports of a standalone master. Raises SessionError."""
    places = []
    for place in master.removeprefix(STANDALONE).split(","):
        found = _PLACE.fullmatch(place)
        if found is None or int(found[2]) not in range(1, LAST_PORT + 1):
            raise SessionError(f"--master: found {master}, expected spark://host:port")
        places.append((found[1], int(found[2])))
    return places


def api_server_place(master: str) -> tuple[str, str, int]:
    """Returns scheme, host and port of the API server of a `k8s://` master. Raises SessionError."""
    text = master.removeprefix(KUBERNETES)
    try:
        place = urlsplit(text if "://" in text else f"https://{text}")
        host, port = place.hostname, place.port or _PORTS[place.scheme]
    except (ValueError, KeyError):
        host, port = None, 0
    if not host:
        raise SessionError(f"--master: found {master}, expected {K8S_URL}")
    return place.scheme, host, port
