"""Tokens bound to a key: whoever shows one must also sign with the key, made here for one run and kept nowhere."""

from time import time

from keyferry.sdk import ProvideError
from keyferry.sdk.values import Value, field

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Proof", "make_proof"]

_BITS = 2048


class Proof(Value):
    """A key pair: the private key signs, *modulus*, *exponent* and *thumbprint* tell it to others."""

    key: "Any" = field(repr=False)
    modulus: str
    exponent: str
    thumbprint: str

    @property
    def fields(self) -> dict[str, str]:
        """What a token request says to have its token bound to the key."""
        from keyferry.sdk.json import dumps
        from keyferry_plugins.signing.jose import encode_segment

        said = dumps({"kid": self.thumbprint, "xms_ksl": "sw"})
        return {"token_type": "pop", "req_cnf": encode_segment(said.encode())}

    def wrap(self, access_token: str, host: str) -> str:
        """The token as it is shown to *host*: signed by the key, now."""
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
    """A new RSA key, and how it is told to others."""
    from hashlib import sha256

    from keyferry_plugins.signing.jose import encode_segment, missing_package

    package = missing_package()
    if package:
        from keyferry.sdk.extras import install_hint

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
