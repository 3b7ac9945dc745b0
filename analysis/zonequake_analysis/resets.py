"""Resets as a whole: how many, of whom, and whether each unwind names its link. Pure.

An unwind goes on from an older lineage than the newest (document `high-availability`, phase 2;
design §3, hole 9). It is legal if its survivor belongs to a link of the chain as the resource held
it, and its log ends behind that link's own place, or the link is the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from zonequake_analysis.lineages import Begun, Lineages, lineage_of, place_of
from zonequake_analysis.majorities import Span
from zonequake_analysis.run_folder import Event

RESET = "group.reset"
"""What a survivor itself records; nobody else does."""

_WHOLE = 10**9
"""A whole term is lineage × 10⁹ + number (docs/interfaces.md, "Names")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """One forced reset; `at_ns` is when its survivor led. `unwound_to`: nodes of the link that it
    went back to, if it was an unwind; `unnamed` says why no link of the chain explains it, and is
    empty else. None where it isn't known:

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
    unwound_to: tuple[str, ...] = ()
    unnamed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    nodes: tuple[str, ...]
    place: int


def resets(
    lineages: Mapping[tuple[str, int], Lineages],
    events: Sequence[Event],
    lost: Mapping[tuple[str, int], Sequence[Span]],
) -> tuple[Reset, ...]:
    """All resets of a run, in the order of their times; `lost`: when no majority lived."""
    found: list[Reset] = []
    starts = sorted(event.time for event in events if event.kind == "node.started")
    for place, known in lineages.items():
        chains = _chains(place, events)
        forced = _forced(place, events)
        losses = [begin for begin, _ in lost.get(place, ())]
        found += [
            replace(
                _reset(known, begun, chains),
                lost_ns=_last_before([at for at in losses if at > before], begun.at_ns),
                returned_ns=_last_before(starts, begun.at_ns),
                written_ns=forced.get(begun.lineage),
            )
            for before, begun in _in_turn(known)
        ]
    return tuple(sorted(found, key=lambda reset: reset.at_ns))


def journalled(events: Iterable[Event]) -> int:
    """Of how many partitions the data nodes' own journals tell: none of them was reset in silence.

    What the runner saw of a partition from outside doesn't count.
    """
    return len(
        {
            (event.zone or "", event.partition)
            for event in events
            if event.partition is not None and (event.source == "store" or event.kind == RESET)
        }
    )


def _in_turn(known: Lineages) -> Iterator[tuple[int, Begun]]:
    """Each reset of a partition, and when the one before it was carried out: what was lost before
    that is no loss of this one's."""
    before = 0
    for begun in sorted(known.begun.values(), key=lambda begun: begun.at_ns):
        yield before, begun
        before = begun.at_ns


def _last_before(moments: Iterable[int], at_ns: int) -> int | None:
    return max((moment for moment in moments if moment <= at_ns), default=None)


def _forced(place: tuple[str, int], events: Iterable[Event]) -> dict[int, int]:
    """When each token's forced `pending` was first seen in one partition's resource."""
    found: dict[int, int] = {}
    for event in events:
        flagged = event.data.get("forced")
        if event.kind != "partition.changed" or (event.zone, event.partition) != place:
            continue
        if isinstance(flagged, list) and "pending" in flagged:
            found.setdefault(int(event.number("token") or 0), event.time)
    return found


def _reset(known: Lineages, begun: Begun, chains: Sequence[tuple[int, list[_Link]]]) -> Reset:
    before = [lineage for lineage in known.begun if lineage < begun.lineage]
    unwound: tuple[str, ...] = ()
    unnamed = ""
    if begun.last is not None and before and lineage_of(begun.last) < max(before):
        chain = [links for at_ns, links in chains if at_ns <= begun.at_ns and links]
        if not chain:
            unnamed = "no chain was recorded before it"
        elif (link := _named(chain[-1], begun)) is None:
            unnamed = f"{begun.survivor} and its log's end fit no link of the chain"
        else:
            unwound = link.nodes
    return Reset(
        zone=known.zone,
        partition=known.partition,
        lineage=begun.lineage,
        survivor=begun.survivor,
        at_ns=begun.at_ns,
        unwound_to=unwound,
        unnamed=unnamed,
    )


def _named(chain: Sequence[_Link], begun: Begun) -> _Link | None:
    """The newest link of the survivor's that its log goes beyond, or the oldest, if it is its."""
    assert begun.last is not None, "asked of unwinds only"
    for number in range(len(chain) - 1, -1, -1):
        link = chain[number]
        if begun.survivor in link.nodes and (begun.last > link.place or number == 0):
            return link
    return None


def _chains(place: tuple[str, int], events: Iterable[Event]) -> list[tuple[int, list[_Link]]]:
    """The chain of one partition at each change of its resource."""
    found = []
    for event in events:
        chain = event.data.get("chain")
        if event.kind != "partition.changed" or (event.zone, event.partition) != place:
            continue
        links = chain if isinstance(chain, list) else []
        found.append((event.time, [_link(link) for link in links if isinstance(link, dict)]))
    return found


def _link(link: Mapping[str, object]) -> _Link:
    nodes, term, index = link.get("nodes"), link.get("term"), link.get("index")
    whole = term if isinstance(term, int) else 0
    return _Link(
        nodes=tuple(map(str, nodes)) if isinstance(nodes, list) else (),
        place=place_of(whole // _WHOLE, whole % _WHOLE, index if isinstance(index, int) else 0),
    )
