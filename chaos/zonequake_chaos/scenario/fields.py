"""The common base of a manifest's parts: names of fields, and their types.

Field names in the file are camelCase with units written out: `timeout_s` is `timeoutSeconds`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_UNITS = {"_s": "_seconds", "_ms": "_milliseconds"}


def file_name(attribute: str) -> str:
    """Returns a field's name in the file: `catch_up_bytes_per_second` -> `catchUpBytesPerSecond`,
    `timeout_s` -> `timeoutSeconds`.
    """
    for unit, words in _UNITS.items():
        if attribute.endswith(unit):
            attribute = attribute.removesuffix(unit) + words
    head, *tail = attribute.split("_")
    return head + "".join(word.capitalize() for word in tail)


class ManifestPart(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=file_name
):
    """Base of all parts of a manifest."""


Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
PositiveCount = Annotated[int, Meta(ge=1, le=65_000)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
VariableName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="a name of letters, digits and _"),
]
_PATH = r"^(/(?!\.{1,2}(/|$))[^/\x00]+)+$"
FilePath = Annotated[
    str, Meta(pattern=_PATH, description="an absolute path of a file, without . and ..")
]
FolderPath = Annotated[
    str,
    Meta(
        pattern=_PATH,
        description="an absolute path of a folder, without . and .., and no / at its end",
    ),
]
SecretName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$",
        description="the name of a Secret: small letters, digits, - and .",
    ),
]
