"""Replacing certificates and the authority, with pods that read what a kubelet brings them late."""

from __future__ import annotations

import base64
import random
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_ctl.release import certificates
from zonequake_ctl.release.certificates import Certificates
from zonequake_ctl.release.tls_settings import TlsPlace
from zonequake_kube.errors import NotFound, UsageError, WaitExpired
from zonequake_tls.credentials import Credentials
from zonequake_tls.identity import TlsRole, identity_of
from zonequake_tls.metrics import CertificateCollector
from zonequake_tls.settings import TlsSettings

DOMAIN = "zq.test.zonequake.internal"
PODS = {
    "zq-default-0": TlsRole.STORE,
    "zq-default-1": TlsRole.STORE,
    "zq-operator-x": TlsRole.OPERATOR,
    "load-0": TlsRole.LOAD,
}


class Pod:
    """A process and the kubelet's copy of its Secret."""

    def __init__(self, folder: Path, role: TlsRole, data: dict[str, bytes]) -> None:
        self.folder, self.role = folder, role
        folder.mkdir()
        self.bring(data)
        self.now_s = 0.0
        settings = TlsSettings(directory=folder, domain=DOMAIN)
        self.credentials = Credentials(settings, role, monotonic_s=self._later)

    def _later(self) -> float:
        self.now_s = getattr(self, "now_s", 0.0) + 2.0  # a look at the files each time
        return self.now_s

    def bring(self, data: dict[str, bytes]) -> None:
        for name, content in data.items():
            if not (self.folder / name).exists() or (self.folder / name).read_bytes() != content:
                (self.folder / f"{name}.new").write_bytes(content)
                (self.folder / f"{name}.new").replace(self.folder / name)

    def metrics(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(CertificateCollector(self.credentials))
        return generate_latest(registry)


class Cluster:
    """As much of `Kube` as is needed. `between` is called after each pod has got its files."""

    def __init__(self, folder: Path, between: Callable[[Cluster], None]) -> None:
        self.between = between
        self.frozen: set[str] = set()
        first = Authority.made("first", datetime.now(UTC))
        self.secrets: dict[str, dict[str, bytes]] = {
            "zq-tls-authority": {
                "tls.crt": first.certificate,
                "tls.key": first.credential.key,
            }
        }
        for role in TlsRole:
            signed = first.sign(role, hosts=[identity_of(role, DOMAIN)])
            self.secrets[f"zq-tls-{role}"] = {
                "tls.crt": signed.certificate,
                "tls.key": signed.key,
                "ca.crt": first.certificate,
            }
        self.pods = {
            name: Pod(folder / name, role, self.secrets[f"zq-tls-{role}"])
            for name, role in PODS.items()
        }

    async def get(self, _: str, name: str) -> dict[str, Any]:
        if name not in self.secrets:
            raise NotFound(name)
        data = {key: base64.b64encode(value).decode() for key, value in self.secrets[name].items()}
        return {"data": data}

    async def patch(self, _: str, name: str, change: dict[str, Any]) -> None:
        for key, value in change["data"].items():
            if value is None:
                self.secrets[name].pop(key, None)
            else:
                self.secrets[name][key] = base64.b64decode(value)

    async def find(self, _: str, labels: str) -> list[dict[str, Any]]:
        assert labels == "app.kubernetes.io/instance=zq"
        return [
            {
                "metadata": {"name": name, "labels": {"app.kubernetes.io/component": str(role)}},
                "status": {"phase": "Running"},
            }
            for name, role in PODS.items()
        ]

    async def pod_proxy(self, name: str, port: int, path: str) -> bytes:
        assert (port, path) == (8081 if name == "load-0" else 8080, "/metrics")
        # What others have got, they have got some time before or after this one.
        pods = [name, *random.Random(name).sample(sorted(PODS), k=2)]
        for each in pods:
            if each not in self.frozen:
                self.pods[each].bring(self.secrets[f"zq-tls-{PODS[each]}"])
            self.between(self)
        return self.pods[name].metrics()


def shake(opens: Pod, accepts: Pod) -> None:
    """Raises ssl.SSLError if they don't let each other in."""
    server = accepts.credentials.for_accepting(opens.role)
    client = opens.credentials.for_connecting(accepts.role)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = client.wrap_bio(back, there, server_hostname=opens.credentials.name_of(accepts.role))
    answering = server.wrap_bio(there, back, server_side=True)
    for side in (calling, answering, calling, answering):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def all_shake(cluster: Cluster) -> None:
    for opens in cluster.pods.values():
        for accepts in cluster.pods.values():
            shake(opens, accepts)


def command(cluster: Cluster, **place: str) -> Certificates:
    where = TlsPlace(
        release="zq",
        domain=DOMAIN,
        renew_s=300,
        authorities=place.get("authorities", ""),
        authorities_key="ca.crt",
    )
    return Certificates(
        cluster,  # type: ignore[arg-type]
        where,
        tell=lambda _: None,
        patience_s=0.3,
    )


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_POLL_S", 0.01)


async def test_an_authority_is_replaced_and_all_let_each_other_in_at_every_moment(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path, all_shake)
    before = cluster.secrets["zq-tls-authority"]["tls.crt"]
    stolen = Pod(tmp_path / "stolen", TlsRole.LOAD, dict(cluster.secrets["zq-tls-load"]))
    await command(cluster).replace_authority()
    after = cluster.secrets["zq-tls-authority"]
    assert after["tls.crt"] != before
    assert set(after) == {"tls.crt", "tls.key"}
    assert all(cluster.secrets[f"zq-tls-{role}"]["ca.crt"] == after["tls.crt"] for role in TlsRole)
    all_shake(cluster)
    with pytest.raises(ssl.SSLError):
        shake(stolen, cluster.pods["zq-default-0"])
    await command(cluster).renew()
    all_shake(cluster)
    lines = await command(cluster).show()
    assert len(lines) == 5
    assert "zq-tls-operator: CN=operator, by CN=zonequake " in lines[2]


async def test_without_the_overlap_a_client_would_be_locked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the test above can fail."""

    async def at_once(*_: object) -> None:
        """Waits for nobody."""

    monkeypatch.setattr(Certificates, "_until_used", at_once)
    cluster = Cluster(tmp_path, all_shake)
    await command(cluster).replace_authority()
    with pytest.raises(ssl.SSLError):
        await cluster.pod_proxy("zq-operator-x", 8080, "/metrics")


async def test_who_doesnt_follow_is_named_and_the_next_call_goes_on_from_there(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path, all_shake)
    cluster.frozen.add("zq-default-1")
    with pytest.raises(WaitExpired, match="zq-default-1 didn't use these authorities"):
        await command(cluster).replace_authority()
    begun = cluster.secrets["zq-tls-authority"]["next.crt"]
    cluster.frozen.clear()
    await command(cluster).replace_authority()
    assert cluster.secrets["zq-tls-authority"]["tls.crt"] == begun


async def test_what_the_chart_did_not_make_is_left_to_its_maker(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, all_shake)
    with pytest.raises(UsageError, match="ConfigMap bundle"):
        await command(cluster, authorities="bundle").replace_authority()
    del cluster.secrets["zq-tls-authority"]
    with pytest.raises(UsageError, match="cert-manager"):
        await command(cluster).renew()
