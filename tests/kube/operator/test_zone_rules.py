"""What the API server refuses of a zone, with which sentence, and what `kubectl get` shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from zonequake_operator.nodes import filters

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube


def zone(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "DistributionZone",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"replicas": -1}, "replicas must be between 1 and 1000"),
        ({"replicas": 0}, "replicas must be between 1 and 1000"),
        ({"partitions": 0}, "partitions must be between 1 and 65000"),
        ({"partitions": 65001}, "partitions must be between 1 and 65000"),
        (
            {"dataNodesAutoAdjust": 5, "dataNodesAutoAdjustScaleUp": 3},
            "dataNodesAutoAdjust stands for both directions; remove it",
        ),
        (
            {"dataNodesAutoAdjust": 5, "dataNodesAutoAdjustScaleDown": "Infinite"},
            "dataNodesAutoAdjust stands for both directions; remove it",
        ),
        ({"dataNodesAutoAdjustScaleUp": -4}, "expected whole seconds (0 or more) or Infinite"),
        ({"dataNodesAutoAdjustScaleDown": "soon"}, "expected whole seconds (0 or more)"),
        ({"dataNodesFilter": "US && SSD"}, "found the filter US && SSD; expected quoted tags"),
        ({"dataNodesFilter": '"US" &&& "SSD"'}, "expected quoted tags joined with"),
        ({"dataNodesFilter": '"US" "SSD"'}, "expected quoted tags joined with"),
        ({"dataNodesFilter": "$.[?(@.region)]"}, "expected quoted tags joined with"),
        ({"consistencyMode": "High"}, "must be StrongConsistency or HighAvailability"),
        ({"storage": "Tape"}, "storage must be Persistent or Volatile"),
        ({"changePeers": "Hope"}, "changePeers must be Queue, Update or Cancel"),
        ({"partitionDistributionResetTimeout": -1}, "must be whole seconds (0 or more)"),
        ({"catchUpBytesPerSecond": -1}, "catchUpBytesPerSecond must be 0 (no limit) or more"),
    ],
)
def test_a_wrong_zone_is_refused_with_a_sentence(
    api_server: ApiServer, spec: dict[str, Any], sentence: str
) -> None:
    done = api_server.apply(zone("wrong", spec))
    assert done.returncode != 0
    assert sentence in done.stderr


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"dataNodesFilter": '("US" || "EU") && "SSD"'},
        {"dataNodesFilter": "(“US” || !“EU”) && “SSD”"},
        {"dataNodesFilter": 'contains("zone"), /re.*x/ && !("a=b")'},
        {"dataNodesAutoAdjust": "Infinite"},
        {"dataNodesAutoAdjustScaleUp": 300, "dataNodesAutoAdjustScaleDown": 300000},
        {"changePeers": "Cancel", "paused": True},
        {"consistencyMode": "HighAvailability", "partitionDistributionResetTimeout": 0},
        {"storage": "Volatile"},
    ],
)
def test_a_right_zone_is_accepted(api_server: ApiServer, spec: dict[str, Any]) -> None:
    done = api_server.apply(zone("right", spec))
    api_server.kubectl("delete", "dz", "right")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("field", "wanted"), [("partitions", 5), ("fsync", False)])
def test_what_may_not_change_is_refused(api_server: ApiServer, field: str, wanted: object) -> None:
    assert api_server.apply(zone("fixed", {"partitions": 4})).returncode == 0
    changed = api_server.apply(zone("fixed", {"partitions": 4, field: wanted}))
    api_server.kubectl("delete", "dz", "fixed")
    assert changed.returncode != 0
    assert f"{field} can't be changed; create another zone and move the data" in changed.stderr


def test_get_shows_what_counts(api_server: ApiServer) -> None:
    assert api_server.apply(zone("shown", {"partitions": 4})).returncode == 0
    shown = api_server.kubectl("get", "dz", "shown").stdout
    api_server.kubectl("delete", "dz", "shown")
    heads = " ".join(shown.splitlines()[0].split())
    assert heads == "NAME PARTITIONS REPLICAS MODE NODES AVAILABLE MOVING AT-RISK READY ARMED AGE"


TAGS = st.sampled_from(
    ['"US"', "“Node A”", '"region=EU"', 'contains("a")', "/eu-\\/.*/", '"a.b/c-d"']
)
BLANKS = st.sampled_from(["", " ", "  ", "\n", "\t", "\u00a0"])


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({}{})".format, BLANKS, inner),
        st.builds("!{}{}".format, BLANKS, inner),
        st.builds("{1}{0}&&{0}{2}".format, BLANKS, inner, inner),
        st.builds("{1}{0}||{0}{2}".format, BLANKS, inner, inner),
        st.builds("({1}{0},{0}{2})".format, BLANKS, inner, inner),
    )


def test_every_filter_that_the_operator_understands_is_accepted(api_server: ApiServer) -> None:
    found: dict[str, None] = {}

    @seed(1)
    @settings(max_examples=150, database=None)
    @given(st.recursive(TAGS, joined, max_leaves=6))
    def collect(text: str) -> None:
        filters.parse(text)
        found[text] = None

    collect()
    assert len(found) > 50
    zones = [zone(f"f{n}", {"dataNodesFilter": text}) for n, text in enumerate(found)]
    done = api_server.kubectl(
        "create",
        "--dry-run=server",
        "--filename",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": zones}),
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(found)
