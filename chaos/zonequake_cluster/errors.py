"""The errors of a cluster.

zonequake_kube.errors.HarnessError
└── ProviderError
    ├── RequirementsMissing   the machine lacks programs, or the user isn't root
    ├── BuildFailed           the node's programs could not be built
    ├── NoFreeNetwork         every address range that may be used is taken
    ├── InstanceBusy          another `up` or `down` works on the same instance
    ├── TooLittleDisk         the kubelet would evict pods for want of disk
    ├── StartFailed           a component did not become ready in time
    ├── NotRunning            the call needs a running cluster
    ├── FileNotShipped        a file of zonequake's own is missing: the installation is broken
    └── Unsupported           this kind of cluster can't do that
"""

from __future__ import annotations

from zonequake_kube.errors import HarnessError


class ProviderError(HarnessError):
    """Base of this package's errors; the text says what was found and what to do."""


class RequirementsMissing(ProviderError):
    """Programs or rights are missing; the text holds the command that installs them."""


class BuildFailed(ProviderError):
    """Go is missing or its build failed; the text holds the end of its output."""


class NoFreeNetwork(ProviderError):
    """No candidate address range is free on this machine."""


class InstanceBusy(ProviderError):
    """Another process holds the instance's lock."""


class TooLittleDisk(ProviderError):
    """The file system has so little room that the kubelet would evict pods."""


class StartFailed(ProviderError):
    """The node did not become ready; the text names the component and its log."""


class NotRunning(ProviderError):
    """There is no running cluster of this name."""


class FileNotShipped(ProviderError):
    """The chart, a Dockerfile, a lock file or a package is not where it belongs."""


class Unsupported(ProviderError):
    """This kind of cluster does not support the call."""
