"""Of several operators one acts, by a Lease and their own clocks."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.controller.elector import Elector
from zonequake_operator.election.candidate import Ballot, Candidate
from zonequake_operator.election.lease_object import ballot_of, object_of
from zonequake_operator.errors import KubeNotFound

DURATION_S = 9.0
NOBODY = Ballot(holder="", transitions=0, version=None)


def held(holder: str = "b", version: str = "1", transitions: int = 3) -> Ballot:
    return Ballot(holder=holder, transitions=transitions, version=version)


def test_a_lease_without_a_holder_is_taken_at_once() -> None:
    candidate = Candidate("a", DURATION_S)
    assert candidate.wants(NOBODY, 0.0) == Ballot(holder="a", transitions=1, version=None)
    assert not candidate.leads(0.0), "it isn't stored yet"
    candidate.wrote(0.0)
    assert candidate.leads(5.9)
    assert not candidate.leads(6.0), "it stops before another process may begin"


def test_a_held_one_is_taken_once_it_was_seen_unrenewed_for_its_duration() -> None:
    candidate = Candidate("a", DURATION_S)
    assert candidate.wants(held(), 100.0) is None
    assert candidate.wants(held(version="2"), 105.0) is None
    assert candidate.wants(held(version="2"), 114.0) is None
    taken = candidate.wants(held(version="2"), 114.1)
    assert taken == Ballot(holder="a", transitions=4, version="2")


def test_the_own_lease_is_renewed_without_a_transition() -> None:
    candidate = Candidate("a", DURATION_S)
    assert candidate.wants(held("a"), 0.0) == held("a")


def test_who_resigned_leads_no_more() -> None:
    candidate = Candidate("a", DURATION_S)
    candidate.wrote(0.0)
    candidate.resigned()
    assert not candidate.leads(0.0)


def test_an_object_says_what_the_ballot_says() -> None:
    body = object_of(held(), name="zq-operator", duration_s=9.0, now_ns=1_700_000_000 * 10**9)
    assert body["spec"]["renewTime"] == "2023-11-14T22:13:20.000000Z"
    assert ballot_of(body) == held()


class Api:
    """The Lease object."""

    def __init__(self) -> None:
        self.ballot, self.version = NOBODY, 0

    def write(self, wanted: Ballot) -> bool:
        if wanted.version != self.ballot.version:
            return False
        self.version += 1
        self.ballot = Ballot(
            holder=wanted.holder, transitions=wanted.transitions, version=str(self.version)
        )
        return True


STEPS = st.lists(
    st.tuples(st.sampled_from(["look a", "look b", "store a", "store b"]), st.floats(0.01, 4.0)),
    max_size=100,
)
RATES = st.floats(0.9, 1.1)


@given(steps=STEPS, rates=st.tuples(RATES, RATES))
def test_two_never_lead_at_once_however_slow_their_calls_and_clocks_are(
    steps: list[tuple[str, float]], rates: tuple[float, float]
) -> None:
    api, now_s = Api(), 0.0
    candidates = {"a": Candidate("a", DURATION_S), "b": Candidate("b", DURATION_S)}
    clocks = dict(zip("ab", rates, strict=True))
    asked: dict[str, tuple[Ballot, float]] = {}
    for step, pause_s in steps:
        now_s += pause_s
        kind, name = step.split()
        mine_s = now_s * clocks[name]
        if kind == "look":
            wanted = candidates[name].wants(api.ballot, mine_s)
            if wanted is not None:
                asked[name] = (wanted, mine_s)
        elif name in asked:
            wanted, asked_s = asked.pop(name)
            if api.write(wanted):
                candidates[name].wrote(asked_s)
        leading = [n for n, each in candidates.items() if each.leads(now_s * clocks[n])]
        assert len(leading) < 2


class Leases:
    """An API server without a Lease, and with one unexpected error first."""

    def __init__(self) -> None:
        self.asked = 0

    async def get_lease(self, name: str) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1:
            raise ValueError("unexpected")
        raise KubeNotFound(f"GET {name}", 404, "no such Lease")

    async def create_lease(self, _: object) -> None:
        """Takes it."""


async def test_an_unexpected_error_does_not_end_the_election_of_a_process() -> None:
    """It stood by forever, and /healthz said that it stands by."""
    elector = Elector(cast("NamespaceApi", Leases()), "zq-operator", Candidate("a", 5.0))
    await asyncio.wait_for(elector.won(), 20)
    assert elector.leads
    elector._candidate.resigned()
    await elector.resign()
