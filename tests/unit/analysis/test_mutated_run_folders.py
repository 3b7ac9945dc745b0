"""Whatever a run folder holds, reading it ends with a value or with a sentence of ours."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.analysis.judged_lines import LINE, judged, operation
from zonequake_analysis import cli
from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.completeness import histories
from zonequake_analysis.inputs.defects.of_history import in_words
from zonequake_analysis.inputs.lineages import read_lineages
from zonequake_analysis.inputs.run_folder import (
    RecordedEvent,
    read_description,
    read_dumps,
    read_events,
)
from zonequake_analysis.judgement.verdict_json import read_facts, started
from zonequake_analysis.measures.availability.probes import Island
from zonequake_analysis.measures.availability.windows import availability
from zonequake_analysis.measures.lost_groups import lost_groups
from zonequake_analysis.measures.majorities import without_majority
from zonequake_analysis.measures.rebalances import early_joints, fault_landings, rebalances
from zonequake_analysis.measures.replica_audit import audit
from zonequake_analysis.measures.resets import journalled, resets
from zonequake_analysis.report import time_rows
from zonequake_analysis.report.summary import faults_in_words

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

RUN_YAML = """
run: r1
name: leader-kill
seed: 7
started_wall_ns: 1795311896987549046
clock_offset_ns: 0
target: {name: etcd, version: 3.6.4}
versions: {zonequake: 0.1.0}
cluster: {version: v1}
expectations: {lost: 0, maxWindowMilliseconds: 500, faults: [kill]}
harness: {verdict: passed, problems: []}
plan:
  metadata: {name: x}
  spec:
    control: {nodes: 1}
    zones: [{name: z1, storage: Volatile}]
    faults: [{name: kill, times: 3}]
"""

PROOF = {
    "victims": [{"node": "n1", "process_incarnation": "a"}],
    "gone_ns": {"n1": 30},
    "zone": "z1",
    "partitions": [{"partition": 0, "token": 5, "survivor": "n2", "given_up": ["n1"]}],
}
DATA: dict[str, dict[str, Any]] = {
    "run.phase": {"phase": "faults"},
    "fault.start": {"fault": "kill", "type": "pod_kill", "targets": ["n1"]},
    "fault.effective": {"fault": "kill", "type": "reset_by_hand", "proof": PROOF},
    "fault.hit": {"fault": "kill", "stage": "JOINT", "progress": 0.5, "asked": ["JOINT"]},
    "fault.missed": {"fault": "kill", "reason": "late"},
    "fault.recovered": {"fault": "kill"},
    "leader.change": {"leader": "n1", "lineage": 0, "term": 3},
    "group.reset": {"lineage": 5, "last_lineage": 0, "last_term": 3, "last_index": 9},
    "rebalance.stage": {
        "stage": "JOINT",
        "token": 4,
        "peers": [["n1", "a"], {"node": "n2"}, "n3"],
        "adding": ["n3"],
        "progress": [{"peer": {"node": "n3"}, "fraction": 0.4}],
        "term": 3,
    },
    "partition.changed": {
        "stable": ["n1", "n2"],
        "pending": ["n2"],
        "forced": ["pending"],
        "from_reset": ["pending"],
        "chain": [{"nodes": ["n1"], "term": 3, "index": 9}],
        "token": 5,
        "revision": 2,
    },
    "node.started": {"process_incarnation": "b"},
    "replicas.seen": {
        "replicas": {
            node: {"process_incarnation": "b", "role": "broken", "lost": True, "reason": "x"}
            for node in ("n1", "n2")
        }
    },
    "pod.event": {"pod": "n1", "phase": "Failed", "type": "MODIFIED"},
    "replica.audit": {"applied": 9, "digest": "d"},
    "replica.stopped": {"reason": "x"},
}
EVENTS: list[dict[str, Any]] = [
    {"kind": kind, "time": 10 * n, "clock": "c", "zone": "z1", "partition": 0, "node": "n1"}
    | {"data": data}
    for n, (kind, data) in enumerate(DATA.items(), 1)
]

WRONG: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([2**31, 2**63, 2**64, -(2**63), 10**400, -1, 0, 1, 5, 1e308, -1e308, 0.5]),
    st.sampled_from(["", "x", "n1", "JOINT", "\u202e", "1", "NaN", [], {}, [[]], [None], [{}]]),
    st.sampled_from([{"n1": None}, ["n1", 3, None, {"node": None}], [{"node": "n1"}], {"n1": "x"}]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.sampled_from(["node", "peer", "term", "n1"]), st.none(), max_size=2),
)


def places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The paths of everything within a value."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*path, number))


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """A value with one to three of its parts replaced or left out."""
    copy = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(1, 3))):
        known = list(places(copy))
        if not known:
            break
        *path, last = draw(st.sampled_from(known))
        holder = copy
        for step in path:
            holder = holder[step]
        if draw(st.booleans()) or not isinstance(holder, dict):
            holder[last] = deepcopy(draw(WRONG))
        else:
            del holder[last]
    return copy


@st.composite
def spoilt(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes cut off, doubled, or overwritten with rubbish."""
    at = draw(st.integers(0, len(content)))
    to = draw(st.integers(at, min(len(content), at + 40)))
    rubbish = draw(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from([b"[" * 5000, b'{"a":' * 3000, b"NaN", b"\xff\xfe", b"\r", b"1e999"]),
        )
    )
    end = draw(st.sampled_from([content[to:], b"", content[at:]]))
    return content[:at] + rubbish + end


@contextmanager
def folder() -> Iterator[Path]:
    run = Path(tempfile.mkdtemp())
    try:
        (run / "history").mkdir()
        yield run
    finally:
        shutil.rmtree(run)


def sentence(act: Callable[[], object], *, names: str) -> None:
    """Does it; an error must be ours, in one line, and name the file."""
    said = names
    try:
        act()
    except RunFolderError as error:
        said = str(error)
    assert names in said
    assert "\n" not in said
    assert "Error:" not in said


def described(run: Path) -> None:
    read_description(run)
    started(read_facts(run))


@EXAMPLES
@given(st.one_of(spoilt(RUN_YAML.encode()), st.binary(max_size=40)))
def test_a_spoilt_run_yaml_is_a_sentence(content: bytes) -> None:
    with folder() as run:
        (run / "run.yaml").write_bytes(content)
        sentence(lambda: described(run), names="run.yaml")


@EXAMPLES
@given(st.data())
def test_a_run_yaml_of_wrong_types_is_a_sentence(data: st.DataObject) -> None:
    document = yaml.safe_load(RUN_YAML)
    with folder() as run:
        (run / "run.yaml").write_text(json.dumps(data.draw(mutated(document))))
        sentence(lambda: described(run), names="run.yaml")


def told_of(events: list[RecordedEvent]) -> None:
    """All that is made of events."""
    lineages, lost = read_lineages(events), without_majority(events)
    landings = fault_landings(events)
    island = Island(
        zone="z1",
        partition=0,
        function="read",
        vantage="v",
        silent=False,
        failed=1,
        possible=(20, 90),
        certain=(30, 80),
    )
    availability([], [island], events)
    early_joints(events)
    journalled(events)
    resets(lineages, events, lost)
    lost_groups(events, ())
    audit([], events, [])
    faults_in_words(landings)
    axis = time_rows.Axis(start_ns=0, end_ns=100)
    time_rows.rebalance_rows(axis, rebalances(events))
    time_rows.fault_rows(axis, landings)
    time_rows.behind(axis, landings, events)


def test_all_events_are_read_and_understood() -> None:
    with folder() as run:
        (run / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in EVENTS))
        events, bad = read_events(run)
        assert (len(events), bad) == (len(EVENTS), [])
        told_of(events)


@settings(EXAMPLES, max_examples=250)
@given(st.data())
def test_events_of_wrong_types_are_read_or_told(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(EVENTS) - 1))
    events = [*EVENTS[:number], data.draw(mutated(EVENTS[number])), *EVENTS[number + 1 :]]
    with folder() as run:
        (run / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
        read, bad = read_events(run)
        assert len(read) + len(bad) == len(events)
        assert all(told.startswith(f"events.jsonl:{number + 1}") for told in bad)
        told_of(read)


@EXAMPLES
@given(spoilt("".join(json.dumps(e) + "\n" for e in EVENTS).encode()))
def test_spoilt_events_are_read_or_told(content: bytes) -> None:
    with folder() as run:
        (run / "events.jsonl").write_bytes(content)
        told_of(read_events(run)[0])


DUMP: list[dict[str, Any]] = [
    {"group": "z1.12345678.0", "node": "n1", "applied": 9, "digest": "d", "keys": 2},
    {"key": "a", "value": 1, "index": 3},
    {"key": "b", "value": [1, 2], "index": 4},
]


def dumped(run: Path) -> None:
    dumps = read_dumps(run)
    audit([], [], dumps)


@EXAMPLES
@given(st.data())
def test_dumps_of_wrong_types_are_a_sentence(data: st.DataObject) -> None:
    lines = data.draw(mutated(DUMP))
    with folder() as run:
        (run / "dumps").mkdir()
        text = "".join(json.dumps(one) + "\n" for one in lines)
        (run / "dumps" / "0-n1.jsonl").write_text(text)
        sentence(lambda: dumped(run), names="0-n1.jsonl")


@EXAMPLES
@given(spoilt("".join(json.dumps(one) + "\n" for one in DUMP).encode()))
def test_spoilt_dumps_are_a_sentence(content: bytes) -> None:
    with folder() as run:
        (run / "dumps").mkdir()
        (run / "dumps" / "0-n1.jsonl").write_bytes(content)
        sentence(lambda: dumped(run), names="0-n1.jsonl")


def test_a_dump_that_lacks_entries_is_no_loss_of_the_store() -> None:
    with folder() as run:
        (run / "dumps").mkdir()
        text = "".join(json.dumps(one) + "\n" for one in DUMP[:2])
        (run / "dumps" / "0-n1.jsonl").write_text(text)
        with pytest.raises(RunFolderError, match="found 1 entries, expected 2, as field `keys`"):
            read_dumps(run)


HISTORY = [*operation(1), *operation(2, f="read", value=1), *operation(3, f="cas", applied=True)]


@settings(EXAMPLES, max_examples=100)
@given(st.data())
def test_history_lines_of_wrong_types_are_judged_or_told(data: st.DataObject) -> None:
    lines = [json.loads(one) for one in HISTORY]
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = data.draw(mutated(lines[number]))
    spaces = data.draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = "".join(json.dumps(one, separators=spaces) + "\n" for one in lines)
    judged_or_told(text.encode(errors="surrogatepass"))


@settings(EXAMPLES, max_examples=100)
@given(spoilt("".join(f"{one}\n" for one in HISTORY).encode()))
@example(b"")
def test_spoilt_histories_are_judged_or_told(content: bytes) -> None:
    judged_or_told(content)


def judged_or_told(content: bytes) -> None:
    with folder() as run:
        file = run / "history" / "load-0.jsonl"
        file.write_bytes(content)
        _, faults = judged([file], run / "ops", size=700)
        for told in in_words(faults, [file]):
            told.encode()


def test_a_history_that_is_no_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "load-0.jsonl").mkdir()
    with pytest.raises(RunFolderError, match=r"load-0\.jsonl: found no plain file"):
        histories(tmp_path)
    (tmp_path / "history" / "load-0.jsonl").rmdir()
    (tmp_path / "history" / "load-0.jsonl").symlink_to("nowhere")
    with pytest.raises(RunFolderError, match=r"load-0\.jsonl: No such file"):
        histories(tmp_path)


def test_a_folder_of_no_run_is_wrong_usage_and_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("x")
    assert cli.analyze(tmp_path) == 254
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]
    assert "is no run folder: found none of history, run.yaml" in capsys.readouterr().err


def test_an_unexpected_error_is_a_sentence_and_its_trace_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "history").mkdir()

    def judge_folder(*_: object, **__: object) -> None:
        raise ValueError("what happened\nTraceback of Java\n\tat org.apache")

    monkeypatch.setattr(cli, "judge_folder", judge_folder)
    assert cli.analyze(tmp_path) == 255
    said = capsys.readouterr().err
    assert "ValueError: what happened" in said
    assert "Traceback" not in said
    assert "its trace is in" in said
    assert "Traceback" in (tmp_path / "logs" / "analysis.txt").read_text()
    assert "org.apache" not in (tmp_path / "summary.md").read_text()


def test_a_line_here_is_what_the_load_writes() -> None:
    assert set(LINE) <= set(json.loads(HISTORY[0]))
