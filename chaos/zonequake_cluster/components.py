"""The programs of a node: the command line of each, its dependencies, and when it is ready.

containerd ──────────────┐
etcd → kube-apiserver ─┬─┴ kubelet
                       ├─ kube-controller-manager, kube-scheduler, kube-proxy
                       └─ coredns, provision-volumes, enforce-policies
"""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_cluster.configuration import CONTAINERD_SOCKET, STORAGE_PROVISIONER
from zonequake_cluster.instance import INSIDE, INSIDE_BIN, POLICIES_ENFORCED, InstanceSpec

API_PORT = 6443


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A program of the node; `after` names those that must be ready first.

    It is ready when `socket` exists, `port` accepts on loopback, `health` (a path of the API
    server) answers 200; if none of them is set, as soon as it runs.
    """

    name: str
    command: tuple[str, ...]
    after: tuple[str, ...] = ()
    socket: str | None = None
    port: int | None = None
    health: str | None = None


def components(spec: InstanceSpec) -> tuple[Component, ...]:
    """Returns every component of the node, dependencies first."""
    return (
        Component(
            name="containerd",
            command=("containerd", "--config", f"{INSIDE}/containerd.toml", "--log-level", "info"),
            socket=CONTAINERD_SOCKET,
        ),
        Component(name="etcd", command=_node("etcd", _ETCD), port=2379),
        Component(
            name="kube-apiserver",
            command=_node("kube-apiserver", _apiserver(spec)),
            after=("etcd",),
            health="/readyz",
        ),
        Component(
            name="kubelet",
            command=_node(
                "kubelet",
                {
                    "config": f"{INSIDE}/kubelet.yaml",
                    "kubeconfig": f"{INSIDE}/kubeconfigs/kubelet",
                    "root-dir": f"{INSIDE}/kubelet",
                    "hostname-override": spec.node,
                    "node-ip": spec.node_address,
                    "housekeeping-interval": "30s",
                },
            ),
            after=("containerd", "kube-apiserver"),
        ),
        Component(
            name="kube-controller-manager",
            command=_node("kube-controller-manager", _controller_manager()),
            after=("kube-apiserver",),
        ),
        Component(
            name="kube-scheduler",
            command=_node("kube-scheduler", _scheduler()),
            after=("kube-apiserver",),
        ),
        Component(
            name="kube-proxy",
            command=_node("kube-proxy", {"config": f"{INSIDE}/kube-proxy.yaml"}),
            after=("kube-apiserver",),
        ),
        Component(
            name="coredns",
            command=(f"{INSIDE_BIN}/zonequake-node", "coredns", "-conf", f"{INSIDE}/Corefile"),
            after=("kube-apiserver",),
        ),
        Component(
            name="provision-volumes",
            command=_node(
                "provision-volumes",
                {
                    "kubeconfig": f"{INSIDE}/kubeconfigs/provision-volumes",
                    "directory": f"{INSIDE}/volumes",
                    "node": spec.node,
                    "provisioner": STORAGE_PROVISIONER,
                },
            ),
            after=("kube-apiserver",),
        ),
        Component(
            name="enforce-policies",
            command=_node(
                "enforce-policies",
                {
                    "kubeconfig": f"{INSIDE}/kubeconfigs/enforce-policies",
                    "node": spec.node,
                    "service-range": spec.service_range,
                    "enforced": str(INSIDE / POLICIES_ENFORCED),
                },
            ),
            after=("kube-apiserver",),
        ),
    )


#: No fsync: the store lives as long as the instance, and a machine that dies takes both.
_ETCD = {
    "name": "zonequake",
    "data-dir": f"{INSIDE}/etcd",
    "unsafe-no-fsync": "true",
    "log-level": "warn",
    "listen-client-urls": "https://127.0.0.1:2379",
    "advertise-client-urls": "https://127.0.0.1:2379",
    "listen-peer-urls": "https://127.0.0.1:2380",
    "initial-advertise-peer-urls": "https://127.0.0.1:2380",
    "initial-cluster": "zonequake=https://127.0.0.1:2380",
    "client-cert-auth": "true",
    "trusted-ca-file": f"{INSIDE}/pki/etcd-ca.crt",
    "cert-file": f"{INSIDE}/pki/etcd.crt",
    "key-file": f"{INSIDE}/pki/etcd.key",
    "peer-client-cert-auth": "true",
    "peer-trusted-ca-file": f"{INSIDE}/pki/etcd-ca.crt",
    "peer-cert-file": f"{INSIDE}/pki/etcd.crt",
    "peer-key-file": f"{INSIDE}/pki/etcd.key",
}


def _apiserver(spec: InstanceSpec) -> dict[str, str]:
    return {
        "advertise-address": spec.node_address,
        "secure-port": str(API_PORT),
        "service-cluster-ip-range": spec.service_range,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "profiling": "false",
        "audit-policy-file": f"{INSIDE}/audit-policy.yaml",
        "audit-log-path": f"{INSIDE}/logs/audit.log",
        # At most three files of 20 MB: an instance may be left running for days.
        "audit-log-maxsize": "20",
        "audit-log-maxbackup": "2",
        "client-ca-file": f"{INSIDE}/pki/ca.crt",
        "tls-cert-file": f"{INSIDE}/pki/kube-apiserver.crt",
        "tls-private-key-file": f"{INSIDE}/pki/kube-apiserver.key",
        "etcd-servers": "https://127.0.0.1:2379",
        "etcd-cafile": f"{INSIDE}/pki/etcd-ca.crt",
        "etcd-certfile": f"{INSIDE}/pki/apiserver-etcd.crt",
        "etcd-keyfile": f"{INSIDE}/pki/apiserver-etcd.key",
        "kubelet-certificate-authority": f"{INSIDE}/pki/ca.crt",
        "kubelet-client-certificate": f"{INSIDE}/pki/apiserver-kubelet.crt",
        "kubelet-client-key": f"{INSIDE}/pki/apiserver-kubelet.key",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": f"{INSIDE}/pki/service-accounts.pub",
        "service-account-signing-key-file": f"{INSIDE}/pki/service-accounts.key",
    }


def _controller(name: str) -> dict[str, str]:
    kubeconfig = f"{INSIDE}/kubeconfigs/{name}"
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
        "profiling": "false",
    }


def _controller_manager() -> dict[str, str]:
    return _controller("kube-controller-manager") | {
        "allocate-node-cidrs": "false",
        "root-ca-file": f"{INSIDE}/pki/ca.crt",
        "service-account-private-key-file": f"{INSIDE}/pki/service-accounts.key",
        "use-service-account-credentials": "true",
    }


def _scheduler() -> dict[str, str]:
    # In one of some hundreds of cases the scheduler misses that a claim is bound, which takes ms
    # here; it retries such a pod after this time, by default five minutes.
    return _controller("kube-scheduler") | {"pod-max-in-unschedulable-pods-duration": "5s"}


def _node(component: str, flags: dict[str, str]) -> tuple[str, ...]:
    words = (f"--{flag}={value}" for flag, value in flags.items())
    return (f"{INSIDE_BIN}/zonequake-node", component, *words)
