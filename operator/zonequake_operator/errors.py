"""The operator's errors.

OperatorError
├── SpecError                a resource's spec can't be used as written
│   └── FilterError          its data nodes filter, with the position
├── ResourceError            a resource's status isn't what this operator writes
├── KubeError                the Kubernetes API refused or didn't answer
│   ├── KubeConflict         409: another client wrote first; read again
│   ├── KubeNotFound         404
│   ├── KubeForbidden        403: a right is missing
│   ├── KubeInvalid          422: the server's schema or a CEL rule refused it
│   └── NoLongerLeader       not sent: another operator may lead by now
├── OperatorSettingsError            a variable of the environment can't be used
└── NodeUnreachable          a data node's admin API didn't answer, or not in its language
"""

from __future__ import annotations

_SHOWN_AROUND = 60
"""Characters of a filter that are shown on each side of the place that an error is about."""


class OperatorError(Exception):
    """Anything that this package raises on purpose."""


class SpecError(OperatorError):
    """A spec can't be used as written; the message is shown in the zone's condition."""


class FilterError(SpecError):
    """A data nodes filter isn't well formed. `position` counts characters from 1."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        begin, end = max(0, position - _SHOWN_AROUND), position + _SHOWN_AROUND
        shown = f"{'…' * (begin > 0)}{text[begin:end]}{'…' * (end < len(text))}"
        super().__init__(f"dataNodesFilter {shown!r}, position {position}: {problem}")
        self.position = position
        self.problem = problem


class OperatorSettingsError(OperatorError):
    """A variable of the environment: its name, what was found and what is expected."""


class ResourceError(OperatorError):
    """A stored status isn't of the shape that this operator writes."""


class KubeError(OperatorError):
    """The Kubernetes API refused a call or didn't answer; `status` is 0 without an answer.

    `retry_after_s`: how long it asked to be left alone (Retry-After); 0 if it didn't.
    """

    def __init__(self, call: str, status: int, reason: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{call}: {status or 'no answer'} {reason}")
        self.status = status
        self.retry_after_s = retry_after_s


class KubeConflict(KubeError):
    """Another client wrote the object first (409)."""


class KubeNotFound(KubeError):
    """There is no such object (404)."""


class KubeForbidden(KubeError):
    """The account lacks a right, or an admission rule said no (403)."""


class KubeInvalid(KubeError):
    """The server's schema or one of its CEL rules refused the object (422)."""


class NoLongerLeader(KubeError):
    """A write that this process must not do any more: it leads no longer."""

    def __init__(self, call: str) -> None:
        super().__init__(call, 403, "this operator no longer leads, and writes nothing")


class NodeUnreachable(OperatorError):
    """A data node's admin API didn't answer in time, or answered something else."""
