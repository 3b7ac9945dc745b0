"""All resets of a run: how many, of which partitions, and whether each unwind names its link. Pure.

An unwind goes on from an older lineage than the newest (document `high-availability`, phase 2;
design §3, hole 9). It is legal if its survivor belongs to a link of the chain as the resource held
it, and its log ends after that link's own place, or the link is the oldest; and if a majority of
each newer link may have been alive to be asked.

    [A, B, C] ─▶ [C], and C died uncopied      only a person may go on from the data of A or B

A reset by hand may go back to any live node: it names no link, and no link is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from zonequake_analysis.inputs.lineages import Begun, Lineages, lineage_of, place_of
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.majorities import SLACK_NS, TimeRange, deaths, is_lost

RESET = "group.reset"
"""A survivor itself records this event; no other process does."""

BY_HAND = "reset_by_hand"
"""The type of the fault that asks for a reset as a person does."""

_WHOLE = 10**9
"""A whole term is lineage × 10⁹ + number (docs/interfaces.md, "Names")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """One forced reset; `at_ns` is when its survivor led. `by_hand`: it was requested by hand.
    `unwound_to`: nodes of the link that it went back to, if it was an unwind; `unnamed`: why no
    link of the chain, or no request, explains it, else empty. Times are None if unknown:

    `lost_ns`: the majority was dead. `returned_ns`: the last data node came back before the reset.
    `written_ns`: its forced `pending` was seen in the resource.
    """

    zone: str
    partition: int
    lineage: int
    survivor: str
    at_ns: int
    lost_ns: int | None = None
    returned_ns: int | None = None
    written_ns: int | None = None
    by_hand: bool = False
    unwound_to: tuple[str, ...] = ()
    unnamed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    nodes: tuple[str, ...]
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """A partition's chain from this time on, and the token that the resource had with it."""

    at_ns: int
    token: int
    links: tuple[_Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The resets requested by hand.

    `survivors`: the surviving node of each that was carried out, by zone, partition and token
    (None: unseen). `pending_ns`: since when a request is open whose end was not seen.
    """

    survivors: Mapping[tuple[str, int, int], str | None]
    pending_ns: int | None = None

    def is_for(self, zone: str, partition: int, begun: Begun) -> bool:
        named = (zone, partition, begun.lineage) in self.survivors
        return named or (self.pending_ns is not None and self.pending_ns <= begun.at_ns)


def resets(
    lineages: Mapping[tuple[str, int], Lineages],
    events: Sequence[RecordedEvent],
    lost: Mapping[tuple[str, int], Sequence[TimeRange]],
) -> tuple[Reset, ...]:
    """Returns all resets of a run, in the order of their times; `lost`: when no majority lived."""
    found: list[Reset] = []
    starts = sorted(event.time for event in events if event.kind == "node.started")
    one_clock = len({event.clock for event in events if event.clock}) <= 1
    dead, asked = deaths(events) if one_clock else {}, _asked(events)
    for place, known in lineages.items():
        chains = _chains(place, events)
        forced = _forced(place, events)
        losses = [begin for begin, _ in lost.get(place, ())]
        found += [
            replace(
                _reset(known, begun, chains, dead, asked, forced.get(begun.lineage)),
                lost_ns=_last_before([at for at in losses if at > before], begun.at_ns),
                returned_ns=_last_before(starts, begun.at_ns),
            )
            for before, begun in _in_turn(known)
        ]
    return tuple(sorted(found, key=lambda reset: reset.at_ns))


def journalled(events: Iterable[RecordedEvent]) -> int:
    """Returns the number of partitions that the data nodes' own journals cover.

    None of them can have been reset without a record. What the runner saw of a partition from
    outside doesn't count.
    """
    return len(
        {
            (event.zone or "", event.partition)
            for event in events
            if event.partition is not None and (event.source == "store" or event.kind == RESET)
        }
    )


def _in_turn(known: Lineages) -> Iterator[tuple[int, Begun]]:
    """Yields each reset of a partition, with the time of the one before it: a loss before that
    time belongs to an earlier reset.
    """
    before = 0
    for begun in sorted(known.begun.values(), key=lambda begun: begun.at_ns):
        yield before, begun
        before = begun.at_ns


def _last_before(moments: Iterable[int], at_ns: int) -> int | None:
    return max((moment for moment in moments if moment <= at_ns), default=None)


def _asked(events: Iterable[RecordedEvent]) -> _Asked:
    """Reads the resets by hand from the runner's own events on its faults."""
    survivors: dict[tuple[str, int, int], str | None] = {}
    began: dict[str, int] = {}
    for event in events:
        if event.text("type") != BY_HAND:
            continue
        if event.kind == "fault.start":
            began.setdefault(event.text("fault"), event.time)
        elif event.kind == "fault.effective":
            began.pop(event.text("fault"), None)
            proof = event.data.get("proof")
            if isinstance(proof, dict):
                for one in proof.get("partitions", []):
                    place = (str(proof["zone"]), int(one["partition"]), int(one["token"]))
                    survivors[place] = one.get("survivor")
    return _Asked(survivors=survivors, pending_ns=min(began.values(), default=None))


def _forced(place: tuple[str, int], events: Iterable[RecordedEvent]) -> dict[int, int]:
    """Returns when each token's forced `pending` was first seen in one partition's resource."""
    found: dict[int, int] = {}
    for event in events:
        flagged = event.data.get("forced")
        if event.kind != "partition.changed" or (event.zone, event.partition) != place:
            continue
        if isinstance(flagged, list) and "pending" in flagged:
            found.setdefault(int(event.number("token") or 0), event.time)
    return found


def _reset(
    known: Lineages,
    begun: Begun,
    chains: Sequence[_Chain],
    dead: Mapping[str, Sequence[TimeRange]],
    asked: _Asked,
    written_ns: int | None,
) -> Reset:
    before = [lineage for lineage in known.begun if lineage < begun.lineage]
    by_hand = asked.is_for(known.zone, known.partition, begun)
    unwound: tuple[str, ...] = ()
    unnamed = ""
    if by_hand:
        wanted = asked.survivors.get((known.zone, known.partition, begun.lineage))
        if wanted not in (None, begun.survivor):
            unnamed = f"asked by hand to go on from {wanted}, it went on from {begun.survivor}"
    elif begun.last is not None and before and lineage_of(begun.last) < max(before):
        decided_ns = begun.at_ns if written_ns is None else written_ns
        unwound, unnamed = _unwound(begun, chains, dead, decided_ns)
    return Reset(
        zone=known.zone,
        partition=known.partition,
        lineage=begun.lineage,
        survivor=begun.survivor,
        at_ns=begun.at_ns,
        written_ns=written_ns,
        by_hand=by_hand,
        unwound_to=unwound,
        unnamed=unnamed,
    )


def _unwound(
    begun: Begun,
    chains: Iterable[_Chain],
    dead: Mapping[str, Sequence[TimeRange]],
    decided_ns: int,
) -> tuple[tuple[str, ...], str]:
    """Returns the nodes of the link that an unwind went back to; or why the unwind breaks the
    rules.
    """
    held = [one for one in chains if one.at_ns <= begun.at_ns and one.token < begun.lineage]
    chain = next((one.links for one in reversed(held) if one.links), None)
    if chain is None:
        return (), "no chain was recorded before it"
    number = _named(chain, begun)
    if number is None:
        return (), f"{begun.survivor} and its log's end fit no link of the chain"
    for newer in chain[number + 1 :]:
        # A change is seen at most so much later; a node dead all this time was not asked.
        if is_lost(newer.nodes, dead, decided_ns - SLACK_NS, decided_ns):
            return (), f"no majority of the newer link [{', '.join(newer.nodes)}] was alive"
    return chain[number].nodes, ""


def _named(chain: Sequence[_Link], begun: Begun) -> int | None:
    """Returns the number of the newest link with the survivor that its log goes beyond.

    The oldest link needs only the survivor. None if no link fits.
    """
    assert begun.last is not None, "asked of unwinds only"
    for number in range(len(chain) - 1, -1, -1):
        link = chain[number]
        if begun.survivor in link.nodes and (begun.last > link.place or number == 0):
            return number
    return None


def _chains(place: tuple[str, int], events: Iterable[RecordedEvent]) -> list[_Chain]:
    """Returns the chain of one partition at each change of its resource."""
    found = []
    for event in events:
        chain = event.data.get("chain")
        if event.kind != "partition.changed" or (event.zone, event.partition) != place:
            continue
        links = chain if isinstance(chain, list) else []
        held = tuple(_link(link) for link in links if isinstance(link, dict))
        token = int(event.number("token") or 0)
        found.append(_Chain(at_ns=event.time, token=token, links=held))
    return found


def _link(link: Mapping[str, object]) -> _Link:
    nodes, term, index = link.get("nodes"), link.get("term"), link.get("index")
    whole = term if isinstance(term, int) else 0
    return _Link(
        nodes=tuple(map(str, nodes)) if isinstance(nodes, list) else (),
        place=place_of(whole // _WHOLE, whole % _WHOLE, index if isinstance(index, int) else 0),
    )
