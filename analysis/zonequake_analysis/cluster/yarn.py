"""Finds the resource managers of YARN in Hadoop's configuration, and tries to connect to them.

Hadoop's client asks one that can't be reached for 15 minutes, with nothing but warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from zonequake_analysis.cluster.reach import refusal
from zonequake_analysis.errors import SessionError

VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Those that Spark takes the configuration from, in its order."""
_FILE = "yarn-site.xml"
_MANAGER = "yarn.resourcemanager"
_DEFAULTS = {f"{_MANAGER}.hostname": "0.0.0.0"}  # noqa: S104 - Hadoop's own: this machine
_PORT = 8032
_REFERENCE = re.compile(r"\$\{([^}$\s]+)\}")


def check_resource_manager(environment: Mapping[str, str]) -> None:
    """Tries to connect to the resource managers; one is enough.

    They are left to Hadoop's client if the configuration can't be understood here. Raises
    SessionError if there is none, or if no resource manager answers.
    """
    folders = configuration(environment)
    file, settings = _settings(folders.values())
    places = None if settings is None else resource_managers(settings)
    refused = []
    for host, port in places or ():
        why = refusal(host, port)
        if why is None:
            return
        refused.append(f"{host}:{port}: {why}")
    if refused:
        source = file or f"Hadoop's default, without {_FILE} in {', '.join(folders.values())}"
        raise SessionError(
            f"the resource manager of YARN can't be reached ({'; '.join(refused)}; by {source}); "
            "is it running there, and does a firewall let this machine connect?"
        )


def configuration(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the folders of the configuration by variable. Raises SessionError if there is none,
    or one isn't there.
    """
    folders = {name: environment[name] for name in VARIABLES if environment.get(name)}
    if not folders:
        raise SessionError(
            f"--master yarn: found neither {' nor '.join(VARIABLES)} in the environment, expected "
            f"one of them to name the folder of {_FILE}"
        )
    for name, folder in folders.items():
        if not Path(folder).is_dir():
            raise SessionError(
                f"--master yarn: found {name}={folder}, expected a folder with {_FILE}"
            )
    return folders


def resource_managers(settings: Mapping[str, str]) -> list[tuple[str, int]] | None:
    """Returns hosts and ports by the properties of `yarn-site.xml`; None if one isn't understood,
    as it refers to what isn't there.
    """
    known = _DEFAULTS | dict(settings)
    suffixes = [""]
    if known.get(f"{_MANAGER}.ha.enabled", "").strip().lower() == "true":
        names = known.get(f"{_MANAGER}.ha.rm-ids", "").split(",")
        suffixes = [f".{name.strip()}" for name in names if name.strip()]
    found = []
    for suffix in suffixes:
        address = known.get(f"{_MANAGER}.address{suffix}") or known.get(
            f"{_MANAGER}.hostname{suffix}", ""
        )
        host, _, port = _resolved(address.strip(), known).partition(":")
        if not host or "$" in host or not (port or str(_PORT)).isdigit():
            return None
        found.append((host, int(port or _PORT)))
    return found or None


def _resolved(value: str, known: Mapping[str, str]) -> str:
    """Returns a value with the properties that it refers to."""
    for _ in range(len(known)):
        resolved = _REFERENCE.sub(lambda found: known.get(found[1], found[0]), value)
        if resolved == value:
            break
        value = resolved
    return value


def _settings(folders: Iterable[str]) -> tuple[Path | None, dict[str, str] | None]:
    """Returns the first file and its properties: none without a file, None if it can't be read."""
    for folder in folders:
        file = Path(folder) / _FILE
        if not file.exists():
            continue
        try:
            root = ElementTree.parse(file).getroot()  # noqa: S314 - the user's own configuration
        except (OSError, ElementTree.ParseError):
            return file, None
        each = (
            (entry.findtext("name"), entry.findtext("value")) for entry in root.iter("property")
        )
        return file, {name.strip(): value.strip() for name, value in each if name and value}
    return None, {}
