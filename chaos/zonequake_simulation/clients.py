"""Clients in virtual time: the real rules of the load's client, histories in memory.

A client has one routing table and several processes, each with one operation at a time, as a load
pod has. What a process does next is decided by `zonequake_load.routing.attempts` alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from zonequake_load.operation import (
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.pod.history import (
    HistoryClock,
    HistoryEvent,
    OperationRole,
    RecordedCall,
    event_of,
)
from zonequake_load.pod.workload.shares import LastValues
from zonequake_load.routing.attempts import PAUSE_FLOOR, Attempts, ClientState, Pause, SendRequest
from zonequake_load.routing.routing_table import RoutingTable
from zonequake_protocol.client import Reply, Route, partition_of
from zonequake_simulation import transactions
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.network import Network
from zonequake_simulation.replicas import ZONE
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.serializability import ObservedOperation
from zonequake_simulation.trace import TraceKind
from zonequake_simulation.world import VirtualTimer, World

DEADLINE_US = 3_000_000
ATTEMPT_US = 600_000
ROUTES_PAUSE_US = 150_000
ROUTES_IDLE_US = 1_000_000
_BOUNDS_MS = (0, 300, 1_000, 3_000)
"""Staleness bounds of bounded reads; 0: any age."""
REGISTERS, LISTS = 3, 2
"""Keys of a partition: few, so that operations meet."""


class SimulatedClients:
    """All clients of a run behind one routing table, and the history of what they did."""

    def __init__(
        self,
        *,
        world: World,
        network: Network,
        nodes: dict[str, SimulatedNode],
        scenario: Scenario,
        certainly_failed: Callable[[OnceId], None],
    ) -> None:
        """`certainly_failed` is called for transactions that never happened."""
        self.name = "client"
        self.certainly_failed = certainly_failed
        self.history: list[HistoryEvent] = []
        self.quiet = False
        """Whether no process begins another operation by itself."""
        self.table = RoutingTable(ZONE)
        self.under_way: dict[int, _Run] = {}
        self.told: list[ObservedOperation] = []
        """The operations and their answers, if the scenario has transactions."""
        self._world = world
        self._network = network
        self._nodes = nodes
        self._scenario = scenario
        self._random = world.stream("clients")
        self._routing = world.stream("routes")
        self.client_state = ClientState(
            routes_wanted=self._want_routes, way_changed=self.way_changed
        )
        self._clock = HistoryClock(
            name="simulation",
            monotonic_ns=lambda: world.now_us * 1000,
            wall_ns=lambda: world.now_us * 1000,
        )
        self._ids = itertools.count(1)
        self._processes = itertools.count(1)
        self._values = itertools.count(1)
        self._last_values = LastValues()
        self._refresh: VirtualTimer | None = None
        self._refresh_at_us = 0
        self._keys = [
            _key_for(f"{letter}{number}", partition, scenario.groups)
            for partition in range(scenario.groups)
            for letter, count in (("r", REGISTERS), ("l", LISTS))
            for number in range(count)
        ]
        for _ in range(scenario.processes):
            self._begin_later(_Process(next(self._processes)))
        self._refresh_in(0)

    @property
    def now_ns(self) -> int:
        """The clients' monotonic clock."""
        return self._world.now_us * 1000

    # ── operations ───────────────────────────────────────────────────────────────────────────

    def _begin_later(self, process: _Process) -> None:
        delay_us = self._random.randrange(1, 2 * self._scenario.pause_ms * 1000)
        self._world.later(delay_us, lambda: self._begin(process))

    def _begin(self, process: _Process) -> None:
        if self.quiet:
            return
        if not self.table.partitions:
            self._begin_later(process)
            return
        self.run(process, self._draw(), OperationRole.LOAD, lambda _: self._begin_later(process))

    def _draw(self) -> Operation | TransactionOperation:
        random, share = self._random, self._scenario.transactions
        if share and random.random() < share:
            return transactions.drawn(
                random, self._keys, lambda: next(self._values), self._last_values.expected
            )
        key = random.choice(self._keys)
        draw = random.random()
        if draw < 0.1:
            bound_ms = random.choice(_BOUNDS_MS)
            return Operation(f=Function.READ, key=key, bounded=True, max_staleness_ms=bound_ms)
        if draw < 0.4:
            return Operation(f=Function.READ, key=key)
        value = next(self._values)
        if key.startswith("l"):
            return Operation(f=Function.APPEND, key=key, value=value)
        if draw < 0.6:
            expected = self._last_values.expected(key)
            return Operation(f=Function.CAS, key=key, value=value, expected=expected)
        return Operation(f=Function.WRITE, key=key, value=value)

    def run(
        self,
        process: _Process,
        operation: Operation | TransactionOperation,
        role: OperationRole,
        ended: Callable[[Outcome], None],
    ) -> None:
        """Carries out an operation; `ended` gets its outcome."""
        process.operations += 1
        name = f"{process.id}-{process.operations}"
        once = OnceId(str(process.id), process.operations)
        steps = transactions.steps_of(operation)
        if isinstance(operation, TransactionOperation):
            what = "transactions"
            calls = [self._call(step, next(self._processes), name, role) for step in steps]
        else:
            what = "operations"
            calls = [self._call(operation, process.id, name, role)]
        for call in calls:
            self._note(call, Type.INVOKE, None)
        told = transactions.begun(name, operation, self._world.now_us)
        if self._scenario.transactions:
            self.told.append(told)

        def finished(outcome: Outcome) -> None:
            del self.under_way[id(run)]
            transactions.ended(told, operation, outcome, self._world.now_us)
            for call, each in zip(calls, transactions.outcomes_of(operation, outcome), strict=True):
                self._note(call, each.type, each)
                if each.type is Type.OK:
                    step = call.operation
                    assert isinstance(step, Operation)
                    value = each.value if step.f is Function.READ else step.value
                    self._last_values.saw(step.key, value)
            self._world.tally[f"{what} {outcome.type.value}"] += 1
            if isinstance(operation, TransactionOperation) and outcome.type is Type.FAIL:
                self.certainly_failed(once)
            if outcome.type is Type.INFO:
                process.id, process.operations = next(self._processes), 0
            ended(outcome)

        attempts = Attempts(
            operation,
            Limits(
                deadline_ns=self.now_ns + DEADLINE_US * 1000,
                attempt_ns=ATTEMPT_US * 1000,
                retry=True,
            ),
            once=None if transactions.only_reads(operation) else once,
            table=self.table,
            client_state=self.client_state,
            rng=self._random,
            reads_anywhere=False,
        )
        run = _Run(self, attempts, call, finished)
        self.under_way[id(run)] = run
        run.go_on()

    def _call(self, step: Operation, process: int, name: str, role: OperationRole) -> RecordedCall:
        return RecordedCall(
            operation=step,
            process=process,
            op=f"{process}-{name}",
            role=role,
            partition=self.table.partition_of(step.key),
            sched_ns=self.now_ns,
            inv_ns=self.now_ns,
        )

    def final(self, ended: Callable[[Operation, Outcome], None]) -> int:
        """Writes once to each partition, then reads every key, each by a separate process; returns
        the number of operations that end."""
        keys = list(self._keys)

        def read(key: str) -> None:
            operation = Operation(f=Function.READ, key=key)
            self.run(
                _Process(next(self._processes)),
                operation,
                OperationRole.FINAL,
                lambda outcome: ended(operation, outcome),
            )

        def write(operation: Operation, partition: int) -> None:
            def written(outcome: Outcome) -> None:
                ended(operation, outcome)
                for key in keys:
                    if partition_of(key, self._scenario.groups) == partition:
                        read(key)

            self.run(_Process(next(self._processes)), operation, OperationRole.LOAD, written)

        for partition in range(self._scenario.groups):
            key = next(k for k in keys if partition_of(k, self._scenario.groups) == partition)
            write(Operation(f=Function.WRITE, key=key, value=next(self._values)), partition)
        return len(keys) + self._scenario.groups

    def _note(self, call: RecordedCall, type_: Type, outcome: Outcome | None) -> None:
        self.history.append(event_of(call, type_, outcome, zone=ZONE, clock=self._clock))
        if self._world.tracing:
            operation = call.operation
            assert isinstance(operation, Operation)
            text = f"{operation.f.value} {operation.key}"
            if operation.value is not None:
                text += f" {operation.value}"
            if outcome is not None:
                text += f" → {outcome.type.value}"
                if outcome.type is Type.OK and operation.f is Function.READ:
                    text += " nothing" if outcome.value is None else f" {outcome.value}"
            self._world.note(
                TraceKind.INVOKE if outcome is None else TraceKind.RETURN,
                _lane(call.process),
                text,
                key=operation.key,
                since_us=None if outcome is None else call.inv_ns // 1000,
            )

    # ── one attempt ──────────────────────────────────────────────────────────────────────────

    def ask(self, ask: SendRequest, run: _Run) -> None:
        """Sends a request; its reply or silence goes to `run`."""
        id_ = next(self._ids)
        body, address = ask.body, ask.address
        assert not isinstance(body, Route), "routes are asked for elsewhere"
        node = self._nodes[address]

        def answer(reply: Reply) -> None:
            self._network.send(
                address,
                self.name,
                lambda: f"REPLY {reply.status.value}",
                lambda: run.answered(id_, reply),
                key=run.key,
                told=(address, run.lane),
            )

        run.waits_for = id_
        run.timer = self._world.later(max(1, int(ask.timeout_s * 1e6)), lambda: run.unanswered(id_))
        self._network.send(
            self.name,
            address,
            lambda: f"{type(body).__name__} {run.key}",
            lambda: node.request(body.group, id_, body, answer),
            key=run.key,
            told=(run.lane, address),
        )

    def later(self, delay_us: int, action: Callable[[], None]) -> VirtualTimer:
        """Schedules an event in virtual time."""
        return self._world.later(delay_us, action)

    # ── routes ───────────────────────────────────────────────────────────────────────────────

    def way_changed(self) -> None:
        """Wakes the operations that wait for a leader, since the table names another one."""
        for run in list(self.under_way.values()):
            run.hear()

    def _want_routes(self) -> None:
        self._refresh_in(ROUTES_PAUSE_US)

    def _refresh_in(self, delay_us: int) -> None:
        at_us = self._world.now_us + delay_us
        if self._refresh is not None:
            if self._refresh_at_us <= at_us:
                return
            self._refresh.cancel()
        self._refresh_at_us = at_us
        self._refresh = self._world.later(delay_us, self._ask_routes)

    def _ask_routes(self) -> None:
        self._refresh = None
        for name, node in self._nodes.items():
            there = self._network.reaches(self.name, name)
            if not (there and self._network.reaches(name, self.name) and node.alive):
                continue
            if self.table.merge(node.route(), name, self.now_ns):
                self.way_changed()
        self._refresh_in(ROUTES_IDLE_US if self.table.partitions else ROUTES_PAUSE_US)


class _Process:
    """A logical process: one operation at a time."""

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.operations = 0


class _Run:
    """Carries out the rules' decisions for one operation."""

    def __init__(
        self,
        client: SimulatedClients,
        attempts: Attempts,
        call: RecordedCall,
        ended: Callable[[Outcome], None],
    ) -> None:
        self._client = client
        self._attempts = attempts
        self.key = call.operation.key
        self.lane = _lane(call.process)
        self._ended = ended
        self._pause: Pause | None = None
        self._listens = False
        self.waits_for = 0
        self.timer: VirtualTimer | None = None

    def go_on(self) -> None:
        """Carries out the next decision of the rules."""
        match self._attempts.next(self._client.now_ns):
            case Outcome() as outcome:
                self._ended(outcome)
            case SendRequest() as ask:
                self._client.ask(ask, self)
            case Pause() as pause:
                self._pause = pause
                floor_us = int(pause.pause_s * PAUSE_FLOOR * 1e6)
                self.timer = self._client.later(floor_us, self._listen)

    def answered(self, id_: int, reply: Reply) -> None:
        """Takes a reply, which may come twice or late."""
        if self._stop_waiting(id_):
            self._attempts.answered(reply, self._client.now_ns)
            self.go_on()

    def unanswered(self, id_: int) -> None:
        """Takes note that no reply came in time."""
        if self._stop_waiting(id_):
            self._attempts.unanswered("no reply in time", self._client.now_ns)
            self.go_on()

    def _stop_waiting(self, id_: int) -> bool:
        if self.waits_for != id_:
            return False
        self.waits_for = 0
        assert self.timer is not None, "a client that waits has a timer"
        self.timer.cancel()
        return True

    def _listen(self) -> None:
        assert self._pause is not None, "only a pause is listened in"
        self._listens = True
        rest_us = max(1, int(self._pause.pause_s * (1 - PAUSE_FLOOR) * 1e6))
        self.timer = self._client.later(rest_us, self._wake)
        self.hear()

    def hear(self) -> None:
        """Checks whether another leader is known now."""
        if self._listens:
            assert self._pause is not None, "only a pause is listened in"
            leader = self._client.table.leader(self._attempts.partition)
            if leader not in (self._pause.tried, None):
                self._wake()

    def _wake(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self._listens = False
        self._pause = None
        self.go_on()


def _lane(process: int) -> str:
    """Returns the name of a process in a trace."""
    return f"p{process}"


def _key_for(stem: str, partition: int, partitions: int) -> str:
    """Returns a key that begins with `stem` and belongs to `partition`."""
    names = itertools.chain([stem], (f"{stem}.{number}" for number in itertools.count()))
    return next(name for name in names if partition_of(name, partitions) == partition)
