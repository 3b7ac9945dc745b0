"""The errors of a run: its scenario, its plan, its faults and what it owes.

    UsageError
    ├── ManifestError   a scenario file that can't be read
    ├── GuardError      the namespace did not agree to chaos
    └── PlanRefused     a fault would take more than the scenario's floor allows
    HarnessError
    ├── FaultFailed     a fault was tried and could not be proven
    │   └── NoProcess   no process of the pod runs on its node any more
    └── JournalFailed   a debt could not be recorded, so nothing was done

A fault whose trigger never came is no error: it is a `fault.missed` event, and the run is unknown.
"""

from __future__ import annotations

from zonequake_kube.errors import HarnessError, UsageError


class ManifestError(UsageError):
    """A scenario can't be read: the text names path, value and what is allowed."""


class GuardError(UsageError):
    """The cluster or namespace did not agree to chaos."""


class PlanRefused(UsageError):
    """Faults of the plan would break its floor; a sentence for each, with what would allow it."""


class FaultFailed(HarnessError):
    """A fault was injected and no proof of its effect, or of its end, was found."""


class NoProcess(FaultFailed):
    """No process of the pod runs on its node any more."""


class JournalFailed(HarnessError):
    """The cleanup journal could not be written; what it was to record was not done."""
