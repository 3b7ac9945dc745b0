"""A real API server over a real etcd, with the chart's resource definitions installed."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.patience import PATIENCE_S
from tests.processes.store.ports import free_ports
from zonequake_cluster.configuration import audit_policy
from zonequake_cluster.supply import tools

CHART = Path(__file__).parents[3] / "charts" / "zonequake"
TOKEN = "test"
SECRET = "mine"
"""The one Secret of whose being there the chaos account may ask."""
UNVERIFIED = ssl.create_default_context()
UNVERIFIED.check_hostname = False
UNVERIFIED.verify_mode = ssl.CERT_NONE


RESOURCES = {
    "dz": "zonequake.io/v1alpha1/distributionzones",
    "zp": "zonequake.io/v1alpha1/partitions",
    "topo": "zonequake.io/v1alpha1/logicaltopologies",
    "zt": "zonequake.io/v1alpha1/tables",
    "pod": "v1/pods",
    "pvc": "v1/persistentvolumeclaims",
    "events": "v1/events",
    "sts": "apps/v1/statefulsets",
    "lease": "coordination.k8s.io/v1/leases",
    "role": "rbac.authorization.k8s.io/v1/roles",
}
"""Version and plural, by what a kind is called in tests."""
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "Namespace")

_idle: dict[str, list[HTTPSConnection]] = {}
"""Connections that are kept, by the server's address."""


def _connection(url: str) -> HTTPSConnection:
    """One without a user; it is opened by its first request, and again after a `close`."""
    try:
        return _idle.setdefault(url, []).pop()
    except IndexError:
        address = urlsplit(url)
        assert address.hostname is not None
        return HTTPSConnection(
            address.hostname, address.port, timeout=PATIENCE_S, context=UNVERIFIED
        )


def _answer(
    connection: HTTPSConnection, method: str, path: str, data: str | None, headers: dict[str, str]
) -> tuple[int, Any]:
    """Status and JSON; the connection is closed if it fails."""
    try:
        connection.request(method, path, body=data, headers=headers)
        with connection.getresponse() as response:
            return response.status, json.loads(response.read())
    except (OSError, HTTPException):
        connection.close()
        raise


def _close_idle(url: str) -> None:
    for connection in _idle.pop(url, []):
        connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """kubectl against one namespace; `kubeconfig` is for programs that bring their own client."""

    kubeconfig: Path
    url: str
    token: str
    credentials: Path
    """A folder as a pod's service account has it: `token` and `ca.crt`."""
    namespace: str = "default"
    accounts: Mapping[str, str] = field(default_factory=dict)
    """Tokens of the release's accounts in this namespace: `operator`, `store`, `chaos`."""
    pids: Mapping[str, int] = field(default_factory=dict)
    """Of the API server and of etcd."""

    def in_namespace(self, name: str) -> ApiServer:
        """The same server, in a namespace of its own, which is created with the chart's accounts.

        `credentials` are the data nodes' there.
        """
        there = replace(self, namespace=name, credentials=self.kubeconfig.parent / name)
        there.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for obj in accounts_in(name):
            there.put(obj)
        tokens = {account: there.token_of(f"zq-{account}") for account in ACCOUNTS}
        there.credentials.mkdir()
        (there.credentials / "token").write_text(tokens["store"])
        (there.credentials / "ca.crt").write_bytes((self.credentials / "ca.crt").read_bytes())
        return replace(there, accounts=tokens)

    def token_of(self, account: str) -> str:
        """A new token of a ServiceAccount of the namespace."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        status, made = self._call("POST", path, {"spec": {"expirationSeconds": 3 * 3600}})
        assert status == HTTPStatus.CREATED, made
        return str(made["status"]["token"])

    def kubeconfig_of(self, account: str, folder: Path, *, url: str | None = None) -> Path:
        """A kubeconfig of an account of the release, written into `folder`."""
        path = folder / f"kubeconfig-{account}{'-elsewhere' if url else ''}"
        token = self.accounts[account]
        config = kubeconfig(url or self.url, token=token, namespace=self.namespace)
        path.write_text(json.dumps(config))
        return path

    def read(self, path: str) -> Any:
        """The answer to a GET. Raises AssertionError if it is refused."""
        status, found = self._call("GET", path)
        assert status == HTTPStatus.OK, found
        return found

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
            timeout=PATIENCE_S,
            check=False,
        )

    def apply(self, obj: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """As people do it, for what the server says to them."""
        return self.kubectl("apply", "--filename", "-", stdin=json.dumps(obj))

    def put(self, obj: dict[str, Any]) -> None:
        """Applies an object, without kubectl. Raises AssertionError if it is refused."""
        version, kind, name = obj["apiVersion"], obj["kind"], obj["metadata"]["name"]
        prefix = "api" if version == "v1" else "apis"
        within = "" if kind in CLUSTER_WIDE else f"namespaces/{self.namespace}/"
        path = f"/{prefix}/{version}/{within}{kind.lower()}s/{name}?fieldManager=tests&force=true"
        status, found = self._call("PATCH", path, obj, content_type="application/apply-patch+yaml")
        assert status in (HTTPStatus.OK, HTTPStatus.CREATED), found

    def create_zone(self, name: str = "z", /, **spec: object) -> None:
        zone = {
            "apiVersion": "zonequake.io/v1alpha1",
            "kind": "DistributionZone",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.put(zone)

    def get(self, kind: str, name: str | None = None) -> Any:
        """The object, or a list of all of a kind; None if there is none, or no answer."""
        try:
            status, found = self._call("GET", self._path(kind, name))
        except (OSError, HTTPException):
            return None
        return found if status == HTTPStatus.OK else None

    def patch(
        self, kind: str, name: str, patch: dict[str, Any], *, subresource: str | None = None
    ) -> None:
        """A merge patch."""
        path = self._path(kind, name) + (f"/{subresource}" if subresource else "")
        status, found = self._call("PATCH", path, patch)
        assert status == HTTPStatus.OK, found

    def _path(self, kind: str, name: str | None) -> str:
        version, _, plural = RESOURCES[kind].rpartition("/")
        prefix = "api" if version == "v1" else "apis"
        path = f"/{prefix}/{version}/namespaces/{self.namespace}/{plural}"
        return path if name is None else f"{path}/{name}"

    def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/merge-patch+json",
    ) -> tuple[int, Any]:
        """By a connection that is kept: tests ask many times a second, and kubectl takes a fifth
        of a second of a core to begin."""
        headers = {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            headers["Content-Type"] = "application/json" if method == "POST" else content_type
        data = None if body is None else json.dumps(body)
        connection = _connection(self.url)
        try:
            answer = _answer(connection, method, path, data, headers)
        except (OSError, HTTPException):  # the server closes what was idle for long
            answer = _answer(connection, method, path, data, headers)
        _idle.setdefault(self.url, []).append(connection)
        return answer


def kubeconfig(url: str, *, token: str, namespace: str) -> dict[str, Any]:
    """A kubeconfig of one context."""
    cluster: dict[str, Any] = {"server": url}
    if url.startswith("https:"):
        cluster |= {"insecure-skip-tls-verify": True}
    context = {"cluster": "c", "user": "u", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }


ACCOUNTS = ("operator", "store", "chaos")


@cache
def _rendered_accounts(*values: str) -> str:
    """The chart's accounts and all of their rights, in the namespace `NAMESPACE`."""
    rendered = subprocess.run(
        [
            *(str(tools.helm_path()), "template", "zq", str(CHART), "--namespace=NAMESPACE"),
            *("--set=harness.account=true", "--set=harness.targetAccount=true"),
            f"--set=harness.targetSecrets={{{SECRET}}}",
            *("--set=operator.readNodes=true", *values),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    kinds = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    found = [d for d in yaml.safe_load_all(rendered.stdout) if d and d["kind"] in kinds]
    return yaml.safe_dump_all(found)


def accounts_in(namespace: str) -> list[dict[str, Any]]:
    """Manifests of the chart's accounts and Roles for a release in this namespace."""
    return list(yaml.safe_load_all(_rendered_accounts().replace("NAMESPACE", namespace)))


def analysis_accounts_in(namespace: str) -> list[dict[str, Any]]:
    """The same of the analysis: those in the other namespace of a release in this one."""
    rendered = _rendered_accounts("--set=analysis.enabled=true").replace("NAMESPACE", namespace)
    there = f"{namespace}-analysis"
    return [d for d in yaml.safe_load_all(rendered) if d["metadata"].get("namespace") == there]


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
    (folder / "audit-policy.yaml").write_text(audit_policy())
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
    url = f"https://127.0.0.1:{port}"
    config = kubeconfig(url, token=TOKEN, namespace="default")
    (folder / "kubeconfig").write_text(json.dumps(config))
    server = ApiServer(
        kubeconfig=folder / "kubeconfig",
        url=url,
        token=TOKEN,
        credentials=folder / "credentials",
    )
    with ExitStack() as running:
        running.callback(_close_idle, url)
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
            "--authorization-mode=RBAC",
            "--allow-privileged",
            "--audit-policy-file=audit-policy.yaml",
            "--audit-log-path=audit.log",
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


def wait_until(condition: Any, limit_s: float = PATIENCE_S) -> None:
    """Until `condition()` holds; fails after `limit_s`."""
    give_up = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up, f"not within {limit_s} s"
        time.sleep(0.1)
