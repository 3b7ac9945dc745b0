"""Dumps of etcd's members as files, and what the analysis' replica audit makes of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from zonequake_analysis.inputs.run_folder import read_dumps
from zonequake_analysis.inputs.shapes import INDEX_BITS
from zonequake_analysis.measures.acknowledged import Acknowledged
from zonequake_analysis.measures.replica_audit import Audit, audit
from zonequake_chaos.kit.members import dump_file, group_of
from zonequake_target_etcd.client.protocol.errors import EtcdError
from zonequake_target_etcd.client.protocol.records import (
    TERM,
    elements,
    filler_of,
    key_of,
    read,
    stored,
)
from zonequake_target_etcd.interface.gateway import EtcdDump, KeyValue
from zonequake_target_etcd.members import dumped

REGISTER = KeyValue(key=key_of("z", "r"), value=stored(7), mod_revision=4)
LIST = KeyValue(key=key_of("z", "l"), value=stored([1, 2]), mod_revision=5)
SOUND = EtcdDump(member_id=11, revision=5, hash=0xABC, compact_revision=-1, kvs=(LIST, REGISTER))

ACKNOWLEDGED = (
    Acknowledged(zone="z", partition=0, key="r", position=TERM << INDEX_BITS | 4, elements=[]),
    Acknowledged(zone="z", partition=0, key="l", position=None, elements=[1, 2]),
)


def audited(folder: Path, *dumps: EtcdDump) -> Audit:
    (folder / "dumps").mkdir()
    for number, dump in enumerate(dumps):
        content = dump_file(dumped(dump, zone="z"), group=group_of("z", "etcd"), node=f"m{number}")
        (folder / "dumps" / f"0-m{number}.jsonl").write_bytes(content)
    return audit(ACKNOWLEDGED, [], read_dumps(folder))


def changed(**fields: object) -> EtcdDump:
    return msgspec.structs.replace(SOUND, **fields)


def test_members_with_one_revision_and_one_hash_are_equal(tmp_path: Path) -> None:
    found = audited(tmp_path, SOUND, changed(member_id=12), changed(member_id=13))
    assert found.disagreements == ()
    assert (found.partitions, found.replicas, found.writes_compared) == (1, 3, 9)


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        (changed(hash=0xABD), ["digest"]),
        (changed(revision=4), ["applied"]),
        (changed(log_index=40, revision=4), ["digest"]),
        (changed(log_index=40, hash=0xABD), ["digest"]),
        (changed(kvs=(LIST,)), ["lacks"]),
        (changed(kvs=(LIST, msgspec.structs.replace(REGISTER, mod_revision=3))), ["lacks"]),
        (changed(kvs=(REGISTER, msgspec.structs.replace(LIST, value=stored([1])))), ["lacks"]),
    ],
)
def test_a_member_that_differs_is_found(tmp_path: Path, other: EtcdDump, kinds: list[str]) -> None:
    log_index = other.log_index
    alike = changed(log_index=log_index)
    found = audited(tmp_path, alike, changed(member_id=12, log_index=log_index), other)
    assert [one.kind for one in found.disagreements] == kinds


def test_a_filler_is_no_part_of_the_keys_that_are_dumped() -> None:
    assert not filler_of("z", "r").startswith(key_of("z", ""))


def test_a_value_that_no_client_wrote_is_shown_as_it_is() -> None:
    assert [read(raw) for raw in (b"7", b"[1,2]", b'{"a":1}', b"\xff")] == [
        7, [1, 2], '{"a":1}', "\N{REPLACEMENT CHARACTER}"
    ]  # fmt: skip
    with pytest.raises(EtcdError, match="expected a list") as raised:
        elements(b"7")
    assert raised.value.certain
