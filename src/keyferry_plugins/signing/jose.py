"""JSON web tokens: the SDK reads claims; PyJWT with ``cryptography``, an extra, signs and verifies.

Both packages are imported on first use, as most runs of a plugin need neither.
"""

from __future__ import annotations

import warnings
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence

from keyferry._core import jwt_claims
from keyferry._core.extras import install_hint
from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    _Part = TypeVar("_Part")

MAX_TOKEN_LENGTH = 1 << 16
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 16384
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_SIGNING = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_PACKAGES = {"cryptography": "cryptography", "jwt": "PyJWT"}
# Only the public members of an issuer's key are used.
_PUBLIC = ("kty", "n", "e", "crv", "x", "y")


def encode_segment(data: bytes) -> str:
    """Return URL-safe base64 without padding."""
    return b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


def decode_segment(text: str) -> bytes:
    """Decode the result of ``encode_segment``; raise ProvideError, which does not quote *text*, if it is invalid."""
    return _read(jwt_claims.decode_segment, text)


def read_header(token: str) -> dict[str, object]:
    """Return the header of a token, unverified."""
    return _read(jwt_claims.read_header, token)


def read_claims(token: str) -> dict[str, object]:
    """Return the claims of a token, unverified; raise ProvideError if it is not a JSON web token."""
    return _read(jwt_claims.read_claims, token)


def _read(read: Callable[[str], _Part], text: str) -> _Part:
    """Return what *read* finds in *text*, which is of limited length; raise its error as ProvideError."""
    if len(text) > MAX_TOKEN_LENGTH:
        raise ProvideError("the token is not a JSON web token")
    try:
        return read(text)
    except jwt_claims.JwtError as error:
        problem = str(error)
    raise ProvideError(problem)


def sign_jwt(
    header: Mapping[str, object], claims: Mapping[str, object], key: Any, algorithm: str = "RS256"
) -> str:
    """Return a token of *claims*, signed by RS256 or PS256; *key* is PEM, or a private key of ``cryptography``."""
    if algorithm not in _SIGNING:
        raise ProvideError(
            f"a token cannot be signed by {algorithm[:20]!r}, only by one of {', '.join(_SIGNING)}"
        )
    private = _load_private(key) if isinstance(key, (str, bytes)) else key
    _need()

    import jwt

    # The header cannot replace the algorithm, and has a type only if the caller sets one.
    whole = {"typ": "", **header, "alg": algorithm}
    with warnings.catch_warnings():
        # Only the key's owner can replace a short key; a warning would appear on the caller's standard error.
        warnings.simplefilter("ignore")
        return jwt.encode(dict(claims), private, algorithm, whole, sort_headers=False)


def verify_jwt(
    token: str,
    keys: Sequence[Mapping[str, object]],
    algorithms: Sequence[str],
    required: Sequence[str] = (),
) -> dict[str, object]:
    """Return the claims of a token that one of the JSON web *keys* verifies; raise ProvideError if none does.

    The *required* claims must exist, but the caller checks their values. Symmetric algorithms and ``none``
    are never accepted, whatever *algorithms* contains.
    """
    header = read_header(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if (
        not isinstance(algorithm, str)
        or algorithm not in algorithms
        or algorithm not in (*_SIGNING, *_CURVES)
    ):
        raise ProvideError(
            f"the token is signed by {str(algorithm)[:20]!r}, expected one of {', '.join(algorithms)}"
        )
    if "crit" in header:
        raise ProvideError("the token has critical extensions, which are not supported")
    read_claims(token)
    for key in keys:
        if _is_meant(key, key_id, algorithm):
            claims = _confirmed(token, key, algorithm, required)
            if claims is not None:
                return claims
    raise ProvideError("the token's signature is not confirmed by any key of the issuer")


def _is_meant(key: object, key_id: object, algorithm: str) -> bool:
    """Return whether a key may verify such a token, by its use, key ID and algorithm where given."""
    # Checked at run time, because an issuer may serve anything.
    if not isinstance(key, dict) or key.get("use") not in (None, "sig"):
        return False
    return (key_id is None or key.get("kid") in (None, key_id)) and key.get("alg") in (None, algorithm)


def load_key_and_certificates(data: bytes, password: str, *, is_pkcs12: bool) -> tuple[Any, list[Any]]:
    """Return the RSA key in PEM or PKCS #12 *data*, and its certificate chain, which begins with the key's own."""
    _need()
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key, certificates = _load_pkcs12(data, password) if is_pkcs12 else _load_pem(data, password)
    except (UnsupportedAlgorithm, ValueError, TypeError):
        key, certificates = None, []
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    if not isinstance(key, RSAPrivateKey):
        raise ProvideError("the file holds no RSA private key that can be read with the password given")
    own = [found for found in certificates if found.public_key() == key.public_key()]
    if not own:
        raise ProvideError("the file holds no certificate of its private key")
    return key, own[:1] + [found for found in certificates if found not in own]


def _load_pkcs12(data: bytes, password: str) -> tuple[Any, list[Any]]:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates as load

    key, certificate, more = load(data, password.encode() if password else None)
    return key, [*([certificate] if certificate else []), *more]


def _load_pem(data: bytes, password: str) -> tuple[Any, list[Any]]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(data, password.encode() if password else None)
    return key, x509.load_pem_x509_certificates(data) if b"-----BEGIN CERTIFICATE-----" in data else []


def _load_private(pem: str | bytes) -> Any:
    _need()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: Any = None
    try:
        key = load_pem_private_key(pem.encode() if isinstance(pem, str) else pem, None)
    except (UnsupportedAlgorithm, ValueError, TypeError):
        pass
    if not isinstance(key, RSAPrivateKey):
        raise ProvideError("the private key is not an RSA key in PEM without a password")
    return key


def missing_package() -> str:
    """Return the first missing package of those that sign and verify; an empty string if all are installed."""
    from importlib.util import find_spec

    return next((name for module, name in _PACKAGES.items() if find_spec(module) is None), "")


def _need() -> None:
    package = missing_package()
    if package:
        raise ProvideError(
            f"RSA needs the package {package!r}, which is not installed", install_hint("crypto")
        )


def _confirmed(
    token: str, key: Mapping[str, object], algorithm: str, required: Sequence[str]
) -> dict[str, object] | None:
    """Return the claims if *key* verifies the token's signature by *algorithm*, else None."""
    _need()
    import jwt
    from cryptography.exceptions import UnsupportedAlgorithm

    if not _is_sound(key, algorithm):
        return None
    try:
        public = jwt.PyJWK({name: key[name] for name in _PUBLIC if name in key}, algorithm)
        return jwt.decode(
            token,
            public,
            algorithms=[algorithm],
            # The caller checks the claims, in the same way as for tokens that only TLS authenticates.
            options={
                "require": list(required),
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_iss": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
    except jwt.MissingRequiredClaimError as error:
        missing = error.claim
    except (jwt.PyJWTError, UnsupportedAlgorithm, ValueError, TypeError):
        return None
    raise ProvideError(f"the token has no {missing}")


def _is_sound(key: Mapping[str, object], algorithm: str) -> bool:
    """Return whether a key is suited to *algorithm*, and neither too short to be safe nor implausibly long."""
    if algorithm in _CURVES:
        return key.get("kty") == "EC" and key.get("crv") == _CURVES[algorithm]
    try:
        bits = int.from_bytes(decode_segment(str(key.get("n") or "")), "big").bit_length()
    except ProvideError:
        return False
    return key.get("kty") == "RSA" and MIN_RSA_BITS <= bits <= MAX_RSA_BITS
