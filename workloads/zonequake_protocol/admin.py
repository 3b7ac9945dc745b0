"""The admin protocol: all that the operator and the chaos runner know of a data node.

JSON over HTTP, see docs/interfaces.md. Pure message types: this module imports msgspec alone.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Stage(StrEnum):
    """Stage of a configuration change at the leader (document `rebalance`, design §4)."""

    NONE = "NONE"
    CATCHING_UP = "CATCHING_UP"
    JOINT = "JOINT"
    STABLE = "STABLE"


class ReconfigurationStatus(StrEnum):
    """The error that ended a change of peers before it was done (onReconfigurationError).

    `CATCH_UP_TIMEOUT`: a new peer said nothing for the time-out, which each of its answers renews.
    `LEADER_STEPPED_DOWN`: the leadership ended; what was JOINT already, the next leader finishes.
    `CANCELLED`: by `CancelChangePeers`. A change that a higher token replaces didn't end: it goes
    on in CATCHING_UP with other peers.
    """

    CATCH_UP_TIMEOUT = "CATCH_UP_TIMEOUT"
    LEADER_STEPPED_DOWN = "LEADER_STEPPED_DOWN"
    CANCELLED = "CANCELLED"


class ReplicaRole(StrEnum):
    """Raft role of a replica; `waiting` until its start order came, `broken` if unusable."""

    WAITING = "waiting"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"
    BROKEN = "broken"


class LeaseTrouble(StrEnum):
    """The trouble with a node's Lease that its replicas need.

    `NOT_RENEWED`: it holds, but at least one renewal came to nothing. `EXPIRED`: it doesn't hold;
    replicas of HighAvailability zones acknowledge nothing here.
    """

    NOT_RENEWED = "NotRenewed"
    EXPIRED = "Expired"


class OrderStatus(StrEnum):
    """Answer to one order.

    `received`: accepted, or already true. `busy`: a change is past CATCHING_UP, or a replica that
    is to be reset hears a leader. `stale`: an older token, term or incarnation. `not_leader`,
    `not_here`: another node must be asked. `failed`: see the reply's error.
    """

    RECEIVED = "received"
    BUSY = "busy"
    STALE = "stale"
    NOT_LEADER = "not_leader"
    NOT_HERE = "not_here"
    FAILED = "failed"


class PeerName(msgspec.Struct, frozen=True, order=True):
    """A member of a configuration: a node's name and its replica's incarnation."""

    node: str
    incarnation: str


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a data node."""

    name: str
    process_incarnation: str
    storage_incarnation: str
    pod_uid: str
    attributes: dict[str, str]
    peer_address: str
    client_address: str
    draining: bool = False
    storage_problem: str | None = None
    """The reason for which no write is taken here: `failed: …`, `full: …` or `short: …`, and what
    to do.
    """
    lease_session: int = 0
    """The session of its Lease, as the node knows it; 0: it has none, or needs none."""
    lease_problem: str | None = None
    """The reason for which it can't renew the Lease that its replicas need: the last call's
    outcome.
    """
    lease_trouble: LeaseTrouble | None = None
    lease_unrenewed_since_ms: int = 0
    """With `lease_trouble`: its last renewal, or when it first asked for one; unix ms."""


class ConfigurationReport(msgspec.Struct, frozen=True, kw_only=True):
    """A Raft configuration; `old_peers` is not empty while it is joint. `lineage`: the token of the
    last forced reset up to it."""

    peers: list[PeerName]
    old_peers: list[PeerName] = []
    token: int
    index: int
    lineage: int = 0


class CatchUpProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The leader's progress with one catching-up peer.

    `fraction` is the share of the entries that the log had when the attempt began, in 0..1; a
    snapshot stands for its entries by the share of its bytes that was sent. It never falls within
    one attempt, and is 1 when the peer has stored all of them. `bytes_sent` is all that left for
    the peer, also what it got twice. `bytes_done` of `bytes_total` are those of the transfer that
    runs now, of which `by` says what it carries: the log (to its end when the transfer began; whole
    records, because a log knows no entry's size) or the snapshot.
    """

    peer: PeerName
    fraction: float
    bytes_sent: int
    bytes_done: int = 0
    bytes_total: int = 0
    match_index: int
    by: str  # "log" or "snapshot"


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as its node sees it.

    `term` is a whole term, lineage × 10⁹ + number, as orders name it. `lineage` is that of the
    applied state, `enforced_lineage` the newest that the replica has received (by its start order,
    a message, a reset); it `abstains` while its configuration is of an older one: it neither leads
    nor votes, and acknowledges nothing to the old lineage.
    """

    group: str
    zone: str
    partition: int
    incarnation: str
    role: ReplicaRole
    term: int
    leader: str | None = None
    configuration: ConfigurationReport | None = None
    token: int = 0  # the highest token seen in an order or a configuration
    lineage: int = 0
    enforced_lineage: int = 0
    abstains: bool = False
    had_leader: bool = False  # since the replica was started in this process
    needs_lease: bool = False
    permitted_session: int = 0  # of the node's Lease, in which it may acknowledge
    catch_up_bytes_per_second: int | None = None  # of its newest start order; None: doesn't run
    stage: Stage = Stage.NONE
    stage_token: int = 0
    stage_peers: list[PeerName] = []
    caught_up: bool = False  # waits for a grant
    progress: list[CatchUpProgress] = []
    reconfiguration_error: str | None = None  # why the last change went back to NONE
    reconfiguration_status: ReconfigurationStatus | None = None  # the same, for programs
    commit: int = 0
    applied: int = 0
    lwm: int = 0  # of the update counter, as applied; also the next two
    hwm: int = 0
    ranges: list[tuple[int, int]] = []  # (start, delta), applied above lwm
    prepared: int = 0  # transactions that wait for their decision
    first_index: int = 0
    last_index: int = 0
    last_term: int = 0  # of the entry at last_index: by (last_term, last_index) logs are compared
    last_user_term: int = 0  # of the newest client's command in the log, committed or not
    last_user_index: int = 0
    last_configuration_term: int = 0  # of the newest applied one that changed peers or token
    last_configuration_index: int = 0
    broken_reason: str | None = None
    lost: bool = False  # broken since its start: what is stored of it can't be used

    @property
    def is_alive(self) -> bool:
        """Returns the answer to the document's alive request: whether the replica runs and its
        group has had a leader since (design §3, hole 9).
        """
        return self.had_leader and self.role not in (ReplicaRole.WAITING, ReplicaRole.BROKEN)

    def has_user_inputs(self, term: int, index: int) -> bool:
        """Returns the answer to its HasUserInputsRequest: whether the log holds a client's command
        after the configuration entry (whole term, index), committed or not.
        """
        return (self.last_user_term, self.last_user_index) > (term, index)


class ReplicasReport(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to GET /admin/v1/replicas."""

    node: NodeIdentity
    replicas: list[ReplicaStatus]


class StartReplica(msgspec.Struct, frozen=True, kw_only=True, tag="start_replica"):
    """Lets the replica take part from now on; creates it, passive, if there is none.

    `enforced_token`: of the partition's last forced set (the newest link of its chain, or a forced
    pending). A replica whose configuration is older abstains; the survivor waits for ResetPeers.
    """

    group: str
    zone: str
    partition: int
    partitions: int  # of the zone, so that a node can check a key's partition
    token: int
    volatile: bool = False
    fsync: bool = True
    enforced_token: int = 0
    needs_lease: bool = False
    lease_session: int = 0
    lease_holder: str = ""  # the process that has the session; another process ignores it
    catch_up_bytes_per_second: int = 0  # 0: unlimited
    addresses: dict[str, str] = {}  # node -> peer address


class InspectReplica(msgspec.Struct, frozen=True, kw_only=True, tag="inspect_replica"):
    """Fake start: look at a replica without letting it take part, and report it in the reply.

    One that waits on its disk is read, and what it has committed is replayed in memory: no
    election, no vote, no message, nothing written. One that runs is reported as it is. This order
    carries out nothing, so any token will do.
    """

    group: str
    token: int = 0


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True, tag="bootstrap"):
    """Gives a replica without log or configuration its group's first configuration.

    `lineage`: not 0 for a group that starts over because its data was lost with all replicas: the
    token of this order, so that its entries stand after all that were lost.
    """

    group: str
    token: int
    peers: list[PeerName]
    lineage: int = 0


class StopReplica(msgspec.Struct, frozen=True, kw_only=True, tag="stop_replica"):
    """Stop a redundant replica; with `erase` its log and data go too."""

    group: str
    token: int
    incarnation: str
    erase: bool = True


class ChangePeers(msgspec.Struct, frozen=True, kw_only=True, tag="change_peers"):
    """changePeersAsync(term, token, peers) of the document `rebalance`."""

    group: str
    term: int
    token: int
    peers: list[PeerName]
    addresses: dict[str, str] = {}


class ResetPeers(msgspec.Struct, frozen=True, kw_only=True, tag="reset_peers"):
    """resetPeers: the survivor goes on alone, without a majority, in a new lineage.

    `peers`: exactly the survivor. `term`: that of its last report. `busy`: it hears a leader or
    leads. Repeat it until a leader reports a configuration of lineage `token`.
    """

    group: str
    term: int
    token: int
    peers: list[PeerName]


class CancelChangePeers(msgspec.Struct, frozen=True, kw_only=True, tag="cancel_change_peers"):
    """cancelChangePeers() of the document `rebalance`: `received` is its true, `busy` its false.

    `token`: that of the change, or a higher one, which shuts out late copies of the change's order.
    """

    group: str
    term: int
    token: int


class Grant(msgspec.Struct, frozen=True, kw_only=True, tag="grant"):
    """The operator's answer to "caught up (token, peers)": go on to JOINT."""

    group: str
    term: int
    token: int
    peers: list[PeerName]


class TransferLeadership(msgspec.Struct, frozen=True, kw_only=True, tag="transfer_leadership"):
    """Hand leadership to `to`, or to the most caught-up follower."""

    group: str
    token: int
    to: str | None = None


Order = (
    StartReplica
    | InspectReplica
    | Bootstrap
    | StopReplica
    | ChangePeers
    | CancelChangePeers
    | ResetPeers
    | Grant
    | TransferLeadership
)


class OrderBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Body of POST /admin/v1/orders."""

    orders: list[Order]


class OrderReply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one order."""

    status: OrderStatus
    error: str | None = None
    incarnation: str | None = None  # of the replica, after a start
    replica: ReplicaStatus | None = None  # after an inspection


class OrderReplies(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to POST /admin/v1/orders."""

    process_incarnation: str
    replies: list[OrderReply]


class StoreEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of GET /admin/v1/events; kinds and data as in docs/interfaces.md, "Events"."""

    seq: int
    kind: str
    time: int
    wall: int
    clock: str
    zone: str | None = None
    partition: int | None = None
    data: dict[str, object] = {}


class ReplicaSize(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to GET /admin/v1/replicas/{group}/size: what another copy of the replica would take.

    `log_bytes` is None if the beginning of its log is gone: a new peer gets the state then.
    """

    group: str
    index: int  # of the newest entry in the state
    state_bytes: int
    log_bytes: int | None = None

    @property
    def copy_bytes(self) -> int:
        """The size of the data that one new peer would be sent, in bytes."""
        return self.state_bytes if self.log_bytes is None else self.log_bytes


class DumpHeader(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a replica dump."""

    group: str
    node: str
    incarnation: str
    applied: int
    term: int
    lineage: int
    digest: str
    keys: int
    lwm: int = 0
    hwm: int = 0
    ranges: list[tuple[int, int]] = []  # (start, delta)


class DumpEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a replica dump: a register's value or an append-list's elements."""

    key: str
    value: int | str | list[int] | None
    index: int  # of the entry that wrote it last
    filler_bytes: int = 0
