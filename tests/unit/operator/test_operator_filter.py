"""The data nodes filter: the document's examples, precedence, and errors that help."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonequake_operator.errors import FilterError
from zonequake_operator.nodes.filters import attribute_texts, parse

NODES = {
    "Node A": {"tags": "EU,SSD"},
    "Node B": {"COMPUTE_ONLY": "true", "HDD": ""},
    "Node C": {"US": "true", "SSD": "true", "region": "US-EAST"},
}


def passing(text: str) -> str:
    found = parse(text)
    return "".join(
        name[-1] for name, attributes in NODES.items() if found.matches(name, attributes)
    )


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ('("US" || "EU") && "SSD"', "AC"),
        ("(“US” || “EU”) && “SSD”", "AC"),
        ('"Node B" || "Node C"', "BC"),
        ('"US", "EU"', "AC"),
        ('!"SSD"', "B"),
        ('!("SSD" && "EU")', "BC"),
        ('"HDD" || "SSD" && "EU"', "AB"),
        ('"US-EAST"', ""),
        ('"region=US-EAST"', "C"),
        ('contains("US")', "C"),
        ('contains("Node")', "ABC"),
        ("/region=US-.*/", "C"),
        ("/region/", ""),
        (r"/Node\s[AB]/", "AB"),
        ('!!"EU"', "A"),
        ("/HDD.+/", ""),
        ('"US", "EU" && "HDD"', "C"),
        ('("US", "EU") && "SSD"', "AC"),
        ('"SSD" && (“US”, “HDD”)', "C"),
        ('!"US" && "SSD"', "A"),
        ('!"EU" || "SSD"', "ABC"),
        ('!contains("SSD")', "B"),
        ("/(?i)us/", "C"),
        ('/region=(US-EAST|EU)/ || "EU"', "AC"),
        ("\t“US”\n||\n“EU” ", "AC"),
        ("!/Node .*/", ""),
    ],
)
def test_filters_pass_the_nodes_they_should(text: str, nodes: str) -> None:
    assert passing(text) == nodes


def test_a_false_attribute_gives_no_bare_tag() -> None:
    assert attribute_texts("n", {"SSD": "false"}) == {"n", "SSD=false"}


def test_an_attribute_without_a_value_is_the_bare_tag_alone() -> None:
    assert attribute_texts("n", {"SSD": "", "fast": "true"}) == {"n", "SSD", "fast", "fast=true"}


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        (
            "US && EU",
            1,
            'found \'US\', expected a quoted tag ("SSD"), contains("…"), '
            '/a regular expression/, ! or (; if it is a tag, quote it: "US"',
        ),
        ('"US" and "EU"', 6, "found 'and', expected &&, ||, ',' or the end"),
        ('("US" ; "EU")', 7, "found ';', expected &&, ||, ',' or )"),
        ('"EU" || "US', 9, "the tag that begins here has no closing quote"),
        ('"EU" || ""', 9, "found an empty tag"),
        ("! /zone=eu", 3, "the regular expression that begins here has no closing /"),
        ("!//", 2, "found an empty regular expression"),
        ('"US" &&', 8, "a quoted tag"),
        ('"US" "EU"', 6, "&&"),
        ('("US"', 6, ")"),
        ('"US")', 5, "the end"),
        ('"US" & "EU"', 6, "||"),
        ("contains(US)", 10, "a quoted tag"),
        ("/(a/", 1, "missing )"),
        ("/(?=a)b/", 1, "invalid perl operator"),
        ("", 1, "a quoted tag"),
    ],
)
def test_errors_say_where_and_what_was_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.position == position
    assert f"position {position}" in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize("opening", ["!", "(", "!(", '"b" || (', "! ("])
def test_a_filter_is_refused_where_it_is_nested_too_deep_to_be_evaluated(opening: str) -> None:
    levels = 1000 // (len(opening) + opening.count("("))
    closing = ")" * (opening.count("(") * levels)
    with pytest.raises(FilterError, match="nested deeper than 30 groups and negations") as caught:
        parse(opening * levels + '"a"' + closing)
    assert caught.value.position <= 31 * len(opening)
    assert len(str(caught.value)) < 250
    levels = 30 // sum(opening.count(each) for each in "!(")
    parse(opening * levels + '"a"' + ")" * (opening.count("(") * levels)).matches("a", {})


def test_a_hostile_regular_expression_is_linear() -> None:
    began = time.process_time()
    found = parse("/(a+)+(a+)+(a+)+b/")
    assert not found.matches("n", {"x": "a" * 50_000})
    assert time.process_time() - began < 2


@given(st.text(max_size=40))
def test_any_text_parses_or_says_why_not(text: str) -> None:
    position = 1
    try:
        parse(text).matches("n", {"a": "b"})
    except FilterError as error:
        position = error.position
    assert 1 <= position <= len(text) + 1


tags = st.sampled_from(["EU", "US", "SSD", "HDD"])
expressions = st.recursive(
    tags.map(lambda tag: (f'"{tag}"', lambda texts, tag=tag: tag in texts)),
    lambda inner: st.one_of(
        inner.map(lambda e: (f"!({e[0]})", lambda t, e=e: not e[1](t))),
        st.tuples(inner, inner).map(
            lambda p: (f"({p[0][0]}) && ({p[1][0]})", lambda t, p=p: p[0][1](t) and p[1][1](t))
        ),
        st.tuples(inner, inner).map(
            lambda p: (f"({p[0][0]}) || ({p[1][0]})", lambda t, p=p: p[0][1](t) or p[1][1](t))
        ),
    ),
    max_leaves=8,
)


@given(expression=expressions, present=st.sets(tags))
def test_groups_mean_what_python_means(expression, present: set[str]) -> None:  # type: ignore[no-untyped-def]
    text, meaning = expression
    assert parse(text).matches("n", dict.fromkeys(present, "")) == meaning(present)
