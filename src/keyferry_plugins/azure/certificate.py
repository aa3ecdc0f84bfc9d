"""Client assertions signed with an application's certificate."""

from __future__ import annotations

from time import time

from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.azure.entra import Application

__all__ = ["sign_assertion"]

_LIFE_SECONDS = 600


def sign_assertion(
    application: Application, path: str, password: str, *, audience: str = "", is_legacy: bool = False
) -> str:
    """Return a client assertion signed with the key in a file: PKCS #12 if its name ends in ``.pfx``, else PEM.

    AD FS and version 1 of the token endpoint support only RS256 and SHA-1 thumbprints.
    """
    from keyferry_plugins.signing.jose import sign_jwt

    key, certificates = _load(path, password)
    is_old = is_legacy or application.is_adfs
    now = int(time())
    claims = {
        "aud": audience or application.token_url,
        "iss": application.client_id,
        "sub": application.client_id,
        "jti": _identifier(),
        "nbf": now,
        "exp": now + _LIFE_SECONDS,
    }
    chain = [_base64(certificate) for certificate in certificates]
    header = {"typ": "JWT", **_thumbprint(certificates[0], is_old=is_old), "x5c": chain}
    return sign_jwt(header, claims, key, "RS256" if is_old else "PS256")


def _load(path: str, password: str) -> tuple[object, list[bytes]]:
    from keyferry.sdk.files import read_bounded
    from keyferry_plugins.signing.jose import load_key_and_certificates

    data = read_bounded(path, "the client certificate")
    is_pkcs12 = path.lower().endswith((".pfx", ".p12"))
    try:
        key, certificates = load_key_and_certificates(data, password, is_pkcs12=is_pkcs12)
    except ProvideError as error:
        problem, hint = error.message, error.hint
    else:
        return key, [_der(certificate) for certificate in certificates]
    raise ProvideError(f"the client certificate {path!r}: {problem}", hint)


def _der(certificate: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    data: bytes = certificate.public_bytes(Encoding.DER)  # type: ignore[attr-defined] # of cryptography
    return data


def _thumbprint(certificate: bytes, *, is_old: bool) -> dict[str, object]:
    from hashlib import sha1, sha256

    if is_old:
        return {"x5t": _base64(sha1(certificate, usedforsecurity=False).digest())}
    return {"x5t#S256": _base64(sha256(certificate).digest())}


def _base64(data: bytes) -> str:
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode()


def _identifier() -> str:
    from os import urandom

    text = urandom(16).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
