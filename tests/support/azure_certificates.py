"""Applications that authenticate with a certificate, and the server's check of their assertions."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from support.certificates import key_pem, make_certificate, make_key

PASSWORD = "certmarkpassword"


@dataclass(frozen=True)
class Certified:
    """A key and its certificate."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate

    def write_pem(self, folder: Path, *, password: str = "", key_first: bool = True) -> str:
        """Write key and certificate as PEM into a file; another certificate precedes the key's own."""
        other = make_certificate(make_key())
        parts = [
            key_pem(self.key, password=password),
            other,
            self.certificate.public_bytes(Encoding.PEM).decode(),
        ]
        path = folder / "client.pem"
        path.write_text("".join(parts if key_first else reversed(parts)))
        return str(path)

    def write_pfx(self, folder: Path) -> str:
        """Write key and certificate as PKCS #12, with the password."""
        encryption = BestAvailableEncryption(PASSWORD.encode())
        path = folder / "client.pfx"
        path.write_bytes(serialize_key_and_certificates(b"x", self.key, self.certificate, None, encryption))
        return str(path)

    def check(self, assertion: str, client: str, audience: str, *, is_old: bool = False) -> None:
        """Check an assertion as Entra does: signature, thumbprint, chain, audience, issuer, times."""
        signed, _, signature = assertion.rpartition(".")
        header, claims = (json.loads(decode(part)) for part in signed.split("."))
        assert header["alg"] == ("RS256" if is_old else "PS256")
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)
        scheme = padding.PKCS1v15() if is_old else pss
        self.key.public_key().verify(decode(signature), signed.encode(), scheme, hashes.SHA256())
        der = self.certificate.public_bytes(Encoding.DER)
        digest = hashlib.sha1(der, usedforsecurity=False) if is_old else hashlib.sha256(der)
        assert header["x5t" if is_old else "x5t#S256"] == base64.b64encode(digest.digest()).decode()
        assert base64.b64decode(header["x5c"][0]) == der
        assert claims["aud"] == audience
        assert claims["iss"] == claims["sub"] == client
        assert claims["jti"]
        assert claims["nbf"] <= time.time() + 1
        assert claims["exp"] == claims["nbf"] + 600


@cache
def make_certified() -> Certified:
    """Return an RSA key with a certificate, created once because that is slow."""
    key = make_key("rsa")
    assert isinstance(key, rsa.RSAPrivateKey)
    return Certified(key, x509.load_pem_x509_certificate(make_certificate(key).encode()))


def decode(segment: str) -> bytes:
    """Decode base64 for URLs without padding."""
    return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
