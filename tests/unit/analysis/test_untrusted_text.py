"""What a run says of itself looks as it is in every report, and builds nothing in it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as xml

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.spark.report.made_up_pages import write_page
from tests.unit.analysis.read_pages import Page
from tests.unit.analysis.told_runs import check, told
from zonequake_analysis.checks.search.reference import ReferenceStep
from zonequake_analysis.checks.search.witness import WitnessOperation
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.judgement.junit import render_junit
from zonequake_analysis.judgement.pull_request import render_summary
from zonequake_analysis.judgement.verdict_json import (
    FaultEntry,
    ReportedRun,
    RunFacts,
    WindowEntry,
    read_document,
    write_document,
)
from zonequake_analysis.report import svg
from zonequake_analysis.report.page import _visible
from zonequake_analysis.text.markdown import cell, fenced
from zonequake_analysis.text.untrusted_text import one_line, visible
from zonequake_analysis.verdict import Verdict

HOSTILE = [
    "a | b || c",
    "</details><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "`code` ``` ~~~",
    "```\n# out of the fence\n```",
    "# heading\n\n- list\n\n1. one\n> quote\n---\n===\n: x",
    "1) one",
    "+ plus",
    "[link](https://example.org) ![picture](x.png) [ref][1]\n\n[1]: x",
    "*bold* _it_ __it__ ~~gone~~ $x$ \\ end\\",
    "&lt;b&gt; &#60;b&#62; &copy;",
    "user\u202etxt.exe \u2066x\u2069 \u200fy",
    "\x1b[31mred\x07\x00",
    "line\u2028two\u0085three\r\nfour\rfive\x0bsix",
    "half \ud800 a character \udfff",
    "\ufeff\u200b\u00adhidden\U000e0041",
    "hello @team and @a/b",
    "<!-- comment -->",
    "\t\tindented    code",
]
OURS = {"<sub>", "</sub>"}
APART = "\u200b"
"""Space without width, which no text of a run has: it would be shown as ⟨U+200B⟩."""
COMMON = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def everywhere(text: str) -> ReportedRun:
    """A run that says `text` wherever a run can say anything."""
    witness = f"lost: {text}\n{text}"
    run = told(
        check("lost-writes", Verdict.VIOLATED, summary=text, violations=1, witnesses=[witness]),
        check(text, Verdict.UNKNOWN, summary=text),
        check("latency", summary=text),
    )
    document = msgspec.structs.replace(
        run.document,
        headline=text,
        run=RunFacts(
            run=text,
            scenario=text,
            seed=text,
            target=text,
            versions={text: text},
            cluster=text,
            replay=text,
        ),
        windows=[
            WindowEntry(
                zone=text, partition=1, function=text, certain_ms=1, possible_ms=2, cause=text
            )
        ],
        faults=[FaultEntry(name=text, asked=text, landed=text, missed=text, times=18)],
        reset_columns=[text, "b", "c", "d"],
        resets=[[text, text, text, text]],
    )
    return ReportedRun(document=document, folder=text)


def blocks(summary: str) -> list[str]:
    """The kinds of blocks that a Markdown reader sees, in order."""
    return [token.type for token in COMMON.parse(summary)]


def built(summary: str) -> list[Token]:
    """What inline text has beyond text and our own tags."""
    return [
        child
        for token in COMMON.parse(summary)
        for child in token.children or []
        if child.type not in ("text", "text_special", "softbreak", "code_inline")
        and child.content not in OURS
    ]


texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(alphabet="`*_[]()<>|~$\\#&!-+=1.) \n\tab@:/\u202e\x00\ud800", min_size=1, max_size=30),
).filter(lambda text: one_line(text) != "")


@settings(deadline=None)
@given(texts)
def test_nothing_that_a_run_says_builds_anything_in_a_summary(text: str) -> None:
    for runs in (1, 2):
        summary = render_summary([everywhere(text)] * runs)
        assert blocks(summary) == blocks(render_summary([everywhere("word")] * runs))
        assert [child for child in built(summary) if child.type != "html_inline"] == []
        assert {c.content for c in built(summary)} <= {"<details>", "</details>", "</summary>"}
        assert visible(summary) == summary
        summary.encode()


@settings(deadline=None)
@given(texts)
def test_a_cell_shows_the_very_text(text: str) -> None:
    (_, inline, _) = COMMON.parse(f"x{cell(text)}x")
    shown = "".join(c.content for c in inline.children or [] if c.type != "html_inline")
    assert shown.replace(APART, "") == f"x{one_line(text)}x"


@pytest.mark.parametrize(
    "text",
    [
        "see http://e.org/a, HTTPS://e.org and ftp://e.org",
        "see www.e.org or WWW.e.org",
        "mail me@e.org or mailto:me@e.org",
        "fixes #12, a/b#12 and !7, says @team",
    ],
)
def test_a_bare_address_is_no_link_and_a_number_no_reference(text: str) -> None:
    """Addresses are links by what stands in the source, references by what a reader sees."""
    source = re.sub(r"&#\d+;", "¤", cell(text))
    assert not re.search(r"(?i)www\.|:/|mailto:|@", source)
    (_, inline, _) = COMMON.parse(cell(text))
    assert not re.search(r"[@#!](?=\w)", "".join(c.content for c in inline.children or []))


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    (token,) = COMMON.parse(fenced("a\n`````\nb"))
    assert (token.type, token.content) == ("fence", "a\n`````\nb\n")


@settings(deadline=None)
@given(texts)
def test_a_junit_file_is_xml_whatever_a_run_says(text: str) -> None:
    root = xml.fromstring(render_junit([everywhere(text)]))
    for element in root.iter():
        for said in [*element.attrib.values(), element.text or ""]:
            assert visible(said) == said


@pytest.mark.parametrize("text", HOSTILE)
def test_a_drawing_shows_the_very_text(text: str) -> None:
    operation = WitnessOperation(
        op=text,
        process=1,
        outcome="ok",
        role="load",
        node=text,
        term=None,
        index=None,
        step=ReferenceStep(f=Function.WRITE, inv_ns=1, fin_ns=2, value=3),
    )
    drawn = xml.fromstring(svg.witness_chart([operation], {}))
    titles = [element.text for element in drawn.iter() if element.tag == "title"]
    assert any(" ".join((title or "").split()) == one_line(text) for title in titles)
    assert len(list(drawn)) == len(
        list(xml.fromstring(svg.witness_chart([replace(operation, op="word")], {})))
    )


def test_nothing_that_a_run_says_builds_anything_in_its_page(tmp_path: Path) -> None:
    def page(name: str, text: str) -> Page:
        found = Page()
        found.feed(write_page(tmp_path / name, hostile=text).read_text(errors="replace"))
        return found

    hostile = page("hostile", " ".join(HOSTILE))
    assert hostile.tags == page("plain", "k").tags
    assert "<img src=x onerror=alert(1)>" in hostile.text


def test_what_is_hidden_is_named_and_lines_stay() -> None:
    assert visible("a\u202eb\tc\nd\x00") == "a⟨U+202E⟩b\tc\nd⟨U+0000⟩"
    assert visible("one\r\ntwo\u2028three") == "one\ntwo\nthree"
    assert _visible("a\u202eb") == "a⟨U+202E⟩b"
    assert _visible(7) == 7


def test_a_verdict_of_half_characters_can_be_written(tmp_path: Path) -> None:
    write_document(tmp_path, everywhere("half \ud800").document)
    assert read_document(tmp_path).headline == "half ⟨U+D800⟩"
