"""A real API server over a real etcd, with the chart's resource definitions installed."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zonequake_chaos.cluster import tools

from ...processes.store.ports import free_ports

CHART = Path(__file__).parents[3] / "charts" / "zonequake"
START_LIMIT_S = 60.0
TOKEN = "test"
UNVERIFIED = ssl.create_default_context()
UNVERIFIED.check_hostname = False
UNVERIFIED.verify_mode = ssl.CERT_NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """kubectl against one namespace; `kubeconfig` is for programs that bring their own client."""

    kubeconfig: Path
    url: str
    token: str
    credentials: Path
    """A folder as a pod's service account has it: `token` and `ca.crt`."""
    namespace: str = "default"
    pids: Mapping[str, int] = field(default_factory=dict)
    """Of the API server and of etcd."""

    def in_namespace(self, name: str) -> ApiServer:
        """The same server, in a namespace of its own, which is created."""
        created = self.kubectl("create", "namespace", name)
        assert created.returncode == 0, created.stderr
        return replace(self, namespace=name)

    def read(self, path: str) -> Any:
        """GET without kubectl, for what is asked often."""
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=30, context=UNVERIFIED) as response:
            return json.load(response)

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                str(tools.kubectl_path()),
                f"--kubeconfig={self.kubeconfig}",
                f"--namespace={self.namespace}",
                *arguments,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def apply(self, obj: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        return self.kubectl("apply", "--filename", "-", stdin=json.dumps(obj))

    def get(self, *what: str) -> Any:
        found = self.kubectl("get", *what, "--output", "json")
        return json.loads(found.stdout) if found.returncode == 0 else None

    def patch(self, what: str, name: str, patch: dict[str, Any], *options: str) -> None:
        done = self.kubectl("patch", what, name, "--patch", json.dumps(patch), *options)
        assert done.returncode == 0, done.stderr


@contextmanager
def running(folder: Path) -> Iterator[ApiServer]:
    """Both, with their files in `folder`, for as long as the block lasts."""
    node = str(tools.kubectl_path().parent / "zonequake-node")
    etcd, peer, port = free_ports(3)
    subprocess.run(
        ["openssl", "genrsa", "-out", str(folder / "sa.key"), "2048"],
        check=True,
        capture_output=True,
    )
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
    (folder / "kubeconfig").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": f"https://127.0.0.1:{port}",
                            "insecure-skip-tls-verify": True,
                        },
                    }
                ],
                "users": [{"name": "u", "user": {"token": TOKEN}}],
                "contexts": [
                    {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "default"}}
                ],
                "current-context": "x",
            }
        )
    )
    server = ApiServer(
        kubeconfig=folder / "kubeconfig",
        url=f"https://127.0.0.1:{port}",
        token=TOKEN,
        credentials=folder / "credentials",
    )
    with ExitStack() as running:
        log = running.enter_context((folder / "log").open("wb"))

        def start(*command: str) -> int:
            process = subprocess.Popen([node, *command], stdout=log, stderr=log, cwd=folder)
            running.callback(process.wait)
            running.callback(process.kill)
            return process.pid

        etcd_pid = start(
            "etcd",
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )
        server_pid = start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--cert-dir=certificates",
            "--service-account-issuer=https://test",
            "--service-account-signing-key-file=sa.key",
            "--service-account-key-file=sa.key",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=AlwaysAllow",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.97.0.0/24",
        )
        wait_until(lambda: server.kubectl("get", "--raw", "/readyz").returncode == 0)
        server.credentials.mkdir()
        (server.credentials / "token").write_text(TOKEN)
        certificate = (folder / "certificates" / "apiserver.crt").read_text()
        (server.credentials / "ca.crt").write_text(certificate)
        definitions = subprocess.run(
            [
                str(tools.helm_path()),
                "template",
                "zq",
                str(CHART),
                *(
                    f"--show-only=templates/crds/{path.name}"
                    for path in sorted((CHART / "templates" / "crds").iterdir())
                ),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        applied = server.kubectl("apply", "--filename", "-", stdin=definitions.stdout)
        assert applied.returncode == 0, applied.stderr
        wait_until(lambda: all(server.get(kind) for kind in ("dz", "zp", "topo", "zt")))
        yield replace(server, pids={"etcd": etcd_pid, "kube-apiserver": server_pid})


def wait_until(condition: Any, limit_s: float = START_LIMIT_S) -> None:
    """Until `condition()` holds; fails after `limit_s`."""
    give_up = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up, f"not within {limit_s} s"
        time.sleep(0.1)
