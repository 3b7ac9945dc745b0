"""Time limits and retries for stores."""

from __future__ import annotations

from datetime import timedelta

CONNECT_S = 5.0
"""Longest time that a connection may take to open."""

SILENT_S = 15.0
"""Longest time that a store may send nothing."""

ATTEMPTS = 8
"""Most times that a request is sent. The pauses double, from less than a second to 20 s at most."""

FIRST_ATTEMPTS = 3
"""Most times that the first request is sent: an absent store is reported within a minute."""

GCS_RETRY = timedelta(seconds=90)
"""Time for which Google's client tries again."""
