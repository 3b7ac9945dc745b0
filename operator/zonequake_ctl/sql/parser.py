"""SQL text to statements.

    CREATE ZONE zone1 WITH DATA_NODES_AUTO_ADJUST_SCALE_UP = 300, PARTITIONS = 1024; // a comment
    ALTER ZONE IF EXISTS db.schema.zone1 SET DATA_NODES_FILTER = ‘(“US” || “EU”) && “SSD”’
    CREATE TABLE accounts WITH PRIMARY_ZONE = zone1
    ALTER TABLE GROUP zone1 WITH DATA_NODES_AUTO_ADJUST = 1000

Keywords and unquoted names are the same in any case. WITH and SET mean the same, so do `,` and `&`;
properties may stand in parentheses. WITH, SET, GROUP and IF are no names, unless in quotes: they
stand where a forgotten name should, or part a statement. Source: `distribution-zones`,
configuration syntax.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence

from lark import Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError

from zonequake_ctl.errors import SqlError
from zonequake_ctl.sql.grammar import NAMES, STATEMENTS, VERBS
from zonequake_ctl.sql.properties import PRIMARY_ZONE, ZONE_PROPERTIES, SqlValue, ValueForm
from zonequake_ctl.sql.statements import (
    AlterTable,
    AlterTablesZone,
    AlterZone,
    CreateTable,
    CreateZone,
    DescribeTable,
    DescribeTableGroup,
    DescribeZone,
    DropTable,
    DropZone,
    SelectAll,
    SqlName,
    Statement,
    TableView,
    ZoneSettings,
    as_value,
    as_written,
)
from zonequake_operator.errors import FilterError
from zonequake_operator.nodes import filters
from zonequake_operator.resources.overrides import AUTO_ADJUST, SCALE_DOWN, SCALE_UP

_NO_NAMES = ("group", "if")
"""Keywords where a name may stand, too: TABLE GROUP z, ZONE IF EXISTS z."""
_LAST_WORD = re.compile(rf"\b({'|'.join(_NO_NAMES)})\s*\Z", re.IGNORECASE)
_BEHIND_A_NAME = ("$END", "SEMICOLON", "LPAR", "ELLIPSIS", "_WITH", "_SET")

_EXPECTED = {
    "NAME": "a name",
    "QUOTED": None,
    "PROPERTY": "a property",
    "NUMBER": "a number",
    "STRING": "a text in single quotes",
    "ELLIPSIS": "columns",
    "SEMICOLON": "';'",
    "EQUAL": "'='",
    "COMMA": "','",
    "AMPERSAND": "'&'",
    "STAR": "'*'",
    "DOT": None,
    "LPAR": "'('",
    "RPAR": "')'",
    "$END": "the end",
}
"""The terminals in words for readers; None: not worth naming beside the others."""

_QUOTES = "\"“”„'‘’‚"


def parse(text: str) -> list[Statement]:
    """All statements of `text`, in their order.

    Raises:
        SqlError: it isn't well formed, or a value isn't one that the property takes.
    """
    try:
        statements = _Statements(text).transform(STATEMENTS.parse(text))
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        if text.startswith("/*", at):
            raise SqlError(
                text, at, "the comment that begins here has no end, expected '*/'"
            ) from None
        if text[at] in _QUOTES:
            raise SqlError(
                text, at, "the text that begins here has no closing quote of its kind"
            ) from None
        accepted = error.interactive_parser.accepts()  # type: ignore[no-untyped-call]
        raise SqlError(text, at, f"found {text[at]!r}, {_expected(accepted)}") from None
    except UnexpectedToken as error:
        ends = error.token.type == "$END"
        at = len(text.rstrip()) if ends else error.token.start_pos or 0
        found = "the end" if ends else repr(str(error.token))
        word = _LAST_WORD.search(text, 0, at)
        is_name = word is not None and error.token.type in _BEHIND_A_NAME
        hint = f'; for the name {word[1]} write "{word[1]}"' if word and is_name else ""
        raise SqlError(text, at, f"found {found}, {_expected(error.accepts)}{hint}") from None
    except VisitError as error:
        if isinstance(error.orig_exc, SqlError):
            raise error.orig_exc from None
        raise
    if not statements:
        raise SqlError(text, 0, f"found no statement, expected {_one_of(VERBS)}")
    return statements


def parse_name(text: str) -> SqlName | None:
    """`text` as one name, for instance `db.schema.zone1`; None if it isn't one."""
    try:
        tree = NAMES.parse(text)
    except (UnexpectedCharacters, UnexpectedToken):
        return None
    name = _Name().transform(tree)
    return None if "" in name.parts else name


def _expected(terminals: Iterable[str] | None) -> str:
    words = {_EXPECTED.get(t, t.strip("_")) for t in terminals or ()}
    return f"expected {_one_of(sorted(word for word in words if word))}"


def _one_of(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


@v_args(inline=True)
class _Name(Transformer[Token, SqlName]):
    """A name alone."""

    def name(self, *parts: Token) -> SqlName:
        return _name(parts)


@v_args(inline=True)
class _Statements(Transformer[Token, list[Statement]]):
    """Turns the syntax tree into statements, checking the values on the way."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def start(self, *items: Statement | None) -> list[Statement]:
        return [item for item in items if item is not None]

    def nothing(self) -> None:
        return None

    def create_zone(
        self, verb: Token, if_not_exists: bool, name: SqlName, settings: list[_Setting] | None
    ) -> CreateZone:
        return CreateZone(
            name=name,
            settings=self._zone_settings(settings or []),
            if_not_exists=if_not_exists,
            at=_at(verb),
        )

    def alter_zone(
        self, verb: Token, if_exists: bool, name: SqlName, settings: list[_Setting]
    ) -> AlterZone:
        return AlterZone(
            name=name, settings=self._zone_settings(settings), if_exists=if_exists, at=_at(verb)
        )

    def drop_zone(self, verb: Token, if_exists: bool, name: SqlName) -> DropZone:
        return DropZone(name=name, if_exists=if_exists, at=_at(verb))

    def create_table(
        self,
        verb: Token,
        if_not_exists: bool,
        name: SqlName,
        columns: bool | None,
        settings: list[_Setting] | None,
    ) -> CreateTable:
        if settings is None:
            raise SqlError(
                self._text,
                _at(verb),
                f"the table {name.written} has no zone, expected WITH {PRIMARY_ZONE} = and a "
                "zone's name: a table lives in the partitions of its zone",
            )
        return CreateTable(
            name=name,
            primary_zone=self._primary_zone(settings),
            if_not_exists=if_not_exists,
            has_columns=bool(columns),
            at=_at(verb),
        )

    def alter_table(
        self, verb: Token, if_exists: bool, name: SqlName, settings: list[_Setting]
    ) -> AlterTable | AlterTablesZone:
        of_zone = [setting for setting in settings if setting[0].upper() in ZONE_PROPERTIES]
        if of_zone:
            self._zone_settings(of_zone)
            return AlterTablesZone(
                name=name,
                settings=", ".join(
                    f"{each.upper()} = {as_written(value)}" for each, value in of_zone
                ),
                if_exists=if_exists,
                at=_at(of_zone[0][0]),
            )
        return AlterTable(
            name=name,
            primary_zone=self._primary_zone(settings),
            if_exists=if_exists,
            at=_at(verb),
        )

    def drop_table(self, verb: Token, if_exists: bool, name: SqlName) -> DropTable:
        return DropTable(name=name, if_exists=if_exists, at=_at(verb))

    def describe_zone(self, verb: Token, name: SqlName) -> DescribeZone:
        return DescribeZone(name=name, at=_at(verb))

    def describe_table(self, verb: Token, name: SqlName) -> DescribeTable:
        return DescribeTable(name=name, at=_at(verb))

    def describe_table_group(self, verb: Token, name: SqlName) -> DescribeTableGroup:
        return DescribeTableGroup(name=name, at=_at(verb))

    def select_all(self, verb: Token, view: Token) -> SelectAll:
        return SelectAll(view=TableView(view.upper()), at=_at(verb))

    # ------------------------------------------------------------------------------------ parts

    def unless(self, exists: Token | None) -> bool:
        return exists is not None

    provided = unless

    def columns(self, *tokens: Token) -> bool:
        """Returns whether columns were given. `…` stands for those that the document leaves out."""
        return bool(tokens) and tokens[0].type != "ELLIPSIS"

    def settings(self, *settings: _Setting) -> list[_Setting]:
        return list(settings)

    def setting(self, name: Token, value: SqlValue | SqlName) -> _Setting:
        return name, value

    def number(self, token: Token) -> SqlValue:
        return SqlValue(form=ValueForm.NUMBER, text=str(token), at=_at(token))

    def string(self, token: Token) -> SqlValue:
        begin, inner = _at(token) + 1, token[1:-1]
        offsets, text = [], []
        index = 0
        while index < len(inner):
            offsets.append(begin + index)
            text.append(inner[index])
            index += 2 if token[0] == "'" and inner[index] == "'" else 1
        offsets.append(begin + len(inner))
        return SqlValue(
            form=ValueForm.STRING, text="".join(text), at=_at(token), offsets=tuple(offsets)
        )

    def named(self, name: SqlName) -> SqlName:
        return name

    def name(self, *parts: Token) -> SqlName:
        for part in parts:
            if part.type == "NAME" and part.lower() in _NO_NAMES:
                expected = f'expected a name: one that is a keyword stands in quotes, "{part}"'
                raise SqlError(self._text, _at(part), f"found {str(part)!r}, {expected}")
        name = _name(parts)
        if "" in name.parts:
            at = _at(parts[name.parts.index("")])
            raise SqlError(self._text, at, "found empty quotes, expected a name in them")
        return name

    # ----------------------------------------------------------------------------------- checks

    def _zone_settings(self, settings: list[_Setting]) -> ZoneSettings:
        fields: dict[str, int | str | None] = {}
        places: dict[str, int] = {}
        for name, written in settings:
            found = ZONE_PROPERTIES.get(name.upper())
            if found is None:
                raise self._unknown(name, ZONE_PROPERTIES)
            if found.field in fields:
                raise SqlError(self._text, _at(name), f"{name.upper()} is set twice")
            value = as_value(written)
            try:
                fields[found.field] = found.read(value)
            except ValueError as error:
                raise SqlError(
                    self._text, value.at, f"found {as_written(written)!r}, expected {error}"
                ) from None
            if name.upper() == "DATA_NODES_FILTER":
                self._check_filter(value)
            places[found.field] = _at(name)
        clash = [field for field in (SCALE_UP, SCALE_DOWN) if field in fields]
        if AUTO_ADJUST in fields and clash:
            raise SqlError(
                self._text,
                max(places[AUTO_ADJUST], places[clash[0]]),
                "DATA_NODES_AUTO_ADJUST stands for both directions; remove it, or remove "
                "DATA_NODES_AUTO_ADJUST_SCALE_UP and DATA_NODES_AUTO_ADJUST_SCALE_DOWN",
            )
        return ZoneSettings(fields=fields, at=places)

    def _check_filter(self, value: SqlValue) -> None:
        if not value.text:
            return
        try:
            filters.parse(value.text)
        except FilterError as error:
            at = value.offsets[min(error.position - 1, len(value.offsets) - 1)]
            raise SqlError(self._text, at, f"in the filter: {error.problem}") from None

    def _primary_zone(self, settings: list[_Setting]) -> SqlName:
        (name, written), *more = settings
        if name.upper() != PRIMARY_ZONE:
            if name.upper() in ZONE_PROPERTIES:
                way = f"and that name as {PRIMARY_ZONE} here"
                raise self._of_zones(
                    name, written, PRIMARY_ZONE, "CREATE ZONE with a name and", way
                )
            raise self._unknown(name, [PRIMARY_ZONE])
        for other, value in more:
            if other.upper() in ZONE_PROPERTIES:
                zone = written.written if isinstance(written, SqlName) else written.text
                raise self._of_zones(other, value, "the end", f"ALTER ZONE {zone}")
        if more:
            raise SqlError(
                self._text, _at(more[0][0]), f"found {str(more[0][0])!r}, expected the end"
            )
        if isinstance(written, SqlName):
            return written
        if written.form is ValueForm.NUMBER:
            raise SqlError(self._text, written.at, f"found {written.text}, expected a zone's name")
        return self._quoted_zone(written)

    def _of_zones(
        self, name: Token, written: SqlValue | SqlName, expected: str, instead: str, more: str = ""
    ) -> SqlError:
        """Returns the error that a property of zones was given to a table, with what to write
        instead.
        """
        words = f"expected {expected}: it is a property of zones; write {instead} WITH"
        told = f"found {str(name)!r}, {words} {name.upper()} = {as_written(written)}"
        return SqlError(self._text, _at(name), f"{told}, {more}" if more else told)

    def _quoted_zone(self, value: SqlValue) -> SqlName:
        """PRIMARY_ZONE = 'zone1' means the same as without the quotes."""
        name = parse_name(value.text)
        if name is None:
            raise SqlError(self._text, value.at, f"found {value.text!r}, expected a zone's name")
        return SqlName(parts=name.parts, written=name.written, at=value.at)

    def _unknown(self, name: Token, known: Collection[str]) -> SqlError:
        near = difflib.get_close_matches(name.upper(), known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return SqlError(
            self._text, _at(name), f"found {str(name)!r}{hint}, expected {_one_of(list(known))}"
        )


_Setting = tuple[Token, SqlValue | SqlName]
"""A property's name and its value as written."""


def _name(parts: Sequence[Token]) -> SqlName:
    return SqlName(
        parts=tuple(p[1:-1] if p.type == "QUOTED" else p.lower() for p in parts),
        written=".".join(f'"{p[1:-1]}"' if p.type == "QUOTED" else p for p in parts),
        at=_at(parts[0]),
    )


def _at(token: Token) -> int:
    return token.start_pos or 0
