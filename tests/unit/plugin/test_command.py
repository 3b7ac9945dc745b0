"""Words, files and what leaves the house."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from kubernetes.aio.config import kube_config

from zonequake_ctl.reset_by_hand import proofs_of
from zonequake_ctl.zq.look import find_current
from zonequake_ctl.zq.pausing import set_paused
from zonequake_ctl.zq.planning import answer, wish_of_settings, wishes_of_file
from zonequake_ctl.zq.support_report import redacted, write_report
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, UsageError
from zonequake_kube.objects import Json


def test_the_namespace_is_that_of_the_current_context(tmp_path: Path) -> None:
    config = tmp_path / "config"
    contexts = [
        {"name": "here", "context": {"namespace": "shop"}},
        {"name": "there", "context": {}},
    ]
    config.write_text(json.dumps({"current-context": "here", "contexts": contexts}))

    def namespace(context: str | None = None, given: str | None = None) -> str:
        return find_current(kubeconfig=config, context=context, namespace=given).namespace

    assert (namespace(), namespace("there"), namespace(given="other")) == (
        "shop",
        "default",
        "other",
    )


def test_without_a_kubeconfig_it_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no kubeconfig .*missing"):
        find_current(kubeconfig=tmp_path / "missing", context=None, namespace=None)


def test_a_file_may_hold_several_zones_and_other_things(tmp_path: Path) -> None:
    path = tmp_path / "zones.yaml"
    path.write_text(
        "kind: ConfigMap\nmetadata: {name: x}\n---\n"
        "kind: DistributionZone\nmetadata: {name: a}\nspec: {replicas: 5}\n---\n"
        "kind: DistributionZone\nmetadata: {name: b}\n"
    )
    assert [(wish.zone, wish.spec) for wish in wishes_of_file(path)] == [
        ("a", {"replicas": 5}),
        ("b", {}),
    ]
    path.write_text("kind: ConfigMap\nmetadata: {name: x}\n")
    with pytest.raises(UsageError, match="holds no DistributionZone"):
        wishes_of_file(path)
    for text in ("{", "[" * 900 + "]" * 900, "&a [*a]", "a: 2001-99-99"):
        path.write_text(text)
        with pytest.raises(UsageError, match="can't be read"):
            wishes_of_file(path)


def test_settings_are_typed_as_in_a_manifest() -> None:
    wish = wish_of_settings("z", ["replicas=5", "paused=true", "dataNodesFilter='\"SSD\"'"])
    assert wish.spec == {"replicas": 5, "paused": True, "dataNodesFilter": '"SSD"'}
    with pytest.raises(UsageError, match="expected FIELD=VALUE"):
        wish_of_settings("z", ["replicas"])
    with pytest.raises(UsageError, match=r"--set 'replicas=\[3': found '\[3', expected"):
        wish_of_settings("z", ["replicas=[3"])
    assert wish_of_settings("z", ["dataNodesAutoAdjust="]).spec == {"dataNodesAutoAdjust": None}


def test_a_report_hides_what_others_may_have_put_into_a_pod() -> None:
    pod = {
        "metadata": {
            "name": "zq-default-0",
            "annotations": {"vault.example/token": "s3cret", "zonequake.io/kept": "yes"},
            "managedFields": [{}],
        },
        "spec": {
            "imagePullSecrets": [{"name": "registry-secret"}],
            "containers": [
                {
                    "name": "store",
                    "env": [
                        {"name": "ZQ_NODE", "value": "zq-default-0"},
                        {"name": "PASSWORD", "value": "s3cret"},
                    ],
                }
            ],
        },
    }
    text = json.dumps(redacted(pod))
    assert "s3cret" not in text
    assert "registry-secret" not in text
    assert "managedFields" not in text
    assert '"zonequake.io/kept": "yes"' in text
    assert '"value": "zq-default-0"' in text


@pytest.mark.parametrize(
    "text", ["{{", "[]", "users: [{name: u, user: {token: 3}}]", "\x00", "[" * 900]
)
def test_a_file_that_is_no_kubeconfig_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(UsageError, match="no usable kubeconfig"):
        asyncio.run(Kube.open(kubeconfig=path, context=None, namespace="n"))


def test_a_kubeconfig_that_is_absent_is_named_in_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    absent = f"{tmp_path / 'absent'}"
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", absent)
    for named in (None, Path(absent)):
        with pytest.raises(UsageError, match=f"there is no kubeconfig {absent}: give --kubeconfig"):
            asyncio.run(Kube.open(kubeconfig=named, context="nope", namespace="n"))
    assert not caplog.records, "the client library logs no second error"


def test_a_namespace_is_not_looked_for_in_what_is_no_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "config"
    for text in ("[]", "{{", "word", "[" * 900, "&a {contexts: [*a]}"):
        path.write_text(text)
        with pytest.raises(UsageError, match="is no kubeconfig"):
            find_current(kubeconfig=path, context=None, namespace=None)


def test_a_report_of_which_nothing_could_be_read_is_not_written(tmp_path: Path) -> None:
    config = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    content = {"clusters": [cluster], "contexts": [context], "users": users}
    config.write_text(json.dumps({**content, "current-context": "x"}))

    async def packed() -> None:
        async with await Kube.open(kubeconfig=config, context=None, namespace="n") as kube:
            await write_report(kube, tmp_path / "r.zip")

    with pytest.raises(ClusterError, match=r"nothing could be read.*https://127.0.0.1:9 doesn't"):
        asyncio.run(packed())
    assert not (tmp_path / "r.zip").exists()


class Answering:
    """A cluster with one data node, whose admin port answers with a page of some proxy."""

    async def find(self, kind: str, labels: str = "") -> list[dict[str, Any]]:
        if kind != "Pod":
            raise ClusterError(f"GET {kind}: HTTP 403: no")
        labels_of_pod = {"app.kubernetes.io/component": "store"}
        spec = {"containers": [{"name": "store"}]}
        return [{"metadata": {"name": "n0", "uid": "u", "labels": labels_of_pod}, "spec": spec}]

    def path(self, kind: str) -> str:
        return f"/api/{kind.lower()}s"

    async def version(self) -> str:
        return "v1"

    async def logs(self, pod: str, container: str, *, previous: bool) -> bytes:
        return b"a line"

    async def pod_proxy(self, pod: str, port: int, path: str) -> bytes:
        return b"<html>sign in</html>"


async def test_an_answer_that_is_no_json_is_missing_in_a_report_and_spoils_nothing_else(
    tmp_path: Path,
) -> None:
    missing = await write_report(cast("Kube", Answering()), tmp_path / "r.zip")
    assert any(line.startswith("pods/n0/replicas.json: JSONDecodeError") for line in missing)
    with zipfile.ZipFile(tmp_path / "r.zip") as packed:
        assert packed.read("r/pods/n0/log.txt") == b"a line"


class Going:
    """A cluster whose one zone is being deleted: the operator accepts no spec of it any more."""

    namespace = "n"

    zone: ClassVar[Json] = {
        "metadata": {
            "name": "z",
            "namespace": "n",
            "uid": "u",
            "generation": 3,
            "resourceVersion": "1",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {},
        "status": {"observedGeneration": 1},
    }

    async def get(self, kind: str, name: str) -> Json:
        return self.zone

    async def find(self, kind: str, labels: str = "") -> list[Json]:
        return [self.zone] if kind == "DistributionZone" else []

    async def patch(self, kind: str, name: str, change: Json) -> Json:
        return self.zone

    async def try_write(self, manifest: Json, *, replaces: bool) -> Json:
        return manifest


async def test_a_zone_that_is_being_deleted_is_said_to_be_so() -> None:
    """Instead of a plan that never comes, or of twenty seconds and the blame of the operator."""
    kube = cast("Kube", Going())
    with pytest.raises(UsageError, match="zone z is being deleted"):
        await answer(kube, wish_of_settings("z", ["replicas=5"]), show_all=False)
    with pytest.raises(UsageError, match="zone z is being deleted"):
        await set_paused(kube, "z", paused=True)
    with pytest.raises(UsageError, match="zone z is being deleted"):
        await proofs_of(kube, "z")
