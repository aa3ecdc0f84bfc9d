"""What an application signs: client assertions by its certificate, and tokens bound to a key of one run."""

from __future__ import annotations

import uuid
from binascii import b2a_base64
from hashlib import sha1, sha256
from os import urandom
from time import time

from keyferry._core.extras import install_hint
from keyferry._core.json import dumps
from keyferry._core.values import Value, field
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded
from keyferry_plugins.azure.entra import Application
from keyferry_plugins.oauth.answers import Token
from keyferry_plugins.signing.jose import (
    encode_segment,
    load_key_and_certificates,
    missing_package,
    sign_jwt,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ASSERTION_SECONDS = 600
RSA_BITS = 2048


def sign_assertion(application: Application, path: str, password: str, *, is_legacy: bool = False) -> str:
    """Return a client assertion signed with the key in a file: PKCS #12 if its name ends in ``.pfx``, else PEM.

    AD FS and version 1 of the token endpoint support only RS256 and SHA-1 thumbprints.
    """
    key, certificates = _load(path, password)
    is_old = is_legacy or application.is_adfs
    if is_old:
        thumbprint = {"x5t": _base64(sha1(certificates[0], usedforsecurity=False).digest())}
    else:
        thumbprint = {"x5t#S256": _base64(sha256(certificates[0]).digest())}
    now = int(time())
    claims = {
        "aud": application.token_url(is_legacy=is_legacy),
        "iss": application.client_id,
        "sub": application.client_id,
        "jti": str(uuid.uuid4()),
        "nbf": now,
        "exp": now + ASSERTION_SECONDS,
    }
    header = {"typ": "JWT", **thumbprint, "x5c": [_base64(certificate) for certificate in certificates]}
    return sign_jwt(header, claims, key, "RS256" if is_old else "PS256")


def _load(path: str, password: str) -> tuple[object, list[bytes]]:
    data = read_bounded(path, "the client certificate")
    is_pkcs12 = path.lower().endswith((".pfx", ".p12"))
    try:
        key, certificates = load_key_and_certificates(data, password, is_pkcs12=is_pkcs12)
    except ProvideError as error:
        problem, hint = error.message, error.hint
    else:
        from cryptography.hazmat.primitives.serialization import Encoding

        return key, [certificate.public_bytes(Encoding.DER) for certificate in certificates]
    raise ProvideError(f"the client certificate {path!r}: {problem}", hint)


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


class Proof(Value):
    """A key pair that exists only in this run; *modulus*, *exponent* and *thumbprint* describe its public key."""

    key: Any = field(repr=False)
    modulus: str
    exponent: str
    thumbprint: str

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a token request that bind the token to the key."""
        said = dumps({"kid": self.thumbprint, "xms_ksl": "sw"})
        return {"token_type": "pop", "req_cnf": encode_segment(said.encode())}

    def bind(self, token: Token, host: str) -> Token:
        """Return the token for *host*: wrapped in a token that the key signs, with the current time."""
        jwk = {
            "e": self.exponent,
            "kty": "RSA",
            "n": self.modulus,
            "alg": "RS256",
            "kid": self.thumbprint,
        }
        claims = {
            "at": token.value,
            "ts": int(time()),
            "u": host,
            "cnf": {"jwk": jwk},
            "nonce": urandom(16).hex(),
        }
        signed = sign_jwt({"typ": "pop", "kid": self.thumbprint}, claims, self.key, "RS256")
        return Token(value=signed, expires_at=token.expires_at)


def make_proof() -> Proof:
    """Create an RSA key and the description of its public key."""
    package = missing_package()
    if package:
        raise ProvideError(
            f"a token bound to a key needs the package {package!r}, which is not installed",
            install_hint("crypto"),
        )
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    key = generate_private_key(65537, RSA_BITS)
    numbers = key.public_key().public_numbers()
    modulus, exponent = (_encode_number(number) for number in (numbers.n, numbers.e))
    canonical = f'{{"e":"{exponent}","kty":"RSA","n":"{modulus}"}}'
    return Proof(
        key=key,
        modulus=modulus,
        exponent=exponent,
        thumbprint=encode_segment(sha256(canonical.encode()).digest()),
    )


def _encode_number(number: int) -> str:
    return encode_segment(number.to_bytes((number.bit_length() + 7) // 8, "big"))
