"""Random histories of one register whose values repeat, small for the reference, or one hot key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from zonequake_analysis.checks.search.reference import ReferenceStep
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function

_MS = 1_000_000


def small_histories(rng: Random, count: int) -> Iterator[list[Step]]:
    """Valid histories of up to eleven operations, most with one or two things changed.

    A changed history may still be legal: only the reference knows.
    """
    for _ in range(count):
        history = _valid(rng)
        for _ in range(rng.choice((0, 1, 2, 3))):
            place = rng.randrange(len(history))
            history[place] = _changed(rng, history[place])
        yield history


def _valid(rng: Random) -> list[Step]:
    """Operations that take effect at chosen instants, of two to four values."""
    span, values = rng.choice((12, 20, 40, 80)), rng.choice((2, 3, 3, 4))
    cas, unanswered = rng.choice((0, 0.25, 0.5)), rng.choice((0, 0.15, 0.4))
    register, history = ABSENT, []
    for at in sorted(rng.sample(range(5, 5 + 2 * span), rng.randint(2, 11))):
        inv, fin = at - rng.randint(0, span // 2), at + rng.randint(0, span // 2)
        value, draw = rng.randrange(values), rng.random()
        lost = rng.random() < unanswered
        happens = not lost or rng.random() < 0.5
        expected = register if rng.random() < 0.6 else rng.randrange(values)
        if draw < cas and (lost or expected == register):
            history.append(Step(Function.CAS, inv, NEVER_NS if lost else fin, value, expected))
            happens &= expected == register
        elif draw < cas + (1 - cas) / 2:
            history.append(Step(Function.READ, inv, fin, register))
            continue
        else:
            history.append(Step(Function.WRITE, inv, NEVER_NS if lost else fin, value))
        register = value if happens else register
    return history


def _changed(rng: Random, step: Step) -> Step:
    """Returns the operation with another answer, at another time, or ended earlier."""
    match rng.randrange(3):
        case 0 if step.f is Function.READ:
            return step._replace(value=rng.choice((ABSENT, 0, 1, 2, 3)))
        case 1 if step.fin_ns != NEVER_NS:
            shift = rng.choice((-15, -8, 8, 15))
            return step._replace(inv_ns=step.inv_ns + shift, fin_ns=step.fin_ns + shift)
        case 2 if step.fin_ns != NEVER_NS:
            return step._replace(fin_ns=max(step.inv_ns, step.fin_ns - rng.randint(0, 10)))
    return step


def as_reference(history: Sequence[Step]) -> list[ReferenceStep]:
    """Returns the same operations as the reference takes them."""

    def known(value: int) -> int | None:
        return None if value == ABSENT else value

    return [
        ReferenceStep(
            f=step.f,
            inv_ns=step.inv_ns,
            fin_ns=step.fin_ns,
            value=known(step.value),
            expected=known(step.expected) if step.f is Function.CAS else None,
        )
        for step in history
    ]


def hot_register(
    operations: int, *, clients: int, unanswered: float = 0.0, cas: float = 0.0, values: int = 5
) -> list[Step]:
    """A valid history of one register with about `clients` operations open at once."""
    rng, register, history = Random(11), ABSENT, []
    reach_ns = max(1, clients * _MS // 2 - _MS)
    for number in range(operations):
        at_ns = (number + 1000) * _MS
        inv, fin = at_ns - rng.randrange(reach_ns), at_ns + rng.randrange(reach_ns)
        value, draw = rng.randrange(values), rng.random()
        lost = rng.random() < unanswered
        if draw < 0.5:
            history.append(Step(Function.READ, inv, fin, register))
        elif draw < 0.5 + cas and register != ABSENT:
            history.append(Step(Function.CAS, inv, NEVER_NS if lost else fin, value, register))
            register = register if lost else value
        else:
            history.append(Step(Function.WRITE, inv, NEVER_NS if lost else fin, value))
            register = register if lost and rng.random() < 0.5 else value
    return history
