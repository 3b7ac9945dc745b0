"""An authority that signs certificates: the embedded cluster's, and a release's (docs/tls.md)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DEFAULT_LIFETIME = timedelta(days=365)
#: A clock that is set back by a day must not make certificates invalid, even if it was behind the
#: clock of their maker.
CLOCK_SLACK = timedelta(days=1, hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates; they are valid from a given time."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, now: datetime
    ) -> None:
        self._key = key
        self._certificate = certificate
        self._now = now

    @classmethod
    def made(cls, name: str, now: datetime, *, lifetime: timedelta = DEFAULT_LIFETIME) -> Authority:
        """Creates a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(subject, subject, key.public_key(), now, lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate, now)

    @classmethod
    def read(cls, credential: Credential, now: datetime) -> Authority:
        """Reads an existing authority. Raises ValueError."""
        key = serialization.load_pem_private_key(credential.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"found a key of {type(key).__name__}, expected one of a curve (EC)")
        return cls(key, x509.load_pem_x509_certificate(credential.certificate), now)

    @property
    def certificate(self) -> bytes:
        """The certificate as PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def credential(self) -> Credential:
        """The credential from which `read` restores this authority."""
        return Credential(certificate=self.certificate, key=key_pem(self._key))

    def sign(
        self,
        user: str,
        groups: Sequence[str] = (),
        hosts: Sequence[str] = (),
        *,
        lifetime: timedelta = DEFAULT_LIFETIME,
    ) -> Credential:
        """Signs a credential of `user` in `groups`; with `hosts` (names, addresses) also for a
        server."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), self._now, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            names = x509.SubjectAlternativeName([_alternative_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False).sign(
            self._key, hashes.SHA256()
        )
        return Credential(
            certificate=certificate.public_bytes(serialization.Encoding.PEM), key=key_pem(key)
        )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + lifetime)
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


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Returns the key as PEM, PKCS 8, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
