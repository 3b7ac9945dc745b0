"""The remainder of an earlier request after a later one (document `distribution-zones`, Override
rules).

"The set of properties specified in the next request will override the corresponding previously
specified properties", with one exception: dataNodesAutoAdjust stands for both directions, so it
drops both single timers, and a single timer drops it; the other direction gets its default then
(design §3, Data nodes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AUTO_ADJUST = "dataNodesAutoAdjust"
SCALE_UP = "dataNodesAutoAdjustScaleUp"
SCALE_DOWN = "dataNodesAutoAdjustScaleDown"


def override(spec: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a zone's spec, as resources hold it, after `changes`; None there removes a field."""
    dropped: set[str] = {field for field, value in changes.items() if value is None}
    if changes.get(AUTO_ADJUST) is not None:
        dropped |= {SCALE_UP, SCALE_DOWN}
    if changes.get(SCALE_UP) is not None or changes.get(SCALE_DOWN) is not None:
        dropped.add(AUTO_ADJUST)
    kept = {field: value for field, value in spec.items() if field not in dropped}
    return kept | {field: value for field, value in changes.items() if value is not None}
