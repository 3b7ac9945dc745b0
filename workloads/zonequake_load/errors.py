"""The errors of the load.

LoadError
├── PlanError        the plan or the environment can't be used
├── TargetError      the target can't be opened
├── HistoryError     an event could not be recorded: the load must stop
├── IdentityError    no unique process or value is left, or the counter on disk is unreadable
└── AttemptError     one attempt of an operation had no result
    ├── NotSent         certainly nothing left this machine
    ├── OutcomeUnknown  the request left, or may have
    └── AnsweredError   the system answered with an error
"""

from __future__ import annotations


class LoadError(Exception):
    """Root of all errors of the load."""


class PlanError(LoadError):
    """The plan or the environment can't be used."""


class TargetError(LoadError):
    """The target can't be opened."""


class HistoryError(LoadError):
    """An event could not be written down."""


class IdentityError(LoadError):
    """Unique process ids or values can't be given out."""


class AttemptError(LoadError):
    """One attempt of an operation had no result.

    `certain`: what was asked certainly has no effect, neither now nor later. `blames_endpoint`:
    another endpoint may do better.
    """

    certain = False
    blames_endpoint = True


class NotSent(AttemptError):
    """The attempt certainly had no effect: nothing of it left this machine."""

    certain = True


class OutcomeUnknown(AttemptError):
    """The attempt may have an effect: now, later, or never."""


class AnsweredError(AttemptError):
    """The system answered with an error."""

    def __init__(self, message: str, *, certain: bool, blames_endpoint: bool = True) -> None:
        super().__init__(message)
        self.certain = certain
        self.blames_endpoint = blames_endpoint
