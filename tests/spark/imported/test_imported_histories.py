"""Other tools' histories, imported and judged: what is planted is found, what is valid passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.unit.importing.imported import imported
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def register(*, last: str) -> str:
    """Two registers of strings; the final read of the second one is `last`."""
    return f"""\
[{{:type :info, :f :kill, :value "n1", :process :nemesis, :time 5}}
 {{:type :invoke, :f :write, :value [0 "one"], :process 0, :time 10}}
 {{:type :ok, :f :write, :value [0 "one"], :process 0, :time 20}}
 {{:type :invoke, :f :write, :value [1 "two"], :process 0, :time 30}}
 {{:type :ok, :f :write, :value [1 "two"], :process 0, :time 40}}
 {{:type :invoke, :f :cas, :value [1 ["two" "three"]], :process 1, :time 50}}
 {{:type :ok, :f :cas, :value [1 ["two" "three"]], :process 1, :time 60}}
 {{:type :invoke, :f :write, :value [0 "four"], :process 2, :time 70}}
 {{:type :info, :f :write, :value [0 "four"], :process 2, :time 80, :error :timeout}}
 {{:type :invoke, :f :read, :value [0 nil], :process 0, :time 90}}
 {{:type :ok, :f :read, :value [0 "four"], :process 0, :time 100}}
 {{:type :invoke, :f :read, :value [1 nil], :process 1, :time 110}}
 {{:type :ok, :f :read, :value [1 "{last}"], :process 1, :time 120}}]
"""


def appends(*, last: str) -> str:
    """One list; its final read is `last`."""
    return f"""\
{{:type :invoke, :f :txn, :value [[:append 7 1]], :process 0, :time 10, :index 0}}
{{:type :ok, :f :txn, :value [[:append 7 1]], :process 0, :time 20, :index 1}}
{{:type :invoke, :f :txn, :value [[:append 7 2]], :process 1, :time 30, :index 2}}
{{:type :ok, :f :txn, :value [[:append 7 2]], :process 1, :time 40, :index 3}}
{{:type :invoke, :f :txn, :value [[:r 7 nil]], :process 0, :time 50, :index 4}}
{{:type :ok, :f :txn, :value [[:r 7 {last}]], :process 0, :time 60, :index 5}}
"""


def judged(spark: SparkSession, folder: Path, source: str, text: str) -> tuple[Path, Judgement]:
    run = imported(folder, source, text).run
    return run, judge_run(spark, run)


def verdicts(judgement: Judgement) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in judgement.checks}


def test_valid_registers_and_lists_pass(spark: SparkSession, tmp_path: Path) -> None:
    for text in (register(last="three"), appends(last="[1 2]")):
        _, judgement = judged(spark, tmp_path, "jepsen", text)
        assert judgement.verdict is Verdict.PASSED, judgement.checks


def test_a_stale_read_of_a_register_is_found_and_shown_in_the_files_own_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    run, judgement = judged(spark, tmp_path, "jepsen", register(last="two"))
    assert judgement.verdict is Verdict.VIOLATED
    assert verdicts(judgement)["linearizability"] is Verdict.VIOLATED
    write_report(run, judgement)
    for name in ("verdict.json", "report.html"):
        told = (run / name).read_text()
        assert "three" in told, name
        assert str(2**53) not in told, name


def test_a_lost_append_is_found(spark: SparkSession, tmp_path: Path) -> None:
    _, judgement = judged(spark, tmp_path, "jepsen", appends(last="[1]"))
    found = verdicts(judgement)
    assert found["lost-writes"] is found["linearizability"] is Verdict.VIOLATED


def test_a_register_that_was_written_one_value_twice_is_unknown_and_not_violated(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = """\
INFO  jepsen.util - 0 :invoke :write 0
INFO  jepsen.util - 0 :ok :write 0
INFO  jepsen.util - 0 :invoke :cas [0 1]
INFO  jepsen.util - 0 :ok :cas [0 1]
INFO  jepsen.util - 0 :invoke :cas [1 0]
INFO  jepsen.util - 0 :ok :cas [1 0]
INFO  jepsen.util - 0 :invoke :read nil
INFO  jepsen.util - 0 :ok :read 0
"""
    _, judgement = judged(spark, tmp_path, "jepsen", text)
    assert judgement.verdict is Verdict.UNKNOWN
    assert verdicts(judgement)["linearizability"] is Verdict.UNKNOWN


def test_a_stale_read_of_etcds_tests_is_found_by_its_revision_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    put = (
        '{"ClientId":0,"Input":{"Type":"txn","Txn":{"OperationsOnSuccess":[{"Type":"put-operation",'
        '"Put":{"Key":"k","Value":{"Value":"VALUE"}}}]}},"Call":CALL,"Output":{"Txn":{"Results":'
        '[{}]},"Revision":REVISION},"Return":RETURN}\n'
    )
    get = (
        '{"ClientId":1,"Input":{"Type":"range","Range":{"Start":"k","End":"","Revision":0}},'
        '"Call":CALL,"Output":{"Range":{"KVs":[{"Key":"k","Value":{"Value":"VALUE"}}],"Count":1},'
        '"Revision":REVISION},"Return":RETURN}\n'
    )

    def line(form: str, value: str, call: int, revision: int) -> str:
        return (
            form.replace("VALUE", value)
            .replace("CALL", str(call))
            .replace("RETURN", str(call + 1))
            .replace("REVISION", str(revision))
        )

    valid = [line(put, "a", 1, 2), line(put, "b", 3, 3), line(get, "b", 5, 3)]
    _, judgement = judged(spark, tmp_path, "porcupine", "".join(valid))
    assert judgement.verdict is Verdict.PASSED, judgement.checks
    _, judgement = judged(spark, tmp_path, "porcupine", "".join([*valid, line(get, "a", 7, 2)]))
    found = verdicts(judgement)
    # Nothing behind it reads "b" any more, so that "b" counts as lost.
    assert found["lost-writes"] is found["linearizability"] is Verdict.VIOLATED
