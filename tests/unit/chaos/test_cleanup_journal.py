"""The cleanup journal survives its writer, and paying twice does no harm."""

from __future__ import annotations

from pathlib import Path

from zonequake_chaos.errors import ClusterError
from zonequake_chaos.journal import (
    FILE_NAME,
    HEALING,
    Debt,
    DeleteLoad,
    DeleteZone,
    JoinNetwork,
    Journal,
    RemoveFinalizer,
    RestoreScale,
    ResumeComponent,
)

FINALIZER = RemoveFinalizer(pod="n0", finalizer="f")
SCALE = RestoreScale(stateful_set="zq-default", replicas=3)
ZONE = DeleteZone(zone="z")
LOAD = DeleteLoad(name="zq-load-z")


class Payer:
    """Records what is paid; refuses what it is told to."""

    def __init__(self, refuse: tuple[type, ...] = ()) -> None:
        self.paid: list[Debt] = []
        self._refuse = refuse

    async def __call__(self, debt: Debt) -> None:
        if isinstance(debt, self._refuse):
            raise ClusterError("the API server is away")
        self.paid.append(debt)


async def test_a_debt_is_on_disk_before_owe_returns(tmp_path: Path) -> None:
    Journal(tmp_path).owe(FINALIZER)
    payer = Payer()
    assert await Journal(tmp_path).pay_all(payer) == []
    assert payer.paid == [FINALIZER]


async def test_what_was_paid_is_not_paid_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.paid(journal.owe(FINALIZER))
    journal.owe(SCALE)
    payer = Payer()
    await Journal(tmp_path).pay_all(payer)
    await Journal(tmp_path).pay_all(payer)
    assert payer.paid == [SCALE]


async def test_a_debt_that_cannot_be_paid_stays_and_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.owe(ZONE)
    journal.owe(LOAD)
    (problem,) = await journal.pay_all(Payer(refuse=(DeleteZone,)))
    assert "DeleteZone" in problem
    assert "API server is away" in problem
    again = Payer()
    assert await Journal(tmp_path).pay_all(again) == []
    assert again.paid == [ZONE]


async def test_the_load_goes_before_its_zone_and_nodes_go_last(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for debt in (SCALE, ZONE, LOAD, FINALIZER):
        journal.owe(debt)
    payer = Payer()
    await journal.pay_all(payer)
    assert payer.paid == [FINALIZER, LOAD, ZONE, SCALE]


async def test_the_api_server_goes_on_before_anything_is_asked_of_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    hung = ResumeComponent(component="kube-apiserver")
    cut = JoinNetwork(pod="n0", uid="u")
    for debt in (FINALIZER, cut, hung):
        journal.owe(debt)
    payer = Payer()
    await journal.pay_all(payer, HEALING)
    assert payer.paid == [hung, cut, FINALIZER]


async def test_healing_pays_only_what_harms_the_system_under_test(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.owe(ZONE)
    journal.owe(FINALIZER)
    payer = Payer()
    await journal.pay_all(payer, HEALING)
    assert payer.paid == [FINALIZER]
    assert [debt for _, debt in journal.debts] == [ZONE]


async def test_a_line_torn_by_the_harnesss_death_costs_nothing_else(tmp_path: Path) -> None:
    Journal(tmp_path).owe(ZONE)
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b'{"number":2,"de')
    after = Journal(tmp_path)
    after.owe(SCALE)
    assert [debt for _, debt in Journal(tmp_path).debts] == [ZONE, SCALE]
