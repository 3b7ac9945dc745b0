"""How long a store may take."""

from __future__ import annotations

from datetime import timedelta

CONNECT_S = 5.0
"""So long a connection may take to come about."""

SILENT_S = 15.0
"""So long a store may send nothing."""

ATTEMPTS = 8
"""How often a request is sent. The pauses double, from less than a second to 20 s at most."""

FIRST_ATTEMPTS = 3
"""How often the first request is sent: a store that isn't there is told of within a minute."""

GCS_RETRY = timedelta(seconds=90)
"""So long Google's client tries again."""
