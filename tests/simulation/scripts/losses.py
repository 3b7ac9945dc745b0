"""Scripts of the real operator's resets and of restarted groups (design §3, holes 6 to 9, 11, 12
and 14)."""

from __future__ import annotations

from tests.simulation.scripts.cluster import Cluster
from zonequake_simulation.api_server import API
from zonequake_simulation.violation import require

A, B, C, D, E = (f"n-{number}" for number in range(5))
LONG_MS = 6_000
"""Longer than any time-out of theirs, and than checks take the operator to be late."""


def goes_on_alone(cluster: Cluster, survivor: str) -> None:
    """The others have left; those that remain are reset."""
    cluster.promised(
        lambda: cluster.is_stable(survivor) and cluster.leader == survivor,
        "a reset is carried out",
    )


def is_unwound_to(cluster: Cluster, value: int) -> None:
    """The whole group has come back."""
    cluster.promised(cluster.rests, "a restarted group forms again")
    found = cluster.read()
    require(found == value, "the newest user data goes on", found=found, expected=value)


def the_newest_log_goes_on() -> None:
    """Hole 7: of five, D and E survive; D lacks what E and the dead had acknowledged."""
    with Cluster(5, replicas=5, is_highly_available=True) as cluster:
        cluster.forms()
        cluster.wait(LONG_MS)
        cluster.lead(A)
        cluster.cut({D}, cluster.others(D))
        cluster.wrote(1)
        cluster.kill(A, B, C)
        cluster.until(lambda: len(cluster.pending) == 1, "a reset is decided")
        cluster.mend({D}, cluster.others(D))
        cluster.promised(lambda: cluster.is_stable(D, E), "both phases are carried out")
        require(cluster.read() == 1, "the newest log goes on", keys=cluster.keys)
        cluster.finish()


def nobody_is_reset_whose_majority_is_back() -> None:
    """Hole 6: B and C have left, and are back before the reset timer fires."""
    with Cluster(3, is_highly_available=True) as cluster:
        cluster.alter(partitionDistributionResetTimeout=2)
        cluster.forms()
        cluster.kill(B, C)
        cluster.until(lambda: not (cluster.knows(B) or cluster.knows(C)), "B and C have left")
        cluster.start(B, C)
        cluster.wait(LONG_MS)
        require(
            cluster.is_stable(A, B, C) and not cluster.keys.reset_revision,
            "a reset that is due is judged again",
            keys=cluster.keys,
        )
        cluster.finish()


def a_wish_that_a_reset_overwrote_comes_true() -> None:
    """Hole 8: D was to join, and no node could be caught up before B and C died."""
    with Cluster(4, data_nodes=(A, B, C), is_highly_available=True) as cluster:
        cluster.forms()
        cluster.lead(A)
        cluster.cut({D}, cluster.others(D))
        cluster.alter(replicas=4)
        cluster.move_to(A, B, C, D)
        cluster.until(lambda: D in cluster.pending, "D is to join")
        cluster.kill(B, C)
        cluster.until(lambda: cluster.pending == (A,), "a reset is decided")
        cluster.mend({D}, cluster.others(D))
        cluster.promised(lambda: cluster.is_stable(A, D), "no wish is lost by a reset")
        cluster.finish()


def a_reset_that_its_survivor_forgot_is_ordered_again() -> None:
    """Hole 11: it is in memory alone until the first entry is stored."""
    with Cluster(3, is_highly_available=True) as cluster:
        cluster.forms()
        cluster.kill(B, C)
        cluster.until(lambda: cluster.tally["order ResetPeers received"] > 0, "A is told")
        cluster.kill(A)
        cluster.start(A)
        goes_on_alone(cluster, A)
        cluster.finish()


def an_old_majority_is_told_before_it_is_permitted() -> None:
    """Hole 12: B and C were cut off and given up; they are back, and A can't tell them anything."""
    with Cluster(3, is_highly_available=True) as cluster:
        _give_up(cluster, B, C)
        cluster.mend({B, C}, {API})
        for turn in range(6):
            cluster.write(3, at=(B, C)[turn % 2])
            cluster.wait(500)
        cluster.mend({B, C}, {A})
        cluster.finish()


def who_was_fenced_acknowledges_nothing() -> None:
    """As before, but there is no operator that could tell B and C of the reset."""
    with Cluster(3, is_highly_available=True) as cluster:
        _give_up(cluster, B, C)
        cluster.plane.kill_operator(cluster.operator)
        cluster.mend({B, C}, {API})
        for turn in range(6):
            cluster.write(3, at=(B, C)[turn % 2])
            cluster.wait(500)
        cluster.plane.start_operator()
        cluster.mend({B, C}, {A})
        cluster.finish()


def _give_up(cluster: Cluster, *names: str) -> None:
    """Cut a majority off until its Leases have run out; A goes on without it."""
    cluster.forms()
    cluster.lead(names[0])
    cluster.cut(names, {A, API})
    goes_on_alone(cluster, A)
    cluster.until(lambda: cluster.write(2, at=A), "A acknowledges alone")


def silence_proves_nothing() -> None:
    """Membership: B and C don't answer for a while, and serve on."""
    with Cluster(3, is_highly_available=True) as cluster:
        cluster.forms()
        cluster.wrote(1)
        cluster.cut({B, C}, {API})
        cluster.wait(1_700)
        cluster.mend({B, C}, {API})
        cluster.wait(2_000)
        require(
            cluster.is_stable(A, B, C) and not cluster.keys.reset_revision,
            "silence proves nothing",
            keys=cluster.keys,
        )
        cluster.finish()


def who_returns_is_taken_though_another_is_away() -> None:
    """Hole 14: A is alone and B returns; C is not waited for."""
    with Cluster(3, is_highly_available=True) as cluster:
        cluster.forms()
        cluster.kill(B, C)
        goes_on_alone(cluster, A)
        cluster.start(B)
        cluster.promised(
            lambda: cluster.is_stable(A, B), "a highly available partition waits for nobody"
        )
        cluster.finish()


def who_is_back_first_of_a_stopped_group_waits() -> None:
    """Holes 7 and 9: all three stop; A, which lags, is back first, and what B and C had
    acknowledged must not be given up for it."""
    with Cluster(3, is_highly_available=True) as cluster:
        _stop_all_of_whom_a_lags(cluster)
        cluster.start(A)
        cluster.wait(2 * LONG_MS)
        require(
            cluster.leader is None and not cluster.keys.reset_revision,
            "a stopped group is waited for",
            keys=cluster.keys,
        )
        cluster.start(C)
        cluster.promised(lambda: cluster.leader is not None, "a majority leads")
        found = cluster.read()
        require(found == 1, "nothing is given up", found=found, keys=cluster.keys)
        cluster.start(B)
        cluster.finish()


def a_stop_is_over_when_the_group_leads() -> None:
    """Then a loss that leaves a member alive is reset as before."""
    with Cluster(3, is_highly_available=True) as cluster:
        _stop_all_of_whom_a_lags(cluster)
        cluster.start(A, B, C)
        is_unwound_to(cluster, 1)
        cluster.promised(lambda: not cluster.keys.is_stopped, "it leads again")
        cluster.wait(LONG_MS)
        cluster.kill(B, C)
        goes_on_alone(cluster, A)
        cluster.finish()


def _stop_all_of_whom_a_lags(cluster: Cluster) -> None:
    cluster.forms()
    cluster.lead(B)
    cluster.cut({A}, {B, C})
    cluster.wrote(1)
    cluster.kill(A, B, C)
    cluster.mend({A}, {B, C})
    cluster.until(lambda: not any(map(cluster.knows, (A, B, C))), "all have left")


def a_restarted_group_waits_for_its_newest_link() -> None:
    """Hole 9: A had gone on alone; B and C, a majority of the oldest link, come back first."""
    with Cluster(3, is_highly_available=True) as cluster:
        cluster.forms()
        cluster.kill(B, C)
        goes_on_alone(cluster, A)
        cluster.wrote(1)
        cluster.kill(A)
        cluster.until(lambda: not cluster.knows(A), "A has left")
        cluster.start(B, C)
        cluster.wait(LONG_MS)
        require(cluster.leader is None, "the newest link is waited for", keys=cluster.keys)
        cluster.start(A)
        is_unwound_to(cluster, 1)
        cluster.finish()


def a_link_is_judged_by_a_majority() -> None:
    """Hole 9: A went on alone and took nothing; what B and C have is newer, and A comes first."""
    with Cluster(3, is_highly_available=True) as cluster:
        _stop_a_group_whose_survivor_lags(cluster)
        cluster.start(A)
        cluster.wait(LONG_MS)
        require(cluster.leader is None, "a majority of a link is waited for", keys=cluster.keys)
        cluster.start(B, C)
        is_unwound_to(cluster, 1)
        cluster.finish()


def the_newest_user_entry_of_a_link_goes_on() -> None:
    """Hole 9: as before, but all come back at once."""
    with Cluster(3, is_highly_available=True) as cluster:
        _stop_a_group_whose_survivor_lags(cluster)
        cluster.start(A, B, C)
        is_unwound_to(cluster, 1)
        cluster.finish()


def a_rollback_stops_no_unwind() -> None:
    """Hole 9: as before, but A goes on with a part that was not decided, and rolls it back alone:
    it stands under the newest link, and no client wrote it."""
    with Cluster(3, is_highly_available=True) as cluster:
        cluster.forms()
        cluster.lead(B)
        cluster.prepare(2)
        _lose_all_but_a(cluster)
        cluster.until(lambda: not cluster.prepared(), "A rolls the part back")
        cluster.wait(LONG_MS)  # until its data has that, too
        _stop_a(cluster)
        cluster.start(A, B, C)
        is_unwound_to(cluster, 1)
        cluster.until(lambda: not cluster.prepared(), "the part is rolled back")
        cluster.finish()


def _stop_a_group_whose_survivor_lags(cluster: Cluster) -> None:
    """Chain [A, B, C] ─▶ [A]; the newest user entry stands under the older link, and A lacks it."""
    cluster.forms()
    cluster.lead(B)
    _lose_all_but_a(cluster)
    _stop_a(cluster)


def _lose_all_but_a(cluster: Cluster) -> None:
    """B and C acknowledge what A lacks, and die."""
    cluster.cut({A}, {B, C})
    cluster.wrote(1)
    cluster.kill(B, C)
    goes_on_alone(cluster, A)
    cluster.mend({A}, {B, C})


def _stop_a(cluster: Cluster) -> None:
    cluster.kill(A)
    cluster.until(lambda: not cluster.knows(A), "A has left")


SCRIPTS = [
    nobody_is_reset_whose_majority_is_back,
    the_newest_log_goes_on,
    a_wish_that_a_reset_overwrote_comes_true,
    a_reset_that_its_survivor_forgot_is_ordered_again,
    an_old_majority_is_told_before_it_is_permitted,
    who_was_fenced_acknowledges_nothing,
    silence_proves_nothing,
    who_returns_is_taken_though_another_is_away,
    who_is_back_first_of_a_stopped_group_waits,
    a_stop_is_over_when_the_group_leads,
    a_restarted_group_waits_for_its_newest_link,
    a_link_is_judged_by_a_majority,
    the_newest_user_entry_of_a_link_goes_on,
    a_rollback_stops_no_unwind,
]
