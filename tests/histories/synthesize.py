"""Writes valid histories of any size, as the load would, and operations to plant into them.

A history is valid by construction: operations take effect at chosen instants in one order, and an
operation's interval contains its instant. Used by tests, by the benchmark, and to look at a report
without a cluster. Anomalies to plant are in `tests.histories.anomalies`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import msgspec

from zonequake_analysis.inputs.shapes import Function, RoleCode

ZONE = "z1"
START_NS = 1_000_000_000_000
WALL_OFFSET_NS = 1_700_000_000_000_000_000
INDEX_STEP = 1000
"""Distance of two entries' indexes, so that planted operations find room between them."""

MOST_INDEX = 2**32 - 1
"""Largest index that the analysis takes (docs/analysis.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticOperation:
    """One operation to be written as an invoke and its completion.

    `type` is ok, fail, info, or invoke for one that was cut off. Times in monotonic ns.
    """

    f: Function
    key: str
    partition: int
    process: int
    inv_ns: int
    fin_ns: int
    type: str = "ok"
    value: int | list[int] | None = None
    expected: int | None = None
    found: int | None = None
    applied: bool | None = None
    index: int | None = None
    term: int = 1
    lineage: int = 0
    role: RoleCode = RoleCode.LOAD
    bounded: bool = False
    sequence: int = 0
    sched_ns: int | None = None
    zone: str = ZONE
    node: str | None = "zq-default-0"


def lines(operation: SyntheticOperation) -> Iterator[bytes]:
    """The operation's lines: the invoke, then the completion unless it was cut off."""
    o = operation
    asked = None if o.f is Function.READ else o.value
    ok = o.type == "ok"

    def line(type_: str, time_ns: int, answer: Mapping[str, object]) -> bytes:
        return msgspec.json.encode(
            {
                "schema": 1,
                "type": type_,
                "f": o.f.name.lower(),
                "process": o.process,
                "op": f"{o.process}-{o.sequence}",
                "role": o.role.name.lower(),
                "zone": o.zone,
                "partition": o.partition,
                "key": o.key,
                "value": answer.get("value", asked),
                "expected": o.expected,
                "applied": answer.get("applied"),
                "found": answer.get("found"),
                "sched": o.inv_ns if o.sched_ns is None else o.sched_ns,
                "inv": o.inv_ns,
                "time": time_ns,
                "wall": time_ns + WALL_OFFSET_NS,
                "clock": "synthetic",
                **{name: answer.get(name) for name in ("node", "lineage", "term", "index")},
                "read": ("bounded" if o.bounded else "linearizable")
                if o.f is Function.READ
                else None,
                "attempts": answer.get("attempts"),
                "error": answer.get("error"),
            }
        )

    yield line("invoke", o.inv_ns, {})
    if o.type == "invoke":
        return
    answer: dict[str, object] = {
        "applied": o.applied,
        "found": o.found,
        "node": o.node,
        "attempts": 1,
    }
    if ok:
        answer["value"] = o.value
    else:
        answer["error"] = "timed out"
    if ok and o.index is not None:
        answer |= {"lineage": o.lineage, "term": o.term, "index": o.index}
    yield line(o.type, o.fin_ns, answer)


def write_operations(file: Path, operations: Iterable[SyntheticOperation]) -> None:
    """Writes operations to one history file, in the order of their lines' times."""
    stamped: list[tuple[int, bytes]] = []
    for operation in operations:
        both = list(lines(operation))
        stamped.append((operation.inv_ns, both[0]))
        stamped.extend((operation.fin_ns, line) for line in both[1:])
    stamped.sort(key=lambda pair: pair[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(line + b"\n" for _, line in stamped))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a generated history looks like. `rate` is in operations per second.

    Of the operations on registers `reads` read and `cas` compare and swap; `lists` is the share of
    all operations that go to append-lists. `unknown` of the writes have no outcome, `cut_off` of
    those no completion either. `stale` of the reads miss the newest write: no valid history.
    """

    operations: int
    partitions: int = 16
    keys: int = 64
    processes: int = 32
    files: int = 2
    rate: float = 2000.0
    reads: float = 0.5
    cas: float = 0.05
    lists: float = 0.1
    list_length: int = 20
    unknown: float = 0.005
    cut_off: float = 0.1
    stale: float = 0.0
    seed: int = 1

    @property
    def index_step(self) -> int:
        """Distance of two entries' indexes; less where a partition has more than 2 million."""
        return max(1, min(INDEX_STEP, MOST_INDEX * self.partitions // (2 * self.operations)))


def synthesize(run: Path, shape: Shape) -> None:
    """Writes a history of registers and append-lists, with final reads, under `run`.

    It is valid unless `shape.stale` spoils it. Each file has its own partitions and processes, so
    the files are written in parallel.
    """
    (run / "history").mkdir(parents=True, exist_ok=True)
    if shape.files == 1:
        _write_file(run, shape, 0)
        return
    spawn = get_context("spawn")
    with ProcessPoolExecutor(max_workers=min(shape.files, 2), mp_context=spawn) as pool:
        for written in [pool.submit(_write_file, run, shape, i) for i in range(shape.files)]:
            written.result()


def _write_file(run: Path, shape: Shape, ordinal: int) -> None:
    """One file: every `shape.files`-th operation, on every `shape.files`-th partition."""
    rng = random.Random(shape.seed * 1000 + ordinal)
    partitions = [p for p in range(shape.partitions) if p % shape.files == ordinal]
    writer = _Writer(shape, rng, ordinal, partitions)
    with (run / "history" / f"load-{ordinal}.jsonl").open("wb", buffering=1 << 20) as stream:
        for number in range(ordinal, shape.operations, shape.files):
            stream.write(writer.operation(number).encode())
        for line in writer.final_reads():
            stream.write(line + b"\n")


class _Writer:
    """What one file's partitions hold, and the text of the operations on them."""

    def __init__(
        self, shape: Shape, rng: random.Random, ordinal: int, partitions: list[int]
    ) -> None:
        self._shape = shape
        self._rng = rng
        self._partitions = partitions
        self._gap_ns = int(1e9 / shape.rate)
        self._processes = list(range(ordinal, shape.processes * shape.files, shape.files))
        self._next_process = shape.processes * shape.files + ordinal
        self._registers: dict[tuple[int, int], int] = {}
        self._lists: dict[tuple[int, int, int], list[int]] = {}
        self._generation: dict[tuple[int, int], int] = {}
        # Of each key what was there before its newest write, as the place and as a read shows it.
        self._before: dict[str, tuple[int, object]] = {}
        self._stale = random.Random(rng.random()) if shape.stale else None
        self._index = dict.fromkeys(partitions, 0)
        self._keys_each = max(1, shape.keys // shape.partitions)
        # An operation takes at most this long on each side of its instant, so that a process has
        # one outstanding at a time.
        self._side_ns = min(4e6, 0.45 * shape.processes * shape.files * self._gap_ns)

    def operation(self, number: int) -> str:
        """Both lines of the operation that takes effect at instant `number`."""
        shape, rng = self._shape, self._rng
        at = START_NS + number * self._gap_ns
        slot = (number // shape.files) % len(self._processes)
        process = self._processes[slot]
        inv = at - int(self._side_ns * rng.random() ** 3) - 1000
        fin = at + int(self._side_ns * rng.random() ** 3) + 1000
        partition = self._partitions[int(rng.random() * len(self._partitions))]
        key = int(rng.random() * self._keys_each)
        kind, write = "ok", False
        value: object = "null"
        expected = found = applied = "null"
        asked: object = "null"
        new = number + 1
        if rng.random() < shape.lists:
            generation = self._generation.get((partition, key), 0)
            elements = self._lists.setdefault((partition, key, generation), [])
            if len(elements) >= shape.list_length:
                generation += 1
                self._generation[partition, key] = generation
                elements = self._lists[partition, key, generation] = []
            name = f"l{partition}-{key}-{generation}"
            if rng.random() < shape.reads:
                f = "read"
                value = str(elements).replace(" ", "") if elements else "null"
            else:
                f, write, value, asked = "append", True, new, new
        else:
            name = f"r{partition}-{key}"
            state = self._registers.get((partition, key))
            draw = rng.random()
            if draw < shape.reads:
                f, value = "read", state or "null"
            elif draw < shape.reads + shape.cas:
                f, value, asked = "cas", new, new
                write = rng.random() < 0.7
                expected = str(state or "null") if write else str(new + 10**12)
                applied = "true" if write else "false"
                found = "null" if write else str(state or "null")
            else:
                f, write, value, asked = "write", True, new, new
        if write and rng.random() < shape.unknown:
            kind = "info"
            fin = at + 5_000_000_000
            self._processes[slot], self._next_process = (
                self._next_process,
                self._next_process + shape.files,
            )
            if rng.random() < 0.5:
                write = False
        place = self._index[partition]
        if f == "read" and self._stale is not None and self._stale.random() < shape.stale:
            place, value = self._before.get(name, (place, value))
        if write:
            if self._stale is not None:
                self._before[name] = (place, self._shown(partition, key, is_list=f == "append"))
            place = self._index[partition] = place + 1
            if f == "append":
                elements.append(new)
            else:
                self._registers[partition, key] = new
        read = '"linearizable"' if f == "read" else "null"
        head = (
            f'"f":"{f}","process":{process},"op":"{process}-{number}","role":"load",'
            f'"zone":"{ZONE}","partition":{partition},"key":"{name}"'
        )
        begun = f'"sched":{inv},"inv":{inv}'

        def line(type_: str, shown: object, answer: str, time_ns: int, end: str) -> str:
            return (
                f'{{"schema":1,"type":"{type_}",{head},"value":{shown},"expected":{expected},'
                f'{answer},{begun},"time":{time_ns},"wall":{time_ns + WALL_OFFSET_NS},'
                f'"clock":"synthetic",{end}}}\n'
            )

        silent, nowhere = '"applied":null,"found":null', '"lineage":null,"term":null,"index":null'
        nobody = f'"node":null,{nowhere},"read":{read}'
        invoke = line("invoke", asked, silent, inv, f'{nobody},"attempts":null,"error":null')
        if kind == "info":
            if rng.random() < shape.cut_off:
                return invoke
            gave_up = f'{nobody},"attempts":3,"error":"timed out"'
            return invoke + line("info", asked, silent, fin, gave_up)
        end = (
            f'"node":"zq-default-{partition % 3}","lineage":0,"term":1,'
            f'"index":{place * shape.index_step},"read":{read},"attempts":1,"error":null'
        )
        return invoke + line("ok", value, f'"applied":{applied},"found":{found}', fin, end)

    def _shown(self, partition: int, key: int, *, is_list: bool) -> object:
        """What a read of the key shows by now, as JSON."""
        if not is_list:
            return self._registers.get((partition, key)) or "null"
        elements = self._lists[partition, key, self._generation.get((partition, key), 0)]
        return str(elements).replace(" ", "") if elements else "null"

    def final_reads(self) -> Iterator[bytes]:
        """Every key, read by two processes after everything else."""
        at = START_NS + self._shape.operations * self._gap_ns + 20_000_000_000
        everything: list[tuple[int, str, int | list[int] | None]] = [
            (partition, f"r{partition}-{key}", value)
            for (partition, key), value in self._registers.items()
        ]
        everything += [
            (partition, f"l{partition}-{key}-{generation}", elements or None)
            for (partition, key, generation), elements in self._lists.items()
        ]
        for twice in range(2):
            process, self._next_process = self._next_process, self._next_process + self._shape.files
            for sequence, (partition, key, value) in enumerate(everything):
                yield from lines(
                    SyntheticOperation(
                        f=Function.READ,
                        key=key,
                        partition=partition,
                        process=process,
                        sequence=sequence,
                        inv_ns=at + sequence * 100_000 + twice,
                        fin_ns=at + sequence * 100_000 + 50_000,
                        value=value,
                        index=self._index[partition] * self._shape.index_step,
                        role=RoleCode.FINAL,
                    )
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Probes of `partition` sent within [start_s, end_s) of the run fail at these vantages."""

    partition: int
    start_s: float
    end_s: float
    vantages: tuple[int, ...] = (0, 1)
    reads: bool = True
    writes: bool = True


def synthesize_probes(
    run: Path,
    *,
    partitions: int,
    duration_s: float,
    outages: Iterable[Outage] = (),
    interval_ms: int = 100,
    vantages: int = 2,
) -> None:
    """Writes one probe file per vantage: a read and a write per partition and interval, and in
    the end a final read of what was written."""
    failing = list(outages)
    for vantage in range(vantages):
        operations = []
        process = 10**9 * (vantage + 1)
        newest: dict[int, int] = {}
        for tick in range(int(duration_s * 1000 / interval_ms)):
            at_s = tick * interval_ms / 1000 + vantage * interval_ms / 2000
            sched = START_NS + int(at_s * 1e9)
            for partition in range(partitions):
                for f in (Function.WRITE, Function.READ):
                    process += 1
                    out = any(
                        o.partition == partition
                        and o.start_s <= at_s < o.end_s
                        and vantage in o.vantages
                        and (o.writes if f is Function.WRITE else o.reads)
                        for o in failing
                    )
                    write = f is Function.WRITE
                    operations.append(
                        SyntheticOperation(
                            f=f,
                            key=f"p{partition}-{vantage}-{'w' if write else 'r'}",
                            partition=partition,
                            process=process,
                            inv_ns=sched + 10_000,
                            sched_ns=sched,
                            fin_ns=sched + (500_000_000 if out else 2_000_000),
                            type="info" if out else "ok",
                            value=process if write else None,
                            index=None if out else process,
                            role=RoleCode.PROBE,
                        )
                    )
                    if write and not out:
                        newest[partition] = process
        end_ns = START_NS + int(duration_s * 1e9) + 10**9
        operations += [
            SyntheticOperation(
                f=Function.READ,
                key=f"p{partition}-{vantage}-w",
                partition=partition,
                process=process + 1 + partition,
                inv_ns=end_ns,
                fin_ns=end_ns + 1_000_000,
                value=value,
                index=process + 1 + partition,
                role=RoleCode.FINAL,
            )
            for partition, value in newest.items()
        ]
        write_operations(run / "history" / f"probe-{vantage}.jsonl", operations)
