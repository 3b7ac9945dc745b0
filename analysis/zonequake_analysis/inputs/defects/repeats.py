"""Invokes that their completions repeat, by the bytes of the load's own lines: no line is parsed.

The load writes the fields of all lines in one order, so that both lines of an operation have the
same bytes up to what the answer adds. The invoke's own answer is empty:

    {"schema":1,"type":"invoke","f":…,"key":"k1","value":7,"expected":null,"applied":null,
     "found":null,"sched":5,"inv":6,"time":…

- The bytes from `f` to `applied` are those of the completion; of a read those from `f` to `value`.
- The completion's `inv`, which has been parsed, is the invoke's.

The end of an invoke has few lengths, as its numbers have few: the place of `applied` is looked for
in one line, tried in all others, and checked there. A line of another form is not *the same*; a
reader that parses both lines must compare them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Text = bytes | memoryview

_INVOKE, _COMPLETION = b'{"schema":1,"type":"invoke"', b'{"schema":1,"type":""'
_NO_ANSWER, _INV, _TIME = b',"applied":null,"found":null,"sched":', b',"inv":', b',"time":'
_ASKED_BY_READ = b'"value":null,"expected":null'
_VALUE = b'"value":'
_END = re.compile(re.escape(_NO_ANSWER) + rb"(-?\d+)" + _INV + rb"(-?\d+)" + _TIME)
_MOST_ENDS = 16
"""Most lengths of ends that are tried: each costs a look at all lines that had none so far."""

_WORD = 8
"""Bytes that are compared at once."""

COMPARED = ("type", "f", "inv")
"""Fields of a completion that are looked at as they were parsed."""


@dataclass(frozen=True, slots=True)
class Invokes:
    """Lines that begin as the load's invokes do: their text, and where each begins and ends."""

    text: Text
    begins: Ints
    ends: Ints

    @classmethod
    def of(cls, text: Text, begins: Ints, lines: pa.Array) -> Invokes:
        """Returns these lines, which begin at these places of the text."""
        return cls(text, begins, begins + pc.binary_length(lines).to_numpy())

    def at(self, rows: Ints) -> Invokes:
        """Returns some of the lines."""
        return Invokes(self.text, self.begins[rows], self.ends[rows])


def same(invokes: Invokes, completions: Text, begins: Ints, columns: dict[str, pa.Array]) -> Bools:
    """Returns which completions certainly repeat what the invoke of the same row asked for.

    `completions`: a text with these lines, each at its place in `begins`; `columns`: their fields.
    """
    kind = pc.fill_null(pc.binary_length(columns["type"]), 0).to_numpy().astype(np.int64)
    from_f, answered_f = invokes.begins + len(_INVOKE), begins + kind + len(_COMPLETION)
    reads = pc.fill_null(pc.equal(columns["f"], "read"), False).to_numpy(zero_copy_only=False)
    until = _answers(invokes, columns["inv"], reads)
    result = until > from_f
    read = result & reads
    until[read] -= len(_ASKED_BY_READ)
    result[read] = windows(invokes.text, until[read], len(_ASKED_BY_READ)) == _ASKED_BY_READ
    until[read] += len(_VALUE)
    rows = np.flatnonzero(result)
    sizes = (until - from_f)[rows]
    result[rows] = _equal(invokes.text, from_f[rows], completions, answered_f[rows], sizes)
    return result


def _answers(invokes: Invokes, inv: pa.Array, reads: Bools) -> Ints:
    """Returns where each invoke's empty answer begins; -1 if it has none, or another `inv`.

    `reads`: those whose ends have a length of their own.
    """
    found = np.full(len(inv), -1)
    left = np.flatnonzero(inv.is_valid().to_numpy(zero_copy_only=False))
    digits = inv.cast(pa.string())
    for _ in range(_MOST_ENDS):
        if not len(left):
            break
        line = bytes(invokes.text[int(invokes.begins[left[0]]) : int(invokes.ends[left[0]])])
        end = _END.search(line)
        if end is not None:
            rows = left[reads[left] == reads[left[0]]]
            places = invokes.ends - (len(line) - end.start())
            rows = rows[places[rows] >= 0]
            rows = rows[_ends_so(invokes.text, places[rows], digits.take(rows), end)]
            found[rows] = places[rows]
        left = left[(found[left] < 0) & (left != left[0])]
    return found


def _ends_so(text: Text, places: Ints, digits: pa.Array, end: re.Match[bytes]) -> Bools:
    """Returns whether the bytes at each place are those of `end`, but for the numbers: any `sched`,
    and these `digits` of `inv`.
    """
    sched, inv = end.groups()
    shape = [("answer", len(_NO_ANSWER)), ("sched", len(sched)), ("inv is", len(_INV))]
    shape += [("inv", len(inv)), ("time is", len(_TIME))]
    dtype = np.dtype([(name, f"S{size}") for name, size in shape])
    there = windows(text, places, dtype.itemsize).view(dtype)
    rows = np.flatnonzero((np.diff(_offsets(digits)) == len(inv)) & (there["time is"] == _TIME))
    for name, expected in (("inv is", _INV), ("answer", _NO_ANSWER)):
        rows = rows[there[name][rows] == expected]
    result = np.zeros(len(places), bool)
    at = _offsets(digits)[:-1][rows].astype(np.int64)
    wanted = windows(digits.buffers()[2], at, len(inv))
    result[rows] = there["inv"][rows] == wanted
    return result


def _equal(first: Text, at: Ints, second: Text, by: Ints, sizes: Ints) -> Bools:
    """Returns whether as many bytes of both texts are the same from each pair of places on."""
    result = np.zeros(len(sizes), bool)
    left = np.flatnonzero((sizes >= _WORD) & (by + sizes <= len(second)))
    while len(left):
        # Two windows of one width cover all that are at most twice as wide.
        width = -(-int(sizes[left].max()) // (2 * _WORD)) * _WORD
        rows, left = left[sizes[left] >= width], left[sizes[left] < width]
        result[rows] = True
        for more in (0, sizes[rows] - width):
            one, other = (
                windows(text, places[rows] + more, width).view(np.uint64)
                for text, places in ((first, at), (second, by))
            )
            result[rows[np.flatnonzero(one != other) // (width // _WORD)]] = False
    return result


def windows(text: Text, places: Ints, width: int) -> NDArray[np.bytes_]:
    """Returns as many bytes of a text from each place on."""
    if not len(places):
        return np.zeros(0, f"S{width}")
    # NumPy copies elements of this type several times as fast as texts.
    every = np.ndarray((len(text) - width + 1,), f"V{width}", text, strides=(1,))
    found: NDArray[np.bytes_] = every[places].view(f"S{width}")
    return found


def _offsets(texts: pa.Array) -> NDArray[np.int32]:
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
