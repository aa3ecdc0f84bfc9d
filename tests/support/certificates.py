"""Certificates and keys for tests, made on the spot."""

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
BEFORE = datetime(2025, 1, 1, tzinfo=UTC)
AFTER = datetime(2035, 1, 1, tzinfo=UTC)


def make_key(kind: str = "ec") -> Key:
    """A private key: ``rsa``, ``ec``, ``p384`` or ``ed25519``."""
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP384R1() if kind == "p384" else ec.SECP256R1())


def make_certificate(key: Key, names: "list[tuple[x509.ObjectIdentifier, str]] | None" = None) -> str:
    """A certificate that *key* signed for itself."""
    attributes = names or [(NameOID.COMMON_NAME, "user")]
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, BEFORE, AFTER)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(Encoding.PEM).decode()


def key_pem(key: Key, form: str = "pkcs8", password: str = "") -> str:
    """The key as PEM: ``pkcs8``, or ``traditional`` for PKCS #1 and SEC 1."""
    layout = PrivateFormat.PKCS8 if form == "pkcs8" else PrivateFormat.TraditionalOpenSSL
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, layout, encryption).decode()
