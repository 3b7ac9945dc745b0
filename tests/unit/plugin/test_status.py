"""`kubectl zq status` and `zonequake status` show one screen."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zonequake_chaos.commands.cli import main as zonequake
from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.zq.cli import main as kubectl_zq


@pytest.mark.parametrize("main", [zonequake, kubectl_zq])
def test_both_commands_show_the_same_screen_of_their_cluster(
    main: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[object] = []

    async def show_status(place: ReleasePlace, zone: str | None, *, watch: bool) -> None:
        shown.append((place.kubeconfig, place.namespace, zone, watch))

    config = tmp_path / "config"
    config.write_text("{}")
    monkeypatch.setattr("zonequake_ctl.zq.status.show_status", show_status)
    words = ["status", "orders", "--watch", "--kubeconfig", str(config), "-n", "shop"]
    monkeypatch.setattr(sys, "argv", ["zonequake", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert shown == [(config, "shop", "orders", True)]


@pytest.mark.parametrize("main", [zonequake, kubectl_zq])
def test_control_c_is_how_a_watch_ends_and_no_failure(
    main: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def show_status(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    config = tmp_path / "config"
    config.write_text("{}")
    monkeypatch.setattr("zonequake_ctl.zq.status.show_status", show_status)
    words = ["status", "--watch", "--kubeconfig", str(config), "-n", "shop"]
    monkeypatch.setattr(sys, "argv", ["zonequake", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
