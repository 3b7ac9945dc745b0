"""A run against an etcd that speaks TLS: what it makes, and what is refused before it makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.unit.chaos.runner.fake_cluster import FakeCluster
from tests.unit.chaos.runner.test_runs_against_etcd import ask, members_of, quiet_console
from tests.unit.installed import installed, place_of
from zonequake_chaos.commands.run import planned, run_once
from zonequake_chaos.load.objects import load_objects, load_plan
from zonequake_chaos.scenario.run import RunTarget
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import UsageError
from zonequake_target_etcd.members import LOOPBACK_PORT, METRICS_PORT, EtcdMembers, container
from zonequake_target_etcd.package import TARGET

ARGS = ["--cert-file=/tls/tls.crt", "--key-file=/tls/tls.key", "--client-cert-auth"]
TLS = f"target.args=[{', '.join(ARGS)}]"
SECRETS = ("target.secrets={/tls: etcd-members}", "target.clientSecret=etcd-client")


class ClusterWithSecrets(FakeCluster):
    """`forbidden`: of a Secret with that name it says nothing to this account."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets = {"etcd-members", "etcd-client"}
        self.forbidden = ""
        self.accepted: list[str] = []
        self.proxied: list[str] = []

    async def _proxy(self, request: web.Request) -> web.Response:
        pod, port = request.match_info["pod"], request.match_info["port"]
        self.proxied.append(f"{pod} {port}")
        return web.json_response({"header": {}, "hash": 7}, status=200 if port == "7001" else 404)

    async def _object(self, request: web.Request) -> web.Response:
        plural, name = request.match_info["plural"], request.match_info["name"]
        if plural != "secrets":
            return await super()._object(request)
        self.accepted.append(request.headers["Accept"])
        if name == self.forbidden:
            return web.json_response({"message": "may not get secrets"}, status=403)
        found = name in self.secrets
        return web.json_response({"message": "not found"}, status=200 if found else 404)


@pytest.fixture
def cluster_type() -> type:
    return ClusterWithSecrets


def started(*args: str) -> dict[str, Any]:
    """The container of a member with these arguments."""
    return dict(container(members_of(place_of(RunTarget(args=list(args)))), token="r"))


def option(found: dict[str, Any], name: str) -> str:
    (value,) = [word for word in found["args"] if word.startswith(f"--{name}=")]
    return str(value.partition("=")[2])


def test_members_with_a_certificate_listen_by_tls_and_without_it_on_loopback_alone() -> None:
    found = started(*ARGS)
    listening = f"https://0.0.0.0:2379,http://127.0.0.1:{LOOPBACK_PORT}"
    assert option(found, "listen-client-urls") == listening
    assert option(found, "advertise-client-urls").startswith("https://$(POD).")
    assert option(found, "listen-peer-urls") == "http://0.0.0.0:7001"
    assert {found[name]["httpGet"]["port"] for name in ("startupProbe", "readinessProbe")} == {
        METRICS_PORT
    }
    assert "127.0.0.1" not in str(started()["args"]), (
        "members without TLS are asked at their port for clients"
    )


def test_members_with_a_certificate_for_peers_name_each_other_so() -> None:
    found = started("--peer-cert-file=/tls/tls.crt", "--peer-key-file=/tls/tls.key")
    assert option(found, "listen-client-urls") == "http://0.0.0.0:2379"
    assert option(found, "listen-peer-urls") == "https://0.0.0.0:7001"
    assert option(found, "initial-cluster").count("=https://zq-etcd-default-") == 3


async def test_peers_with_a_certificate_are_asked_for_hashes_by_tls(
    cluster: Any, place: ReleasePlace
) -> None:
    args = ["--peer-cert-file=/tls/tls.crt", "--peer-key-file=/tls/tls.key"]
    async with await place.connect() as kube:
        system = EtcdMembers(kube, run_id="r", zone="z", args=args)
        assert await system.differences(["p"], 5) == ""
    assert cluster.proxied == ["p 2379", "https:p 7001"]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([TLS], "target.args has --cert-file, and no target.clientSecret"),
        (["target.clientSecret=s"], "target.clientSecret is s, and target.args has no --cert-file"),
        (["target.env={ETCD_CERT_FILE: /x}"], "give --cert-file there"),
        (["target.env={ETCD_PEER_CERT_FILE: /x}"], "give --peer-cert-file there"),
        (["target.env={ETCD_KEY_FILE: /x}"], "give --key-file there"),
        (["target.args=[--auto-tls]"], "--auto-tls, whose certificates can't be verified"),
        (["target.env={ETCD_AUTO_TLS: 'true'}"], "ETCD_AUTO_TLS, whose certificates can't be"),
        (["target.args=[--cert-file=/x]"], "target.args has --cert-file, and no --key-file"),
        (["target.args=[--peer-key-file=/x]"], "has --peer-key-file, and no --peer-cert-file"),
        (["target.args=[--listen-metrics-urls=x]"], "--listen-metrics-urls, which the run sets"),
    ],
)
def test_tls_of_one_end_alone_is_refused(tmp_path: Path, overrides: list[str], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        planned(ask("leader-kill", tmp_path, *overrides))
    assert words in str(refused.value)


def test_load_pods_have_the_clients_secret_and_not_that_of_the_members(tmp_path: Path) -> None:
    spec = planned(ask("leader-kill", tmp_path, TLS, *SECRETS)).spec
    plan = load_plan(
        client=TARGET.client.connect, seeds=["s:1"], zone=spec.zones[0], spec=spec, seed=1
    )
    assert plan.secret == "etcd-client"
    made = load_objects(
        name="l", run_id="r", plan=plan, code=TARGET.client, installation=installed()
    )
    (found,) = [each for each in made if each["kind"] == "StatefulSet"]
    pod = found["spec"]["template"]["spec"]
    secrets = [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each]
    assert secrets == ["etcd-client"]
    mounts = {each["mountPath"]: each for each in pod["containers"][0]["volumeMounts"]}
    assert mounts["/target-secret"]["readOnly"] is True


@pytest.mark.parametrize("missing", ["etcd-members", "etcd-client"])
async def test_a_secret_that_is_not_there_is_named_before_anything_is_made(
    cluster: Any, place: ReleasePlace, tmp_path: Path, missing: str
) -> None:
    cluster.secrets.remove(missing)
    before = dict(cluster.objects)
    with pytest.raises(UsageError, match=f"create secret generic {missing}"):
        await run_once(ask("leader-kill", tmp_path / "run", TLS, *SECRETS), place, quiet_console())
    assert cluster.objects == before
    assert not (tmp_path / "run").exists()
    assert {accept.partition(";")[2] for accept in cluster.accepted} == {
        "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    }, "no key leaves the cluster"


async def test_an_account_that_may_not_look_is_told_which_value_lets_it(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    cluster.forbidden = "etcd-client"
    with pytest.raises(UsageError, match=r"harness\.targetSecrets=\{etcd-client,etcd-members\}'"):
        await run_once(ask("leader-kill", tmp_path / "run", TLS, *SECRETS), place, quiet_console())


async def test_a_secret_of_the_release_is_never_handed_out(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    of_release = ("target.secrets={/tls: zq-tls-store}", "target.clientSecret=etcd-client")
    with pytest.raises(UsageError, match="zq-tls-store, a Secret of the release"):
        await run_once(
            ask("leader-kill", tmp_path / "run", TLS, *of_release), place, quiet_console()
        )
