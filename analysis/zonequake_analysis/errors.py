"""The errors of the analysis itself. Findings about a store are never exceptions.

AnalysisError
├── RunFolderError      the folder, or a file in it, is not what docs/interfaces.md says
│   ├── FolderHeld      another process analyses it
│   ├── MetricsThere    it has metrics, where others were to be read
│   ├── RunNotWhole     its record was not uploaded as a whole
│   ├── LocationTaken      another run, or anything else, is there already
│   └── LocationError      its place can't be reached, or refuses the request
├── SamplesError        a file of metrics holds no samples, or impossible ones
├── PrometheusError     remote_read was refused, or its answer could not be read
├── ImportRefused       another tool's history can't be read, or can't be judged
├── ArchiveError        the executors' environment can't be packed
├── PodError            a pod of the analysis's image was not made by Spark, or by `analyze`
├── DriverUnreached     an executor's pod can't connect to its driver
└── SessionError        Spark could not be started
"""

from __future__ import annotations

import msgspec

NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of msgspec for bytes that are no JSON, or none of the wanted shape."""


class AnalysisError(Exception):
    """The base of all errors of this package."""


class RunFolderError(AnalysisError):
    """A run folder lacks what it needs, or a file in it can't be read."""


class FolderHeld(RunFolderError):
    """Another process analyses the run folder."""


class MetricsThere(RunFolderError):
    """A run has metrics of its own, where those of a live Prometheus were to be read."""


class RunNotWhole(RunFolderError):
    """The record of the run was not uploaded as a whole; nothing may be written there."""


class LocationTaken(RunFolderError):
    """A run was to be written to a location that holds something else."""


class LocationError(RunFolderError):
    """The location of a run can't be reached, or refuses the request.

    `unreachable`: nothing answers there, so nothing can be written there either.
    """

    def __init__(self, told: str, *, unreachable: bool = False) -> None:
        super().__init__(told)
        self.unreachable = unreachable


class SamplesError(AnalysisError):
    """A file of metrics can't be read as samples, or its samples are no possible numbers."""


class PrometheusError(AnalysisError):
    """Prometheus refused remote_read, or its answer is not a remote_read answer."""


class ImportRefused(AnalysisError):
    """Another tool's history can't be turned into ours: where it fails, and what to do."""

    def __init__(self, file: str, line: int, field: str, what: str) -> None:
        """Takes a `line` that counts from 1 and a `field` that is empty for the whole entry."""
        super().__init__(f"{file}, line {line}{f', {field}' if field else ''}: {what}")
        self.line, self.field = line, field


class ArchiveError(AnalysisError):
    """This environment can't be packed for executors."""


class PodError(AnalysisError):
    """A pod's arguments or variables are not those of a driver or an executor."""


class DriverUnreached(AnalysisError):
    """Nothing connects from an executor's pod to its driver."""


class SessionError(AnalysisError):
    """No Spark session could be built."""
