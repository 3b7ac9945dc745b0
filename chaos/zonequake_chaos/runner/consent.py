"""Checks that chaos is allowed in a namespace, and for how long.

The owner of a foreign namespace sets both by labels, and may remove them at any time:

    kubectl label namespace N zonequake.io/chaos=allowed zonequake.io/chaos-max-seconds=900
"""

from __future__ import annotations

from collections.abc import Mapping

from zonequake_chaos.errors import GuardError
from zonequake_chaos.scenario.faults import least_duration_s
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_ctl.release.install import ALLOWED, CAP_LABEL, LABEL
from zonequake_kube.client import Kube
from zonequake_kube.errors import NotFound, UsageError


async def check_consent(kube: Kube, *, embedded: bool) -> float | None:
    """Returns how long a run may last at most, in seconds; None on an embedded cluster: no limit.

    Raises GuardError if a foreign namespace doesn't carry both labels.
    """
    if embedded:
        return None
    try:
        labels = await kube.namespace_labels()
    except NotFound as error:
        raise UsageError(f"there is no namespace {kube.namespace}: zonequake install") from error
    return consent(labels, namespace=kube.namespace)


def consent(labels: Mapping[str, str], *, namespace: str) -> float:
    """Returns the maximum duration in seconds that the namespace's labels allow. Raises
    GuardError."""
    if labels.get(LABEL) != ALLOWED:
        raise GuardError(
            f"namespace {namespace} does not allow chaos: its label {LABEL} is "
            f"{labels.get(LABEL)!r}, expected {ALLOWED!r}; "
            f"kubectl label namespace {namespace} {LABEL}={ALLOWED}"
        )
    cap = labels.get(CAP_LABEL, "")
    if not cap.isdecimal() or int(cap) == 0:
        raise GuardError(
            f"namespace {namespace} does not say how long chaos may last: its label {CAP_LABEL} is "
            f"{labels.get(CAP_LABEL)!r}, expected seconds, as in "
            f"kubectl label namespace {namespace} {CAP_LABEL}=900"
        )
    return float(cap)


def longest_s(run: ChaosRun, ceiling_s: float | None) -> float | None:
    """Returns the maximum duration of the run in seconds: its own limit, or the namespace's; None
    for no limit.

    Raises GuardError if its own limit is longer, or if the plan takes longer than the limit.
    """
    own = run.spec.max_duration_s
    if own is not None and ceiling_s is not None and own > ceiling_s:
        raise GuardError(
            f"spec.maxDurationSeconds is {own:g}, and the namespace allows {ceiling_s:g} s "
            f"({CAP_LABEL}): lower the first, or ask the namespace's owner to raise the label"
        )
    limit = own if own is not None else ceiling_s
    planned = planned_s(run)
    if limit is not None and planned > limit:
        raise GuardError(
            f"the plan takes at least {planned:g} s, and the run may last {limit:g} s: shorten "
            "times and holdSeconds, or have the limit raised"
        )
    return limit


def planned_s(run: ChaosRun) -> float:
    """Returns the least duration of the plan up to the end of its last fault, in seconds."""
    times = run.spec.times
    control_s = times.after_s if run.spec.control is not None else 0.0
    return times.before_s + control_s + sum(map(least_duration_s, run.spec.faults))
