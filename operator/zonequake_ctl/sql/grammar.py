"""The grammar of the documents' SQL, for lark."""

from __future__ import annotations

from lark import Lark

from zonequake_ctl.sql.statements import TableView

VERBS = ("ALTER", "CREATE", "DESCRIBE", "DROP", "SELECT")
_KEPT = (*VERBS, "EXISTS", *TableView)
"""Keywords that the statements are built from."""
_DROPPED = ("FROM", "GROUP", "IF", "NOT", "SET", "TABLE", "WITH", "ZONE")
"""Keywords that only part the others; Lark leaves out what begins with an underscore."""

_RULES = r"""
    start: item (";" item)*
    ?item: statement
         |             -> nothing
    ?statement: CREATE _ZONE unless name [_with settings]                  -> create_zone
              | ALTER _ZONE provided name _with settings                   -> alter_zone
              | DROP _ZONE provided name                                   -> drop_zone
              | CREATE _TABLE unless name [columns] [_with settings]       -> create_table
              | ALTER _TABLE provided name _with settings                  -> alter_table
              | ALTER _TABLE _GROUP provided name _with settings           -> alter_zone
              | DROP _TABLE provided name                                  -> drop_table
              | DESCRIBE _ZONE name                                        -> describe_zone
              | DESCRIBE _TABLE name                                       -> describe_table
              | DESCRIBE _TABLE _GROUP name                                -> describe_table_group
              | SELECT "*" _FROM (ZONES | TABLES | DATA_NODES)             -> select_all
    unless: [_IF _NOT EXISTS]
    provided: [_IF EXISTS]
    _with: _WITH | _SET
    settings: _some
    _some: _one (("," | "&") _one)*
    _one: setting | "(" _some ")"
    setting: PROPERTY "=" value
    value: NUMBER -> number
         | STRING -> string
         | name   -> named
    name: _part ("." _part)*
    _part: NAME | QUOTED
    columns: "(" _column* ")" | ELLIPSIS
    _column: NAME | QUOTED | NUMBER | STRING | _WITH | _SET | "," | "." | "=" | "(" _column* ")"
           | ELLIPSIS

    NAME: /(?!(with|set)(?![-\w]))[^\W\d]\w*(-\w+)*/i
    PROPERTY: /[^\W\d]\w*/
    QUOTED: /"[^"“”„]*"|[“”„][^"“”„]*[“”„]/
    STRING: /'([^']|'')*'|[‘’‚][^‘’]*[‘’]/
    NUMBER: /[+-]?\d\w*/
    ELLIPSIS: /…|\.\.\./
    %ignore /[\s​﻿]+/
    %ignore /(\/\/|--)[^\n]*/
    %ignore /\/\*(.|\n)*?\*\//
"""


def _keywords() -> str:
    """Returns the keywords' terminals, which win over a NAME of the same text wherever both may
    stand.
    """
    terminals = {word: word for word in _KEPT} | {f"_{word}": word for word in _DROPPED}
    return "\n".join(rf"    {name}.2: /{word}\b/i" for name, word in terminals.items())


STATEMENTS = Lark(_RULES + _keywords(), parser="lalr", maybe_placeholders=True)
NAMES = Lark(_RULES + _keywords(), parser="lalr", maybe_placeholders=True, start="name")
