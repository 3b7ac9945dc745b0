"""`zonequake reset`: gives up a lost majority by hand (document `high-availability`, "manual
partition disaster recovery"; design §3, hole 7).

Shows the proof, asks, writes the request into the zone, and waits for the operator, which judges it
by the same rules as its own resets: it refuses while a majority or its leader may be alive.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from zonequake_chaos.errors import UsageError
from zonequake_chaos.kube import Kube
from zonequake_chaos.place import DEFAULT_NAMESPACE, DEFAULT_RELEASE, Place, find_place
from zonequake_operator.groups import is_majority
from zonequake_operator.model import Partition, Topology, Zone
from zonequake_operator.parsing import owner_uid, parse_partition, parse_topology, parse_zone
from zonequake_operator.reset import forced_node
from zonequake_operator.wire import RESET_ANNOTATION

POLL_S = 0.3
REFUSED, UNFINISHED = 1, 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is known of one partition's majority: who is there and who has left, in words."""

    partition: Partition
    present: tuple[str, ...]
    gone: tuple[str, ...]
    proof: tuple[str, ...]
    refused: str | None

    def lines(self) -> list[str]:
        """For people."""
        number, stable = self.partition.number, (*self.present, *self.gone)
        shown = [f"partition {number}: stable {', '.join(sorted(stable))}"]
        shown += [f"  {line}" for line in self.proof]
        if self.refused is not None:
            return [*shown, f"  not reset: {self.refused}"]
        alone = ", ".join(self.present)
        return [*shown, f"  goes on from the newest data of {alone}; what that lacks is given up"]


def prove(partition: Partition, topology: Topology) -> Proof:
    """Has this partition lost its majority, as far as the resources tell?"""
    keys = partition.keys
    nodes = keys.stable.nodes if keys.stable else ()
    present = tuple(node for node in nodes if node in topology.nodes)
    gone = tuple(node for node in nodes if node not in topology.nodes)
    proof = [f"{n} is in the topology since version {topology.nodes[n].since}" for n in present]
    for node in gone:
        left = topology.departed.get(node)
        proof.append(f"{node} has left" + (f" with version {left.left}" if left else ""))
    refused = None
    if not nodes or keys.bootstrap is None:
        refused = "it holds no data yet"
    elif forced_node(keys) is not None and forced_node(keys) in topology.nodes:
        refused = f"a reset to {forced_node(keys)} is under way"
    elif partition.view.leader is not None:
        refused = f"{partition.view.leader} leads it"
    elif is_majority(len(present), len(nodes)):
        refused = "its majority has not left; a node that doesn't answer may still run"
    elif not present:
        refused = "none of its nodes is there"
    return Proof(
        partition=partition, present=present, gone=gone, proof=tuple(proof), refused=refused
    )


@app.command()
def reset(
    zone: Annotated[str, typer.Argument(help="The DistributionZone.")],
    partitions: Annotated[
        list[int] | None, typer.Argument(help="Else all that have lost their majority.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the proof only.")] = False,
    wait_s: Annotated[float, typer.Option("--wait", help="Seconds to wait for the operator.")] = 60,
    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", help="Else $KUBECONFIG, or the embedded cluster's."),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", help="A context of the kubeconfig: any cluster.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Where the release lives.")
    ] = DEFAULT_NAMESPACE,
) -> None:
    """Let partitions that lost their majority go on from what is left of their data."""
    place = find_place(
        kubeconfig=kubeconfig, context=context, namespace=namespace, release=DEFAULT_RELEASE
    )
    code = asyncio.run(
        _reset(place, zone, partitions or [], yes=yes, dry_run=dry_run, wait_s=wait_s)
    )
    raise typer.Exit(code)


async def _reset(
    place: Place, name: str, chosen: list[int], *, yes: bool, dry_run: bool, wait_s: float
) -> int:
    async with await place.connect() as kube:
        zone, found, topology = await _read(kube, name)
        missing = [number for number in chosen if number not in found]
        if missing:
            raise UsageError(f"zone {name} has no partition {missing[0]}: 0 to {len(found) - 1}")
        proofs = [prove(found[number], topology) for number in chosen or sorted(found)]
        if not chosen:
            proofs = [proof for proof in proofs if proof.refused is None]
        if not proofs:
            console.print(f"no partition of zone {name} has lost its majority")
            return REFUSED
        for proof in proofs:
            console.print("\n".join(proof.lines()), markup=False)
        if any(proof.refused is not None for proof in proofs):
            return REFUSED
        if dry_run:
            return 0
        if not yes and not typer.confirm(
            f"Give up what only the others have of {len(proofs)} partitions?", default=False
        ):
            return REFUSED
        tokens = {p.partition.number: p.partition.keys.configuration_token for p in proofs}
        requests = json.dumps({str(number): token for number, token in tokens.items()})
        change: dict[str, Any] = {
            "metadata": {
                "annotations": {RESET_ANNOTATION: requests},
                "resourceVersion": zone.resource_version,
            }
        }
        await kube.patch("DistributionZone", name, change)
        return await _wait(kube, name, tokens, wait_s)


async def _read(kube: Kube, name: str) -> tuple[Zone, dict[int, Partition], Topology]:
    zone = parse_zone(await kube.get("DistributionZone", name))
    listed, topologies = await asyncio.gather(kube.find("Partition"), kube.find("LogicalTopology"))
    mine = [parse_partition(one) for one in listed if owner_uid(one) == zone.uid]
    topology = parse_topology(topologies[0]) if topologies else Topology()
    return zone, {partition.number: partition for partition in mine}, topology


async def _wait(kube: Kube, name: str, tokens: dict[int, int], wait_s: float) -> int:
    give_up_s = time.monotonic() + wait_s
    while True:
        zone, found, _ = await _read(kube, name)
        open_ = [
            number
            for number, token in tokens.items()
            if found[number].keys.configuration_token == token
            or forced_node(found[number].keys) is not None
        ]
        if not open_:
            console.print(f"{len(tokens)} partitions were reset")
            return 0
        if time.monotonic() > give_up_s:
            said = " ".join(c.message for c in zone.conditions if c.type == "DataAtRisk")
            console.print(f"not carried out yet: partitions {open_}. {said}", markup=False)
            return UNFINISHED
        await asyncio.sleep(POLL_S)
