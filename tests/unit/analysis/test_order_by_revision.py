"""The order that etcd claims, by revisions alone (docs/interfaces.md, "History").

A model of an etcd: transactions on several keys count one revision, members answer with the newest
one they have applied and with the Raft term that they happen to have heard of.
"""

from __future__ import annotations

import random
from dataclasses import replace

from zonequake_analysis.checks.search.claimed_order_search import follows_claim
from zonequake_analysis.checks.search.reference import ReferenceStep, is_linearizable
from zonequake_analysis.inputs.shapes import INDEX_BITS, Function

TERM = 1


class Etcd:
    """One key is watched, another only moves the revision. Operations overlap by chance."""

    def __init__(self, rng: random.Random) -> None:
        self.steps: list[ReferenceStep] = []
        self.revisions: list[int] = []
        self.raft_terms: list[int] = []
        self._rng = rng
        self._revision = 1
        self._value: int | None = None
        self._old: tuple[int, int | None] = (1, None)
        self._now = 0
        self._raft_term = 2

    def operate(self, *, serializable: float) -> None:
        """One operation; a read is of a member that is behind as often as `serializable` says."""
        self._now += 10
        draw = self._rng.random()
        if draw < 0.2:
            self._old = self._revision, self._value
        if draw < 0.3:
            self._revision += 1  # another key
        if draw < 0.35:
            self._raft_term += 1
        kind = self._rng.choice(["write", "read", "read", "cas"])
        step = ReferenceStep(f=Function.READ, inv_ns=0, fin_ns=0, value=self._value)
        revision = self._revision
        if kind == "read" and self._rng.random() < serializable:
            revision, value = self._old
            step = ReferenceStep(f=Function.READ, inv_ns=0, fin_ns=0, value=value)
        elif kind == "write":
            self._revision += 1
            self._value = revision = self._revision
            step = ReferenceStep(f=Function.WRITE, inv_ns=0, fin_ns=0, value=self._value)
        elif kind == "cas":
            step = ReferenceStep(
                f=Function.CAS, inv_ns=0, fin_ns=0, value=-1, expected=-2, found=self._value,
                refused=True,
            )  # fmt: skip
        began, ended = self._now - self._rng.randrange(15), self._now + self._rng.randrange(15)
        self.steps.append(replace(step, inv_ns=began, fin_ns=ended))
        self.revisions.append(revision)
        # A member may have heard of the newest term or not yet.
        self.raft_terms.append(self._raft_term - self._rng.randrange(2))


def a_history(seed: int, *, serializable: float = 0.0) -> Etcd:
    etcd = Etcd(random.Random(seed))
    for _ in range(12):
        etcd.operate(serializable=serializable)
    return etcd


def by_revision(etcd: Etcd) -> bool:
    return follows_claim(etcd.steps, [TERM << INDEX_BITS | place for place in etcd.revisions])


def by_raft_term(etcd: Etcd) -> bool:
    places = zip(etcd.raft_terms, etcd.revisions, strict=True)
    return follows_claim(etcd.steps, [term << INDEX_BITS | place for term, place in places])


def test_linearizable_answers_follow_the_order_of_their_revisions() -> None:
    assert all(by_revision(a_history(seed)) for seed in range(500))


def test_with_the_raft_term_of_the_answer_in_front_sound_histories_would_break_the_order() -> None:
    broken = [seed for seed in range(500) if not by_raft_term(a_history(seed))]
    assert len(broken) > 50
    assert all(is_linearizable(a_history(seed).steps) for seed in broken[:50])


def test_whatever_has_no_order_does_not_follow_its_revisions_either() -> None:
    stale = [a_history(seed, serializable=0.5) for seed in range(500)]
    wrong = [etcd for etcd in stale if not is_linearizable(etcd.steps)]
    assert len(wrong) > 100
    assert not any(by_revision(etcd) for etcd in wrong)
