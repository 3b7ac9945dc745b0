"""The exit code by which a process in a pod says that a repetition can't help."""

from __future__ import annotations

USAGE_EXIT_CODE = 254
"""Exit code of an operator, a data node or a load whose settings or plan can't be used."""
