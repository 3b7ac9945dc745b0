"""A process's own certificate while its files are replaced by what can't be used."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_tls.credentials import Credentials
from zonequake_tls.identity import TlsRole, identity_of
from zonequake_tls.settings import TlsSettings

DOMAIN = "zq.shop.zonequake.internal"


class Files:
    """A folder as the kubelet mounts a Secret: a version takes the other's place, which is gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._version = 0

    def bring(self, authority: Authority, *, trusted: Authority) -> None:
        name = identity_of(TlsRole.STORE, DOMAIN)
        signed = authority.sign(name, hosts=[name])
        contents = {
            "tls.crt": signed.certificate,
            "tls.key": signed.key,
            "ca.crt": trusted.certificate,
        }
        self._version += 1
        fresh = self.folder / f"..{self._version}"
        fresh.mkdir()
        for file, content in contents.items():
            (fresh / file).write_bytes(content)
        link = self.folder / "..data"
        before = link.resolve() if link.is_symlink() else None
        (self.folder / "..new").symlink_to(fresh.name)
        (self.folder / "..new").replace(link)
        for file in contents:
            if not (self.folder / file).is_symlink():
                (self.folder / file).symlink_to(f"..data/{file}")
        if before is not None:
            for old in before.iterdir():
                old.unlink()
            before.rmdir()


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_client_accepted_before_is_also_accepted_after_a_good_and_then_an_unusable_version(
    files: Files, clock: list[float]
) -> None:
    ours, another = (Authority.made(name, datetime.now(UTC)) for name in ("ours", "nobody's"))
    files.bring(ours, trusted=ours)
    settings = TlsSettings(directory=files.folder, domain=DOMAIN)
    credentials = Credentials(settings, TlsRole.STORE, monotonic_s=lambda: clock[0])
    before = credentials.for_accepting(TlsRole.LOAD)
    files.bring(ours, trusted=ours)
    clock[0] += 2
    assert credentials.problem is None
    assert credentials.expiry_s, "it has looked at the next version, by which no client came in yet"
    files.bring(another, trusted=ours)
    clock[0] += 2
    now = credentials.for_accepting(TlsRole.LOAD)
    assert credentials.problem is not None
    assert now is not before
    assert now.allowed == {identity_of(TlsRole.LOAD, DOMAIN)}
