"""JSON web keys and tokens for tests, including tokens that no real issuer would sign."""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric import rsa

from keyferry_plugins.signing.jose import decode_segment, encode_segment

ALL = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
CLAIMS: dict[str, object] = {"iss": "me", "exp": 2_000_000_000}


def number(text: str) -> int:
    """Decode a number of a JSON web key."""
    return int.from_bytes(decode_segment(text), "big")


def segment(value: int) -> str:
    """Encode a number for a JSON web key."""
    return encode_segment(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def jwk(key: rsa.RSAPrivateKey, **more: object) -> dict[str, object]:
    """Return the public half of a key as an issuer serves it."""
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "n": segment(numbers.n), "e": segment(numbers.e), **more}


def forge(header: dict[str, object], signature: bytes = b"", claims: dict[str, object] | None = None) -> str:
    """Return a token with any header and any signature."""
    parts = (json.dumps(header).encode(), json.dumps(claims or CLAIMS).encode(), signature)
    return ".".join(map(encode_segment, parts))
