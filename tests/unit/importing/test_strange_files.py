"""Files that are damaged anywhere: they are imported or refused with a line, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.importing.imported import imported
from tests.unit.importing.test_jepsen import APPENDS, TUPLES
from tests.unit.importing.test_porcupine import GET, NOTHING, done, got, line, put, text, txn
from zonequake_analysis.errors import ImportRefused
from zonequake_analysis.importing.command import Source, import_history
from zonequake_analysis.importing.edn import entries
from zonequake_analysis.importing.jepsen import operations
from zonequake_analysis.importing.operations import Choices, Notes
from zonequake_analysis.importing.translation import pairs
from zonequake_analysis.importing.values import Values

PIECES = st.sampled_from(
    [*'{}[]()"\\;#:,', "#_", "nil", "true", "-1", "[1 2]", "{}", ":ok", ":invoke", ":r", "#{",
     "1/2", "\n", "\\ud800", "9" * 5000, ":value", "[[:append 1 2]]"]
)  # fmt: skip


@given(st.sampled_from([TUPLES, APPENDS]), st.data())
def test_a_damaged_jepsen_file_is_read_or_refused(whole: str, data: st.DataObject) -> None:
    words = whole.replace(",", " ,").split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(PIECES)
    given_lines = " ".join(words).splitlines(keepends=True)
    notes = Notes()
    choices = Choices(split=True)
    found = operations(
        entries(given_lines, file="h.edn"), file="h.edn", choices=choices, notes=notes
    )
    at = refused_at(lambda: list(pairs(found, choices=choices, notes=notes, values=Values())))
    assert at is None or 1 <= at <= len(given_lines)


def refused_at(called: Callable[[], object]) -> int | None:
    """The line at which an import is refused, None if it isn't; any other error is one."""
    try:
        called()
    except ImportRefused as refused:
        return refused.line
    return None


PORCUPINE = text(
    line({"Op": "cas", "Key": "a", "Old": "x", "New": "y"}, {"Ok": True}, 5, 6),
    line(GET, got(2, ("k", {"Value": "v"})), 7, 8),
    line(txn(put("k", "w")), done(3, NOTHING), 9, 10),
)


@pytest.mark.parametrize("strange", ["null", "[]", "{}", '""', "-1", "true", "[{}]", "1e400", "{"])
def test_a_porcupine_file_with_any_field_changed_is_read_or_refused(
    tmp_path: Path, strange: str
) -> None:
    parts = PORCUPINE.split(": ")
    for at in range(1, len(parts)):
        closing = re.search(r"[}\]]*$", parts[at].split(", ")[0].split("\n")[0])
        assert closing is not None
        _, comma, rest = parts[at].partition(", ")
        changed = strange + (comma + rest if comma else f"{closing[0]}\n")
        whole = ": ".join([*parts[:at], changed, *parts[at + 1 :]])
        refused = refused_at(partial(imported, tmp_path, "porcupine", whole))
        assert refused in (None, 1, 2, 3)


@pytest.mark.parametrize("source", ["jepsen", "porcupine"])
def test_what_nests_too_deep_or_is_no_text_is_refused_with_its_line(
    tmp_path: Path, source: str
) -> None:
    with pytest.raises(ImportRefused, match="line 1"):
        imported(tmp_path, source, '{"a":' + "[" * 100_000)
    (tmp_path / "given.txt").write_bytes(b"\n\xff\n")
    with pytest.raises(ImportRefused, match="line 2"):
        import_history(Source(source), [tmp_path / "given.txt"], tmp_path / "run", Choices())
