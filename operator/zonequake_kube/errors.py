"""The harness's own errors.

    ChaosError
    ├── UsageError          a usage error: exit code 254
    │   ├── ManifestError   a scenario file that can't be read
    │   ├── WhatIfError     a what-if file that can't be read
    │   ├── SqlError        a statement that can't be understood or carried out, with its place
    │   ├── GuardError      the namespace did not agree to chaos
    │   └── PlanRefused     a fault would take more than the scenario's floor allows
    └── HarnessError        the harness could not do its work: exit code 255
        ├── ClusterError    the Kubernetes API answered otherwise than expected
        │   ├── NotFound
        │   └── Conflict
        ├── WaitExpired     a state did not come in time
        ├── ImageNotPulled  the kubelet can't get an image that a pod waits for
        ├── ZoneRefused     the operator says that a zone of the run can't be served
        ├── FaultFailed     a fault was tried and could not be proven
        │   └── NoProcess   no process of the pod runs on its node any more
        └── JournalFailed   a debt could not be recorded, so nothing was done

A fault whose trigger never came is no error: it is a `fault.missed` event, and the run is unknown.
"""

from __future__ import annotations

_SHOWN_BEFORE, _SHOWN_AFTER = 40, 30
"""Characters of a statement that are shown around the place that an error is about."""


class ChaosError(Exception):
    """Base of all errors of this package; the text is one sentence for the user."""


USAGE_EXIT_CODE = 254
"""Exit code of a command whose words, options or files are wrong."""

HARNESS_EXIT_CODE = 255
"""Exit code of a command that could not do its work."""


class UsageError(ChaosError):
    """The command, its options or its files are wrong."""


class ManifestError(UsageError):
    """A scenario can't be read: the text names path, value and what is allowed."""


class WhatIfError(UsageError):
    """A what-if file can't be read: the text names place, what was found and what is expected."""


class SqlError(UsageError):
    """A statement can't be understood or carried out. `line` and `column` count from 1."""

    def __init__(self, text: str, offset: int, problem: str) -> None:
        begin = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - begin + 1
        self.problem = problem
        begin = max(begin, offset - _SHOWN_BEFORE)
        shown = text[begin : min(end if end >= 0 else len(text), offset + _SHOWN_AFTER)].rstrip(
            "\r"
        )
        # A tab is as wide as the terminal likes: one below each of those before the place.
        below = "".join("\t" if char == "\t" else " " for char in text[begin:offset])
        super().__init__(
            f"line {self.line}, column {self.column}: {problem}\n    {shown}\n    {below}^"
        )


class GuardError(UsageError):
    """The cluster or namespace did not agree to chaos."""


class PlanRefused(UsageError):
    """Faults of the plan would break its floor; a sentence for each, with what would allow it."""


class HarnessError(ChaosError):
    """The harness could not do its work; says nothing about the system under test."""


class ClusterError(HarnessError):
    """An answer of the Kubernetes API, or of a pod through it, that isn't a success.

    `words`: the server's own, without the call; empty if it didn't answer.
    """

    def __init__(self, message: str, *, status: int = 0, words: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.words = words


class NotFound(ClusterError):
    """HTTP 404."""


class Conflict(ClusterError):
    """HTTP 409 or 422 of a precondition: another client changed the object."""


class WaitExpired(HarnessError):
    """A state did not come within its time-out; the text says what was seen instead."""


class ImageNotPulled(HarnessError):
    """A pod waits for an image that the kubelet can't get: it does not start."""


class ZoneRefused(HarnessError):
    """The operator says of a zone of the run what no waiting will change."""


class FaultFailed(HarnessError):
    """A fault was injected and no proof of its effect, or of its end, was found."""


class NoProcess(FaultFailed):
    """No process of the pod runs on its node any more."""


class JournalFailed(HarnessError):
    """The cleanup journal could not be written; what it was to record was not done."""


def in_words(error: BaseException) -> str:
    """Returns an error as a sentence: of a group its causes, each once, and never the group's own
    words.

    An error of our own is a sentence already; any other needs its type to say anything.
    """
    return "; ".join(dict.fromkeys(_causes(error)))


def unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why a file can't be read, without Python's numbers: behind the file's name and a colon."""
    if isinstance(error, UnicodeDecodeError):
        return f"found byte 0x{error.object[error.start]:02x} at {error.start:,}, which is no UTF-8"
    return (error.strerror or str(error)).lower()


def _causes(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [words for cause in error.exceptions for words in _causes(cause)]
    if isinstance(error, ChaosError):
        return [str(error)]
    return [f"{type(error).__name__}: {error}".removesuffix(": ")]
