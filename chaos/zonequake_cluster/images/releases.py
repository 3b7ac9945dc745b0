"""Releases of other systems whose images are built here. Plain values."""

from __future__ import annotations

import re

FAILPOINTS = "+failpoints"
"""Stands behind a release of etcd that is built with its failpoints."""

ETCD_PATTERN = rf"3\.([5-9]|[1-9]\d+)\.\d+(-(alpha|beta|rc)\.\d+)?({re.escape(FAILPOINTS)})?"
"""Releases before 3.5 have no module of their own for the server."""

ETCD_EXPECTED = f"a release of etcd 3 from 3.5.0 on, such as 3.5.2 or 3.5.2{FAILPOINTS}"
IGNITE_RELEASES = ("3.1.0",)
IGNITE_EXPECTED = f"one whose jars are pinned: {', '.join(IGNITE_RELEASES)}"
