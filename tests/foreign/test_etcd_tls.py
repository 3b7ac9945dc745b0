"""Three real etcd servers with TLS for clients and peers, started as a run starts them."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from tests.processes.store.ports import free_ports
from tests.unit.chaos.local_exec import LocalExec
from tests.unit.chaos.runner.test_runs_against_etcd import ask
from tests.unit.installed import place_of
from tests.unit.load.test_etcd_target import limits, write
from tests.unit.load.test_etcd_tls import A_DAY, EXPIRED, secret
from tests.unit.repository.test_layout import ROOT
from zonequake_chaos.commands.run import planned
from zonequake_chaos.kit.member_set import MemberSet
from zonequake_chaos.scenario.run import RunTarget
from zonequake_cluster.supply import tools
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_kube.errors import ClusterError
from zonequake_load.errors import TargetError
from zonequake_load.operation import Type
from zonequake_protocol.admin import ReplicaRole
from zonequake_target_etcd.client.target import EtcdTarget
from zonequake_target_etcd.client.tls import ClientTls
from zonequake_target_etcd.members import (
    LOOPBACK_PORT,
    METRICS_PORT,
    PORTS,
    PROGRAM,
    EtcdMembers,
    container,
)

pytestmark = pytest.mark.timeout(600)

TRIES = 3
"""On a machine that stands still no member may have been asked before the time is up."""


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
        named = (PORTS.clients, PORTS.peers, METRICS_PORT, LOOPBACK_PORT)
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
            loopback = ports[LOOPBACK_PORT]
            with monkeypatch.context() as here:
                here.setattr("zonequake_target_etcd.members.LOOPBACK_PORT", loopback)
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


KUBECTL = """\
#!/bin/bash
# --namespace NAMESPACE create secret generic NAME --from-file=KEY=FILE...
mkdir -p "$SECRETS/$2/$6"
for word in "${@:7}"; do
    pair=${word#--from-file=}
    cp "${pair#*=}" "$SECRETS/$2/$6/${pair%%=*}"
done
"""


ZONEQUAKE = """\
#!/bin/bash
echo "$@" >> "$SECRETS/installed"
"""


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Raises SSLError if one end refuses the other."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_hostname=name),
        server.wrap_bio(up, down, server_side=True),
    ]
    while ends:
        for end in [*ends]:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                ends.remove(end)


def test_the_commands_of_the_page_make_secrets_that_fit_the_run_that_it_shows(
    tmp_path: Path,
) -> None:
    section = (ROOT / "docs/etcd.md").read_text().partition("\n## TLS\n")[2].partition("\n## ")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    shell, _, run = "\n".join(lines).partition("zonequake run ")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("kubectl", KUBECTL), ("zonequake", ZONEQUAKE)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    places = {"PATH": f"{programs}:{os.environ['PATH']}", "SECRETS": str(tmp_path)}
    subprocess.run(
        ["bash", "-euc", shell], cwd=tmp_path, env=places, check=True, capture_output=True
    )

    scenario, *words = shlex.split(run)
    overrides = [word for option, word in pairwise(words) if option == "--set"]
    target = planned(ask(scenario, tmp_path / "run", *overrides)).spec.target
    place = place_of(target)
    place = replace(place, installation=replace(place.installation, namespace="zonequake"))
    members = MemberSet.of(place, target="etcd", program=PROGRAM, ports=PORTS)
    (secret_of_members,) = target.secrets.values()
    assert target.client_secret is not None
    named = f"{{{secret_of_members},{target.client_secret}}}"
    installed = (tmp_path / "installed").read_text()
    assert installed == f"install --set harness.targetSecrets={named}\n"
    client = ClientTls.read(tmp_path / "zonequake" / target.client_secret)
    files = tmp_path / "zonequake" / secret_of_members
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_verify_locations(files / "ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(files / "tls.crt", files / "tls.key")
    for endpoint in members.endpoints:
        shake_hands(client.context, server, endpoint.partition(":")[0])
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(client.context, server, "another.host")


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
    # A handshake takes its time on a busy machine.
    monkeypatch.setattr("zonequake_target_etcd.client.wire.CONNECT_TIMEOUT_S", 2.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.CHECK_TIMEOUT_S", 2.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 5.0)
    said: list[str] = []
    while not said or words not in said[-1]:
        assert len(said) < TRIES, said
        refused = EtcdTarget("z", etcd.seeds, rng=random.Random(1), secret=wrong)
        with pytest.raises(TargetError) as told:
            await refused.open()
        said.append(str(told.value))
    # An operation that is asked for nevertheless certainly had no effect.
    refused.connect()
    outcome = await refused.execute(write(7), limits(retry=False))
    await refused.close()
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 0), outcome
    found = await target.execute(write(8), limits())
    assert found.index == 2, "the first write of all"
    await target.close()
