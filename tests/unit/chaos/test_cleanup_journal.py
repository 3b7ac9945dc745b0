"""The cleanup journal survives its writer, and paying twice does no harm."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import get_args

import pytest

from zonequake_chaos.errors import JournalFailed
from zonequake_chaos.record import cleanup_journal
from zonequake_chaos.record.cleanup_journal import (
    FILE_NAME,
    HEALING,
    CleanupJournal,
    Debt,
    DeleteLoad,
    DeleteZone,
    JoinNetwork,
    RemoveFinalizer,
    RestoreScale,
    ResumeComponent,
)
from zonequake_kube.errors import ClusterError

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
    CleanupJournal(tmp_path).owe(FINALIZER)
    payer = Payer()
    assert await CleanupJournal(tmp_path).pay_all(payer) == []
    assert payer.paid == [FINALIZER]


async def test_what_was_paid_is_not_paid_again(tmp_path: Path) -> None:
    journal = CleanupJournal(tmp_path)
    journal.paid(journal.owe(FINALIZER))
    journal.owe(SCALE)
    payer = Payer()
    await CleanupJournal(tmp_path).pay_all(payer)
    await CleanupJournal(tmp_path).pay_all(payer)
    assert payer.paid == [SCALE]


async def test_a_debt_that_cannot_be_paid_stays_and_is_named(tmp_path: Path) -> None:
    journal = CleanupJournal(tmp_path)
    journal.owe(ZONE)
    journal.owe(LOAD)
    (problem,) = await journal.pay_all(Payer(refuse=(DeleteZone,)))
    assert "DeleteZone" in problem
    assert "API server is away" in problem
    again = Payer()
    assert await CleanupJournal(tmp_path).pay_all(again) == []
    assert again.paid == [ZONE]


async def test_the_load_goes_before_its_zone_and_nodes_go_last(tmp_path: Path) -> None:
    journal = CleanupJournal(tmp_path)
    for debt in (SCALE, ZONE, LOAD, FINALIZER):
        journal.owe(debt)
    payer = Payer()
    await journal.pay_all(payer)
    assert payer.paid == [FINALIZER, LOAD, ZONE, SCALE]


async def test_the_api_server_goes_on_before_anything_is_asked_of_it(tmp_path: Path) -> None:
    journal = CleanupJournal(tmp_path)
    hung = ResumeComponent(component="kube-apiserver")
    cut = JoinNetwork(pod="n0", uid="u")
    for debt in (FINALIZER, cut, hung):
        journal.owe(debt)
    payer = Payer()
    await journal.pay_all(payer, HEALING)
    assert payer.paid == [hung, cut, FINALIZER]


async def test_healing_pays_only_what_harms_the_system_under_test(tmp_path: Path) -> None:
    journal = CleanupJournal(tmp_path)
    journal.owe(ZONE)
    journal.owe(FINALIZER)
    payer = Payer()
    await journal.pay_all(payer, HEALING)
    assert payer.paid == [FINALIZER]
    assert [debt for _, debt in journal.debts] == [ZONE]


async def test_a_line_torn_by_the_harnesss_death_costs_nothing_else(tmp_path: Path) -> None:
    CleanupJournal(tmp_path).owe(ZONE)
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b'{"number":2,"de')
    after = CleanupJournal(tmp_path)
    after.owe(SCALE)
    assert [debt for _, debt in CleanupJournal(tmp_path).debts] == [ZONE, SCALE]


def test_every_kind_of_debt_has_its_turn() -> None:
    assert set(get_args(Debt)) == set(cleanup_journal._ORDER)


async def test_a_line_that_another_version_wrote_is_kept_and_named(tmp_path: Path) -> None:
    CleanupJournal(tmp_path).owe(ZONE)
    with (tmp_path / FILE_NAME).open("a") as file:
        file.write('{"number":7,"debt":{"type":"mend_the_moon","moon":1}}\n')
    journal = CleanupJournal(tmp_path)
    assert [debt for _, debt in journal.debts] == [ZONE]
    assert len(journal.unknown) == 1
    assert "mend_the_moon" in journal.unknown[0]


def test_a_journal_of_the_first_version_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(
        '{"number":1,"debt":{"type":"restore_scale","stateful_set":"zq-default","replicas":3}}\n'
        '{"number":2,"debt":{"type":"delete_zone","zone":"z"}}\n'
        '{"number":2}\n'
    )
    assert [debt for _, debt in CleanupJournal(tmp_path).debts] == [SCALE]


def test_a_full_disk_records_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = CleanupJournal(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        with pytest.raises(JournalFailed, match="No space left"):
            journal.owe(ZONE)
    assert CleanupJournal(tmp_path).debts == []


def test_a_disk_that_takes_half_a_line_has_recorded_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    journal = CleanupJournal(tmp_path)
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", lambda handle, data: write(handle, data[:20]))
        with pytest.raises(JournalFailed, match="took 20 of"):
            journal.owe(ZONE)
    assert CleanupJournal(tmp_path).debts == []
    again = CleanupJournal(tmp_path)
    again.owe(SCALE)
    assert [debt for _, debt in CleanupJournal(tmp_path).debts] == [SCALE]


async def test_a_payment_that_cannot_be_recorded_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = CleanupJournal(tmp_path)
    journal.owe(ZONE)
    journal.owe(FINALIZER)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    payer = Payer()
    assert await journal.pay_all(payer) == []
    assert payer.paid == [FINALIZER, ZONE]


async def test_a_payment_that_fails_for_any_reason_keeps_no_other_from_being_made(
    tmp_path: Path,
) -> None:
    journal = CleanupJournal(tmp_path)
    journal.owe(ZONE)
    journal.owe(FINALIZER)
    paid: list[Debt] = []

    async def pay(debt: Debt) -> None:
        if debt == FINALIZER:
            raise PermissionError("not root")
        paid.append(debt)

    (problem,) = await journal.pay_all(pay)
    assert "not root" in problem
    assert paid == [ZONE]
