"""Secrets with certificates, for targets whose members and clients speak TLS."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from zonequake_cluster.supply.certificate_authority import Authority, Credential
from zonequake_ctl.context import ReleasePlace


def hosts_of(target: str, place: ReleasePlace) -> list[str]:
    """The names that three members have for each other, and for clients."""
    service = f"zq-target.{place.namespace}.svc"
    return [f"zq-{target}-default-{ordinal}.{service}" for ordinal in range(3)]


async def make_secrets(
    place: ReleasePlace,
    authority: Authority,
    signed: Mapping[str, Credential],
    *,
    password: str | None = None,
) -> None:
    """Makes a Secret of each name, with the authority's certificate, too; with a password also the
    stores that programs in Java read, as cert-manager names them.
    """
    async with await place.connect() as kube:
        for name, credential in signed.items():
            files = {
                "tls.crt": credential.certificate,
                "tls.key": credential.key,
                "ca.crt": authority.certificate,
                **(stores_of(authority, credential, password.encode()) if password else {}),
            }
            data = {key: base64.b64encode(text).decode() for key, text in files.items()}
            metadata = {"name": name}
            await kube.apply(
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
            )


def stores_of(authority: Authority, credential: Credential, password: bytes) -> dict[str, bytes]:
    """Returns the stores of a key and of what is trusted, in PKCS #12."""
    trusted = x509.load_pem_x509_certificate(authority.certificate)
    key = serialization.load_pem_private_key(credential.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    encryption = serialization.BestAvailableEncryption(password)
    own = x509.load_pem_x509_certificate(credential.certificate)
    return {
        "keystore.p12": pkcs12.serialize_key_and_certificates(
            b"node", key, own, [trusted], encryption
        ),
        "truststore.p12": pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(trusted, b"ca")], encryption
        ),
    }
