"""The rights that the operator needs, each with its purpose.

Pure. The chart's Role grants exactly these (docs/security.md); a test compares the three. Which of
them are missing is asked by `rights_keeper`, since nothing shows a right that was not needed yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

_OURS = "zonequake.io"
_LEASES = "coordination.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Right:
    """One verb on one resource of the operator's own namespace; `resource` with its subresource."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" of {self.group}" if self.group else "")


def _rights(group: str, resource: str, **why: str) -> dict[Right, str]:
    return {Right(group=group, resource=resource, verb=verb): why[verb] for verb in why}


NEEDED: Mapping[Right, str] = {
    **_rights(
        _OURS,
        "distributionzones",
        get="read what is wanted",
        list="find the zones",
        watch="notice changes of zones at once",
        patch="keep a zone until its replicas are erased",
    ),
    **_rights(_OURS, "distributionzones/status", update="show and keep a zone's state"),
    **_rights(_OURS, "distributionzones/finalizers", update="make zones own their partitions"),
    **_rights(
        _OURS,
        "partitions",
        list="know the assignments",
        create="begin a zone",
        delete="end a zone",
    ),
    **_rights(_OURS, "partitions/status", update="assign partitions to data nodes"),
    **_rights(
        _OURS,
        "logicaltopologies",
        get="know which data nodes have joined",
        create="begin the topology",
    ),
    **_rights(_OURS, "logicaltopologies/status", update="let data nodes join and leave"),
    **_rights(
        _OURS, "tables", list="find tables and their zones", watch="notice new tables at once"
    ),
    **_rights(_OURS, "tables/status", update="say whether a table's zone is there"),
    **_rights("", "pods", list="find the data nodes", watch="notice ended data nodes at once"),
    **_rights("", "pods/status", patch="open the readiness gates, without which no update goes on"),
    **_rights("apps", "statefulsets", list="know how many data nodes are wanted"),
    **_rights(
        _LEASES,
        "leases",
        get="elect one of several operators",
        create="elect one of several operators",
        update="take over the Lease of a data node that is lost",
        list="see the data nodes' Leases",
        delete="delete Leases of data nodes that are no longer wanted",
    ),
    **_rights("", "events", create="tell people what was done"),
}


def sentence(right: Right) -> str:
    """Returns a sentence: this right is missing, and what it is for."""
    return f"may not {right}, needed to {NEEDED[right]}"


def advice(missing: Collection[Right]) -> str:
    """Returns what is missing, and how to give it back; empty if nothing is."""
    if not missing:
        return ""
    listed = "; ".join(map(sentence, sorted(missing)))
    return (
        f"The operator's account {listed}. Give it back: upgrade the release, whose Role "
        "<release>-operator has every right that is needed (docs/security.md)."
    )
