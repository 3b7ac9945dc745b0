"""Converts values that people wrote in YAML to msgspec types, with errors for people.

Each error names the place, what was found there and what is expected: the `description` of the
type's `Meta`, or else what follows from the type itself. A class that msgspec doesn't know reads
itself: its `read` takes the value and its path, and raises NotExpectedError.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from enum import Enum
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, overload

import msgspec
from msgspec import UnsetType

T = TypeVar("T")
MAX_SHOWN_CHARS = 80
_PLAIN = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "array": "a list",
    "object": "a mapping",
}


class NotExpectedError(ValueError):
    """A value of the file isn't what is expected there."""


def refuse(path: str, found: object, expected: str) -> NoReturn:
    """Raises NotExpectedError: at `path` this was found, and not `expected`."""
    raise NotExpectedError(f"{path or 'the file'}: found {shown(found)}, expected {expected}")


def shown(value: object) -> str:
    """Renders a value for an error: as JSON, cut if it is long."""
    text = ""
    for piece in json.JSONEncoder(default=str, ensure_ascii=False).iterencode(value):
        text += piece
        if len(text) > MAX_SHOWN_CHARS:
            return f"{text[:MAX_SHOWN_CHARS]}…"
    return text


@overload
def convert(value: object, kind: type[T], path: str = "") -> T: ...
@overload
def convert(value: object, kind: Any, path: str = "") -> Any: ...  # noqa: ANN401
def convert(value: object, kind: Any, path: str = "") -> Any:
    """Returns `value` as a `kind`. Raises NotExpectedError at the innermost place of a fault."""
    try:
        return msgspec.convert(value, kind, dec_hook=_read)
    except msgspec.ValidationError as error:
        _explain(value, kind, path, error)


def _read(kind: Any, value: object) -> object:  # noqa: ANN401
    return kind.read(value, "")


def check_names(value: Mapping[Any, object], allowed: Collection[str], path: str) -> None:
    """Refuses a key that isn't allowed, with the most similar one. Raises NotExpectedError."""
    for key in value:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise NotExpectedError(
                f"{path or 'the file'}: found the unknown key {shown(key)}{hint}, expected only "
                f"{', '.join(allowed)}"
            )


def file_names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Returns the keys of a mapping in the file, the tag's first."""
    tag = kind.__struct_config__.tag_field
    return (*([tag] if tag else []), *kind.__struct_encode_fields__)


def _explain(value: object, kind: Any, path: str, error: Exception) -> NoReturn:  # noqa: ANN401
    members = list(_members(kind))
    for member in members:
        if hasattr(member, "read"):
            member.read(value, path)
    for inner, inner_kind, inner_path in _parts(value, members, path):
        try:
            msgspec.convert(inner, inner_kind, dec_hook=_read)
        except msgspec.ValidationError as inner_error:
            _explain(inner, inner_kind, inner_path, inner_error)
    refuse(path, value, _expected(kind, value) or _words(error))


def _members(kind: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yields the types of a union, without what only says that the value may be missing."""
    if get_origin(kind) is Annotated:
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for member in get_args(kind):
            yield from _members(member)
    elif kind not in (NoneType, UnsetType):
        yield kind


def _parts(value: object, kinds: list[Any], path: str) -> Iterator[tuple[object, Any, str]]:
    """Yields the values inside, each with its type and path."""
    structs = [kind for kind in kinds if _is_struct(kind)]
    if isinstance(value, dict) and structs:
        yield from _fields(value, structs, path)
    for kind in kinds:
        origin, inner = get_origin(kind), get_args(kind)
        if isinstance(value, list) and origin in (list, tuple):
            of_each = inner if origin is tuple and ... not in inner else repeat(inner[0])
            for i, (item, item_kind) in enumerate(zip(value, of_each, strict=False)):
                yield item, item_kind, f"{path}[{i}]"
        elif isinstance(value, dict) and origin is dict:
            for key, item in value.items():
                yield key, inner[0], path
                yield item, inner[1], _below(path, key)


def _fields(
    value: dict[Any, Any], structs: list[type[msgspec.Struct]], path: str
) -> Iterator[tuple[object, Any, str]]:
    kind, tag_field = structs[0], structs[0].__struct_config__.tag_field
    if tag_field is not None:
        by_tag = {one.__struct_config__.tag: one for one in structs}
        if tag_field not in value:
            refuse(path, value, f"{tag_field} too: {any_of(by_tag)}")
        yield value[tag_field], Literal[tuple(by_tag)], _below(path, tag_field)
        kind = by_tag[value[tag_field]]
    check_names(value, file_names(kind), path)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, field in fields.items():
        if field.required and key not in value:
            refuse(path, value, f"{key} too")
    for key, inner in value.items():
        if key != tag_field:
            yield inner, fields[key].type, _below(path, key)


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _is_struct(kind: Any) -> bool:  # noqa: ANN401
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _expected(kind: Any, value: object) -> str:  # noqa: ANN401
    """Words for what is expected; empty if msgspec's own are the best."""
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        said = next((meta.description for meta in metas if getattr(meta, "description", "")), "")
        if said and str in _members(inner) and isinstance(value, bool | int | float | date):
            said += "; YAML reads this as something else than a text, put it in quotes"
        return said or _expected(inner, value)
    if get_origin(kind) in (Union, UnionType):
        members = [one for one in get_args(kind) if one not in (NoneType, UnsetType)]
        return _expected(members[0], value) if len(members) == 1 else ""
    if get_origin(kind) is Literal:
        return any_of(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return any_of([member.value for member in kind])
    if _is_struct(kind):
        return f"a mapping with {', '.join(file_names(kind))}"
    return "true or false" if kind is bool else ""


def any_of(values: Collection[object]) -> str:
    """`A, B or C`."""
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


def _words(error: Exception) -> str:
    """Msgspec's own words for what it expected, without its names of types."""
    said = str(error).removeprefix("Expected ").partition(", got")[0].partition(" - at")[0]
    for name, plain in _PLAIN.items():
        said = said.replace(f"`{name}`", plain)
    return said
