"""Names under which images are pushed: wrong ones are refused before anything is built."""

from __future__ import annotations

import pytest

from zonequake_cluster.images import build
from zonequake_kube.errors import UsageError


@pytest.mark.parametrize(
    ("repository", "tag", "said"),
    [
        ("bad repo", "1", "found the repository 'bad repo', expected"),
        ("registry.example/Upper", "1", "found the repository"),
        ("https://registry.example/x", "1", "found the repository"),
        ("registry.example/x/", "1", "found the repository"),
        ("registry.example/x", "a b", "--tag: found 'a b', expected"),
        ("registry.example/x", "", "--tag: found ''"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_built(
    repository: str, tag: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(**_: object) -> None:
        raise AssertionError("an image was built")

    monkeypatch.setattr(build, "build_all", built)
    with pytest.raises(UsageError, match=said):
        build.push_all(repository, tag=tag, plain_http=False, progress=lambda _: None)


@pytest.mark.parametrize(
    "repository",
    ["localhost:5000", "[::1]:5000/x", "ghcr.io/owner/zonequake", "10.0.0.1:80/a-b/c__d/e.f"],
)
def test_a_name_that_registries_take_is_taken(
    repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Begun(Exception):
        """The images are being built."""

    def begin(**_: object) -> None:
        raise Begun

    monkeypatch.setattr(build, "build_all", begin)
    with pytest.raises(Begun):
        build.push_all(repository, tag="0.2.0-rc.1_x", plain_http=False, progress=lambda _: None)
