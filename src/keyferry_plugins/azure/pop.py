"""Tokens bound to a key: using one requires a signature by the key, which exists only for one run."""

from __future__ import annotations

from time import time

from keyferry._core.values import Value, field
from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Proof", "make_proof"]

_BITS = 2048


class Proof(Value):
    """A key pair; *modulus*, *exponent* and *thumbprint* describe its public key."""

    key: Any = field(repr=False)
    modulus: str
    exponent: str
    thumbprint: str

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a token request that bind the token to the key."""
        from keyferry._core.json import dumps
        from keyferry_plugins.signing.jose import encode_segment

        said = dumps({"kid": self.thumbprint, "xms_ksl": "sw"})
        return {"token_type": "pop", "req_cnf": encode_segment(said.encode())}

    def wrap(self, access_token: str, host: str) -> str:
        """Return the token for *host*: wrapped in a token that the key signs, with the current time."""
        from os import urandom

        from keyferry_plugins.signing.jose import sign_jwt

        jwk = {
            "e": self.exponent,
            "kty": "RSA",
            "n": self.modulus,
            "alg": "RS256",
            "kid": self.thumbprint,
        }
        claims = {
            "at": access_token,
            "ts": int(time()),
            "u": host,
            "cnf": {"jwk": jwk},
            "nonce": urandom(16).hex(),
        }
        return sign_jwt({"typ": "pop", "kid": self.thumbprint}, claims, self.key, "RS256")


def make_proof() -> Proof:
    """Create an RSA key and the description of its public key."""
    from hashlib import sha256

    from keyferry_plugins.signing.jose import encode_segment, missing_package

    package = missing_package()
    if package:
        from keyferry._core.extras import install_hint

        raise ProvideError(
            f"a token bound to a key needs the package {package!r}, which is not installed",
            install_hint("crypto"),
        )
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    key = generate_private_key(65537, _BITS)
    numbers = key.public_key().public_numbers()
    modulus, exponent = (_encode_number(number) for number in (numbers.n, numbers.e))
    canonical = f'{{"e":"{exponent}","kty":"RSA","n":"{modulus}"}}'
    return Proof(key, modulus, exponent, encode_segment(sha256(canonical.encode()).digest()))


def _encode_number(number: int) -> str:
    from keyferry_plugins.signing.jose import encode_segment

    return encode_segment(number.to_bytes((number.bit_length() + 7) // 8, "big"))
