"""What a rule of a partition's keys must let pass: fresh seeds showed that each once asked more."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace as Made
from typing import Any

import pytest

from tests.unit.simulation.facts_of_keys import LOCKED, STANDS, of, topology
from zonequake_simulation.checks.keys import KeyRules
from zonequake_simulation.checks.reset_keys import ResetRules
from zonequake_simulation.violation import Violation
from zonequake_store.raft.api import RaftRole
from zonequake_store.raft.messages import Configuration, Peer

RELEASED = replace(LOCKED, pending_lock=None, configuration_token=6)


def locked_rules(*, leaders: tuple[int, ...]) -> KeyRules:
    """Returns rules for a group whose living leader, of term 2, runs what is locked."""
    runs = Configuration(peers=tuple(Peer(name, "1") for name in "ABD"), token=5)
    core = Made(
        _replica=Made(role=RaftRole.LEADER),
        status=lambda: Made(term=2, configuration=runs),
    )
    node: Any = Made(replicas={"g": Made(core_now=lambda: core)})
    group: Any = Made(raft=Made(leaders=dict.fromkeys(leaders)))
    return KeyRules("g", rules=group, nodes={"A": node}, resets=None)


def test_a_lock_is_kept_while_the_newest_leader_runs_it() -> None:
    with pytest.raises(Violation, match="what is locked gives way"):
        locked_rules(leaders=(1, 2)).written(LOCKED, RELEASED)


def test_a_lock_may_go_once_a_newer_leader_was_elected() -> None:
    locked_rules(leaders=(1, 2, 3)).written(LOCKED, RELEASED)


def wish_for_d(*there: str) -> None:
    """Has a wish for D judged by topologies, oldest first."""
    rules: Any = Made()
    found = [topology(nodes) for nodes in there]
    resets = ResetRules("g", rules=rules, nodes={}, topologies_since=lambda us: found)
    resets.written(STANDS, replace(STANDS, pending=of("ABD"), configuration_token=6))


def test_a_wish_names_nobody_who_was_away_all_the_time() -> None:
    with pytest.raises(Violation, match="waits for nobody who is away"):
        wish_for_d("AB", "ABC", "AB")


def test_a_wish_may_name_who_was_there_for_a_moment() -> None:
    wish_for_d("AB", "ABD", "AB")
