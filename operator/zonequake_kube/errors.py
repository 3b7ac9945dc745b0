"""The errors of commands, and those of the Kubernetes API.

    ChaosError
    ├── UsageError          a usage error: exit code 254
    └── HarnessError        the work could not be done: exit code 255
        ├── ClusterError    the Kubernetes API answered otherwise than expected
        │   ├── NotFound
        │   └── Conflict
        ├── WaitExpired     a state did not come in time
        └── ImageNotPulled  the kubelet can't get an image that a pod waits for

What else can go wrong in a run, or in what people write for a zone, is an error of the package that
finds it: `zonequake_chaos.errors`, `zonequake_ctl.errors`.
"""

from __future__ import annotations


class ChaosError(Exception):
    """Base of the errors of commands; the text is one sentence for the user."""


USAGE_EXIT_CODE = 254
"""Exit code of a command whose words, options or files are wrong."""

HARNESS_EXIT_CODE = 255
"""Exit code of a command that could not do its work."""


class UsageError(ChaosError):
    """The command, its options or its files are wrong."""


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


def in_words(error: BaseException) -> str:
    """Returns an error as a sentence: of a group its causes, each once, and never the group's own
    words.

    An error of our own is a sentence already; any other needs its type to say anything.
    """
    return "; ".join(dict.fromkeys(_causes(error)))


def unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why a file can't be read, without Python's numbers: after the file's name and a colon."""
    if isinstance(error, UnicodeDecodeError):
        return f"found byte 0x{error.object[error.start]:02x} at {error.start:,}, which is no UTF-8"
    return (error.strerror or str(error)).lower()


def _causes(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [words for cause in error.exceptions for words in _causes(cause)]
    if isinstance(error, ChaosError):
        return [str(error)]
    return [f"{type(error).__name__}: {error}".removesuffix(": ")]
