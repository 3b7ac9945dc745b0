"""An operator whose account lacks a right says which and what for, and goes on once it has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.chart.rights import PAGE, listed
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.test_zone_rules import zone
from zonequake_operator.resources.rights import NEEDED, Right, sentence

if TYPE_CHECKING:
    from tests.kube.operator.machine import Machine

pytestmark = pytest.mark.kube

ROLE = "zq-operator"


def test_the_operator_knows_each_of_its_rights_and_what_it_is_for() -> None:
    of_operator = {right[1:] for right in listed(PAGE.read_text()) if right.account == "operator"}
    assert {(r.group, r.resource, r.verb) for r in NEEDED} == of_operator


def test_a_right_that_is_missing_is_named_and_the_operator_goes_on_when_it_is_given(
    machine: Machine,
) -> None:
    given = rules(machine)
    give(machine, [])
    machine.want(2)
    machine.start(0)
    machine.start(1)
    made = machine.api.apply(zone("z", {"partitions": 2, "replicas": 2}))
    assert made.returncode == 0, made.stderr
    machine.start_operator()
    wait_until(lambda: "Give it back" in log(machine))
    wait_until(lambda: all(sentence(right) in log(machine) for right in NEEDED))
    assert machine.operator is not None
    assert machine.operator.poll() is None, "it waits for its rights"
    give(machine, given)
    wait_until(lambda: machine.is_whole(2))
    wait_until(lambda: machine.conditions()["Permitted"] is True)
    # One is taken away while it runs, without which no round is good.
    taken = Right(group="", resource="pods", verb="list")
    give(machine, [without(rule, taken) for rule in given])
    wait_until(lambda: machine.conditions()["Permitted"] is False)
    assert sentence(taken) in permitted(machine)["message"]
    assert "upgrade the release" in permitted(machine)["message"]
    assert [right for right in NEEDED if sentence(right) in permitted(machine)["message"]] == [
        taken
    ]
    give(machine, given)
    wait_until(lambda: machine.conditions()["Permitted"] is True)
    wait_until(lambda: f"may {taken} again" in log(machine))
    assert log(machine).count(f"account {sentence(taken)}") <= 4, "said once each time, not always"


def permitted(machine: Machine) -> dict[str, Any]:
    found = [c for c in machine.status()["conditions"] if c["type"] == "Permitted"]
    (condition,) = found
    return condition  # type: ignore[no-any-return]


def rules(machine: Machine) -> list[dict[str, Any]]:
    return machine.api.get("role", ROLE)["rules"]  # type: ignore[no-any-return]


def give(machine: Machine, rules: list[dict[str, Any]]) -> None:
    machine.api.patch("role", ROLE, {"rules": rules})


def without(rule: dict[str, Any], right: Right) -> dict[str, Any]:
    if right.group not in rule["apiGroups"] or right.resource not in rule["resources"]:
        return rule
    return {**rule, "verbs": [verb for verb in rule["verbs"] if verb != right.verb]}


def log(machine: Machine) -> str:
    return (machine.folder / "operator.log").read_text()
