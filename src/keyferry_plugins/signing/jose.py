"""JSON web tokens: read, sign and verify; the arithmetic is ``cryptography``'s, an extra."""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64

from keyferry.sdk import ProvideError
from keyferry.sdk.json import dumps, read_object

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

__all__ = [
    "decode_segment",
    "encode_segment",
    "load_key_and_certificates",
    "read_claims",
    "read_header",
    "sign_jwt",
    "verify_jwt",
]

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_STANDARD = bytes.maketrans(b"-_", b"+/")
_LONGEST = 1 << 16
_PARTS = 3
_SIGNING = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_SHORTEST_RSA_BITS, _LONGEST_RSA_BITS = 2048, 16384
_CURVES = {"ES256": ("P-256", 32), "ES384": ("P-384", 48), "ES512": ("P-521", 66)}


def encode_segment(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    return b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


def decode_segment(text: str) -> bytes:
    """Undo ``encode_segment``; raises ProvideError, which does not quote it."""
    try:
        data = text.encode("ascii").translate(_STANDARD)
        return a2b_base64(data + b"=" * (-len(data) % 4), strict_mode=True)
    except (Base64Error, UnicodeEncodeError):
        pass
    raise ProvideError("a part of a JSON web token is not base64")


def read_header(token: str) -> dict[str, object]:
    """The header of a token, unverified."""
    return _read_part(token, 0)


def read_claims(token: str) -> dict[str, object]:
    """The claims of a token, unverified; raises ProvideError if it is no JSON web token."""
    return _read_part(token, 1)


def _read_part(token: str, at: int) -> dict[str, object]:
    parts = token.split(".")
    if len(parts) != _PARTS or len(token) > _LONGEST:
        raise ProvideError("the token is not a JSON web token")
    document = read_object(decode_segment(parts[at]))
    if document is None:
        raise ProvideError("the token is not a JSON web token")
    return document


def sign_jwt(
    header: "Mapping[str, object]", claims: "Mapping[str, object]", key: "Any", algorithm: str = "RS256"
) -> str:
    """A token of *claims*, signed by RS256 or PS256; *key* is PEM, or a private key of ``cryptography``."""
    if algorithm not in _SIGNING:
        raise ProvideError(
            f"a token cannot be signed by {algorithm[:20]!r}, only by one of {', '.join(_SIGNING)}"
        )
    # The algorithm comes first, as is usual, and no header can say another.
    whole = {"alg": algorithm, **header} | {"alg": algorithm}
    signed = ".".join(encode_segment(dumps(dict(part)).encode()) for part in (whole, claims))
    private = _load_private(key) if isinstance(key, (str, bytes)) else key
    return f"{signed}.{encode_segment(private.sign(signed.encode(), _padding(algorithm), _hash(algorithm)))}"


def verify_jwt(
    token: str, keys: "Sequence[Mapping[str, object]]", algorithms: "Sequence[str]"
) -> dict[str, object]:
    """The claims of a token whose signature one of the JSON web *keys* confirms; raises ProvideError.

    Only the signature is judged; issuer, audience and times are the caller's. Symmetric algorithms and ``none``
    are never accepted, whatever *algorithms* says.
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
    signed, _, signature = token.rpartition(".")
    fitting = [key for key in keys if _is_meant(key, key_id, algorithm)]
    if not any(_confirms(key, algorithm, signed.encode(), decode_segment(signature)) for key in fitting):
        raise ProvideError("the token's signature is not confirmed by any key of the issuer")
    return read_claims(token)


def _is_meant(key: object, key_id: object, algorithm: str) -> bool:
    """Tell whether a key is there for such a token, as far as either of them says."""
    # Asked for, because what an issuer serves may be anything.
    if not isinstance(key, dict) or key.get("use") not in (None, "sig"):
        return False
    return (key_id is None or key.get("kid") in (None, key_id)) and key.get("alg") in (None, algorithm)


def load_key_and_certificates(data: bytes, password: str, *, is_pkcs12: bool) -> "tuple[Any, list[Any]]":
    """The RSA key in PEM or PKCS #12 *data*, and its certificate chain, the key's own certificate first."""
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


def _load_pkcs12(data: bytes, password: str) -> "tuple[Any, list[Any]]":
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates as load

    key, certificate, more = load(data, password.encode() if password else None)
    return key, [*([certificate] if certificate else []), *more]


def _load_pem(data: bytes, password: str) -> "tuple[Any, list[Any]]":
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(data, password.encode() if password else None)
    return key, x509.load_pem_x509_certificates(data) if b"-----BEGIN CERTIFICATE-----" in data else []


def _load_private(pem: str | bytes) -> "Any":
    _need()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: Any = None
    try:
        key = load_pem_private_key(pem.encode() if isinstance(pem, str) else pem, None)
    except (UnsupportedAlgorithm, ValueError, TypeError):
        pass
    if not hasattr(key, "sign") or not hasattr(key, "private_numbers") or not hasattr(key, "decrypt"):
        raise ProvideError("the private key is not an RSA key in PEM without a password")
    return key


def _need() -> None:
    try:
        import cryptography as cryptography  # noqa: PLC0414 - only to see whether it is there
    except ImportError:
        from keyferry.sdk.extras import install_hint

        raise ProvideError(
            "RSA needs the package 'cryptography', which is not installed", install_hint("crypto")
        ) from None


def _hash(algorithm: str) -> "Any":
    _need()
    from cryptography.hazmat.primitives import hashes

    found: Any = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}[algorithm[2:]]
    return found()


def _padding(algorithm: str) -> "Any":
    _need()
    from cryptography.hazmat.primitives.asymmetric import padding

    if algorithm.startswith("RS"):
        return padding.PKCS1v15()
    return padding.PSS(padding.MGF1(_hash(algorithm)), padding.PSS.DIGEST_LENGTH)


def _confirms(key: "Mapping[str, object]", algorithm: str, signed: bytes, signature: bytes) -> bool:
    _need()
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        if algorithm.startswith("ES"):
            return _confirms_elliptic(key, algorithm, signed, signature)
        if key.get("kty") != "RSA":
            return False
        _rsa_key(key).verify(signature, signed, _padding(algorithm), _hash(algorithm))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, ProvideError):
        return False
    return True


def _rsa_key(key: "Mapping[str, object]") -> "Any":
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    modulus = _number(key, "n")
    if not _SHORTEST_RSA_BITS <= modulus.bit_length() <= _LONGEST_RSA_BITS:
        raise ProvideError("an RSA key of the issuer is too short to be safe, or too long to be one")
    return RSAPublicNumbers(_number(key, "e"), modulus).public_key()


def _confirms_elliptic(key: "Mapping[str, object]", algorithm: str, signed: bytes, signature: bytes) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    curve, size = _CURVES[algorithm]
    if key.get("kty") != "EC" or key.get("crv") != curve or len(signature) != 2 * size:
        return False
    curves: dict[str, Any] = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1, "P-521": ec.SECP521R1}
    public = ec.EllipticCurvePublicNumbers(_number(key, "x"), _number(key, "y"), curves[curve]()).public_key()
    halves = (int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big"))
    public.verify(encode_dss_signature(*halves), signed, ec.ECDSA(_hash(algorithm)))
    return True


def _number(key: "Mapping[str, object]", name: str) -> int:
    return int.from_bytes(decode_segment(str(key.get(name) or "")), "big")
