"""Thousands of small random histories, valid and spoilt, to judge the checkers by search.

Each history is one key, so a whole batch is one run folder. A valid history takes effect in one
order at chosen instants; a spoilt one has then had an answer, a time or an outcome changed, and may
still be legal: only `reference` knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from tests.histories.synthesize import INDEX_STEP, SyntheticOperation
from zonequake_analysis.checks.search.reference import ReferenceStep
from zonequake_analysis.inputs.shapes import NEVER_NS, Function

_SPAN = 60
"""Moments that an operation's interval can begin or end at: few, so that ends often meet."""


def histories(
    rng: Random, count: int, *, lists: bool, spoil: float
) -> Iterator[list[SyntheticOperation]]:
    """`count` histories, each on a key and with processes of its own.

    A share `spoil` of them is changed in one or two places.
    """
    for number in range(count):
        history = _valid(rng, number, lists=lists)
        for _ in range(rng.choice((1, 1, 2)) if rng.random() < spoil else 0):
            history = _spoilt(rng, history)
        yield history


def with_few_answers(rng: Random, case: list[SyntheticOperation]) -> list[SyntheticOperation]:
    """The same history, but most writes and applied cas have no answer, and some began later."""
    made = []
    for o in case:
        if o.f is not Function.READ and o.applied is not False and rng.random() < 0.8:
            late = rng.choice((0, 0, 0, 15, 30))
            o = replace(o, type="info", index=None, applied=None, inv_ns=o.inv_ns + late, fin_ns=99)
            written = [one.value for one in case if isinstance(one.value, int)]
            if o.f is Function.CAS and rng.random() < 0.1:
                o = replace(o, expected=rng.choice(written))
        made.append(o)
    return made


def steps(history: Sequence[SyntheticOperation]) -> list[ReferenceStep]:
    """A history as the reference checker takes it: without failures and unanswered reads."""
    found = []
    for o in history:
        unanswered = o.type in ("info", "invoke")
        if o.type == "fail" or (unanswered and o.f is Function.READ):
            continue
        value = tuple(o.value) if isinstance(o.value, list) else o.value
        found.append(
            ReferenceStep(
                f=o.f,
                inv_ns=o.inv_ns,
                fin_ns=NEVER_NS if unanswered else o.fin_ns,
                value=value,
                expected=o.expected,
                found=o.found,
                refused=o.f is Function.CAS and o.applied is False,
            )
        )
    return found


def _valid(rng: Random, number: int, *, lists: bool) -> list[SyntheticOperation]:
    register: int | None = None
    elements: list[int] = []
    index = 0
    history = []
    instants = sorted(rng.sample(range(10, _SPAN), rng.randint(3, 7)))
    for i, at in enumerate(instants):
        # Of every other history the values are around 0, which others' histories use as well.
        value = i - 3 + (number * 100 if number % 2 else 0)
        draw = rng.random()
        operation = SyntheticOperation(
            f=Function.READ,
            key=f"case-{number}",
            partition=number % 4,
            process=number * 100 + i,
            inv_ns=at - rng.randint(0, 9),
            fin_ns=at + rng.randint(0, 9),
        )
        write = True
        if lists:
            if draw < 0.5:
                write = False
                operation = replace(operation, value=list(elements) or None)
            else:
                operation = replace(operation, f=Function.APPEND, value=value)
        elif draw < 0.45:
            write = False
            operation = replace(operation, value=register)
        elif draw < 0.75:
            operation = replace(operation, f=Function.WRITE, value=value)
        else:
            write = rng.random() < 0.7
            operation = replace(
                operation,
                f=Function.CAS,
                value=value,
                expected=register if write else value + 50,
                applied=write,
                found=None if write else register,
            )
        if operation.f is not Function.READ and rng.random() < 0.15:
            kind = rng.choice(("info", "invoke", "fail"))
            write = write and kind != "fail" and rng.random() < 0.6
            operation = replace(operation, type=kind, applied=None, found=None)
        if write:
            index += 1
            register = value
            elements.append(value)
        place = None if operation.type != "ok" else number * 100_000 + index * INDEX_STEP
        history.append(replace(operation, index=place))
    return history


def _spoilt(rng: Random, history: list[SyntheticOperation]) -> list[SyntheticOperation]:
    at = rng.randrange(len(history))
    o = history[at]
    written = [h.value for h in history if h.f is not Function.READ and isinstance(h.value, int)]
    match rng.randrange(4):
        case 0 if o.f is Function.READ and isinstance(o.value, list):
            shown = list(o.value)
            draw = rng.random()
            if draw < 0.4:
                shown.pop(rng.randrange(len(shown)))
            elif draw < 0.7:  # applied twice, rather one that was retried
                retried = [h.value for h in history if h.type != "ok" and h.value in shown]
                shown.append(rng.choice(retried or shown))
            else:
                rng.shuffle(shown)
            changed = replace(o, value=shown or None)
        case 0 | 1 if o.f is Function.READ and not isinstance(o.value, list):
            is_list = any(h.f is Function.APPEND for h in history)
            pick = rng.choice([*written, None]) if written else None
            changed = replace(o, value=[pick] if is_list and pick is not None else pick)
        case 1 if o.f is Function.CAS and o.applied:
            changed = replace(o, expected=rng.choice([*written, None]))
            if changed.expected == o.value:
                changed = o
        case 2:
            shift = rng.choice((-25, -12, 12, 25))
            changed = replace(o, inv_ns=o.inv_ns + shift, fin_ns=o.fin_ns + shift)
        case _:
            changed = replace(o, fin_ns=max(o.inv_ns, o.fin_ns - rng.randint(0, 8)))
    return [*history[:at], changed, *history[at + 1 :]]
