"""The back-off before the next start of a component that ended."""

from __future__ import annotations

_FIRST_DELAY_S = 0.2
_LONGEST_DELAY_S = 5.0
#: A component that ran at least this long has not failed at its start.
_SETTLED_AFTER_S = 10.0


def restart_delay_s(quick_ends: int, ran_s: float) -> tuple[int, float]:
    """Returns (quick ends in a row including this one, seconds to wait).

    `quick_ends` counts the ends in a row before this one, `ran_s` is how long the component ran.
    Doubles from 0.2 s to 5 s; a component that ran for 10 s starts from the beginning.
    """
    ends = 1 if ran_s >= _SETTLED_AFTER_S else quick_ends + 1
    return ends, min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2.0 ** (ends - 1))
