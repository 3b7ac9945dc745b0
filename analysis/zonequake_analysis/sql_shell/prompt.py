"""The prompt: statements, each up to its `;`, and a few commands that begin with a dot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from zonequake_analysis.sql_shell.statements import StatementRefused, cut
from zonequake_analysis.text.strange_bytes import strange_bytes, without_mark

FIRST, NEXT = "zonequake> ", "      ...> "

HELP = """\
A statement ends with ; and may have several lines. Ctrl-C drops it, Ctrl-D ends the shell.
.tables        list the tables
.schema NAME   show the columns of a table
.help          show this
.quit          end the shell"""


def lines_of_script(script: Iterable[bytes]) -> Callable[[str], str]:
    """Returns `Prompt.read` for a script on standard input: text in UTF-8, whatever the locale is.

    It raises EOFError after the last line, and StatementRefused for one that is no such text.
    """
    lines = enumerate(script, 1)

    def read(_: str) -> str:
        number, line = next(lines, (0, b""))
        if not number:
            raise EOFError
        if (strange := strange_bytes(line)) is not None:
            raise StatementRefused(
                f"standard input, line {number}: {strange[1]}; `iconv -f ENCODING -t UTF-8` "
                "converts a script"
            )
        return (without_mark(line) if number == 1 else line).decode().rstrip("\r\n")

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The source of lines, and where answers go. `read` gets the text to show before a line.

    `answer` prints the answer of a statement, or raises StatementRefused. `about`: what a row of
    each table is; `columns`: its columns with their types. `goes_on`: whether it goes on after a
    refused statement, as a person expects; a script ends with it.
    """

    read: Callable[[str], str]
    say: Callable[[str], None]
    complain: Callable[[str], None]
    answer: Callable[[str], None]
    about: Mapping[str, str]
    columns: Callable[[str], Mapping[str, str]]
    goes_on: bool

    def run(self) -> None:
        """Answers until the lines end, or `.quit`. Raises StatementRefused unless it goes on.

        The end of a script ends its last statement, too; a person leaves what is only begun.
        """
        begun = ""
        while True:
            try:
                line = self.read(NEXT if begun else FIRST)
                if not begun and line.strip().startswith("."):
                    if not self._is_going_on(line.split()):
                        return
                    continue
                statements, begun = cut(f"{begun}{line}\n")
                for statement in statements:
                    self.answer(statement)
            except EOFError:
                if begun and not self.goes_on:
                    self.answer(begun)
                return
            except KeyboardInterrupt:
                begun = ""
                self.say("")
            except StatementRefused as refused:
                if not self.goes_on:
                    raise
                self.complain(str(refused))

    def _is_going_on(self, words: list[str]) -> bool:
        match words:
            case [".quit" | ".exit"]:
                return False
            case [".tables"]:
                width = max(map(len, self.about))
                for name, row in self.about.items():
                    self.say(f"{name.ljust(width)}  a row is {row}")
            case [".schema", name] if name in self.about:
                columns = self.columns(name)
                width = max(map(len, columns))
                for column, kind in columns.items():
                    self.say(f"{column.ljust(width)}  {kind}")
            case [".schema", name]:
                raise StatementRefused(
                    f"found no table {name}, expected one of {', '.join(self.about)}"
                )
            case [".help"]:
                self.say(HELP)
            case _:
                raise StatementRefused(
                    f"found {' '.join(words)}, expected .tables, .schema NAME, .help or .quit"
                )
        return True
