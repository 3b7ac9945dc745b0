"""Writes Patroni's configuration and becomes Patroni, in a member's container.

It needs Debian's Python alone. Each argument is `NAME=VALUE`: a setting of Patroni's dynamic
configuration, its value as JSON or else as text, such as `synchronous_mode=true` or
`postgresql.parameters.wal_level=logical`.
"""

import json
import os
import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).with_name("schema.sql")
PYTHON = "/usr/bin/python3"
"""Debian's, which has Patroni; the one that the PATH finds is the client's."""
PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/bin"))
OWN = "/tmp"  # noqa: S108 - the container's
FOLDER = "/data/postgres"
IDENTITY = "/data/identity"
HOSTS = ("local all all", "host all all all", "host replication all all")
RESERVED = 20
"""Connections for Patroni and pg_rewind alone: commits that wait for a standby hold all others, and
a member that can't be rewound once never comes back.
"""

SETTINGS = frozenset(
    {
        *("check_timeline", "failsafe_mode", "ignore_slots", "loop_wait", "max_timelines_history"),
        *("maximum_lag_on_failover", "maximum_lag_on_syncnode", "member_slots_ttl", "postgresql"),
        *("primary_race_backoff", "primary_start_timeout", "primary_stop_timeout"),
        *("retry_timeout", "slots", "synchronous_mode", "synchronous_mode_strict"),
        *("synchronous_node_count", "ttl"),
    }
)
"""Names of Patroni's dynamic configuration, newer releases' too. Patroni passes over any other."""

OF_POSTGRESQL = frozenset(
    {
        *("parameters", "pg_ident", "recovery_conf", "use_pg_rewind", "use_slots"),
        *("remove_data_directory_on_diverged_timelines", "remove_data_directory_on_rewind_failure"),
    }
)
"""Names below `postgresql`, but `pg_hba`, which the run sets for each member."""

PARAMETER = re.compile(r"[A-Za-z_]\w*")
"""A parameter of PostgreSQL itself, and of no extension."""

OWN_PARAMETERS = {
    "fsync": "the zone's fsync says it",
    "superuser_reserved_connections": "the run sets it",
    "unix_socket_directories": "the run sets it",
    **dict.fromkeys(
        ("cluster_name", "hot_standby", "listen_addresses", "port"), "Patroni sets it itself"
    ),
}
"""Parameters for which each member's own configuration would win without a word, and why."""

WHOLE_NUMBERS = frozenset(
    {
        *("loop_wait", "max_timelines_history", "maximum_lag_on_failover", "primary_start_timeout"),
        *("primary_stop_timeout", "retry_timeout", "synchronous_node_count", "ttl"),
    }
)
"""Settings that are not negative. Patroni takes its default for what is no number."""

SSL = "ssl"

SWITCHES = frozenset(
    {
        *("check_timeline", "failsafe_mode", "synchronous_mode", "synchronous_mode_strict"),
        *("postgresql.use_pg_rewind", "postgresql.use_slots"),
    }
)
"""Settings that are true or false. Patroni takes any other value for false."""


def dynamic(args: Sequence[str]) -> dict[str, Any]:
    """Returns the dynamic configuration. Raises ValueError for what is no setting."""
    settings: dict[str, Any] = {
        "ttl": 6,
        "loop_wait": 1,
        "retry_timeout": 2,
        "primary_start_timeout": 0,
        "postgresql": {
            "use_pg_rewind": True,
            "parameters": {
                "max_connections": 300,
                "shared_buffers": "64MB",
                "checkpoint_timeout": "30s",
            },
        },
    }
    named = set[str]()
    for word in args:
        name, separator, text = word.partition("=")
        if not separator or not all(name.split(".")):
            raise ValueError(f"target.args has {word!r}: expected NAME=VALUE, a setting of Patroni")
        if name.startswith("postgresql.parameters."):
            name = name.lower()  # as PostgreSQL does
        if name in named:
            raise ValueError(f"target.args has {name} twice: leave one out")
        named.add(name)
        *folders, last = name.split(".")
        _check_name(word, name.split("."))
        _check_value(word, name, text)
        place = settings
        for folder in folders:
            place = place.setdefault(folder, {})
            if not isinstance(place, dict):
                raise ValueError(f"target.args has {word!r}: {folder} is a value, and no group")
        try:
            place[last] = json.loads(text)
        except ValueError:
            place[last] = text
    return settings


def _check_value(word: str, name: str, text: str) -> None:
    """Raises ValueError for a value that Patroni or PostgreSQL would take for another."""
    for switch in SWITCHES:
        if name.startswith(f"{switch}.") or (name == switch and text not in ("true", "false")):
            raise ValueError(f"target.args has {word!r}: expected {switch}=true or {switch}=false")
    if name in WHOLE_NUMBERS and not re.fullmatch("[0-9]+", text):
        raise ValueError(f"target.args has {word!r}: expected a whole number that is not negative")
    if name == f"postgresql.parameters.{SSL}" and text not in ("on", "off"):
        raise ValueError(f"target.args has {word!r}: expected {name}=on or {name}=off")


def parameters_of(settings: Mapping[str, Any]) -> list[str]:
    """Returns the names of PostgreSQL's own parameters that a dynamic configuration sets."""
    return sorted(settings["postgresql"]["parameters"])


def _check_name(word: str, parts: Sequence[str]) -> None:
    """Raises ValueError for a name that Patroni would pass over."""
    if parts[0] not in SETTINGS:
        known, what = SETTINGS, "a setting of Patroni"
    elif parts[0] == "postgresql" and "".join(parts[1:2]) not in OF_POSTGRESQL:
        known, what = OF_POSTGRESQL, "one below postgresql"
    elif parts[1:2] == ["parameters"] and not PARAMETER.fullmatch(".".join(parts[2:])):
        raise ValueError(f"target.args has {word!r}: expected the name of one parameter")
    elif parts[1:2] == ["parameters"] and parts[2] in OWN_PARAMETERS:
        why = OWN_PARAMETERS[parts[2]]
        raise ValueError(f"target.args has {word!r}, and {why}: leave it out")
    else:
        return
    raise ValueError(f"target.args has {word!r}: expected {what}: {', '.join(sorted(known))}")


def configuration(
    env: Mapping[str, str], args: Sequence[str], *, storage: str, fsync: bool
) -> dict[str, Any]:
    """Returns the configuration of the member `POD`; `storage` names its volume."""
    pod, port = env["POD"], env["CLIENTS"]
    host = f"{pod}.{env['SERVICE']}"
    users = {"superuser": "postgres", "rewind": "postgres", "replication": "replicator"}
    return {
        "scope": env["SCOPE"],
        "name": pod,
        "tags": {"storage": storage},
        "restapi": {
            "listen": f"0.0.0.0:{env['PEERS']}",
            "connect_address": f"{host}:{env['PEERS']}",
        },
        "kubernetes": {
            "namespace": env["NAMESPACE"],
            "labels": json.loads(env["LABELS"]),
            "scope_label": env["SCOPE_LABEL"],
        },
        "bootstrap": {
            "dcs": dynamic(args),
            "initdb": ["no-locale", {"encoding": "UTF8"}, {"auth": "trust"}],
            "post_init": f"{PROGRAMS}/psql -v ON_ERROR_STOP=1 -q -f {SCHEMA}",
        },
        "postgresql": {
            "bin_dir": str(PROGRAMS),
            "data_dir": FOLDER,
            "pgpass": f"{OWN}/pgpass",
            "listen": f"0.0.0.0:{port}",
            "connect_address": f"{host}:{port}",
            "authentication": {each: {"username": name} for each, name in users.items()},
            "pg_hba": [f"{kind} trust" for kind in HOSTS],
            "basebackup": [{"checkpoint": "fast"}],
            "parameters": {
                "unix_socket_directories": OWN,
                "superuser_reserved_connections": RESERVED,
                "fsync": "on" if fsync else "off",
                "zonequake.member": pod,
            },
        },
    }


def identity(place: Path) -> str:
    """Returns the name of the volume, which gets one at first; it outlasts a loss of power."""
    if not place.exists():
        unfinished = place.with_suffix(".unfinished")
        with unfinished.open("w") as file:
            file.write(uuid.uuid4().hex)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(place)
        folder = os.open(place.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    return place.read_text()


def main() -> None:
    storage = identity(Path(IDENTITY))
    if os.path.exists(FOLDER):
        os.chmod(FOLDER, 0o700)  # the volume's group gets rights when a pod mounts it again
        # Of a container that was killed. A process of another pod may have its number now, and
        # PostgreSQL would take that for its own.
        Path(FOLDER, "postmaster.pid").unlink(missing_ok=True)
    found = configuration(
        os.environ, sys.argv[1:], storage=storage, fsync=os.environ["FSYNC"] == "1"
    )
    file = Path(OWN) / "patroni.json"
    file.write_text(json.dumps(found))
    # By its path: by its name alone Python takes the PATH's first for itself, and lacks Patroni.
    os.execv(PYTHON, [PYTHON, "-m", "patroni", str(file)])  # noqa: S606


if __name__ == "__main__":
    main()
