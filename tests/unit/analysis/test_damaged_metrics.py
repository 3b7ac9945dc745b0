"""Metrics that can't be read are lost evidence: the run is unknown; a sentence names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException

from tests.histories.made_metrics import MadeSeries, write_metrics
from tests.unit.analysis.made_up_evidence import evidence
from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis.errors import LocationError
from zonequake_analysis.inputs.prometheus.remote_read import FILE
from zonequake_analysis.inputs.prometheus.sample_files import metric_files
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.metrics.alert_rules import FILE as RULES
from zonequake_analysis.metrics.counters import LOAD_OPERATIONS
from zonequake_analysis.metrics.metric_facts import MetricFacts, metric_facts
from zonequake_analysis.spark_pass.in_tasks import Made
from zonequake_analysis.verdict import Verdict, worst

START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks_of(monkeypatch, without_spark)


def tasks_of(monkeypatch: pytest.MonkeyPatch, run: Callable[..., list[bytes]]) -> None:
    for module in ("table", "whole_run"):
        monkeypatch.setattr(f"zonequake_analysis.metrics.{module}.in_tasks", run)


def run_of(folder: Path, value: Callable[[int], float] = float) -> Path:
    labels = {"pod": "load-0", "role": "load", "f": "append", "outcome": "ok"}
    series = [MadeSeries(metric=LOAD_OPERATIONS, labels=labels, value=value)]
    write_metrics(folder, series, start_ms=START_MS, seconds=10)
    return folder


def facts_of(run: Path) -> MetricFacts:
    found = metric_facts(
        None,  # type: ignore[arg-type]
        run,
        faults=[],
        windows=[],
        events=[],
        start_ns=0,
        end_ns=10**10,
        wall_offset_ns=START_MS * 1_000_000,
    )
    assert found is not None
    return found


def broken_footer(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:-40] + b"\xff" * 32 + content[-8:])


def broken_page(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:4] + b"\xff" * 200 + content[204:])


def folder_of_that_name(file: Path) -> None:
    file.unlink()
    file.mkdir()


def no_parquet(file: Path) -> None:
    file.write_bytes(b"words")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut_off(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def other_columns(file: Path) -> None:
    pq.write_table(pa.table({"metric": ["up"]}), file)


def words_for_values(file: Path) -> None:
    _with(file, "value", pa.array(["many"] * 10))


def no_times(file: Path) -> None:
    _with(file, "ts_ms", pa.nulls(10, pa.int64()))


def no_values(file: Path) -> None:
    _with(file, "value", pa.nulls(10, pa.float64()))


def no_staleness(file: Path) -> None:
    _with(file, "stale", pa.nulls(10, pa.bool_()))


def _with(file: Path, name: str, values: pa.Array) -> None:
    table = pq.read_table(file)
    place = table.schema.get_field_index(name)
    pq.write_table(table.set_column(place, name, values), file)


DAMAGES = [
    broken_footer,
    broken_page,
    folder_of_that_name,
    no_parquet,
    empty,
    cut_off,
    other_columns,
    words_for_values,
    no_times,
    no_values,
    no_staleness,
]


def test_samples_that_can_be_read_have_no_problem(tmp_path: Path) -> None:
    facts = facts_of(run_of(tmp_path))
    assert facts.problem == ""
    assert [one.total for one in facts.counted] == [9]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_no_samples_is_named_and_ends_nothing(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    file = run_of(tmp_path) / "metrics" / FILE
    whole = file.with_name("another.parquet")
    whole.write_bytes(file.read_bytes())
    damage(file)
    problem = facts_of(tmp_path).problem
    assert problem.startswith("metrics/*.parquet can't be read as samples: ")
    assert str(file) in problem
    assert str(whole) not in problem


def judged(run: Path) -> tuple[Verdict, str]:
    """The verdict of a run that would pass without metrics, and what its check `metrics` says."""
    checks = judge(evidence(metrics=facts_of(run)))
    said = [check.summary for check in checks if check.name == "metrics"]
    return worst(check.verdict for check in checks), " ".join(said)


@pytest.mark.parametrize("damage", [None, *DAMAGES])
def test_a_run_whose_samples_can_not_be_read_is_unknown(
    tmp_path: Path, damage: Callable[[Path], None] | None
) -> None:
    file = run_of(tmp_path) / "metrics" / FILE
    if damage is None:
        assert judged(tmp_path) == (Verdict.PASSED, "")
        return
    damage(file)
    verdict, said = judged(tmp_path)
    assert verdict is Verdict.UNKNOWN
    assert str(file) in said


def test_a_run_whose_metrics_are_no_folder_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "metrics").write_bytes(b"rubbish")
    verdict, said = judged(tmp_path)
    assert verdict is Verdict.UNKNOWN
    assert f"{tmp_path}/metrics: Not a directory" in said


def test_a_run_without_a_sample_is_judged_by_its_history_alone(tmp_path: Path) -> None:
    file = run_of(tmp_path) / "metrics" / FILE
    pq.write_table(pq.read_table(file)[:0], file)
    assert judged(tmp_path) == (Verdict.PASSED, "")
    file.unlink()
    assert metric_files(tmp_path) == []
    file.parent.rmdir()
    assert metric_files(tmp_path) == []


@pytest.mark.parametrize("samples", [True, False])
@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"words", b"[1]", b"\xff\xfe[\x00", b'[{"name": "x"}]', b"[" * 9999, None],
)
def test_a_run_whose_alert_rules_can_not_be_read_is_unknown(
    tmp_path: Path, content: bytes | None, samples: bool
) -> None:
    file = run_of(tmp_path) / "metrics" / RULES
    if not samples:
        (tmp_path / "metrics" / FILE).unlink()
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    verdict, said = judged(tmp_path)
    assert verdict is Verdict.UNKNOWN
    assert f"metrics/{RULES} can't be read: " in said


def test_a_counter_whose_samples_sum_to_no_number_is_named(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda second: 1.7e308 * (second % 2))
    problem = facts_of(run).problem
    assert f"{LOAD_OPERATIONS} of load-0" in problem
    assert "inf" in problem


def test_what_a_worker_told_of_a_file_is_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = run_of(tmp_path) / "metrics" / FILE

    def failed(*_: object, **__: object) -> list[bytes]:
        raise PythonException(
            "Job aborted due to stage failure: Task 0 failed.\nTraceback (most recent call last):\n"
            f'  File "scan.py", line 1\nzonequake_analysis.errors.SamplesError: {file}: no page\n'
        )

    tasks_of(monkeypatch, failed)
    said = facts_of(tmp_path).problem
    assert said == f"metrics/*.parquet can't be read as samples: {file}: no page"


@pytest.mark.parametrize("error", [LocationError("the store refused"), OSError(28, "disk full")])
def test_an_error_of_the_place_or_of_writing_is_no_problem_of_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refused(_place: object, _content: object) -> None:
        raise error

    monkeypatch.setattr("zonequake_analysis.storage.location.Location.write", refused)
    with pytest.raises(type(error)):
        facts_of(run_of(tmp_path))


def test_a_store_that_refuses_a_worker_is_no_problem_of_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> Made:
        raise PythonException(
            "Job aborted.\nzonequake_analysis.errors.LocationError: s3://b: denied"
        )

    tasks_of(monkeypatch, refused)  # type: ignore[arg-type]
    with pytest.raises(PythonException):
        facts_of(run_of(tmp_path))
