"""The kubeconfig of the release's account for runs holds a token: only its owner may read it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import yaml

from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.release.access import write_access


class Server:
    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return

    async def account_token(self, account: str, *, lifetime_s: int) -> str:
        assert (account, lifetime_s) == ("zq-chaos", 7200)
        return "secret"


async def test_a_file_that_others_may_read_is_not_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(_: ReleasePlace) -> Any:
        return Server()

    monkeypatch.setattr(ReleasePlace, "connect", connect)
    source, out = tmp_path / "source", tmp_path / "out"
    cluster = {"server": "https://10.0.0.1:6443"}
    contexts = [{"name": "x", "context": {"cluster": "c"}}]
    clusters = [{"name": "c", "cluster": cluster}]
    source.write_text(yaml.safe_dump({"clusters": clusters, "contexts": contexts}))
    place = ReleasePlace(
        kubeconfig=source, context="x", namespace="zonequake", release="zq", embedded=False
    )
    left = out.with_name("out.new")
    left.touch(mode=0o644)
    with left.open() as other:
        await write_access(place, out, hours=2)
        assert other.read() == "", "who held it open reads no token"
    assert out.stat().st_mode & 0o777 == 0o600
    assert "secret" in out.read_text()
