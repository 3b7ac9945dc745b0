"""One operation on a register, as the search for an order takes it."""

from __future__ import annotations

from typing import NamedTuple

from zonequake_analysis.inputs.shapes import ABSENT, Function


class Step(NamedTuple):
    """One operation on a register; `fin_ns` is NEVER_NS if it has no answer.

    `f`: READ, WRITE or CAS that was applied, or may have been; a refused cas is a READ of what it
    found. `value`: what was read or written, ABSENT for a key that isn't there.
    """

    f: Function
    inv_ns: int
    fin_ns: int
    value: int
    expected: int = ABSENT
