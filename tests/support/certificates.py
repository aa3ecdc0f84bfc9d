"""Certificates and keys for tests, generated at run time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from itertools import count

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
BEFORE = datetime(2025, 1, 1, tzinfo=UTC)
AFTER = datetime(2035, 1, 1, tzinfo=UTC)
_serials = count(1000)


def make_key(kind: str = "ec") -> Key:
    """Return a private key: ``rsa``, ``ec``, ``p384`` or ``ed25519``."""
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP384R1() if kind == "p384" else ec.SECP256R1())


def make_certificate(
    key: Key, names: list[tuple[x509.ObjectIdentifier, str]] | None = None, *, until: datetime = AFTER
) -> str:
    """Return a certificate self-signed with *key*."""
    attributes = names or [(NameOID.COMMON_NAME, "user")]
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, BEFORE, until)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(Encoding.PEM).decode()


def key_pem(key: Key, form: str = "pkcs8", password: str = "") -> str:
    """Return the key as PEM: ``pkcs8``, or ``traditional`` for PKCS #1 and SEC 1."""
    layout = PrivateFormat.PKCS8 if form == "pkcs8" else PrivateFormat.TraditionalOpenSSL
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, layout, encryption).decode()


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its key, as PEM."""

    certificate: str
    key: str = field(repr=False)
    serial: int = 0


class Authority:
    """A certificate authority that signs certificates of servers and clients."""

    def __init__(self) -> None:
        self._key = make_key()
        self._name = _name("test authority")
        self._public_key = self._key.public_key()
        builder = self._builder(self._name, self._public_key)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.pem = self._sign(builder.add_extension(usage, critical=True))[0]

    def server(self, *names: str, until: datetime = AFTER) -> Pair:
        """Return a server's certificate, for host names and addresses."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._issue("server", ExtendedKeyUsageOID.SERVER_AUTH, alternatives, until)

    def server_called(self, name: str) -> Pair:
        """Return a server's certificate of the old kind, with only a common name."""
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, None)

    def client(self, user: str = "user") -> Pair:
        """Return a user's certificate with a new serial number."""
        return self._issue(user, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        user: str,
        use: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
        until: datetime = AFTER,
    ) -> Pair:
        key = make_key()
        builder = self._builder(_name(user), key.public_key(), until)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        pem, serial = self._sign(builder)
        return Pair(pem, key_pem(key), serial)

    def _builder(
        self, subject: x509.Name, public_key: object, until: datetime = AFTER
    ) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(self._name, subject, public_key, next(_serials), BEFORE, until)  # type: ignore[arg-type] # any kind of key
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._public_key)
        identifier = x509.SubjectKeyIdentifier.from_public_key(public_key)  # type: ignore[arg-type] # as above
        return builder.add_extension(issuer, critical=False).add_extension(identifier, critical=False)

    def _sign(self, builder: x509.CertificateBuilder) -> tuple[str, int]:
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(Encoding.PEM).decode(), certificate.serial_number


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
