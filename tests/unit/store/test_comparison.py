"""Members compare their counters: who is broken, and who isn't."""

from __future__ import annotations

from typing import cast

from zonequake_store.catch_up.checkpoints import Checkpoints
from zonequake_store.catch_up.comparison import Comparison
from zonequake_store.catch_up.demander import REPEAT_TICKS
from zonequake_store.catch_up.messages import Checkpoint, Report, ReportVerdict
from zonequake_store.raft.api import RaftRole
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.partition import AppliedState, StateMachine
from zonequake_store.state.transactions import TransactionTable
from zonequake_store.storage.cells import MemoryCells


class Standing:
    """What a comparison asks of a core."""

    def __init__(self, group: Group, me: Peer) -> None:
        self.group, self.me, self.term = group, me, 3
        self.leader: Peer | None = group.leader

    @property
    def role(self) -> RaftRole:
        return RaftRole.LEADER if self.leader == self.me else RaftRole.FOLLOWER

    @property
    def configuration(self) -> Configuration:
        return Configuration(peers=self.group.peers, token=1)

    def status(self) -> Standing:
        return self


class Member:
    """One replica that compares."""

    def __init__(self, group: Group, me: Peer) -> None:
        self.group, self.me = group, me
        self.checkpoints = Checkpoints()
        self.broken: str | None = None
        self.current = Checkpoint()
        self.standing = Standing(group, me)
        self.comparison = self.new_comparison()

    def new_comparison(self) -> Comparison:
        return Comparison(
            group="z.0.0",
            me=self.me,
            raft=cast("Raft", self.standing),
            checkpoints=self.checkpoints,
            edge=self,
        )

    def checkpoint(self) -> Checkpoint:
        return self.current

    def send(self, frame: Report | ReportVerdict) -> None:
        self.group.sent.append(frame)
        to = self.group.members[frame.to.node]
        if frame.to.node in self.group.down or to.broken:
            return
        if isinstance(frame, Report):
            to.comparison.reported(frame)
        else:
            to.comparison.judged(frame)

    def break_down(self, reason: str) -> None:
        self.broken = reason

    def stand_at(self, index: int, lwm: int) -> None:
        """It has applied so much by now, and no configuration lately."""
        self.current = Checkpoint(index, lwm, lwm)

    def restart(self) -> None:
        self.checkpoints.clear()
        self.comparison = self.new_comparison()
        self.comparison.applied()

    def apply(self, index: int, lwm: int) -> None:
        self.stand_at(index, lwm)
        self.checkpoints.record(
            StateMachine(
                MemoryCells(),
                clients=ClientTable(),
                transactions=TransactionTable(),
                state=AppliedState(index=index, lwm=lwm, hwm=lwm),
            )
        )
        self.comparison.applied()


class Group:
    """Replicas a, b, c, …; a leads. Each has applied a configuration at entry 9."""

    def __init__(self, *counters: int, down: str = "") -> None:
        names = "abcde"[: len(counters)]
        self.peers = tuple(Peer(name, "1") for name in names)
        self.leader = self.peers[0]
        self.down = set(down)
        self.sent: list[Report | ReportVerdict] = []
        self.members = {peer.node: Member(self, peer) for peer in self.peers}
        for peer, lwm in zip(self.peers, counters, strict=True):
            if peer.node not in self.down:
                self.members[peer.node].apply(9, lwm)

    def tick(self, count: int) -> None:
        for _ in range(count):
            for name, member in self.members.items():
                if name not in self.down and not member.broken:
                    member.comparison.tick()

    @property
    def broken(self) -> str:
        return "".join(name for name, member in self.members.items() if member.broken)


def test_equal_counters_break_no_replica_and_none_goes_on_reporting() -> None:
    group = Group(5, 5, 5)
    group.tick(REPEAT_TICKS)
    assert group.broken == ""
    count = len(group.sent)
    group.tick(5 * REPEAT_TICKS)
    assert len(group.sent) == count


def test_a_follower_that_differs_from_the_others_is_broken_and_told_both_counters() -> None:
    group = Group(5, 5, 4)
    group.tick(REPEAT_TICKS)
    assert group.broken == "c"
    reason = group.members["c"].broken or ""
    assert "low watermark 4, high 4, ranges [] on c" in reason
    assert "low watermark 5, high 5, ranges [] on a" in reason


def test_a_leader_that_differs_from_the_others_is_the_broken_one() -> None:
    group = Group(4, 5, 5)
    group.tick(REPEAT_TICKS)
    assert group.broken == "a"
    assert "on b" in (group.members["a"].broken or "")


def test_nothing_is_decided_while_a_majority_is_missing() -> None:
    group = Group(4, 5, 5, down="c")
    group.tick(20 * REPEAT_TICKS)
    assert group.broken == "", "a or b: it isn't known yet"
    group.down.clear()
    group.members["c"].apply(9, 5)
    assert group.broken == "a"


def test_most_of_those_that_are_there_are_no_majority_of_all_members() -> None:
    group = Group(4, 4, 5, 5, 5, down="de")
    group.tick(20 * REPEAT_TICKS)
    assert group.broken == "", "c is sound: it is a and b that lost an update"
    group.down.clear()
    for name in "de":
        group.members[name].apply(9, 5)
    assert group.broken == "a"


def test_where_no_majority_agrees_the_leader_is_right() -> None:
    assert Group(5, 4).broken == "b"
    group = Group(5, 4, 3)
    group.tick(REPEAT_TICKS)
    assert group.broken == "bc"


def test_a_report_of_an_older_entry_is_answered_and_judges_no_replica() -> None:
    group = Group(5, 5, 5)
    group.members["a"].apply(12, 6)
    group.sent.clear()
    group.members["b"].comparison.applied()
    assert isinstance(group.sent[-1], ReportVerdict)
    assert group.sent[-1].unequal is None
    assert group.broken == ""


def test_a_report_that_comes_before_its_leader_applied_the_entry_is_repeated() -> None:
    group = Group(5, 5, 5)
    group.members["b"].apply(12, 6)
    assert group.members["b"].comparison.is_waiting
    group.members["a"].apply(12, 6)
    group.members["c"].apply(12, 6)
    group.tick(REPEAT_TICKS)
    assert not group.members["b"].comparison.is_waiting


def test_who_is_no_member_has_no_voice() -> None:
    group = Group(5, 5, 5)
    stranger = Report("z.0.0", group.leader, Peer("x", "1"), 3, Checkpoint(9, 1, 1))
    group.members["a"].comparison.reported(stranger)
    assert group.broken == ""


def test_a_leader_is_agreed_with_once_most_members_have_its_counters() -> None:
    def is_agreed(group: Group) -> bool:
        return group.members["a"].comparison.is_agreed

    assert is_agreed(Group(5)), "there is no other member"
    assert is_agreed(Group(5, 5, 5))
    assert not is_agreed(Group(5, 5, 5, down="bc"))
    assert not is_agreed(Group(4, 5, 5, down="c"))
    group = Group(5, 5, 5)
    group.members["a"].apply(12, 6)
    assert not is_agreed(group), "each entry is compared anew"
    group.members["b"].apply(12, 6)
    assert is_agreed(group)


def test_a_copy_that_comes_back_alone_is_compared_when_the_leader_has_applied_the_same() -> None:
    group = Group(5, 5, 5)
    leader, back = group.members["a"], group.members["c"]
    leader.stand_at(20, 16)
    back.stand_at(18, 13)
    back.restart()
    assert back.comparison.is_waiting, "the leader is not there any more, and can't say"
    back.stand_at(20, 15)
    group.tick(REPEAT_TICKS)
    assert group.broken == "c"
    assert "low watermark 15" in (back.broken or "")
    assert "low watermark 16" in (back.broken or "")


def test_a_sound_copy_that_comes_back_alone_is_answered_once() -> None:
    group = Group(5, 5, 5)
    group.members["a"].stand_at(20, 16)
    group.members["c"].stand_at(20, 16)
    group.members["c"].restart()
    assert not group.members["c"].comparison.is_waiting
    assert group.broken == ""


def test_a_copy_of_an_older_lineage_at_the_same_index_is_not_judged() -> None:
    group = Group(5, 5, 5)
    group.members["a"].current = Checkpoint(20, 16, 16, (), 7)
    group.members["c"].current = Checkpoint(20, 15, 15, (), 6)
    group.members["c"].restart()
    assert group.broken == ""


def test_a_leader_that_no_member_has_agreed_with_yet_judges_no_copy_that_comes_back() -> None:
    group = Group(4, 5, 5, down="bc")
    group.members["a"].stand_at(20, 14)
    group.down.remove("c")
    group.members["c"].stand_at(20, 15)
    group.members["c"].restart()
    assert group.broken == ""


def test_a_verdict_about_other_counters_than_the_reported_ones_breaks_no_replica() -> None:
    group = Group(5, 5, 5)
    stale = ReportVerdict(
        "z.0.0", Peer("c", "1"), group.leader, 3, 9, (Checkpoint(9, 1, 1), Checkpoint(9, 5, 5))
    )
    group.members["c"].comparison.judged(stale)
    assert group.broken == ""
