"""Scripts of the real operator's rebalance (design §3, holes 5, 10, 13 and 15)."""

from __future__ import annotations

from tests.simulation.scripts.cluster import Cluster
from zonequake_operator.resources.stored_shapes import partition_name
from zonequake_protocol.admin import Stage
from zonequake_simulation.api_server import API
from zonequake_simulation.violation import require

A, B, C, D, E = (f"n-{number}" for number in range(5))


def a_filter_that_matches_nobody_moves_nothing() -> None:
    """Hole 10: the old stable stays, and serves."""
    with Cluster(3) as cluster:
        cluster.forms()
        cluster.wrote(1)
        cluster.move_to("nowhere")
        cluster.wait(2_000)
        require(
            cluster.is_stable(A, B, C) and cluster.read() == 1,
            "empty data nodes never become assignments",
            keys=cluster.keys,
        )
        cluster.finish()


def a_lost_leader_comes_back_without_another_event() -> None:
    """Hole 5: its return was handled without a leader; only switchReduce says what is to be done.

    A loses its replica with its process, and is back before the others could elect one of them.
    """
    with Cluster(3, is_volatile=True) as cluster:
        cluster.forms()
        cluster.lead(A)
        cluster.wrote(1)
        cluster.cut({B}, {C})
        cluster.kill(A)
        cluster.until(lambda: not cluster.knows(A), "A has left")
        cluster.start(A)
        cluster.until(lambda: cluster.knows(A) and cluster.is_handled(), "its return is handled")
        cluster.mend({B}, {C})
        cluster.until(lambda: cluster.keys.switch_reduce == (A,), "A is to leave its group")
        cluster.promised(cluster.rests, "who lost its replica comes back to its group")
        cluster.finish()


def a_locked_change_is_seen_through() -> None:
    """Hole 13: a wish that comes while the group is between two sets waits in planned."""
    with Cluster(5, data_nodes=(A, B, C)) as cluster:
        cluster.forms()
        cluster.lead(A)
        cluster.move_to(A, B, D)
        stay_joint(cluster)
        cluster.move_to(A, B, E)
        cluster.wait(400)
        require(
            cluster.pending == (A, B, D),
            "a wish doesn't replace what is locked",
            keys=cluster.keys,
        )
        cluster.mend({A}, (B, C, D, E))
        cluster.promised(lambda: cluster.is_stable(A, B, E), "the last wish comes true")
        cluster.finish()


def stay_joint(cluster: Cluster) -> None:
    """Lets the wanted change begin, and its leader A reach no other when it is granted."""
    cluster.until(lambda: cluster.keys.pending_lock is not None, "the lock is taken")
    cluster.cut({A}, cluster.others(A))
    cluster.until(lambda: cluster.stage_of(A) is Stage.JOINT, "A is between two sets")


def a_change_that_waits_for_the_dead_gives_way() -> None:
    """Hole 13: the wish replaces a blocked pending even where wishes queue."""
    with Cluster(5, data_nodes=(A, B, C)) as cluster:
        cluster.alter(changePeers="Queue")
        cluster.forms()
        cluster.cut({D}, cluster.others(D))
        cluster.move_to(A, B, D)
        cluster.until(lambda: cluster.pending == (A, B, D), "D is to join")
        cluster.kill(D)
        cluster.until(lambda: not cluster.knows(D), "D has left")
        cluster.move_to(A, B, E)
        cluster.promised(lambda: cluster.is_stable(A, B, E), "a blocked change is not waited for")
        cluster.mend({D}, cluster.others(D))
        cluster.finish()


def who_is_away_stays_in_a_set_that_it_joins() -> None:
    """Hole 14: C dies between the lock and the stable switch, and isn't to be scaled down. What is
    wished then waits behind {A, B, C}, and starts from there.
    """
    with Cluster(3, data_nodes=(A, B), is_highly_available=True) as cluster:
        cluster.forms()
        cluster.lead(A)
        cluster.move_to(A, B, C)
        cluster.until(lambda: cluster.keys.pending_lock is not None, "the lock is taken")
        cluster.cut({A}, {B})
        cluster.until(lambda: cluster.stage_of(A) is Stage.JOINT, "A is between two sets")
        cluster.kill(C)
        cluster.until(lambda: not cluster.knows(C), "C has left")
        cluster.wait(2_000)
        require(
            cluster.keys.planned is None,
            "nothing is planned without a node of the set that it waits behind",
            keys=cluster.keys,
        )
        cluster.mend({A}, {B})
        cluster.until(lambda: cluster.stable == (A, B, C), "C is stable")
        cluster.wait(3_000)
        require(
            cluster.is_stable(A, B, C),
            "who is away is not dropped before it is scaled down",
            keys=cluster.keys,
        )
        cluster.finish()


def a_late_erasure_is_shut_out() -> None:
    """Hole 15: C left the partition and is to come back to it, and the order to erase its replica
    is still under way.

    It comes when the group counts C, which doesn't know that yet.
    """
    with Cluster(4, data_nodes=(A, B, C)) as cluster:
        cluster.forms()
        cluster.lead(A)
        cluster.operator.store.late_us[C] = 4_000_000
        cluster.move_to(A, B, D)
        cluster.until(lambda: cluster.is_stable(A, B, D), "C has left")
        cluster.wait(100)
        cluster.replace_operator()
        cluster.move_to(A, B, C)
        cluster.until(lambda: cluster.keys.pending_lock is not None, "the lock is taken")
        cluster.cut({C}, {A, B, D})
        cluster.until(lambda: cluster.is_stable(A, B, C), "C is back", within_ms=2_500)
        cluster.wait(4_000)
        cluster.mend({C}, {A, B, D})
        cluster.finish()


def a_first_member_is_safe_from_a_late_erasure() -> None:
    """Hole 15: A and B were to be members before anything was formed, then not, and are again. The
    orders to erase them come before those that form their group."""
    with Cluster(4, data_nodes=(A, B, C)) as cluster:
        cluster.until(lambda: cluster.stable == (A, B, C), "the first members are chosen")
        cluster.cut({C}, {API})
        cluster.until(lambda: cluster.tally["order StartReplica received"] == 2, "A and B run")
        cluster.operator.store.late_us.update({A: 2_000_000, B: 2_000_000})
        cluster.move_to(C, D)
        cluster.until(lambda: cluster.stable == (C, D), "A and B aren't wanted any more")
        cluster.wait(100)
        cluster.replace_operator()
        cluster.operator.store.late_us.update({A: 4_000_000, B: 4_000_000})
        cluster.move_to(A, B, D)
        cluster.promised(lambda: cluster.leader is not None, "a partition forms")
        cluster.operator.store.late_us.clear()
        cluster.mend({C}, {API})
        cluster.finish()


def a_replica_stays_while_its_group_goes_by_it() -> None:
    """Hole 15: a client restores an old copy of the keys; D, which they don't know, is a member."""
    with Cluster(4, data_nodes=(A, B, C)) as cluster:
        cluster.forms()
        copy = cluster.plane.objects.get("partitions", partition_name("z", 0))
        assert copy is not None
        cluster.move_to(A, B, D)
        cluster.until(lambda: cluster.is_stable(A, B, D), "D has joined")
        cluster.restore(copy)
        cluster.move_to(A, B, C)
        cluster.promised(lambda: cluster.is_stable(A, B, C), "what is restored comes true")
        cluster.finish()


SCRIPTS = [
    a_filter_that_matches_nobody_moves_nothing,
    a_lost_leader_comes_back_without_another_event,
    a_locked_change_is_seen_through,
    a_change_that_waits_for_the_dead_gives_way,
    who_is_away_stays_in_a_set_that_it_joins,
    a_late_erasure_is_shut_out,
    a_first_member_is_safe_from_a_late_erasure,
    a_replica_stays_while_its_group_goes_by_it,
]
