"""Other tools' histories, imported and judged: what is planted is found, what is valid passes."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.histories.repeated_values import hot_register
from tests.unit.importing.imported import imported
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_lost_append_is_found(spark: SparkSession, tmp_path: Path) -> None:
    _, judgement = judged(spark, tmp_path, "jepsen", appends(last="[1]"))
    found = verdicts(judgement)
    assert found["lost-writes"] is found["linearizability"] is Verdict.VIOLATED


def transactions(*steps: str) -> str:
    """Transactions side by side in time, each of a process of its own; the last one after them.
    What was asked has nil where a list was read."""
    lines, end = [], len(steps) - 1
    for number, done in enumerate(steps):
        asked = re.sub(r"(:r \S+) \[[\d ]*\]", r"\1 nil", done)
        at = (100, 200) if number == end else (10 + number, 50 + number)
        for kind, text, at_ns in (("invoke", asked, at[0]), ("ok", done, at[1])):
            lines.append((at_ns, f":type :{kind}, :f :txn, :value [{text}], :process {number}"))
    return "\n".join(f"{{{text}, :time {at_ns}}}" for at_ns, text in sorted(lines))


LAST = "[:r 1 [1]] [:r 2 [2]]"


def test_transactions_of_several_steps_that_have_an_order_pass(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = transactions("[:append 1 1] [:r 2 []]", "[:append 2 2] [:r 1 [1]]", LAST)
    _, judgement = judged(spark, tmp_path, "jepsen", text)
    assert judgement.verdict is Verdict.PASSED, judgement.checks
    (check,) = (check for check in judgement.checks if check.name == "transactions")
    assert (check.verdict, check.checked) == (Verdict.PASSED, 3)


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("G1c", ("[:append 1 1] [:r 2 [2]]", "[:append 2 2] [:r 1 [1]]", LAST)),
        ("half", ("[:append 1 1] [:append 2 2]", "[:r 1 [1]] [:r 2 []]", LAST)),
    ],
)
def test_transactions_of_jepsen_without_an_order_are_violated(
    spark: SparkSession, tmp_path: Path, kind: str, steps: tuple[str, ...]
) -> None:
    _, judgement = judged(spark, tmp_path, "jepsen", transactions(*steps))
    (check,) = (check for check in judgement.checks if check.name == "transactions")
    assert check.verdict is Verdict.VIOLATED
    assert kind in check.summary
    assert verdicts(judgement)["linearizability"] is Verdict.PASSED, "no key by itself shows it"


def jepsen(of_key: dict[int, list[Step]]) -> str:
    """Registers as Jepsen's workload writes them: each operation by a process of its own."""
    entries = []
    for key, steps in of_key.items():
        for number, step in enumerate(steps):
            f, process = step.f.name.lower(), 1000 * key + number
            value = str(step.value) if step.value != ABSENT else "nil"
            shown = f"[{step.expected} {value}]" if step.f is Function.CAS else value
            asked = "nil" if step.f is Function.READ else shown
            for kind, at_ns, content in (
                ("invoke", step.inv_ns, asked),
                ("ok", step.fin_ns, shown),
            ):
                if at_ns != NEVER_NS:
                    entries.append((at_ns, kind, f, key, content, process))
    return "\n".join(
        f"{{:type :{kind}, :f :{f}, :value [{key} {content}], :process {process}, :time {at_ns}}}"
        for at_ns, kind, f, key, content, process in sorted(entries)
    )


def valid_registers() -> dict[int, list[Step]]:
    """Six registers of five values, each read once more at its end."""
    found = {}
    for key in range(6):
        steps = hot_register(
            60 + key, clients=4 + key, unanswered=0.03, cas=0.2 if key % 2 else 0.0
        )
        end = max(step.fin_ns for step in steps if step.fin_ns != NEVER_NS)
        last = Step(Function.WRITE, end + 1, end + 2, 3)
        found[key] = [*steps, last, Step(Function.READ, end + 3, end + 4, 3)]
    return found


def test_registers_whose_values_repeat_pass_by_search(spark: SparkSession, tmp_path: Path) -> None:
    _, judgement = judged(spark, tmp_path, "jepsen", jepsen(valid_registers()))
    found = {check.name: check for check in judgement.checks}
    assert judgement.verdict is Verdict.PASSED, judgement.checks
    assert "6 keys whose values repeat, by search" in found["linearizability"].summary
    assert not found["stale-reads"].judged, "no answer has a place"
    assert judgement.evidence.found.by_search.with_order == 6


def test_a_stale_read_among_repeated_values_is_found_and_shown(
    spark: SparkSession, tmp_path: Path
) -> None:
    registers = valid_registers()
    end = registers[4][-1].fin_ns
    stale = Step(Function.READ, end + 5, end + 6, 9)
    registers[4] += [
        Step(Function.WRITE, end + 1, end + 2, 9),
        Step(Function.WRITE, end + 3, end + 4, 3),
        stale,
    ]
    run, judgement = judged(spark, tmp_path, "jepsen", jepsen(registers))
    assert verdicts(judgement)["linearizability"] is Verdict.VIOLATED
    by_search = judgement.evidence.found.by_search
    assert (by_search.with_order, by_search.without_order) == (5, 1)
    (shown,) = (s for s in judgement.shown if s.finding.kind == "no-order")
    assert shown.finding.key == "4"
    assert (shown.finding.at_ns, shown.finding.value) == (stale.inv_ns, 9)
    assert len(shown.witness.operations) == 3
    assert shown.witness.proven
    write_report(run, judgement)
    (row,) = pq.read_table(run / "tables" / "findings").to_pylist()
    assert (row["check"], row["kind"], row["key"]) == ("linearizability", "no-order", "4")
    assert row["verdict"] == "violated"
    assert row["ops"] == [shown.finding.op]


def test_a_value_that_a_cas_brings_back_is_no_violation(
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
    assert judgement.verdict is Verdict.PASSED, judgement.checks


PUT = (
    '{"ClientId":0,"Input":{"Type":"txn","Txn":{"OperationsOnSuccess":[{"Type":"put-operation",'
    '"Put":{"Key":"k","Value":{"Value":"VALUE"}}}]}},"Call":CALL,"Output":{"Txn":{"Results":'
    '[{}]},"Revision":REVISION},"Return":RETURN}\n'
)
GET = (
    '{"ClientId":1,"Input":{"Type":"range","Range":{"Start":"k","End":"","Revision":0}},'
    '"Call":CALL,"Output":{"Range":{"KVs":[{"Key":"k","Value":{"Value":"VALUE"}}],"Count":1},'
    '"Revision":REVISION},"Return":RETURN}\n'
)


def etcd(form: str, value: str, call: int, revision: int) -> str:
    return (
        form.replace("VALUE", value)
        .replace("CALL", str(call))
        .replace("RETURN", str(call + 1))
        .replace("REVISION", str(revision))
    )


def test_a_stale_read_of_etcds_tests_is_found_by_its_revision_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    valid = [etcd(PUT, "a", 1, 2), etcd(PUT, "b", 3, 3), etcd(GET, "b", 5, 3)]
    _, judgement = judged(spark, tmp_path, "porcupine", "".join(valid))
    assert judgement.verdict is Verdict.PASSED, judgement.checks
    _, judgement = judged(spark, tmp_path, "porcupine", "".join([*valid, etcd(GET, "a", 7, 2)]))
    found = verdicts(judgement)
    # Nothing behind it reads "b" any more, so that "b" counts as lost.
    assert found["lost-writes"] is found["linearizability"] is Verdict.VIOLATED


def test_values_that_repeat_at_places_of_a_log_are_neither_stale_nor_duplicates(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first write of "a" must not count as the later one."""
    valid = [
        *(etcd(PUT, "a", 1, 2), etcd(GET, "a", 3, 2), etcd(PUT, "b", 5, 3), etcd(GET, "b", 7, 3)),
        *(etcd(PUT, "a", 9, 4), etcd(GET, "a", 11, 4)),
    ]
    _, judgement = judged(spark, tmp_path, "porcupine", "".join(valid))
    assert judgement.verdict is Verdict.PASSED, judgement.checks
    _, judgement = judged(spark, tmp_path, "porcupine", "".join([*valid, etcd(GET, "b", 13, 3)]))
    found = verdicts(judgement)
    assert found["linearizability"] is Verdict.VIOLATED
    assert found["stale-reads"] is found["duplicates"] is Verdict.PASSED
