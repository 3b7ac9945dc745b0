from __future__ import annotations

import base64
import io
import json
import ssl
import stat
import tarfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from zonequake_cluster import configuration, embedded
from zonequake_cluster.components import components
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.instance import INSIDE, POLICIES_ENFORCED, InstanceSpec, find_instance
from zonequake_cluster.machine.disk_room import EVICTION_GIB
from zonequake_cluster.restarts import restart_delay_s
from zonequake_cluster.supply.image_import import program_archive
from zonequake_cluster.supply.pki import write_credentials

NOW = datetime(2030, 1, 2, tzinfo=UTC)


@pytest.fixture
def spec() -> InstanceSpec:
    return InstanceSpec(
        name="demo",
        key="0123abcd",
        node="zonequake-demo",
        host_address="10.64.0.1",
        node_address="10.64.0.2",
        prefix_length=30,
        dns_address="10.64.0.10",
        service_range="10.64.64.0/18",
        pod_range="10.64.128.0/17",
        snapshotter="native",
        cni_folder="/usr/lib/cni",
        started_unix_ns=1,
    )


def test_containerd_gets_this_instances_folders_and_snapshotter(spec: InstanceSpec) -> None:
    parsed = tomllib.loads(configuration.containerd(spec))
    cri = parsed["plugins"]["io.containerd.grpc.v1.cri"]
    assert parsed["root"] == f"{INSIDE}/containerd"
    assert cri["restrict_oom_score_adj"] is True
    assert cri["containerd"]["snapshotter"] == "native"
    assert cri["cni"] == {"bin_dir": "/usr/lib/cni", "conf_dir": f"{INSIDE}/cni"}


def test_the_kubelet_restarts_containers_quickly_below_its_own_cgroup(spec: InstanceSpec) -> None:
    parsed = yaml.safe_load(configuration.kubelet(spec))
    assert parsed["cgroupRoot"] == "/zonequake-0123abcd"
    assert parsed["crashLoopBackOff"] == {"maxContainerRestartPeriod": "1s"}
    assert all(parsed["featureGates"].values())
    assert parsed["clusterDNS"] == ["10.64.0.10"]
    assert parsed["evictionHard"]["nodefs.available"] == f"{EVICTION_GIB}Gi"
    assert parsed["evictionPressureTransitionPeriod"] == "30s", "helm waits for 5 minutes"
    assert parsed["authentication"]["anonymous"] == {"enabled": False}


def test_pods_get_addresses_of_the_instances_range_alone(spec: InstanceSpec) -> None:
    [plugin] = json.loads(configuration.cni(spec))["plugins"]
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.64.128.0/17"}]]


def test_cluster_names_are_not_cached_and_other_names_have_a_block_of_their_own(
    spec: InstanceSpec,
) -> None:
    own, others = configuration.corefile(spec).split("\n.:53 {")
    assert "ttl 0" in own
    assert "cache" not in own + others
    assert "template" not in own
    assert "NXDOMAIN" in others


def test_the_default_storage_class_names_the_provisioner_that_runs(spec: InstanceSpec) -> None:
    [storage] = [
        each
        for each in yaml.safe_load_all(configuration.manifests())
        if each["kind"] == "StorageClass"
    ]
    [provisioner] = [each for each in components(spec) if each.name == "provision-volumes"]
    assert f"--provisioner={storage['provisioner']}" in provisioner.command


def test_every_component_waits_only_for_components_that_come_before_it(spec: InstanceSpec) -> None:
    seen: set[str] = set()
    for component in components(spec):
        assert set(component.after) <= seen, component.name
        seen.add(component.name)


def test_a_node_whose_policies_have_no_effect_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_POLICIES_TIMEOUT_S", 0)
    said: list[str] = []
    cluster = EmbeddedCluster("demo", root=tmp_path, say=said.append)
    cluster._look_at_policies()
    [warning] = said
    assert warning.startswith("warning: this node does not enforce network policies")
    enforced = find_instance("demo", tmp_path).folder / POLICIES_ENFORCED
    enforced.parent.mkdir(parents=True)
    enforced.touch()
    cluster._look_at_policies()
    assert said == [warning]


def test_everything_serves_by_tls_and_the_api_server_by_rbac(spec: InstanceSpec) -> None:
    commands = {each.name: each.command for each in components(spec)}
    assert "--authorization-mode=Node,RBAC" in commands["kube-apiserver"]
    assert "--enable-admission-plugins=NodeRestriction" in commands["kube-apiserver"]
    assert "--client-cert-auth=true" in commands["etcd"]
    assert not [word for command in commands.values() for word in command if "http://" in word]


def test_a_certificate_of_the_cluster_does_not_open_etcd(
    spec: InstanceSpec, tmp_path: Path
) -> None:
    write_credentials(spec, tmp_path, NOW)
    store = x509.load_pem_x509_certificate((tmp_path / "pki/etcd-ca.crt").read_bytes())
    admitted = x509.load_pem_x509_certificate((tmp_path / "pki/apiserver-etcd.crt").read_bytes())
    other = x509.load_pem_x509_certificate((tmp_path / "pki/apiserver-kubelet.crt").read_bytes())
    admitted.verify_directly_issued_by(store)
    with pytest.raises(ValueError, match="does not match certificate issuer"):
        other.verify_directly_issued_by(store)


def test_the_api_server_may_be_called_by_its_address_and_by_its_service(
    spec: InstanceSpec, tmp_path: Path
) -> None:
    write_credentials(spec, tmp_path, NOW)
    served = x509.load_pem_x509_certificate((tmp_path / "pki/kube-apiserver.crt").read_bytes())
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "10.64.0.2", "10.64.64.1"}
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    assert isinstance(served.public_key(), ec.EllipticCurvePublicKey)


def test_the_kubelet_is_its_node_and_the_administrator_everything(
    spec: InstanceSpec, tmp_path: Path
) -> None:
    write_credentials(spec, tmp_path, NOW)
    assert (
        _subject(tmp_path / "kubeconfigs/kubelet") == "CN=system:node:zonequake-demo,O=system:nodes"
    )
    assert _subject(tmp_path / "kubeconfigs/admin") == "CN=kubernetes-admin,O=system:masters"


def test_keys_and_kubeconfigs_are_readable_by_their_owner_alone(
    spec: InstanceSpec, tmp_path: Path
) -> None:
    write_credentials(spec, tmp_path, NOW)
    written = [*tmp_path.glob("pki/*"), *tmp_path.glob("kubeconfigs/*")]
    assert len(written) > 15
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    ssl.create_default_context().load_cert_chain(
        tmp_path / "pki/etcd.crt", tmp_path / "pki/etcd.key"
    )


def test_an_image_archive_names_its_image_and_the_digests_of_what_it_holds() -> None:
    content = program_archive(b"program", image="localhost/a:1", machine="x86_64")
    assert content == program_archive(b"program", image="localhost/a:1", machine="x86_64")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = archive.getnames()
        index = archive.extractfile("index.json")
        assert index is not None
        [manifest] = json.load(index)["manifests"]
    assert manifest["annotations"] == {"io.containerd.image.name": "localhost/a:1"}
    assert f"blobs/{manifest['digest'].replace(':', '/')}" in names


def test_a_component_that_fails_again_and_again_waits_longer_up_to_five_seconds() -> None:
    ends, delays = 0, []
    for _ in range(7):
        ends, delay_s = restart_delay_s(ends, ran_s=0.1)
        delays.append(delay_s)
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_component_that_had_settled_starts_again_at_once() -> None:
    assert restart_delay_s(6, ran_s=60.0) == (1, 0.2)


def _subject(kubeconfig: Path) -> str:
    [user] = yaml.safe_load(kubeconfig.read_text())["users"]
    certificate = base64.b64decode(user["user"]["client-certificate-data"])
    return x509.load_pem_x509_certificate(certificate).subject.rfc4514_string()
