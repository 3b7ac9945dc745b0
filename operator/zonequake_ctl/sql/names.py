"""SQL names to names of resources.

    Accounts         accounts           in lower case
    my_zone          my-zone            `_` isn't allowed in a resource's name
    db.schema.Zone1  db.schema.zone1    dots are

Two SQL names may meet in one: `my_zone` and `"my-zone"`, `Accounts` and `"Accounts"`. So the name
as it was written stays in an annotation, and the second one is refused. A resource without it was
made by other means, and any SQL name that leads to it means it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from zonequake_ctl.sql.parser import parse_name
from zonequake_ctl.sql.statements import SqlName

SQL_NAME = "zonequake.io/sql-name"
"""The annotation with the name as it was written."""
MAX_PARTS = 3
"""database.schema.name."""
MAX_CHARS = 50
"""As the schema of zones has it: partitions are named after their zone."""
_PART = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def resource_name(name: SqlName) -> str:
    """Returns the resource's name. Raises ValueError with what is wrong and what is expected."""
    parts = [part.lower().replace("_", "-") for part in name.parts]
    for written, part in zip(name.parts, parts, strict=True):
        if _PART.fullmatch(part) is None:
            raise ValueError(
                f"{written!r} can't be a resource's name, expected letters a to z, digits, "
                "'_' and '-', with a letter or digit at both ends"
            )
    if len(parts) > MAX_PARTS:
        raise ValueError(f"the name has {len(parts)} parts, expected at most database.schema.name")
    joined = ".".join(parts)
    if len(joined) > MAX_CHARS:
        raise ValueError(f"the name has {len(joined)} characters, expected at most {MAX_CHARS}")
    return joined


def written_name(resource: Mapping[str, Any]) -> str:
    """Returns how people wrote the resource's name in SQL."""
    meta = resource["metadata"]
    return str((meta.get("annotations") or {}).get(SQL_NAME, meta["name"]))


def means(name: SqlName, resource: Mapping[str, Any]) -> bool:
    """Returns whether this SQL name means the resource; both have the same resource name."""
    kept = (resource["metadata"].get("annotations") or {}).get(SQL_NAME)
    if kept is None:
        return True
    original = parse_name(kept)
    return original is None or original.parts == name.parts
