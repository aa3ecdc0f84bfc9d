"""Certificates and keys in PEM format, checked as Go's ``tls.X509KeyPair`` does.

PEM blocks are found without a dependency. Their content is parsed by ``cryptography``, which is part of
``keyferry[crypto]`` and is imported only when there is a certificate to parse.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

from keyferry._core.extras import install_hint
from keyferry._core.values import Value
from keyferry.errors import ClusterAuthError, EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from cryptography import x509

# A block ends at the first END line; a BEGIN line followed by another BEGIN line is skipped.
_BLOCK = (
    rb"(?m)^-----BEGIN (?P<type>[^\n]*?)-----[ \t]*\r?\n"
    rb"(?P<body>(?:(?!-----(?:BEGIN|END) )[^\n]*\n)*?)"
    rb"-----END (?P=type)-----[ \t]*(?:\r?\n|\Z)"
)
_HEADERS = rb"(?:[^\n:]*:[^\n]*\n)*"
_SUBJECT_ORDER = (
    "2.5.4.5",
    "2.5.4.3",
    "2.5.4.17",
    "2.5.4.9",
    "2.5.4.8",
    "2.5.4.7",
    "2.5.4.11",
    "2.5.4.10",
    "2.5.4.6",
)
_SUBJECT_NAMES = ("SERIALNUMBER", "CN", "POSTALCODE", "STREET", "ST", "L", "OU", "O", "C")


class KeyPair(Value):
    """The properties of a client certificate with a matching key; instants are in Unix nanoseconds."""

    chain_length: int
    subject: str
    not_before_ns: int
    not_after_ns: int


def parse_key_pair(certificate_pem: str, key_pem: str) -> KeyPair:
    """Parse a certificate and its key. Raises ClusterAuthError if they cannot be used together.

    Blocks of other types are skipped. The key must match the first certificate. Validity dates are not checked.
    """
    certificates = _certificates(certificate_pem)
    key_der = _key(key_pem)
    certificate = _load_certificate(certificates[0])
    _match(certificate, _load_key(key_der))
    return KeyPair(
        chain_length=len(certificates),
        subject=_subject(certificate),
        not_before_ns=_nanoseconds(certificate.not_valid_before_utc),
        not_after_ns=_nanoseconds(certificate.not_valid_after_utc),
    )


def find_blocks(text: str) -> Iterator[tuple[str, bytes]]:
    """Return the type and content of every PEM block in *text*, as Go's ``pem.Decode`` does."""
    return ((kind, content) for kind, _, content in _find_blocks(text.encode("utf-8", "surrogateescape")))


def find_authorities(data: bytes) -> Iterator[bytes]:
    """Return the certificates in *data* as Go's ``AppendCertsFromPEM`` does: a block with headers is skipped."""
    return (content for kind, headers, content in _find_blocks(data) if kind == "CERTIFICATE" and not headers)


def _find_blocks(data: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    for match in re.finditer(_BLOCK, data):
        body = match["body"]
        found = re.match(_HEADERS, body)
        headers = found[0] if found else b""
        try:
            content = b64decode(body[len(headers) :].translate(None, b" \t\r\n"), validate=True)
        except ValueError:
            continue
        yield match["type"].decode("utf-8", "replace"), headers, content


def _certificates(pem: str) -> list[bytes]:
    blocks = list(find_blocks(pem))
    found = [content for kind, content in blocks if kind == "CERTIFICATE"]
    if found:
        return found
    types = [kind for kind, _ in blocks]
    if not types:
        raise _refused(
            "the certificate contains no PEM data", "failed to find any PEM data in certificate input"
        )
    if len(types) == 1 and types[0].endswith("PRIVATE KEY"):
        text = (
            "failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
        raise _refused("found a private key, expected a certificate", text)
    text = 'failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks'
    raise _refused(
        "the certificate contains no CERTIFICATE block", f"{text} of the following types: {_list(types)}"
    )


def _key(pem: str) -> bytes:
    skipped = []
    for kind, headers, content in _find_blocks(pem.encode("utf-8", "surrogateescape")):
        if kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY"):
            if kind == "ENCRYPTED PRIVATE KEY" or b",ENCRYPTED" in headers:
                message = "the key is encrypted, expected a key without a passphrase"
                raise _refused(message, "failed to parse private key")
            return content
        skipped.append(kind)
    if not skipped:
        raise _refused("the key contains no PEM data", "failed to find any PEM data in key input")
    if skipped == ["CERTIFICATE"]:
        text = "found a certificate rather than a key in the PEM for the private key"
        raise _refused("found a certificate, expected a private key", text)
    text = 'failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks'
    raise _refused(
        "the key contains no PRIVATE KEY block", f"{text} of the following types: {_list(skipped)}"
    )


def _list(types: list[str]) -> str:
    return f"[{' '.join(types)}]"


def _load_certificate(der: bytes) -> x509.Certificate:
    try:
        from cryptography import x509
    except ImportError:
        message = (
            f"client certificates from a plugin require the package 'cryptography': {install_hint('crypto')}"
        )
        raise EnvironmentProblem(message) from None
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        pass  # raised below, without the parser's exception
    raise ClusterAuthError("", "the certificate cannot be parsed", "x509: malformed certificate")


def _load_key(der: bytes) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    key: object = None
    try:
        # The label of the block is ignored, as in Go: PKCS #1, PKCS #8 and SEC 1 are tried in turn.
        key = load_der_private_key(der, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass  # of another type, or malformed
    if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        return key
    if isinstance(key, x25519.X25519PrivateKey):
        text = "found unknown private key type in PKCS#8 wrapping"
        raise _refused("the key has a type that TLS does not support", text)
    raise _refused("the key cannot be parsed", "failed to parse private key")


def _match(certificate: x509.Certificate, key: Any) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    public: object = None
    try:
        public = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        pass
    kinds = (
        (rsa.RSAPublicKey, rsa.RSAPrivateKey),
        (ec.EllipticCurvePublicKey, ec.EllipticCurvePrivateKey),
        (ed25519.Ed25519PublicKey, ed25519.Ed25519PrivateKey),
    )
    for public_kind, private_kind in kinds:
        if isinstance(public, public_kind):
            if not isinstance(key, private_kind):
                text = "private key type does not match public key type"
                raise _refused("the key has another type than the certificate's public key", text)
            if key.public_key() != public:
                raise _refused(
                    "the key does not match the certificate", "private key does not match public key"
                )
            return
    raise _refused(
        "the certificate's key has a type that TLS does not support", "unknown public key algorithm"
    )


def _subject(certificate: x509.Certificate) -> str:
    """Return the subject as Go prints it: by attribute type, regardless of the order in the certificate."""
    names = dict(zip(_SUBJECT_ORDER, _SUBJECT_NAMES, strict=True))
    parts: dict[str, list[str]] = {oid: [] for oid in _SUBJECT_ORDER}
    for attribute in certificate.subject:
        oid = attribute.oid.dotted_string
        shown = attribute.rfc4514_string({attribute.oid: names[oid]} if oid in names else None)
        # If there are several common names or serial numbers, Go uses the last one.
        parts[oid] = [shown] if oid in _SUBJECT_ORDER[:2] else [*parts.get(oid, ()), shown]
    return ",".join("+".join(values) for values in parts.values() if values)


def _nanoseconds(instant: datetime) -> int:
    return int(instant.timestamp()) * 1_000_000_000


def _refused(message: str, text: str) -> ClusterAuthError:
    return ClusterAuthError("", message, f"tls: {text}")
