"""Gives up lost majorities as a person does, by `zonequake reset --yes`.

The proof comes first, and refuses a partition that may still have a majority. Effective once the
operator has carried out the reset. There is nothing to undo: lost data doesn't come back, and a
request is deleted with its zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import Injection, Proof
from zonequake_ctl import reset_by_hand, reset_proof
from zonequake_ctl.reset_choices import choice_on
from zonequake_ctl.zq.screens.findings import partitions_text
from zonequake_kube.errors import UsageError, WaitExpired
from zonequake_operator.resources.model import ResetRequest


class ResetByHand:
    """Life of `ResetByHandSpec`. Its only victim, if any, is the surviving node."""

    def __init__(self, *, zone: str | None, partitions: Sequence[int]) -> None:
        self._zone = zone
        self._chosen = partitions
        self._proofs: dict[int, reset_proof.MajorityReport] = {}
        self._zone_uid = ""
        self._requests: Mapping[int, ResetRequest] = {}

    async def prepare(self, injection: Injection) -> None:
        """Checks the proof. Raises FaultFailed if a chosen partition may still have a majority."""
        zone, survivor = self._zone_of(injection), _survivor(injection)
        try:
            self._zone_uid, found = await reset_by_hand.proofs_of(
                injection.world.kube, zone, self._chosen, survivor
            )
        except UsageError as error:
            raise FaultFailed(f"{injection.name}: {error}") from error
        refused = reset_by_hand.refusal(zone, found, self._chosen)
        if refused:
            raise FaultFailed(f"{injection.name}: {'; '.join(line.strip() for line in refused)}")
        proofs = reset_by_hand.to_reset(found, self._chosen)
        self._proofs = {proof.partition.number: proof for proof in proofs}
        self._requests = reset_by_hand.requests_for(proofs)

    async def inject(self, injection: Injection) -> None:
        zone = self._zone_of(injection)
        try:
            await reset_by_hand.request(injection.world.kube, zone, self._zone_uid, self._requests)
        except UsageError as error:
            raise FaultFailed(f"{injection.name}: {error}") from error

    async def wait_until_effective(self, injection: Injection) -> Proof:
        zone, wanted = self._zone_of(injection), _survivor(injection)
        outcome = await reset_by_hand.wait(
            injection.world.kube, zone, self._zone_uid, self._requests, wait_s=injection.timeout_s
        )
        if outcome.open:
            what = f"{partitions_text(outcome.open)} of zone {zone} still to be reset"
            said = " ".join([f"not within {injection.timeout_s:g} s: {what}.", *outcome.said])
            raise WaitExpired(said)
        if outcome.lapsed:
            which = partitions_text(outcome.lapsed)
            raise FaultFailed(
                f"{injection.name}: the request for {which} of zone {zone} had no effect: the "
                "assignments were changed meanwhile, and not by a reset"
            )
        others = {done.survivor for done in outcome.done.values()} - {wanted, ""}
        if wanted is not None and others:
            raise FaultFailed(
                f"{injection.name}: requested {wanted} as survivor, the operator chose "
                f"{', '.join(sorted(others))}"
            )
        survivors = {number: done.survivor or wanted for number, done in outcome.done.items()}
        return {
            "zone": zone,
            "partitions": [
                {
                    "partition": number,
                    "token": done.token,
                    "survivor": survivors[number],
                    "given_up": self._given_up(number, survivors[number]),
                }
                for number, done in sorted(outcome.done.items())
            ],
        }

    async def recover(self, injection: Injection) -> None:
        """Does nothing: a reset can't be undone."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        """Returns at once: a partition that was reset has a leader already."""

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()

    def _zone_of(self, injection: Injection) -> str:
        """Returns the zone that the fault names, or the run's only one."""
        return self._zone if self._zone is not None else injection.world.zones[0]

    def _given_up(self, number: int, survivor: str | None) -> list[str]:
        choice = choice_on(self._proofs[number].choices, survivor or "")
        return list(choice.given_up) if choice is not None else []


def _survivor(injection: Injection) -> str | None:
    return injection.victims[0].node if injection.victims else None
