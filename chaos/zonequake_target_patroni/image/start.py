"""Writes Patroni's configuration and becomes Patroni, in a member's container.

It needs Debian's Python alone. Each argument is `NAME=VALUE`: a setting of Patroni's dynamic
configuration, its value as JSON or else as text, such as `synchronous_mode=true` or
`postgresql.parameters.wal_level=logical`.
"""

import json
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).with_name("schema.sql")
PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/bin"))
OWN = "/tmp"  # noqa: S108 - the container's
FOLDER = "/data/postgres"
HOSTS = ("local all all", "host all all all", "host replication all all")


def dynamic(args: Sequence[str]) -> dict[str, Any]:
    """Returns the dynamic configuration. Raises ValueError for what is no setting."""
    settings: dict[str, Any] = {
        "ttl": 6,
        "loop_wait": 1,
        "retry_timeout": 2,
        "primary_start_timeout": 0,
        "postgresql": {"use_pg_rewind": True, "parameters": {"max_connections": 300}},
    }
    for word in args:
        name, separator, text = word.partition("=")
        if not separator or not all(name.split(".")):
            raise ValueError(f"target.args has {word!r}: expected NAME=VALUE, a setting of Patroni")
        *folders, last = name.split(".")
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
            "parameters": {
                "unix_socket_directories": OWN,
                "shared_buffers": "64MB",
                "checkpoint_timeout": "30s",
                "fsync": "on" if fsync else "off",
                "zonequake.member": pod,
            },
        },
    }


def main() -> None:
    name = Path("/data/identity")
    if not name.exists():
        name.write_text(uuid.uuid4().hex)
    if os.path.exists(FOLDER):
        os.chmod(FOLDER, 0o700)  # the volume's group gets rights when a pod mounts it again
    found = configuration(
        os.environ, sys.argv[1:], storage=name.read_text(), fsync=os.environ["FSYNC"] == "1"
    )
    file = Path(OWN) / "patroni.json"
    file.write_text(json.dumps(found))
    os.execv("/usr/bin/python3", ["python3", "-m", "patroni", str(file)])  # noqa: S606


if __name__ == "__main__":
    main()
