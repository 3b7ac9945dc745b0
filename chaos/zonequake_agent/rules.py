"""The iptables rules of a link fault, as text for iptables-restore and from iptables-save. Pure.

    filter:  INPUT, OUTPUT ──────► ZQ-xxxxxxxx-in, -out ──► DROP      (a cut, or lost packets)
    mangle:  INPUT, POSTROUTING ─► ZQ-xxxxxxxx-in, -out ──► NFQUEUE   (delayed packets)

The jump carries the deadline: `-m time --datestop` ends the fault in the kernel even if no process
is left to undo it, and a comment holds the deadline for a later sweep. Delays are in the table that
comes first, since a queued packet skips its table's other rules when it continues.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from zonequake_agent.link_fault import LinkFault

_IN, _OUT = "in", "out"
_DELAYS = "mangle"
_CHAIN = re.compile(r":(ZQ-[0-9a-f]{8})-(?:in|out) ")
_DEADLINE = re.compile(r'--comment "?zonequake-until-(\d+)')
_RULE = re.compile(r"(?:\[(\d+):(\d+)\] )?-A (\S+) (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketCounts:
    """The packets that matched a fault's rules: dropped, queued for a delay, and passed."""

    dropped: int = 0
    queued: int = 0
    passed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledFault:
    """A fault whose rules are installed; `until` is its deadline (Unix seconds).

    `delays`: its rules queue packets for a delayer.
    """

    name: str
    until: int
    delays: bool


def insertion(fault: LinkFault, *, until: int) -> str:
    """Returns the text for iptables-restore that adds the fault's rules, all or none."""
    table = _DELAYS if fault.delays else "filter"
    hooks = {_IN: "INPUT", _OUT: "POSTROUTING" if fault.delays else "OUTPUT"}
    stop = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    lines = [f"*{table}"]
    for way, wanted in ((_IN, fault.inbound), (_OUT, fault.outbound)):
        if not wanted:
            continue
        chain = f"{fault.name}-{way}"
        interface = "-i" if way == _IN else "-o"
        lines.append(f":{chain} - [0:0]")
        lines += [f"-A {chain} {rule}" for rule in _chain(fault, way)]
        lines.append(
            f"-I {hooks[way]} 1 ! {interface} lo -m time --datestop {stop} "
            f"-m comment --comment zonequake-until-{until} -j {chain}"
        )
    return "\n".join([*lines, "COMMIT", ""])


def _chain(fault: LinkFault, way: str) -> Iterator[str]:
    for match in _matches(fault, way):
        if fault.delays:
            number = fault.queue + (way == _OUT)
            # Without a listener packets pass: a dead delayer does no harm.
            yield f"{match}-j NFQUEUE --queue-num {number} --queue-bypass"
        elif fault.lost_percent >= 100:
            yield f"{match}-j DROP"
        else:
            share = f"{fault.lost_percent / 100:.6f}"
            yield f"{match}-m statistic --mode random --probability {share} -j DROP"
            yield f"{match}-j RETURN"


def _matches(fault: LinkFault, way: str) -> Iterator[str]:
    ports = ""
    if fault.ports:
        ports = f"-p tcp -m multiport --ports {','.join(map(str, fault.ports))} "
    end = "-s" if way == _IN else "-d"
    for address in fault.addresses:
        yield f"{end} {address} {ports}"
    if not fault.addresses:
        yield ports


def removal(saved: str, name: str | None = None) -> str:
    """Returns the text that removes the fault's rules, without a name those of all faults; empty if
    there are none.

    `saved` is what iptables-save printed.
    """
    text = []
    for table, lines in _tables(saved):
        chains = [f"{n}-{way}" for n in sorted(_names(lines)) for way in (_IN, _OUT)]
        chains = [
            chain
            for chain in chains
            if (name is None or chain.startswith(name))
            and any(line.startswith(f":{chain} ") for line in lines)
        ]
        if not chains:
            continue
        jumps = [
            f"-D {found[3]} {found[4]}"
            for line in lines
            if (found := _RULE.match(line)) and shlex.split(found[4])[-1] in chains
        ]
        text += [f"*{table}", *jumps]
        text += [f"-F {chain}" for chain in chains] + [f"-X {chain}" for chain in chains]
        text.append("COMMIT")
    return "\n".join([*text, ""]) if text else ""


def standing(saved: str) -> list[InstalledFault]:
    """Returns the faults whose rules are installed; a chain without a jump to it has deadline 0."""
    found: dict[str, int] = {}
    delaying: set[str] = set()
    for table, lines in _tables(saved):
        names = _names(lines)
        found |= dict.fromkeys(names - set(found), 0)
        delaying |= names if table == _DELAYS else set()
        for line in lines:
            deadline = _DEADLINE.search(line)
            if deadline is not None:
                found[line.rpartition(" -j ")[2].rpartition("-")[0]] = int(deadline[1])
    return [
        InstalledFault(name=name, until=until, delays=name in delaying)
        for name, until in sorted(found.items())
    ]


def counts(saved: str, name: str) -> PacketCounts:
    """Returns the counts of the fault's rules; `saved` must have counters
    (`iptables-save --counters`).
    """
    totals = dict.fromkeys(("DROP", "NFQUEUE", "RETURN"), 0)
    for _, lines in _tables(saved):
        for line in lines:
            found = _RULE.match(line)
            if found is None or not found[3].startswith(f"{name}-"):
                continue
            target = re.search(r"-j (\w+)", found[4])
            if target is not None and target[1] in totals:
                totals[target[1]] += int(found[1] or 0)
    return PacketCounts(dropped=totals["DROP"], queued=totals["NFQUEUE"], passed=totals["RETURN"])


def _names(lines: list[str]) -> set[str]:
    return {found[1] for line in lines if (found := _CHAIN.match(line))}


def _tables(saved: str) -> Iterator[tuple[str, list[str]]]:
    table, lines = "", list[str]()
    for line in saved.splitlines():
        if line.startswith("*"):
            table, lines = line[1:].strip(), []
        elif line == "COMMIT":
            yield table, lines
        else:
            lines.append(line)
