"""The instance's certificates: made anew at each `up`, gone with its folder at `down`.

Two authorities, because etcd trusts whoever its authority has signed: with one, every component's
certificate would open the whole store, past the API server's rules.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from zonequake_chaos.cluster.instance import Spec

#: Longer than any instance lives.
_LIFETIME = timedelta(days=365)
#: A clock that is set back after `up` must not make the certificates invalid.
_CLOCK_SLACK = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates; its key is never written to disk."""

    def __init__(self, name: str, now: datetime) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._now = now
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            self._builder(subject, subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> bytes:
        """PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def sign(self, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Credential:
        """A credential of `user` in `groups`; with `hosts` (names, addresses) it also serves."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(subject, self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
        )
        if hosts:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            names = x509.SubjectAlternativeName([_alternative_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False).sign(
            self._key, hashes.SHA256()
        )
        return Credential(
            certificate=certificate.public_bytes(serialization.Encoding.PEM), key=_pem(key)
        )

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _CLOCK_SLACK)
            .not_valid_after(self._now + _LIFETIME)
        )


#: Component and the identity that Kubernetes' own roles are bound to.
_CLIENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("kubernetes-admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-proxy": ("system:kube-proxy", ()),
    "coredns": ("zonequake:coredns", ()),
    "provision-volumes": ("zonequake:provision-volumes", ()),
}


def write_credentials(spec: Spec, folder: Path, now: datetime | None = None) -> None:
    """Writes `pki/` and `kubeconfigs/` below the instance's folder, readable by root alone."""
    moment = now if now is not None else datetime.now(UTC)
    pki, kubeconfigs = folder / "pki", folder / "kubeconfigs"
    for each in (pki, kubeconfigs):
        each.mkdir(mode=0o700, exist_ok=True)

    cluster = Authority(f"zonequake {spec.name}", moment)
    store = Authority(f"zonequake {spec.name} etcd", moment)
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
    _write(pki / "service-accounts.key", _pem(account))
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


def render_kubeconfig(spec: Spec, authority: bytes, credential: Credential) -> str:
    """A kubeconfig with everything in it, so that it may be copied anywhere on the machine."""
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


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
