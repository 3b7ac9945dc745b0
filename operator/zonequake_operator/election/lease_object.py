"""The Lease object of the election: read as a ballot, and rendered from one. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from zonequake_operator.election.candidate import Ballot
from zonequake_operator.resources.stored_shapes import Object


def ballot_of(obj: Object) -> Ballot:
    """Returns the ballot in a Lease object."""
    spec = obj.get("spec") or {}
    return Ballot(
        holder=spec.get("holderIdentity") or "",
        transitions=spec.get("leaseTransitions") or 0,
        version=obj["metadata"]["resourceVersion"],
    )


def object_of(ballot: Ballot, *, name: str, duration_s: float, now_ns: int) -> Object:
    """Renders the Lease object to write; its time is for people."""
    moment = datetime.fromtimestamp(now_ns / 1e9, UTC)
    metadata: Object = {"name": name, "labels": {"app.kubernetes.io/component": "operator"}}
    if ballot.version is not None:
        metadata["resourceVersion"] = ballot.version
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": ballot.holder,
            "leaseTransitions": ballot.transitions,
            "leaseDurationSeconds": max(1, round(duration_s)),
            "renewTime": f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z",
        },
    }
