"""docs/security.md lists every right that the chart grants, each with its reason."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from tests.chart.conftest import Document, Render
from tests.chart.rights import PAGE, Right, granted, listed

pytestmark = pytest.mark.chart

EVERYTHING = (
    *("harness.account=true", "operator.readNodes=true", "faultAgent.enabled=true"),
    *("analysis.enabled=true", "harness.targetAccount=true", "harness.targetSecrets={mine}"),
)


@pytest.fixture(scope="module")
def everything(render: Render) -> list[Document]:
    """All that can be switched on."""
    chart = Path(__file__).resolve().parents[2] / "charts" / "zonequake"
    return render(values=[chart / "ci" / "everything-values.yaml"], sets=EVERYTHING)


def test_the_page_lists_exactly_the_rights_that_the_chart_grants(
    everything: list[Document],
) -> None:
    there, wanted = granted(everything, "zq"), set(listed(PAGE.read_text()))
    assert there - wanted == set(), "granted and not listed in docs/security.md"
    assert wanted - there == set(), "listed in docs/security.md and not granted"


def test_every_right_has_a_reason(everything: list[Document]) -> None:
    assert [right for right, why in listed(PAGE.read_text()).items() if len(why) < 5] == []


def test_an_extra_and_a_missing_verb_are_found(everything: list[Document]) -> None:
    wanted = set(listed(PAGE.read_text()))
    planted = deepcopy(everything)
    rules = next(
        d for d in planted if (d["kind"], d["metadata"]["name"]) == ("Role", "zq-operator")
    )["rules"]
    pods = next(rule for rule in rules if rule["resources"] == ["pods"])
    pods["verbs"] = [verb for verb in pods["verbs"] if verb != "watch"] + ["delete"]
    there = granted(planted, "zq")
    assert there - wanted == {Right("operator", "", "pods", "delete")}
    assert wanted - there == {Right("operator", "", "pods", "watch")}


def test_every_account_is_bound_to_its_own_role_and_people_to_none(
    everything: list[Document],
) -> None:
    bound = {
        (d["kind"], d["roleRef"]["name"]): [(s["kind"], s["name"]) for s in d["subjects"]]
        for d in everything
        if d["kind"] in ("RoleBinding", "ClusterRoleBinding")
    }
    assert bound == {
        ("RoleBinding", "zq-operator"): [("ServiceAccount", "zq-operator")],
        ("RoleBinding", "zq-store"): [("ServiceAccount", "zq-store")],
        ("RoleBinding", "zq-chaos"): [("ServiceAccount", "zq-chaos")],
        ("RoleBinding", "zq-target"): [("ServiceAccount", "zq-target")],
        ("RoleBinding", "zq-fault-driver"): [("ServiceAccount", "zq-chaos")],
        ("RoleBinding", "zq-analysis"): [("ServiceAccount", "zq-analysis")],
        ("RoleBinding", "zq-analysis-runner"): [("ServiceAccount", "zq-chaos")],
        ("ClusterRoleBinding", "zonequake-zq-nodes"): [("ServiceAccount", "zq-operator")],
    }
