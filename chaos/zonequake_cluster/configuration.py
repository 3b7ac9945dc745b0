"""Renders the configuration of the node's components: pure functions of the specification."""

from __future__ import annotations

import json
from textwrap import dedent

import yaml

from zonequake_cluster.instance import INSIDE, InstanceSpec
from zonequake_cluster.machine.disk_room import EVICTION_GIB

PAUSE_IMAGE = "localhost/zonequake/pause:1"
STORAGE_PROVISIONER = "zonequake.io/directory"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"

#: The kernel settings that a kubelet requires, with its values. The supervisor shows them to the
#: kubelet as the node's own files, so that it leaves the machine's settings unchanged.
KERNEL_SETTINGS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}


def render_all(spec: InstanceSpec) -> dict[str, str]:
    """Returns the content of each file, by path below the instance's folder."""
    return {
        "containerd.toml": containerd(spec),
        "cni/10-zonequake.conflist": cni(spec),
        "kubelet.yaml": kubelet(spec),
        "kube-proxy.yaml": kube_proxy(spec),
        "Corefile": corefile(spec),
        "resolv.conf": f"nameserver {spec.dns_address}\n",
        "manifests.yaml": manifests(),
        "audit-policy.yaml": audit_policy(),
    }


def containerd(spec: InstanceSpec) -> str:
    """Renders containerd's configuration, 1.6 and later; its state is below the node's own /run.

    `restrict_oom_score_adj`: a machine may forbid lowering a score. AppArmor is off because its
    profiles belong to the whole machine and would stay after the node's end.
    """
    return dedent(f"""\
        version = 2
        root = "{INSIDE}/containerd"
        state = "/run/containerd"
        disabled_plugins = [
          "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
          "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
          "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
        ]

        [grpc]
          address = "{CONTAINERD_SOCKET}"

        [plugins."io.containerd.grpc.v1.cri"]
          sandbox_image = "{PAUSE_IMAGE}"
          restrict_oom_score_adj = true
          disable_apparmor = true
          tolerate_missing_hugetlb_controller = true
          disable_hugetlb_controller = true
          stream_server_address = "127.0.0.1"
          stream_server_port = "0"

          [plugins."io.containerd.grpc.v1.cri".cni]
            bin_dir = "{spec.cni_folder}"
            conf_dir = "{INSIDE}/cni"

          [plugins."io.containerd.grpc.v1.cri".containerd]
            snapshotter = "{spec.snapshotter}"
            default_runtime_name = "runc"

            [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
              runtime_type = "io.containerd.runc.v2"

              [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
                SystemdCgroup = false
        """)


def cni(spec: InstanceSpec) -> str:
    """Renders the CNI configuration: each pod has its own veth, routed by the node.

    It has no bridge, whose traffic would bypass kube-proxy's rules unless the machine has
    br_netfilter.
    """
    return json.dumps(
        {
            "cniVersion": "0.4.0",
            "name": "zonequake",
            "plugins": [
                {
                    "type": "ptp",
                    "ipMasq": False,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": spec.pod_range}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        },
        indent=2,
    )


def kubelet(spec: InstanceSpec) -> str:
    """Renders the kubelet's configuration; crash back-off is at most 1 s, for repeated kills."""
    return yaml.safe_dump(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": spec.node_address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{INSIDE}/pki/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{INSIDE}/pki/kubelet-serving.crt",
            "tlsPrivateKeyFile": f"{INSIDE}/pki/kubelet-serving.key",
            "healthzBindAddress": "127.0.0.1",
            "clusterDomain": "cluster.local",
            "clusterDNS": [spec.dns_address],
            "resolvConf": f"{INSIDE}/resolv.conf",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/zonequake-{spec.key}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "podLogsDir": f"{INSIDE}/pod-logs",
            "volumePluginDir": f"{INSIDE}/kubelet/volume-plugins",
            "oomScoreAdj": 0,
            # The disk is shared with the machine: other data on it must not evict pods, and a
            # removed image can't be pulled again.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": f"{EVICTION_GIB}Gi",
            },
            # Else pods wait for 5 minutes after room was made, as long as helm waits for them.
            "evictionPressureTransitionPeriod": "30s",
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "featureGates": {
                "KubeletCrashLoopBackOffMax": True,
                "ReduceDefaultCrashLoopBackOffDecay": True,
            },
            "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
            "enableContentionProfiling": False,
            "volumeStatsAggPeriod": "5m",
        },
        sort_keys=False,
    )


def kube_proxy(spec: InstanceSpec) -> str:
    """Renders kube-proxy's configuration, without connection tracking limits of the machine."""
    return yaml.safe_dump(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "bindAddress": spec.node_address,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "clientConnection": {"kubeconfig": f"{INSIDE}/kubeconfigs/kube-proxy"},
            "clusterCIDR": spec.pod_range,
            "hostnameOverride": spec.node,
            "mode": "iptables",
            "iptables": {"localhostNodePorts": False},
            "oomScoreAdj": 0,
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        },
        sort_keys=False,
    )


def corefile(spec: InstanceSpec) -> str:
    """Renders CoreDNS's configuration: TTL 0 s and no cache, so that a restarted pod is found at
    once.

    Other names don't exist: there is no route out of the node. They have a separate block: within
    one, CoreDNS calls `template` before `kubernetes`, regardless of the order here.
    """
    return dedent(f"""\
        cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {{
            bind {spec.dns_address}
            errors
            kubernetes {{
                kubeconfig {INSIDE}/kubeconfigs/coredns
                pods insecure
                ttl 0
            }}
        }}

        .:53 {{
            bind {spec.dns_address}
            template ANY ANY {{
                rcode NXDOMAIN
            }}
        }}
        """)


def audit_policy() -> str:
    """Returns the audit policy: it logs each request with its answer's status, without bodies, and
    not those of the node's own components.

    It shows refused requests of pods and users, and so reveals missing rights.
    """
    return yaml.safe_dump(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "omitManagedFields": True,
            "rules": [
                {
                    "level": "None",
                    "userGroups": ["system:nodes", _CONTROLLERS],
                },
                {"level": "None", "users": [*_COMPONENTS, "system:apiserver"]},
                {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
                {"level": "Metadata"},
            ],
        },
        sort_keys=False,
    )


_CONTROLLERS = "system:serviceaccounts:kube-system"
_COMPONENTS = (
    "system:kube-controller-manager",
    "system:kube-proxy",
    "system:kube-scheduler",
    "zonequake:coredns",
    "zonequake:enforce-policies",
    "zonequake:provision-volumes",
)


def manifests() -> str:
    """Returns the manifests that every instance starts with: its storage class, and rights of its
    three own components.
    """
    return yaml.safe_dump_all(
        [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {
                    "name": "standard",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": STORAGE_PROVISIONER,
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "Immediate",
            },
            *_role(
                "coredns",
                [
                    _rule("", ["endpoints", "services", "pods", "namespaces"], ["list", "watch"]),
                    _rule("discovery.k8s.io", ["endpointslices"], ["list", "watch"]),
                ],
            ),
            *_role(
                "provision-volumes",
                [
                    _rule(
                        "",
                        ["persistentvolumes"],
                        ["get", "list", "watch", "create", "update", "patch", "delete"],
                    ),
                    _rule(
                        "",
                        ["persistentvolumeclaims"],
                        ["get", "list", "watch", "update", "patch"],
                    ),
                    _rule("", ["events"], ["create", "update", "patch"]),
                    _rule("", ["nodes"], ["get", "list", "watch"]),
                    _rule("storage.k8s.io", ["storageclasses"], ["get", "list", "watch"]),
                ],
            ),
            *_role(
                "enforce-policies",
                [
                    _rule("", ["nodes"], ["get"]),
                    _rule("", ["pods", "namespaces"], ["list", "watch"]),
                    _rule("networking.k8s.io", ["networkpolicies"], ["list", "watch"]),
                ],
            ),
        ],
        sort_keys=False,
    )


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, object]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _role(component: str, rules: list[dict[str, object]]) -> list[dict[str, object]]:
    name = f"zonequake:{component}"
    api = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": api, "kind": "User", "name": name}],
        },
    ]
