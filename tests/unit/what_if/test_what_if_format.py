"""The file's format, the lines' format, and how a file that can't be read is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zonequake_chaos.commands import cli
from zonequake_ctl.errors import WhatIfError
from zonequake_ctl.what_if.reading.fields import read
from zonequake_ctl.what_if.reading.question import (
    BARE,
    OF_PARTITION,
    GivenKeys,
    GivenLink,
    GivenReplica,
)
from zonequake_kube.yaml_fields import file_names

WHOLE = """
topology: {A: {region: US, storage: SSD}, B: [EU, HDD], C: {}}   # attributes, or a list of tags
zone: {partitions: 1, replicas: 3, dataNodesAutoAdjustScaleUp: 5}
partitions: {"0": {stable: [A, B, C], pending: {nodes: [A], force: true, fromReset: false},
  planned: null, switchReduce: [], switchAppend: [], changeTriggerRevision: 5, pendingLock: false,
  chain: [{nodes: [A, B, C], term: 1, index: 7}]}}
replicas: {0: {A: {term: 2, index: 50, lastUserCmdTerm: 2, lastUserCmdIdx: 40, lastCfgIdx: 30}}}
events:
- {at: 0, revision: 10, join: {D: {region: EU}}}
- {at: 3, leave: [C], join: {E: []}}
- {at: 4, alter: {dataNodesAutoAdjustScaleUp: 0}}
- {at: 5, target: {partition: 0, nodes: [A, B]}}
- {at: 6, applied: {partition: 0, peers: [A, B], term: 2, index: 60}}
- {at: 7, leaderElected: {partition: 0, node: A, term: 3, peers: [A, B]}}
- {at: 8, reconfigurationError: {partition: 0, status: CatchUpTimeout}}
- {at: 9, replicaLost: {partition: 0, node: C}}
- {at: 10, cancelled: {partition: 0, result: true}}
- {at: 10, caughtUp: {partition: 0, peers: [A, B]}}
- {at: 10, stage: {partition: 0, stage: None}}
- {at: 10, groupRestart: {partition: 0, alive: [A, E]}}
- {at: 10, resetByHand: {partition: 0}}
- {at: 11, operatorRestart: true}
- {at: 12, drop: true}
until: 1000
autoApply: false
"""


@pytest.mark.parametrize("mode", ["", ", consistencyMode: HighAvailability", ", storage: Volatile"])
@pytest.mark.parametrize("auto_apply", ["false", "true"])
def test_every_kind_of_event_is_answered(ask: Any, mode: str, auto_apply: str) -> None:
    text = WHOLE.replace("replicas: 3,", f"replicas: 3{mode},")
    answer = ask(text.replace("autoApply: false", f"autoApply: {auto_apply}"), explain=True)
    assert answer.lines[-1]["cause"] == "drop"


def test_a_line_has_exactly_the_fields_of_the_format(ask: Any) -> None:
    lines = ask(WHOLE).lines
    first, moved = lines[0], next(one for one in lines if one["actions"])
    assert list(first) == [
        "at",
        "cause",
        "revision",
        "dataNodes",
        "timers",
        "partitions",
        "actions",
    ]
    assert list(first["timers"]) == ["scaleUp", "scaleDown", "autoAdjust", "reset"]
    assert first["partitions"] == {
        "0": {
            "stable": ["A", "B", "C"],
            "pending": {"nodes": ["A"], "force": True, "fromReset": False},
            "planned": None,
            "switchReduce": [],
            "switchAppend": [],
            "changeTriggerRevision": 5,
            "pendingLock": False,
            "chain": [{"nodes": ["A", "B", "C"], "term": 1, "index": 7}],
        }
    }
    assert (first["at"], first["revision"], first["actions"]) == (0, 5, [])
    assert list(moved["actions"][0])[:3] == ["partition", "node", "do"]


def test_a_stored_partition_without_keys_shows_them_empty(ask: Any) -> None:
    assert ask("zone: {partitions: 1}\n").keys(0) == {
        "stable": None,
        "pending": None,
        "planned": None,
        "switchReduce": [],
        "switchAppend": [],
        "changeTriggerRevision": 0,
        "pendingLock": False,
        "chain": None,
    }


def test_partition_keys_may_be_numbers_or_texts_and_sets_bare_lists(ask: Any) -> None:
    keys = "{stable: [C, A, B], pending: [D, A]}"
    texts = [f"zone: {{partitions: 2}}\npartitions: {{{n}: {keys}}}\n" for n in ("1", '"1"')]
    assert [ask(text).keys(0, 1)["stable"] for text in texts] == [["A", "B", "C"]] * 2
    assert ask(texts[0]).sets(0, 1) == ("ABC", "AD", "")


def test_given_partitions_stand_beside_new_ones(ask: Any) -> None:
    answer = ask(
        "topology: {A: {}}\nzone: {partitions: 2}\npartitions: {1: {stable: [B]}}\n"
        "events:\n- {at: 1, join: {C: {}}}\n"
    )
    assert [answer.sets(0, n)[0] for n in (0, 1)] == ["A", "B"]
    assert answer.actions(0) == ["startReplica A"]


def test_fractions_of_a_second_are_kept(ask: Any) -> None:
    answer = ask(
        "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 2}\n"
        "events:\n- {at: 0.25, join: {A: {}}}\n"
    )
    assert answer.changes() == [0, 0.25, 2.25]


def test_until_ends_the_answer_and_counts_itself(ask: Any) -> None:
    text = (
        "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 2}\nevents:\n- {at: 1, join: {A: {}}}\n"
    )
    assert ask(text + "until: 2.9\n").changes() == [0, 1]
    assert ask(text + "until: 3\n").changes() == [0, 1, 3]


# ------------------------------------------------------------------------------------- revisions


def test_an_event_without_revision_gets_the_next_one(ask: Any) -> None:
    answer = ask(
        "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 5}\n"
        "partitions: {0: {stable: [A], changeTriggerRevision: 7}}\nevents:\n"
        "- {at: 1, join: {A: {}}}\n- {at: 2, revision: 20, join: {B: {}}}\n"
        "- {at: 3, leaderElected: {partition: 0, node: A, term: 2}}\n- {at: 4, join: {C: {}}}\n"
    )
    assert [answer.at(at)["revision"] for at in (0, 1, 2, 4)] == [7, 8, 20, 22]
    assert answer.at(9)["revision"] == 23  # "a timer takes the next integer"


def test_a_number_that_a_report_got_makes_no_later_event_stale(ask: Any) -> None:
    answer = ask(
        "zone: {partitions: 1}\nevents:\n- {at: 1, revision: 10, join: {A: {}}}\n"
        "- {at: 2, leaderElected: {partition: 0, node: A, term: 2}}\n"
        "- {at: 3, revision: 11, join: {B: {}}}\n"
    )
    assert answer.at(3)["revision"] == 11


@pytest.mark.parametrize("revision", [9, 10])
@pytest.mark.parametrize(
    "event",
    [
        "join: {B: {}}",
        "leave: [A]",
        "alter: {replicas: 1}",
        "target: {partition: 0, nodes: [A]}",
        "applied: {partition: 0, peers: [A]}",
        "replicaLost: {partition: 0, node: A}",
        "drop: true",
    ],
)
def test_a_stale_event_changes_nothing(ask: Any, revision: int, event: str) -> None:
    answer = ask(
        "zone: {partitions: 1}\nevents:\n- {at: 1, revision: 10, join: {A: {}}}\n"
        f"- {{at: 2, revision: {revision}, {event}}}\n"
    )
    assert answer.changes() == [0, 1]


def test_a_report_raises_no_revision_and_makes_nothing_due(ask: Any) -> None:
    answer = ask(
        "topology: {A: {}, B: {}, C: {}}\nzone: {partitions: 1}\n"
        "partitions: {0: {stable: [A, B], changeTriggerRevision: 3}}\nevents:\n"
        "- {at: 1, revision: 50, leaderElected: {partition: 0, node: A, term: 2}}\n"
    )
    assert answer.at(1)["revision"] == 3
    assert answer.sets(1) == ("AB", "", "")


# -------------------------------------------------------------------------------------- refusals

ZONE = "zone: {partitions: 2}\n"
REFUSED = [
    ("zones: {}", 'the file: found the unknown key "zones" (did you mean zone?)'),
    ("[1]", "the file: found [1], expected a mapping with topology"),
    ("zone: {", "the file isn't YAML"),
    ("&a [*a]", "the file isn't YAML: found an alias: expected a value that doesn't"),
    ("&a {zone: *a}", "the file isn't YAML: found an alias: expected a value that doesn't"),
    (
        "topology: " + "[" * 900 + "]" * 900,
        "the file isn't YAML: found lists or mappings nested too deep",
    ),
    ("topology: 2001-99-99", "found '2001-99-99'"),
    ("zone: {partition: 1}", "zone: found the unknown key"),
    ("zone: {partitions: 0}", "zone.partitions: found 0, expected a whole number between 1"),
    ("zone: {replicas: x}", 'zone.replicas: found "x", expected a whole number between 1'),
    (
        "zone: {partitionDistributionResetTimeout: 2147483648}",
        "zone.partitionDistributionResetTimeout: found 2147483648, expected whole seconds "
        "(0 to 2147483647)",
    ),
    (
        "zone: {dataNodesAutoAdjust: 2147483648}",
        "found 2147483648, expected whole seconds (0 to 2147483647) or Infinite",
    ),
    ("zone: {storage: Disk}", 'zone.storage: found "Disk", expected Persistent or Volatile'),
    (
        "zone: {dataNodesAutoAdjust: 1, dataNodesAutoAdjustScaleUp: 2}",
        "expected dataNodesAutoAdjust or dataNodesAutoAdjustScaleUp",
    ),
    ("zone: {dataNodesFilter: 'US'}", 'zone.dataNodesFilter: found "US", expected a filter'),
    ("topology: [A]", 'topology: found ["A"], expected a mapping of node names'),
    ("topology: {on: {}}", "YAML reads this as something else than a text"),
    ("topology: {A: 5}", "topology.A: found 5, expected attributes"),
    ("topology: {A: {}, A: {}}", 'line 1: found the key "A" again'),
    (ZONE + "partitions: {2: {}}", "partitions: found 2, expected a partition between 0 and 1"),
    (ZONE + "partitions: {0: {}, '0': {}}", "expected each partition once"),
    (
        ZONE + "partitions: {0: {stable: A}}",
        'partitions.0.stable: found "A", expected a list of node names, or a mapping with nodes',
    ),
    (
        ZONE + "partitions: {0: {stable: {nodes: [A], force: true}}}",
        'partitions.0.stable: found the unknown key "force", expected only nodes',
    ),
    (
        ZONE + "partitions: {0: {stable: [A, 1]}}",
        "partitions.0.stable[1]: found 1, expected a node's name; YAML reads this as something",
    ),
    (
        ZONE + "events: [{at: 1, applied: {partition: 0, peers: [A], term: null}}]",
        "events[0].applied.term: found null, expected a term",
    ),
    (
        ZONE + "events: [{at: 1, stage: {stage: None}}]",
        'events[0].stage: found {"stage": "None"}, expected partition too',
    ),
    (ZONE + "partitions: {0: {pending: [A]}}", "expected a stable set too"),
    (
        ZONE + "partitions: {0: {stable: [A], pendingLock: true}}",
        "partitions.0.pendingLock: found true, expected a pending set too",
    ),
    (ZONE + "replicas: {0: {A: {terms: 1}}}", "replicas.0.A: found the unknown key"),
    (ZONE + "events: {}", "events: found {}, expected a list of events"),
    (ZONE + "events: [{at: -1, drop: true}]", "events[0].at: found -1, expected seconds"),
    (ZONE + "events: [{at: soon, drop: true}]", 'events[0].at: found "soon", expected seconds'),
    (ZONE + "events: [{drop: true}]", "expected at, the second"),
    (ZONE + "events: [{at: 1}]", "expected one of alter, target"),
    (
        ZONE + "events: [{at: 5, operatorRestart: true}, {at: 3, drop: true}]",
        "events[1].at: found 3, expected a time not before 5",
    ),
    (ZONE + "events: [{at: 1, drop: true, alter: {}}]", "expected one of"),
    (ZONE + "events: [{at: 1, leave: [Z]}]", 'events[0].leave: found "Z", expected a node'),
    (
        ZONE + "events: [{at: 1, leaderElected: {partition: 0, node: Z}}]",
        'events[0].leaderElected.node: found "Z", expected a node of the topology, or of any set',
    ),
    (
        ZONE + "events: [{at: 1, replicaLost: {partition: 0, node: Z}}]",
        'events[0].replicaLost.node: found "Z", expected a node',
    ),
    (
        ZONE + "events: [{at: 1, groupRestart: {partition: 0, alive: [Z]}}]",
        'events[0].groupRestart.alive: found "Z", expected a node',
    ),
    (
        ZONE + "events: [{at: 1, resetByHand: {partition: 0, survivor: Z}}]",
        'events[0].resetByHand.survivor: found "Z", expected a node',
    ),
    (ZONE + "events: [{at: 1, drop: 1}]", "events[0].drop: found 1, expected true"),
    (ZONE + "events: [{at: 1, alter: {partitions: 3}}]", "events[0].alter.partitions: found 3"),
    (ZONE + "events: [{at: 1, revision: x, drop: true}]", "events[0].revision: found"),
    (
        ZONE + "events: [{at: 1, applied: {partition: 7, peers: [A]}}]",
        "events[0].applied.partition: found 7, expected a partition between 0 and 1",
    ),
    (
        ZONE + "events: [{at: 1, stage: {partition: 0, stage: Done}}]",
        'events[0].stage.stage: found "Done", expected None, CatchingUp, Joint or Stable',
    ),
    (
        "topology: {data-0: {}}\n" + ZONE + "replicas: {0: {data0: {term: 1, index: 5}}}",
        'replicas.0: found "data0", expected a node of the topology, or of any set (data-0)',
    ),
    (
        ZONE + "events: [{at: 1, target: {partition: 0, nodes: [Q]}}]",
        'events[0].target.nodes: found "Q", expected a node of the topology',
    ),
    (
        ZONE + "events: [{at: 1, applied: {partition: 0, peers: [Q]}}]",
        'events[0].applied.peers: found "Q", expected a node of the topology',
    ),
    (
        ZONE + "events: [{at: 1, caughtUp: {partition: 0, peers: [Q]}}]",
        'events[0].caughtUp.peers: found "Q", expected a node of the topology',
    ),
    (
        "topology: {A: {}}\n"
        + ZONE
        + "events: [{at: 1, leaderElected: {partition: 0, node: A, peers: [A, Q]}}]",
        'events[0].leaderElected.peers: found "Q", expected a node of the topology',
    ),
    (
        ZONE + "events: [{at: 1, reconfigurationError: {partition: 0, status: CatchUpTimeoutt}}]",
        'events[0].reconfigurationError.status: found "CatchUpTimeoutt", expected CatchUpTimeout, '
        "LeaderSteppedDown or Cancelled",
    ),
    (
        ZONE + "partitions: {0: {stable: [A, B], chain: [{nodes: [A]}, {nodes: [D]}]}}",
        'partitions.0.chain[1].nodes: found ["D"], expected a node of stable (A, B) among them',
    ),
    (
        ZONE + "replicas: {0: {A: {term: 1, index: 5, lastUserCmdIdx: 6}}}",
        "replicas.0.A.lastUserCmdIdx: found 6, expected at most index (5)",
    ),
    (
        ZONE + "replicas: {0: {A: {term: 1, index: 5, lastUserCmdTerm: 2}}}",
        "replicas.0.A.lastUserCmdTerm: found 2, expected at most term (1)",
    ),
    (
        ZONE + "replicas: {0: {A: {term: 1, index: 5, lastCfgIdx: 6}}}",
        "replicas.0.A.lastCfgIdx: found 6, expected at most index (5)",
    ),
    (
        ZONE + "replicas: {0: {A: {term: 4294967296}}}",
        "replicas.0.A.term: found 4294967296, expected a term, a whole number (0 to 900000000)",
    ),
    (
        ZONE + "partitions: {0: {stable: [A], chain: [{nodes: [A], term: 1000000000}]}}",
        "partitions.0.chain[0].term: found 1000000000, expected a term",
    ),
    (
        "topology: {A: {}}\n"
        + ZONE
        + "events: [{at: 1, leaderElected: {partition: 0, node: A, term: 4294967296}}]",
        "events[0].leaderElected.term: found 4294967296, expected a term",
    ),
    (
        ZONE + "partitions: {0: {stable: [A], chain: [{nodes: [A], index: 9223372036854775808}]}}",
        "expected an index, a whole number (0 to 9223372036854775807)",
    ),
    (ZONE + "until: later", 'until: found "later", expected seconds'),
    (ZONE + "autoApply: 1", "autoApply: found 1, expected true or false"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_file_is_refused_with_its_place_what_was_found_and_what_is_expected(
    text: str, message: str
) -> None:
    with pytest.raises(WhatIfError) as refused:
        read(text)
    assert message in str(refused.value)


@pytest.mark.parametrize("status", ["CatchUpTimeout", "LEADER_STEPPED_DOWN", "cancelled"])
def test_a_status_may_be_written_as_the_protocol_has_it(status: str) -> None:
    read(ZONE + f"events: [{{at: 1, reconfigurationError: {{partition: 0, status: {status}}}}}]")


def test_a_refusal_of_a_text_that_repeats_itself_many_times_ends() -> None:
    layers = [f"&l{i} [{', '.join(9 * [f'*l{i - 1}'])}]" for i in range(1, 40)]
    with pytest.raises(WhatIfError, match="found"):
        read(f"[&l0 x, {', '.join(layers)}]")


def test_the_page_names_every_event_and_field_of_the_file() -> None:
    page = (Path(__file__).parents[3] / "docs" / "what-if.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for key, kind in OF_PARTITION.items():
        (row,) = [one for one in rows if f"`{key}`:" in one.split(" | ")[0]]
        said = row[: row.index(" | ", 2)]
        assert [f for f in file_names(kind) if f"`{f}`" not in said] == ["partition"], key
    for key in (*BARE, "alter", "join", "leave", "at", "revision", "partition"):
        assert f"`{key}`" in page, key
    lines = "".join(line for line in rows if line.startswith(("| `partitions`", "| `replicas`")))
    for given in (GivenKeys, GivenReplica, GivenLink):
        for name in file_names(given):
            assert name in lines, name


@pytest.mark.parametrize("key", [*OF_PARTITION, *BARE])
def test_the_cause_of_a_line_is_the_key_of_its_event(key: str) -> None:
    (event,) = [one for one in read(WHOLE).events if one.kinds == (key,)]
    assert isinstance(event.what, {**OF_PARTITION, **BARE}[key])


# ----------------------------------------------------------------------------------- the command


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["zonequake", "what-if", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_command_prints_one_json_object_a_line(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: Any, tmp_path: Path
) -> None:
    file = tmp_path / "zone.yaml"
    file.write_text(WHOLE)
    assert command(monkeypatch, str(file)) == 0
    lines = [json.loads(one) for one in capfdbinary.readouterr().out.splitlines()]
    assert lines[0]["cause"] == "create"
    assert all("because" not in one for one in lines)


def test_the_command_explains_each_change(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: Any, tmp_path: Path
) -> None:
    file = tmp_path / "zone.yaml"
    file.write_text(WHOLE)
    assert command(monkeypatch, str(file), "--explain") == 0
    lines = [json.loads(one) for one in capfdbinary.readouterr().out.splitlines()]
    assert any(one["because"] for one in lines)


HELD = """
topology: {A: {}, B: {}, C: {}}
zone: {partitions: 1, replicas: 3}
partitions: {0: {stable: [A, B, C]}}
"""
BY_HAND = "resetByHand: {partition: 0}"
ASKED_FOR_IN_VAIN = {
    "led": (f"events: [{{at: 2, {BY_HAND}}}]", "at 2: resetByHand of partition 0 changes nothing"),
    "whole": (f"events: [{{at: 2, {BY_HAND}}}]", "A leads it"),
    "nobody": (
        f"events: [{{at: 1, leave: [A, B, C]}}, {{at: 2, {BY_HAND}}}]",
        "none of its nodes is there",
    ),
    "empty": (
        "events: [{at: 1, leave: [A, B, C]}, {at: 2, join: {D: {}}},"
        " {at: 3, resetByHand: {partition: 0, survivor: D}}]",
        "D holds nothing of it, or can't be asked",
    ),
}


@pytest.mark.parametrize(("events", "why"), ASKED_FOR_IN_VAIN.values(), ids=ASKED_FOR_IN_VAIN)
def test_a_reset_by_hand_that_changes_nothing_says_why(
    monkeypatch: pytest.MonkeyPatch, capfd: Any, tmp_path: Path, events: str, why: str
) -> None:
    file = tmp_path / "zone.yaml"
    file.write_text(HELD + events)
    assert command(monkeypatch, str(file)) == 0
    told = capfd.readouterr()
    assert why in told.err
    assert "resetByHand" not in told.out


def test_a_reset_by_hand_that_is_carried_out_says_nothing_besides_its_line(
    monkeypatch: pytest.MonkeyPatch, capfd: Any, tmp_path: Path
) -> None:
    file = tmp_path / "zone.yaml"
    file.write_text(HELD + f"events: [{{at: 1, leave: [A, B]}}, {{at: 2, {BY_HAND}}}]")
    assert command(monkeypatch, str(file)) == 0
    told = capfd.readouterr()
    assert told.err == ""
    assert '"cause":"resetByHand"' in told.out


@pytest.mark.parametrize("text", ["zone: {partition: 1}\n", None])
def test_a_wrong_or_missing_file_ends_with_254(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "zone.yaml"
    if text is not None:
        file.write_text(text)
    assert command(monkeypatch, str(file)) == 254
    assert "expected" in capsys.readouterr().err
