"""Tokens that somebody forged, and keys that are not meant for them: none is ever confirmed."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import cast

import jwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyferry.errors import ProvideError
from keyferry_plugins.signing.jose import decode_segment, encode_segment, sign_jwt, verify_jwt
from support.certificates import make_key
from support.jose_tokens import ALL, CLAIMS, forge, jwk, segment

ELLIPTIC = {"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    """A key for the length of these tests."""
    return cast("rsa.RSAPrivateKey", make_key("rsa"))


def test_no_signature_is_no_signature(key: rsa.RSAPrivateKey) -> None:
    """``none`` in every spelling is refused, also where the caller allows it."""
    for name in ("none", "None", "NONE", "", None, 5, ["RS256"]):
        token = forge({"alg": name})
        with pytest.raises(ProvideError, match="the token is signed by"):
            verify_jwt(token, [jwk(key)], [*ALL, "none", "None", "NONE", ""])


def test_a_public_key_is_no_secret_to_sign_with(key: rsa.RSAPrivateKey) -> None:
    """HMAC with the issuer's public key as its secret, the classic confusion, gets nowhere."""
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for secret in (public, public.strip(), json.dumps(jwk(key)).encode()):
        unsigned = forge({"alg": "HS256"}).rpartition(".")[0]
        mac = hmac.new(secret, unsigned.encode(), hashlib.sha256).digest()
        for allowed in (ALL, ("HS256",)):
            with pytest.raises(ProvideError, match="the token is signed by 'HS256'"):
                verify_jwt(f"{unsigned}.{encode_segment(mac)}", [jwk(key), {"kty": "oct"}], allowed)


def test_the_caller_says_which_algorithms_are_meant(key: rsa.RSAPrivateKey) -> None:
    """A good signature by another is refused."""
    token = sign_jwt({}, CLAIMS, key, "RS256")
    with pytest.raises(ProvideError, match="signed by 'RS256', expected one of PS256, ES256"):
        verify_jwt(token, [jwk(key)], ["PS256", "ES256"])


@pytest.mark.parametrize("algorithm", ["ES256K", "RS999", "EdDSA", "RS"])
def test_an_algorithm_that_an_issuer_lists_and_we_do_not_know_is_refused(
    key: rsa.RSAPrivateKey, algorithm: str
) -> None:
    """And is no bug."""
    with pytest.raises(ProvideError, match="the token is signed by"):
        verify_jwt(forge({"alg": algorithm}), [jwk(key)], [algorithm])


def spoil(token: str) -> dict[str, str]:
    """Tokens that are almost this one."""
    header, claims, signature = token.split(".")
    other = encode_segment(json.dumps({**CLAIMS, "iss": "you"}).encode())
    head = encode_segment(json.dumps({"alg": "RS256", "kid": "other"}).encode())
    flipped = bytes([decode_segment(signature)[0] ^ 1]) + decode_segment(signature)[1:]
    return {
        "claims": f"{header}.{other}.{signature}",
        "header": f"{head}.{claims}.{signature}",
        "signature": f"{header}.{claims}.{encode_segment(flipped)}",
        "no-signature": f"{header}.{claims}.",
        "short-signature": f"{header}.{claims}.{signature[:-4]}",
    }


@pytest.mark.parametrize("name", ["claims", "header", "signature", "no-signature", "short-signature"])
def test_a_token_with_anything_changed_is_not_confirmed(key: rsa.RSAPrivateKey, name: str) -> None:
    """One bit is enough."""
    token = spoil(sign_jwt({}, CLAIMS, key))[name]
    with pytest.raises(ProvideError, match="not confirmed by any key"):
        verify_jwt(token, [jwk(key)], ALL)


def test_keys_that_are_not_meant_for_it_confirm_nothing(key: rsa.RSAPrivateKey) -> None:
    """Another's key, another id, another use, another algorithm, another kind; and what is no key at all."""
    token = sign_jwt({"kid": "k1"}, CLAIMS, key)
    other = cast("rsa.RSAPrivateKey", make_key("rsa"))
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that it is refused is the test
    strange: list[object] = [
        jwk(other, kid="k1"),
        jwk(key, kid="k2"),
        jwk(key, kid="k1", use="enc"),
        jwk(key, kid="k1", alg="PS256"),
        {**jwk(key), "kty": "EC"},
        {"kty": "RSA"},
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "n": segment(1 << 20_000), "e": "AQAB"},
        {**jwk(key), "n": 5},
        ELLIPTIC,
        "key",
        None,
        [],
        {},
    ]
    for each in strange:
        with pytest.raises(ProvideError, match="not confirmed by any key"):
            verify_jwt(token, cast("list[dict[str, object]]", [each]), ALL)
    assert verify_jwt(token, cast("list[dict[str, object]]", [*strange, jwk(key, kid="k1")]), ALL) == CLAIMS
    with pytest.raises(ProvideError, match="not confirmed by any key"):
        verify_jwt(sign_jwt({}, CLAIMS, weak), [jwk(weak)], ALL)


@pytest.mark.parametrize("crit", [["exp"], [], None])
def test_critical_extensions_are_refused(key: rsa.RSAPrivateKey, crit: object) -> None:
    """What a token says must be understood is not passed over."""
    with pytest.raises(ProvideError, match="critical extensions"):
        verify_jwt(sign_jwt({"crit": crit}, CLAIMS, key), [jwk(key)], ALL)


@pytest.mark.parametrize("claims", [{}, {"exp": None}], ids=["absent", "null"])
def test_a_required_claim_is_there(key: rsa.RSAPrivateKey, claims: dict[str, object]) -> None:
    """Whoever signed it."""
    token = sign_jwt({}, {"iss": "me", **claims}, key)
    assert verify_jwt(token, [jwk(key)], ALL, ["iss"])["iss"] == "me"
    with pytest.raises(ProvideError, match=r"^the token has no exp$") as caught:
        verify_jwt(token, [jwk(key)], ALL, ["iss", "exp"])
    assert caught.value.__context__ is None


def test_a_required_claim_does_not_make_up_for_a_signature(key: rsa.RSAPrivateKey) -> None:
    """What is missing is told only of a token that a key confirms."""
    token = spoil(sign_jwt({}, {"iss": "me"}, key))["signature"]
    with pytest.raises(ProvideError, match="not confirmed by any key"):
        verify_jwt(token, [jwk(key)], ALL, ["exp"])


def test_only_the_public_half_of_a_key_counts(key: rsa.RSAPrivateKey) -> None:
    """An issuer that serves a private key by mistake, or nonsense in its place, is still its issuer."""
    served = {**jwk(key), "d": 5, "p": "x", "oth": []}
    assert verify_jwt(sign_jwt({}, CLAIMS, key), [served], ALL) == CLAIMS


def test_a_key_of_another_curve_confirms_nothing() -> None:
    """Though its arithmetic would: an algorithm names its curve."""
    private = ec.generate_private_key(ec.SECP384R1())
    token = jwt.encode(dict(CLAIMS), private, "ES384")
    good = jwt.algorithms.ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    assert verify_jwt(token, [good], ALL) == CLAIMS
    unsigned = forge({"alg": "ES256"}).rpartition(".")[0]
    halves = decode_dss_signature(private.sign(unsigned.encode(), ec.ECDSA(hashes.SHA256())))
    signature = encode_segment(b"".join(half.to_bytes(48, "big") for half in halves))
    for curve in ("P-256", "P-384"):
        with pytest.raises(ProvideError, match="not confirmed by any key"):
            verify_jwt(f"{unsigned}.{signature}", [{**good, "crv": curve}], ALL)


def test_signing_with_a_short_key_says_nothing(recwarn: pytest.WarningsRecorder) -> None:
    """A warning would stand in the standard error of whoever runs the plugin."""
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - an old key, as some have
    assert sign_jwt({}, CLAIMS, weak)
    assert not recwarn.list


@pytest.mark.parametrize("name", ["aud", "iss", "exp"])
def test_a_token_with_a_claim_twice_is_refused(key: rsa.RSAPrivateKey, name: str) -> None:
    """Readers differ in which of them they take, and the signature is good."""
    text = json.dumps({**CLAIMS, "aud": "us", "exp": 1 << 33}).replace("{", f'{{"{name}": "you", ', 1)
    unsigned = f"{forge({'alg': 'RS256'}).partition('.')[0]}.{encode_segment(text.encode())}"
    signature = key.sign(unsigned.encode(), padding.PKCS1v15(), hashes.SHA256())
    with pytest.raises(ProvideError, match="has a member more than once"):
        verify_jwt(f"{unsigned}.{encode_segment(signature)}", [jwk(key)], ALL)
