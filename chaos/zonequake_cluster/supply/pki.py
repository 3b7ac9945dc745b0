"""The instance's certificates: created at each `up`, removed with its folder at `down`.

Two authorities, because etcd trusts every certificate that its authority has signed: with one
authority, every component could read the whole store, past the API server's rules.
"""

from __future__ import annotations

import base64
import ipaddress
from datetime import UTC, datetime
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from zonequake_cluster.instance import InstanceSpec
from zonequake_cluster.supply.certificate_authority import Authority, Credential, key_pem

#: Component and the identity that Kubernetes' own roles are bound to.
_CLIENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("kubernetes-admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-proxy": ("system:kube-proxy", ()),
    "coredns": ("zonequake:coredns", ()),
    "enforce-policies": ("zonequake:enforce-policies", ()),
    "provision-volumes": ("zonequake:provision-volumes", ()),
}


def write_credentials(spec: InstanceSpec, folder: Path, now: datetime | None = None) -> None:
    """Writes `pki/` and `kubeconfigs/` below the instance's folder, readable by root alone."""
    moment = now if now is not None else datetime.now(UTC)
    pki, kubeconfigs = folder / "pki", folder / "kubeconfigs"
    for each in (pki, kubeconfigs):
        each.mkdir(mode=0o700, exist_ok=True)

    cluster = Authority.made(f"zonequake {spec.name}", moment)
    store = Authority.made(f"zonequake {spec.name} etcd", moment)
    _write(pki / "ca.crt", cluster.certificate)
    _write(pki / "etcd-ca.crt", store.certificate)
    first_service = str(ipaddress.IPv4Network(spec.service_range)[1])
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    served = {
        "kube-apiserver": cluster.sign(
            "kube-apiserver",
            hosts=(
                *names,
                "kubernetes.default.svc.cluster.local",
                "localhost",
                "127.0.0.1",
                spec.node_address,
                first_service,
            ),
        ),
        "kubelet-serving": cluster.sign(
            f"system:node:{spec.node}", ("system:nodes",), hosts=(spec.node, spec.node_address)
        ),
        "apiserver-kubelet": cluster.sign("zonequake:apiserver-kubelet", ("system:masters",)),
        "etcd": store.sign("etcd", hosts=("localhost", "127.0.0.1")),
        "apiserver-etcd": store.sign("apiserver-etcd"),
    }
    for name, credential in served.items():
        _write(pki / f"{name}.crt", credential.certificate)
        _write(pki / f"{name}.key", credential.key)
    account = ec.generate_private_key(ec.SECP256R1())
    _write(pki / "service-accounts.key", key_pem(account))
    _write(
        pki / "service-accounts.pub",
        account.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )
    clients = _CLIENTS | {"kubelet": (f"system:node:{spec.node}", ("system:nodes",))}
    for component, (user, groups) in clients.items():
        text = render_kubeconfig(spec, cluster.certificate, cluster.sign(user, groups))
        _write(kubeconfigs / component, text.encode())


def render_kubeconfig(spec: InstanceSpec, authority: bytes, credential: Credential) -> str:
    """Returns a self-contained kubeconfig, which may be copied anywhere on the machine."""
    name = f"zonequake-{spec.name}"
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": f"https://{spec.node_address}:6443",
                        "certificate-authority-data": _base64(authority),
                    },
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _base64(credential.certificate),
                        "client-key-data": _base64(credential.key),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        sort_keys=False,
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
