"""The reader of EDN: what Jepsen prints, where it stands, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonequake_analysis.errors import ImportRefused
from zonequake_analysis.importing.edn import Keyword, Symbol, entries, text_of, text_of_key


def read(text: str) -> list[object]:
    return [entry.value for entry in entries(text.splitlines(keepends=True), file="h.edn")]


def lines(text: str) -> list[int]:
    return [entry.line for entry in entries(text.splitlines(keepends=True), file="h.edn")]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{:a nil, :b true}", {":a": None, ":b": True}),
        ("{:a [1 -2 3N 1.5 2M 1e3]}", {":a": [1, -2, 3, 1.5, 2.0, 1000.0]}),
        (
            "{:a 1/2 :b foo/bar :c \\a :d \\newline}",
            {":a": "1/2", ":b": "foo/bar", ":c": "\\a", ":d": "\\newline"},
        ),
        ('{:a "x \\"y\\" \\n \\u0041 ; no comment {"}', {":a": 'x "y" \n A ; no comment {'}),
        ("#jepsen.history.Op{:a 1}", {":a": 1}),
        ('{:a #inst "2020-01-01" #_ :gone :b [1 2] ; :c 3\n}', {":a": "2020-01-01", ":b": [1, 2]}),
        ("{:a #{2 1} :b #{} :c [#{[1]}]}", {":a": "#{1 2}", ":b": "#{}", ":c": ["#{[1]}"]}),
        ("{:a [1 ##NaN ##-Inf]}", {":a": [1, "##NaN", "##-Inf"]}),
        ("{:a {[1 2] 3} :b () :c []}", {":a": {"[1 2]": 3}, ":b": [], ":c": []}),
    ],
)
def test_a_value_is_read_as_it_was_printed(text: str, value: object) -> None:
    assert read(text) == [value]


def test_keywords_symbols_and_strings_are_told_apart() -> None:
    assert [type(each) for each in read('[:a b "c"]')] == [Keyword, Symbol, str]


@pytest.mark.parametrize(
    "text",
    ["{:a 1}\n{:a 2}\n", "[{:a 1}\n {:a 2}]", "({:a 1}\n{:a 2}\n)", "#_ 7 [{:a 1}\n#x {:a 2}]"],
)
def test_entries_stand_one_a_line_or_in_one_vector_or_list(text: str) -> None:
    assert read(text) == [{":a": 1}, {":a": 2}]
    assert lines(text) == [1, 2]


def test_a_string_may_go_over_lines_and_lines_are_counted_on() -> None:
    text = '{:a "x\ny\nz"}\n{:b\n 1}\n{:c 1}'
    assert read(text) == [{":a": "x\ny\nz"}, {":b": 1}, {":c": 1}]
    assert lines(text) == [1, 4, 6]


def test_an_empty_file_and_an_empty_vector_have_no_entries() -> None:
    assert read("") == read("[]") == read("; nothing\n") == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{:a 1}\n{:b", "line 2: found a '{' that is never closed"),
        ("[{:a 1}\n}", "line 2: found a '}' for the '[' of line 1"),
        ('{:a 1}\n{:a "x', "line 2: found a string that is never closed"),
        ("{:a}", "line 1: found a map with a key that has no value"),
        ("]", "line 1: found a ']'; nothing to close by it"),
    ],
)
def test_what_is_no_edn_is_refused_with_its_line(text: str, what: str) -> None:
    with pytest.raises(ImportRefused, match=r"h\.edn, ") as refused:
        read(text)
    assert what in str(refused.value)


scalars = st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([Keyword(":a")])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@given(st.lists(values, min_size=1))
def test_what_is_printed_is_read_back(given: list[object]) -> None:
    text = "\n".join(f"{{:v {text_of(value)}}}" for value in given)
    found = [entry.value for entry in entries(text.split("\n"), file="h.edn")]
    assert found == [{":v": value} for value in given]


@given(scalars, scalars)
def test_different_keys_have_different_names(one: object, other: object) -> None:
    same = type(one) is type(other) and one == other
    assert (text_of_key(one) == text_of_key(other)) == same
