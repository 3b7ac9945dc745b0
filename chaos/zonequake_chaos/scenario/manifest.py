"""Reads scenario files: YAML to `ChaosRun`, with errors that name path, value and what is allowed.

A misspelled field is refused: if it were ignored, the fault would use a default, and the run would
show less than it claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import msgspec
import yaml

from zonequake_chaos.errors import ManifestError
from zonequake_chaos.kit.entries import target_names
from zonequake_chaos.scenario.control import CONTROL, with_control
from zonequake_chaos.scenario.faults import (
    HELD_AT_MOST_S,
    AnyFault,
    Bounded,
    DiskCalls,
    FaultTarget,
    LinkFaultSpec,
    NetworkSlowSpec,
    ResetByHandSpec,
    RollingRestartSpec,
    ScaleSpec,
    SlowDiskSpec,
    TargetRole,
    Traffic,
    fault_type,
    least_duration_s,
)
from zonequake_chaos.scenario.node_names import node_of_pools
from zonequake_chaos.scenario.run import ChaosRun, RunLoad, RunSpec
from zonequake_chaos.scenario.triggers import AfterTime, OnKey, OnNodes, OnStage
from zonequake_kube.yaml_fields import NotExpectedError, convert
from zonequake_kube.yaml_text import read_yaml

_SHIPPED = resources.files("zonequake_chaos") / "scenarios"


def shipped() -> dict[str, str]:
    """Returns name and text of each scenario that comes with the package, sorted by name."""
    return {
        entry.name.removesuffix(".yaml"): entry.read_text()
        for entry in sorted(_SHIPPED.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".yaml")
    }


def load(name_or_path: str, overrides: Sequence[str] = ()) -> ChaosRun:
    """Loads the shipped scenario of that name, or the file at that path.

    `overrides` are `path.in.spec=value` with YAML values, for instance `zones.0.partitions=4`.
    Raises ManifestError.
    """
    known = shipped()
    if name_or_path in known:
        return parse(known[name_or_path], where=name_or_path, overrides=overrides)
    path = Path(name_or_path)
    if not path.is_file():
        raise ManifestError(
            f"found neither a scenario nor a file named {name_or_path!r}; "
            f"shipped scenarios are {', '.join(known)}"
        )
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path} can't be read: {error}") from error
    return parse(text, where=str(path), overrides=overrides)


def parse(text: str, *, where: str, overrides: Sequence[str] = ()) -> ChaosRun:
    """Returns `text` as a checked scenario; `where` names it in errors. Raises ManifestError."""
    try:
        document = read_yaml(text)
    except yaml.YAMLError as error:
        raise ManifestError(f"{where}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ManifestError(f"{where}: expected a mapping with kind: ChaosRun at the top")
    for override in overrides:
        _override(document.setdefault("spec", {}), override)
    _refuse_a_targets_own_key(document.get("spec"), where)
    try:
        run = convert(document, ChaosRun, "$")
    except NotExpectedError as error:
        raise ManifestError(f"{where}: {error}") from error
    for problem in _contradictions(run):
        raise ManifestError(f"{where}: {problem}")
    return run


def _refuse_a_targets_own_key(spec: object, where: str) -> None:
    """Raises ManifestError if `spec` has a target's name as a key, as it once had."""
    known = {field.encode_name for field in msgspec.structs.fields(RunSpec)}
    for key in spec if isinstance(spec, dict) else ():
        if key not in known and key in target_names():
            raise ManifestError(
                f"{where}: $.spec: found the key {key!r}, the name of a target, whose settings are "
                f"now in spec.target: expected target: {{name: {key}, image, args, env, files, "
                "storage}; options of its members are texts in args"
            )


def _override(spec: object, override: str) -> None:
    """Sets one value inside the raw spec; the parts of the path are field names or list indexes."""
    path, separator, value = override.partition("=")
    keys = path.removeprefix("spec.").split(".")
    if not separator or not all(keys):
        raise ManifestError(f"--set {override!r}: expected path=value, as in zones.0.partitions=4")
    try:
        new = read_yaml(value)
    except yaml.YAMLError as error:
        raise ManifestError(f"--set {override!r}: not YAML: {error}") from error
    place = spec
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        if isinstance(place, list):
            if not key.isdigit() or int(key) >= len(place):
                raise ManifestError(
                    f"--set {override!r}: found index {key!r}, expected less than {len(place)}"
                )
            if last:
                place[int(key)] = new
            else:
                place = place[int(key)]
        elif isinstance(place, dict):
            if last:
                place[key] = new
            else:
                place = place.setdefault(key, {})
        else:
            raise ManifestError(
                f"--set {override!r}: found a plain value at {'.'.join(keys[:depth])}, "
                "expected a mapping or a list"
            )


def _contradictions(run: ChaosRun) -> Iterator[str]:
    """Yields problems that the types can't express: duplicate names, and names of nothing."""
    spec = run.spec
    pools = [pool.name for pool in spec.pools]
    for kind, names in (
        ("pool", pools),
        ("zone", [zone.name for zone in spec.zones]),
        ("fault", [*([CONTROL] if spec.control else []), *(fault.name for fault in spec.faults)]),
    ):
        for name in {name for name in names if names.count(name) > 1}:
            yield f"two {kind}s are named {name!r}; names must be unique"
    yield from _load_contradictions(spec.load)
    yield from _unclear_nodes(spec)
    yield from _control_contradictions(spec)
    earlier: list[str] = []
    later = [fault.name for fault in spec.faults]
    for fault in spec.faults:
        yield from _fault_contradictions(fault, pools, [zone.name for zone in spec.zones], earlier)
        if isinstance(fault, ResetByHandSpec):
            yield from _reset_contradictions(fault, spec)
        earlier.append(fault.name)
        later.remove(fault.name)
        yield from _hold_contradictions(fault, later)
        yield from _bound_contradictions(fault, spec.faults[len(earlier) :])


def _unclear_nodes(spec: RunSpec) -> Iterator[str]:
    """Yields the nodes of triggers that no pool ever has, or that may be of two pools: one that
    isn't found counts as silent.
    """
    most = {pool.name: with_control(spec, pool.name) for pool in spec.pools}
    for fault in spec.faults:
        if isinstance(fault, ScaleSpec) and fault.pool in most:
            most[fault.pool] = max(most[fault.pool], fault.replicas)
    known = [f"{pool}-{ordinal}" for pool, size in most.items() for ordinal in range(size)]
    for fault in spec.faults:
        for name in fault.trigger.nodes if isinstance(fault.trigger, OnNodes) else ():
            here = f"fault {fault.name!r}: the trigger names node {name!r}"
            if node_of_pools(name, most) is None:
                pools = ", ".join(f"{pool} has {size}" for pool, size in most.items())
                yield f"{here}, which no pool ever has: {pools}"
            if len(meant := [node for node in known if f"-{node}".endswith(f"-{name}")]) > 1:
                yield f"{here}, which may be {' or '.join(meant)}: put the release before it"


def _of_nodes(trigger: OnKey) -> bool:
    """Returns whether a condition asks for a key that isn't empty."""
    told = (trigger.holds, trigger.equals, trigger.length, trigger.forced, trigger.from_reset)
    return any(one is not None for one in told)


def _load_contradictions(load: RunLoad) -> Iterator[str]:
    together = load.transactions
    if together is not None and together.steps > together.keys_per_partition:
        yield (
            f"load: transactions.steps is {together.steps} and transactions.keysPerPartition "
            f"{together.keys_per_partition}, expected a key for each step: raise keysPerPartition"
        )
    if load.register_reads + load.register_cas > 1:
        yield (
            f"load: registerReads {load.register_reads:g} and registerCas {load.register_cas:g} "
            "together are above 1; what they leave are writes: lower one of them"
        )
    if load.hot_key_share:
        for field, rate, keys in (
            ("registerKeysPerPartition", load.register_rate, load.register_keys_per_partition),
            ("listKeysPerPartition", load.list_rate, load.list_keys_per_partition),
        ):
            if rate and keys < 2:
                yield (
                    f"load: hotKeyShare {load.hot_key_share:g} leaves {1 - load.hot_key_share:g} "
                    f"to other keys, and {field} is {keys}, expected at least 2: raise it, or "
                    "remove hotKeyShare"
                )


def _control_contradictions(spec: RunSpec) -> Iterator[str]:
    """Yields problems of a control whose nodes could come to hold a replica."""
    control = spec.control
    if control is None:
        return
    pools = [pool.name for pool in spec.pools]
    if control.pool not in pools:
        yield f"control: pool {control.pool!r} is not among spec.pools ({', '.join(pools)})"
    for zone in spec.zones:
        if zone.data_nodes_auto_adjust_scale_up != "Infinite":
            yield (
                f"control: zone {zone.name!r} would take its nodes, which must hold nothing; give "
                "the zone dataNodesAutoAdjustScaleUp: Infinite"
            )
    for fault in spec.faults:
        if isinstance(fault, ScaleSpec) and fault.pool == control.pool:
            yield f"control: fault {fault.name!r} scales its pool {control.pool!r}; name another"


def _hold_contradictions(fault: AnyFault, later: list[str]) -> Iterator[str]:
    here = f"fault {fault.name!r}"
    if fault.held_until is None:
        return
    if fault.held_until not in later:
        yield (
            f"{here}: heldUntil names {fault.held_until!r}, which is no later fault "
            f"({', '.join(later) or 'there is none'})"
        )
    if fault.hold_s or fault.times > 1:
        yield f"{here}: heldUntil can't be combined with holdSeconds or times"


def _bound_contradictions(fault: AnyFault, after: Sequence[AnyFault]) -> Iterator[str]:
    """Yields a problem of a fault that would end by itself before the one that it is held until."""
    names = [each.name for each in after]
    if not isinstance(fault, Bounded) or fault.held_until not in names:
        return
    between = after[: names.index(fault.held_until)]
    triggers = (each.trigger for each in after[: len(between) + 1])
    waited_s = [t.after_s for t in triggers if isinstance(t, AfterTime) and t.since is not None]
    least_s = max([sum(map(least_duration_s, between)), *waited_s])
    if least_s > HELD_AT_MOST_S:
        yield (
            f"fault {fault.name!r}: {fault.held_until!r} comes after {least_s:g} s at least, and a "
            f"{fault_type(fault)} that is held ends by itself after {HELD_AT_MOST_S:g} s: hold it "
            "until an earlier fault, or make those between shorter"
        )


def _fault_contradictions(
    fault: AnyFault, pools: list[str], zones: list[str], earlier: list[str]
) -> Iterator[str]:
    here = f"fault {fault.name!r}"
    if isinstance(fault, RollingRestartSpec) and fault.pool is not None and fault.nodes:
        yield f"{here}: expected either pool or nodes, and not both"
    target: FaultTarget | None = getattr(fault, "target", None)
    pool = target.pool if target is not None else getattr(fault, "pool", None)
    if pool is not None and pool not in pools:
        yield f"{here}: pool {pool!r} is not among spec.pools ({', '.join(pools)})"
    zone = getattr(fault.trigger, "zone", None)
    if zone is not None and zone not in zones:
        yield f"{here}: zone {zone!r} is not among spec.zones ({', '.join(zones)})"
    if isinstance(fault.trigger, AfterTime) and fault.trigger.since not in (None, *earlier):
        yield (
            f"{here}: since names {fault.trigger.since!r}, which is no earlier fault "
            f"({', '.join(earlier) or 'there is none'})"
        )
    if isinstance(fault.trigger, OnStage):
        other = fault.trigger.other_partition_than
        if other is not None and other not in earlier:
            yield (
                f"{here}: otherPartitionThan names {other!r}, which is no earlier fault "
                f"({', '.join(earlier) or 'there is none'})"
            )
        if not fault.trigger.stages:
            yield f"{here}: the trigger's stages are empty, so it can never fire: name at least one"
        if fault.trigger.min_progress > fault.trigger.max_progress:
            yield f"{here}: minProgress is above maxProgress, so the trigger can never fire"
    if isinstance(fault, LinkFaultSpec):
        yield from _link_contradictions(fault)
    if isinstance(fault, SlowDiskSpec) and fault.calls is DiskCalls.WRITES and not fault.files:
        yield (
            f"{here}: calls: writes without files would delay writes to connections, too: name "
            "the files, as in files: [/data/member/wal/*.wal]"
        )
    if target is None:
        return
    if (target.role is TargetRole.NODES) != bool(target.nodes):
        yield f"{here}: target.nodes belong to role 'nodes', and to no other"
    if (target.role is TargetRole.NODE) != (target.node is not None):
        yield f"{here}: target.node belongs to role 'node', and to no other"
    if target.count > 1 and target.role in (TargetRole.ALL, TargetRole.NODE, TargetRole.NODES):
        yield (
            f"{here}: target.count is {target.count}, and role {target.role.value!r} targets all "
            "that it names: leave it out, or choose role 'any'"
        )
    if target.pool is not None and target.role is TargetRole.NODES:
        yield f"{here}: target.pool does not belong to role 'nodes', which names each of them"
    if isinstance(fault.trigger, OnKey) and fault.trigger.empty and _of_nodes(fault.trigger):
        yield f"{here}: the trigger wants its key to be empty, and to have nodes: choose one"
    if target.role is TargetRole.CATCHING_UP_PEER and not isinstance(fault.trigger, OnStage):
        yield f"{here}: a catching-up peer needs a trigger 'when: stage'"


def _reset_contradictions(fault: ResetByHandSpec, spec: RunSpec) -> Iterator[str]:
    here = f"fault {fault.name!r}"
    zones = {zone.name: zone for zone in spec.zones}
    if fault.zone is None and len(zones) > 1:
        yield f"{here}: needs a zone, since there are {', '.join(zones)}"
        return
    zone = spec.zones[0] if fault.zone is None else zones.get(fault.zone)
    if zone is None:
        yield f"{here}: zone {fault.zone!r} is not among spec.zones ({', '.join(zones)})"
        return
    beyond = [number for number in fault.partitions if number >= zone.partitions]
    if beyond:
        last = zone.partitions - 1
        yield f"{here}: zone {zone.name!r} has no partition {beyond[0]}, only 0 to {last}"


def _link_contradictions(fault: LinkFaultSpec) -> Iterator[str]:
    here = f"fault {fault.name!r}"
    if (fault.target is None) == (fault.between is None):
        yield f"{here}: expected either target or between, and not both"
    if fault.between is not None and not all(fault.between):
        yield f"{here}: a side of between is empty, so the fault would affect no link"
    traffic = getattr(fault, "cut", None) or getattr(fault, "traffic", None)
    if fault.between is not None and traffic is Traffic.CONTROL:
        yield f"{here}: no data node is an API server: remove between, and name a target"
    if isinstance(fault, NetworkSlowSpec):
        if not (fault.delay_ms or fault.bytes_per_second):
            yield f"{here}: expected delayMilliseconds or bytesPerSecond"
        if fault.jitter_ms > fault.delay_ms:
            yield f"{here}: jitterMilliseconds is above delayMilliseconds"
