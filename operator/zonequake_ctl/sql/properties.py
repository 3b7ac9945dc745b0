"""The properties of zones and tables in SQL, and their values as resources hold them.

Each reader takes a value as written and returns the field's value, or raises ValueError with what
was expected; the parser adds where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from zonequake_operator.resources.model import DEFAULT_PARTITIONS, ConsistencyMode
from zonequake_operator.resources.overrides import AUTO_ADJUST, SCALE_DOWN, SCALE_UP

MAX_INT = 2**31 - 1
"""The largest whole number that the resources' fields take."""
INFINITE = "Infinite"


class ValueForm(StrEnum):
    """The lexical form of a value in a statement."""

    NUMBER = "number"
    STRING = "string"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlValue:
    """A value as written: a number's digits, a string without quotes, or a name. `at`: offset.

    `offsets`: of a string, where each of its characters stands in the text, and its end.
    """

    form: ValueForm
    text: str
    at: int
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A property of a zone: the field of its spec, and how a value is read."""

    field: str
    read: Callable[[SqlValue], int | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedProperty:
    """A field that can't be altered, and why not. `default`: what it is if nothing was said."""

    default: int | str
    because: str


def _number(low: int, high: int) -> Callable[[SqlValue], int]:
    def read(value: SqlValue) -> int:
        number = _whole(value)
        if number is None or not low <= number <= high:
            raise _no_number(value, f"a whole number from {low} to {high}")
        return number

    return read


def _seconds(value: SqlValue) -> int | str:
    if value.form is not ValueForm.NUMBER and value.text.casefold() == INFINITE.casefold():
        return INFINITE
    number = _whole(value)
    if number is None or not 0 <= number <= MAX_INT:
        raise _no_number(value, f"whole seconds (0 to {MAX_INT}) or INFINITE")
    return number


def _whole(value: SqlValue) -> int | None:
    """Reads a whole number, with underscores between digits as in 300_000; None if it is none."""
    if value.form is not ValueForm.NUMBER:
        return None
    try:
        return int(value.text)
    except ValueError:
        return None


def _no_number(value: SqlValue, expected: str) -> ValueError:
    is_quoted = value.form is not ValueForm.NUMBER and value.text.replace("_", "").isdigit()
    return ValueError(f"{expected}, without quotes" if is_quoted else expected)


def _filter(value: SqlValue) -> str | None:
    """Returns the filter without its quotes; empty means no filter. The parser checks what is in
    it.
    """
    if value.form is not ValueForm.STRING:
        raise ValueError("a filter in single quotes, such as '\"SSD\"'")
    return value.text or None


def _function(value: SqlValue) -> str:
    if value.form is ValueForm.NUMBER or value.text.casefold() != "rendezvous":
        raise ValueError("rendezvous, the only affinity function")
    return "rendezvous"


def _consistency_mode(value: SqlValue) -> str:
    wanted = value.text.replace("_", "").casefold()
    for mode in ConsistencyMode:
        if mode.value.casefold() == wanted:
            return mode.value
    raise ValueError("'STRONG_CONSISTENCY' or 'HIGH_AVAILABILITY'")


ZONE_PROPERTIES: Mapping[str, Property] = {
    "DATA_NODES_AUTO_ADJUST": Property(field=AUTO_ADJUST, read=_seconds),
    "DATA_NODES_AUTO_ADJUST_SCALE_UP": Property(field=SCALE_UP, read=_seconds),
    "DATA_NODES_AUTO_ADJUST_SCALE_DOWN": Property(field=SCALE_DOWN, read=_seconds),
    "DATA_NODES_FILTER": Property(field="dataNodesFilter", read=_filter),
    "PARTITIONS": Property(field="partitions", read=_number(1, 65_000)),
    "REPLICAS": Property(field="replicas", read=_number(1, 1_000)),
    "AFFINITY_FUNCTION": Property(field="affinityFunction", read=_function),
    "CONSISTENCY_MODE": Property(field="consistencyMode", read=_consistency_mode),
    "PARTITION_DISTRIBUTION_RESET_TIMEOUT": Property(
        field="partitionDistributionResetTimeout", read=_number(0, MAX_INT)
    ),
}
"""Zone properties by SQL name, in the order in which they are shown."""

FIXED: Mapping[str, FixedProperty] = {
    "PARTITIONS": FixedProperty(
        default=DEFAULT_PARTITIONS, because="keys would belong to other partitions"
    ),
    "CONSISTENCY_MODE": FixedProperty(
        default=ConsistencyMode.STRONG_CONSISTENCY.value,
        because="the data was written under the other promise",
    ),
}
"""Properties that can't be changed, by SQL name."""

PRIMARY_ZONE = "PRIMARY_ZONE"
