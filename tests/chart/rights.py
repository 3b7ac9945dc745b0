"""Rights, as docs/security.md lists them and as the chart's Roles grant them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
HEADING = "## Rights"


class Right(NamedTuple):
    """`account` is the Role's name without the release; "nodes (cluster)" is a ClusterRole's."""

    account: str
    group: str
    resource: str
    verb: str


def listed(page: str) -> dict[Right, str]:
    """The reason of each right in the page's table."""
    section = page.partition(f"{HEADING}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|(.*)\|(.*)\|(.*)\|(.*)\|(.*)\|$", section, flags=re.MULTILINE)
    found: dict[Right, str] = {}
    for account, group, resources, verbs, why in (map(str.strip, row) for row in rows[2:]):
        for resource in resources.split(", "):
            for verb in verbs.split(", "):
                right = Right(account, group, resource, verb)
                assert right not in found, f"{right} is listed twice"
                found[right] = why
    return found


def granted(documents: list[dict[str, Any]], release: str) -> set[Right]:
    """What the Roles and ClusterRoles among these documents grant."""
    return {
        Right(_account(document, release), group, resource, verb)
        for document in documents
        if document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _account(document: dict[str, Any], release: str) -> str:
    name = str(document["metadata"]["name"]).partition(f"{release}-")[2]
    return f"{name} (cluster)" if document["kind"] == "ClusterRole" else name
