"""Three real etcd servers with TLS for clients and peers, started as a run starts them."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from tests.processes.store.ports import free_ports
from tests.unit.chaos.local_exec import LocalExec
from tests.unit.installed import place_of
from tests.unit.load.test_etcd_target import limits, write
from tests.unit.load.test_etcd_tls import A_DAY, EXPIRED, secret
from zonequake_chaos.kit.member_set import MemberSet
from zonequake_chaos.scenario.run import RunTarget
from zonequake_cluster.supply import tools
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_kube.errors import ClusterError
from zonequake_load.errors import TargetError
from zonequake_load.operation import Type
from zonequake_protocol.admin import ReplicaRole
from zonequake_target_etcd import members as etcd_members
from zonequake_target_etcd.client.target import EtcdTarget
from zonequake_target_etcd.members import METRICS_PORT, PORTS, PROGRAM, EtcdMembers, container

pytestmark = pytest.mark.timeout(600)


class TlsEtcd:
    """The members of a run whose arguments name certificates, on this machine's loopback."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        signed = authority.sign("etcd", hosts=["127.0.0.1"])
        (folder / "tls.crt").write_bytes(signed.certificate)
        (folder / "tls.key").write_bytes(signed.key)
        (folder / "ca.crt").write_bytes(authority.certificate)
        self.args = [
            word
            for prefix in ("", "peer-")
            for word in (
                f"--{prefix}cert-file={folder}/tls.crt",
                f"--{prefix}key-file={folder}/tls.key",
                f"--{prefix}trusted-ca-file={folder}/ca.crt",
                f"--{prefix}client-cert-auth",
            )
        ]
        place = place_of(RunTarget(args=self.args), fsync=False)
        self.members = MemberSet.of(place, target="etcd", program=PROGRAM, ports=PORTS)
        named = (PORTS.clients, PORTS.peers, METRICS_PORT, etcd_members.LOOPBACK_PORT)
        ports = iter(free_ports(len(named) * self.members.count))
        self.ports = {pod: {port: next(ports) for port in named} for pod in self.members.pods}
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        program = str(tools.kubectl_path().parent / "zonequake-node")
        for pod in self.members.pods:
            words = [*container(self.members, token="a-test")["args"], *self.args]
            with (self._folder / f"{pod}.log").open("wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        [program, "etcd", *(self._here(pod, word) for word in words)],
                        stdout=log,
                        stderr=log,
                    )
                )

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    @property
    def seeds(self) -> list[str]:
        return [f"127.0.0.1:{ports[PORTS.clients]}" for ports in self.ports.values()]

    def _here(self, pod: str, word: str) -> str:
        """Returns an argument with ports of this machine for those of the members' pods."""
        word = word.replace("$(POD)", pod).replace("0.0.0.0", "127.0.0.1")
        for name, ports in self.ports.items():
            for port, here in ports.items():
                word = word.replace(self.members.address(name, port), f"127.0.0.1:{here}")
        for port, here in self.ports[pod].items():
            word = word.replace(f"127.0.0.1:{port}", f"127.0.0.1:{here}")
        return word.replace("/data/", f"{self._folder}/{pod}/")


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a busy machine is the reason, and no certificate."""
    monkeypatch.setattr("zonequake_target_etcd.client.wire.CONNECT_TIMEOUT_S", 30.0)


@pytest.fixture
def authority() -> Authority:
    return Authority.made("a test's", datetime.now(UTC))


@pytest.fixture
async def etcd(tmp_path: Path, authority: Authority) -> AsyncIterator[TlsEtcd]:
    folder = tmp_path / "etcd"
    folder.mkdir()
    started = TlsEtcd(folder, authority)
    started.start()
    try:
        yield started
    finally:
        started.stop()


async def opened(etcd: TlsEtcd, folder: Path) -> EtcdTarget:
    """Waits for the members' first leader."""
    give_up = time.monotonic() + 120
    while True:
        target = EtcdTarget("z", etcd.seeds, rng=random.Random(1), secret=folder)
        try:
            await target.open()
        except TargetError:
            assert time.monotonic() < give_up
        else:
            return target


async def test_a_client_with_a_certificate_writes_and_the_harness_sees_all_members(
    etcd: TlsEtcd, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = await opened(etcd, secret(tmp_path / "secret", authority))
    assert (await target.execute(write(7), limits())).type is Type.OK
    await target.close()
    pods = LocalExec()
    roles, dumps = [], []
    async with pods.serving(tmp_path) as kube, aiohttp.ClientSession() as session:
        system = EtcdMembers(kube, run_id="r", zone="z", args=etcd.args)
        for pod, ports in etcd.ports.items():
            loopback = ports[etcd_members.LOOPBACK_PORT]
            with monkeypatch.context() as here:
                here.setattr(etcd_members, "LOOPBACK_PORT", loopback)
                status = await system.status(pod, timeout_s=10)
                while status.applied < 2:
                    status = await system.status(pod, timeout_s=10)
                roles.append(status.role)
                dumps.append(await system.dump(pod))
                assert (await system.version(pod)).startswith("3.")
            # As the kubelet asks, which has no certificate.
            url = f"http://127.0.0.1:{ports[METRICS_PORT]}/health?serializable=true"
            async with session.get(url) as answer:
                assert answer.status == 200
        with pytest.raises(ClusterError, match="Connection refused"):
            await system.status(etcd.members.pods[0], timeout_s=10)
    assert sorted(roles) == [ReplicaRole.FOLLOWER] * 2 + [ReplicaRole.LEADER]
    assert [[(key.key, key.value) for key in dump.keys] for dump in dumps] == [[("k", 7)]] * 3
    assert len({dump.digest for dump in dumps}) == 1
    assert {container for _, container, _ in pods.started} == {"hands"}


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("no certificate", "the client shows no certificate, as its Secret has no tls.crt"),
        ("an expired one", "check the dates and the authority of the client's tls.crt"),
        ("one of another authority", "check the dates and the authority of the client's tls.crt"),
        ("trust in another authority", "unable to get local issuer certificate"),
    ],
)
async def test_a_client_that_is_not_let_in_says_why_and_sends_nothing(
    etcd: TlsEtcd,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    which: str,
    words: str,
) -> None:
    right = secret(tmp_path / "right", authority)
    target = await opened(etcd, right)
    other = secret(tmp_path / "other", Authority.made("a test's", datetime.now(UTC)))
    wrong = secret(
        tmp_path / "wrong",
        authority,
        lifetime={"no certificate": None, "an expired one": EXPIRED}.get(which, A_DAY),
    )
    if which == "one of another authority":
        for name in ("tls.crt", "tls.key"):
            (wrong / name).write_bytes((other / name).read_bytes())
    if which == "trust in another authority":
        (wrong / "ca.crt").write_bytes((other / "ca.crt").read_bytes())
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 2.0)
    refused = EtcdTarget("z", etcd.seeds, rng=random.Random(1), secret=wrong)
    with pytest.raises(TargetError) as told:
        await refused.open()
    assert words in str(told.value)
    # An operation that is asked for nevertheless certainly had no effect.
    refused.connect()
    outcome = await refused.execute(write(7), limits(total_s=2.0))
    await refused.close()
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 0), outcome
    found = await target.execute(write(8), limits())
    assert found.index == 2, "the first write of all"
    await target.close()
