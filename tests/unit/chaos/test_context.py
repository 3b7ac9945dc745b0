"""Which cluster a command is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_ctl.context import ReleasePlace, find_place
from zonequake_kube.errors import UsageError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What $KUBECONFIG names; there is no embedded cluster."""
    path = tmp_path / "config"
    path.write_text("{}")
    monkeypatch.setenv("KUBECONFIG", f"{path}:/somewhere/else")
    monkeypatch.setattr("zonequake_cluster.embedded.EmbeddedCluster.kubeconfig", tmp_path / "none")
    return path


def found(*, context: str | None = None, from_environment: bool) -> ReleasePlace:
    return find_place(
        kubeconfig=None,
        context=context,
        namespace="n",
        release="r",
        from_environment=from_environment,
    )


def test_commands_on_resources_look_where_kubectl_looks(config: Path) -> None:
    place = found(from_environment=True)
    assert (place.kubeconfig, place.embedded) == (config, False)
    config.unlink()
    with pytest.raises(UsageError, match="there is no kubeconfig"):
        found(from_environment=True)


def test_chaos_is_not_aimed_at_what_the_environment_names(config: Path) -> None:
    with pytest.raises(UsageError, match="no cluster"):
        found(from_environment=False)
    assert found(context="c", from_environment=False).kubeconfig == config
