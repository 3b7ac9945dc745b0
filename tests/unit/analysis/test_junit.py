"""`junit.xml`: what a parser of others makes of it, and that it keeps to what they all know."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as xml

from junitparser import Error, Failure, JUnitXml, Skipped

from tests.unit.analysis.told_runs import WITNESS, check, every_kind, told
from zonequake_analysis.judgement.junit import render_junit

ALLOWED = {
    "testsuites": {"name", "tests", "failures", "errors", "time"},
    "testsuite": {
        *("name", "tests", "failures", "errors", "skipped", "time", "timestamp"),
        *("hostname", "id", "package", "file"),
    },
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
}
"""Elements and attributes that Jenkins' junit-10.xsd, GitLab and the report actions all know."""

REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name", "classname"},
    "property": {"name", "value"},
}


def test_violations_and_objectives_fail_and_what_is_not_shown_errs() -> None:
    (suite,) = JUnitXml.fromstring(render_junit([every_kind()]))
    results = {case.name: [type(result) for result in case.result] for case in suite}
    assert results == {
        "lost-writes": [Failure],
        "stale-reads": [],
        "joint-after-caught-up": [Skipped],
        "coverage": [Error],
        "harness": [Error],
        "cleanup": [Error],
        "latency": [Failure],
    }
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (7, 2, 3, 1)


def test_a_violation_carries_its_witness_and_the_command_that_replays_it() -> None:
    (suite,) = JUnitXml.fromstring(render_junit([every_kind()]))
    (failure,) = next(case for case in suite if case.name == "lost-writes").result
    assert failure.type == "violated"
    assert WITNESS in failure.text
    assert "again: zonequake run leader-kill --seed 7" in failure.text
    assert "run folder: out/seed-7" in failure.text


def test_a_suite_names_seed_scenario_target_versions_and_replay() -> None:
    suite: Any
    (suite,) = JUnitXml.fromstring(render_junit([every_kind()]))
    properties = {one.name: one.value for one in suite.properties()}
    assert properties == {
        "verdict": "violated",
        "exit_code": "1",
        "scenario": "leader-kill",
        "seed": "7",
        "target": "zonequake",
        "run": "leader-kill-7",
        "replay": "zonequake run leader-kill --seed 7",
        "kubernetes": "v1.34.4",
        "version.zonequake": "0.1.0",
        "folder": "out/seed-7",
    }
    assert suite.timestamp == "2026-11-22T01:44:56"
    assert suite.time == 61.5


def test_several_runs_are_suites_of_one_file_whose_totals_add_up() -> None:
    file = JUnitXml.fromstring(render_junit([every_kind(1), told(check("stale-reads"), seed=2)]))
    assert [suite.name for suite in file] == ["leader-kill (seed 1)", "leader-kill (seed 2)"]
    assert (file.tests, file.failures, file.errors, file.time) == (8, 2, 3, 123.0)


def test_only_what_every_reader_knows_stands_in_the_file_in_the_order_it_wants() -> None:
    root = xml.fromstring(render_junit([every_kind()]))
    for element in root.iter():
        assert set(element.attrib) <= ALLOWED[element.tag], element.tag
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib), element.tag
    (suite,) = root
    assert [child.tag for child in suite] == ["properties", *["testcase"] * 7]


def test_what_xml_cannot_hold_is_replaced_and_the_file_stays_readable() -> None:
    (suite,) = JUnitXml.fromstring(render_junit([every_kind()]))
    (error,) = next(case for case in suite if case.name == "harness").result
    assert error.message == "⟨U+001B⟩[31mpod gone⟨U+0000⟩"
