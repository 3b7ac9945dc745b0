"""The errors of the analysis itself. Findings about a store are never exceptions.

AnalysisError
├── RunFolderError      the folder, or a file in it, is not what docs/interfaces.md says
│   └── FolderHeld      another process analyses it
├── PrometheusError     remote_read was refused, or its answer could not be read
└── SessionError        Spark could not be started
"""

from __future__ import annotations


class AnalysisError(Exception):
    """Base of all errors of this package."""


class RunFolderError(AnalysisError):
    """A run folder lacks what it needs, or a file in it can't be read."""


class FolderHeld(RunFolderError):
    """Another process analyses the run folder."""


class PrometheusError(AnalysisError):
    """Prometheus refused remote_read, or its answer is not a remote_read answer."""


class SessionError(AnalysisError):
    """No Spark session could be built."""
