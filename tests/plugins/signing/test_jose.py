"""JSON web tokens: those of RFC 7515, our own, and those that somebody forged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from keyferry.errors import ProvideError
from keyferry_plugins.signing.jose import (
    decode_segment,
    encode_segment,
    load_key_and_certificates,
    read_claims,
    read_header,
    sign_jwt,
    verify_jwt,
)
from support.certificates import key_pem, make_certificate, make_key
from support.jose_tokens import ALL, CLAIMS, jwk, number, segment
from support.sdk_plugins import SOURCE

# RFC 7515, appendices A.2 and A.3: the primes of an RSA key, a point of P-256, the claims, two signatures.
RFC_P = "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc"  # noqa: E501 - one number
RFC_Q = "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc"  # noqa: E501 - one number
RFC_CLAIMS = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
RFC_RS256 = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"  # noqa: E501 - one signature
RFC_ES256 = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
RFC_EC_KEY: dict[str, object] = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
RFC_RSA_TOKEN = f"eyJhbGciOiJSUzI1NiJ9.{RFC_CLAIMS}.{RFC_RS256}"
RFC_EC_TOKEN = f"eyJhbGciOiJFUzI1NiJ9.{RFC_CLAIMS}.{RFC_ES256}"


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    """A key for the length of these tests."""
    return cast("rsa.RSAPrivateKey", make_key("rsa"))


@pytest.mark.parametrize(
    "data", [b"", b"f", b"fo", b"foo", b"foob", b"\xff\xfe\xfd", bytes(range(256))], ids=repr
)
def test_segments_go_both_ways(data: bytes) -> None:
    """Without padding, and with the letters for URLs."""
    text = encode_segment(data)
    assert decode_segment(text) == data
    assert not set("+/=") & set(text)


@pytest.mark.parametrize("text", ["a", "a b", "a\n", "\u00e4", "a.b", "====", "aaaaa", "!!!!"])
def test_what_is_no_base64_is_said_and_not_quoted(text: str) -> None:
    """It may be a token."""
    with pytest.raises(ProvideError, match=r"^a part of a JSON web token is not base64$"):
        decode_segment(text)


def test_the_examples_of_rfc_7515_are_confirmed() -> None:
    """RSA from A.2, P-256 from A.3."""
    modulus = number(RFC_P) * number(RFC_Q)
    rsa_key: dict[str, object] = {"kty": "RSA", "n": segment(modulus), "e": "AQAB"}
    expected = {"iss": "joe", "exp": 1300819380, "http://example.com/is_root": True}
    assert verify_jwt(RFC_RSA_TOKEN, [rsa_key], ALL) == expected
    assert verify_jwt(RFC_EC_TOKEN, [RFC_EC_KEY], ALL) == expected
    assert verify_jwt(RFC_EC_TOKEN, [rsa_key, RFC_EC_KEY], ALL) == expected


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_what_we_sign_is_confirmed(key: rsa.RSAPrivateKey, algorithm: str) -> None:
    """By us, and by the library itself, over the very bytes that are sent."""
    token = sign_jwt({"kid": "k1", "typ": "JWT"}, CLAIMS, key_pem(key), algorithm)
    assert read_header(token) == {"alg": algorithm, "kid": "k1", "typ": "JWT"}
    assert verify_jwt(token, [jwk(key, kid="k1")], [algorithm]) == read_claims(token) == CLAIMS
    signed, _, signature = token.rpartition(".")
    digest = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[algorithm[2:]]
    scheme = (
        padding.PKCS1v15()
        if algorithm.startswith("RS")
        else padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
    )
    key.public_key().verify(decode_segment(signature), signed.encode(), scheme, digest)


@pytest.mark.parametrize(("algorithm", "curve"), [("ES384", ec.SECP384R1()), ("ES512", ec.SECP521R1())])
def test_longer_curves_are_confirmed(algorithm: str, curve: ec.EllipticCurve) -> None:
    """With their own sizes."""
    private = ec.generate_private_key(curve)
    token = jwt.encode(dict(CLAIMS), private, algorithm)
    public = jwt.algorithms.ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    assert verify_jwt(token, [public], ALL) == CLAIMS
    with pytest.raises(ProvideError, match="not confirmed"):
        verify_jwt(token[:-4], [public], ALL)


def test_a_key_as_an_object_signs_too(key: rsa.RSAPrivateKey) -> None:
    """From a PKCS #12 file, for one; and no header says another algorithm than the one used."""
    token = sign_jwt({"alg": "none", "x5t": "t"}, CLAIMS, key, "PS256")
    assert read_header(token) == {"alg": "PS256", "x5t": "t"}
    assert verify_jwt(token, [jwk(key)], ["PS256"]) == CLAIMS


@pytest.mark.parametrize("algorithm", ["none", "HS256", "ES256", "RS1", ""])
def test_only_rsa_signs(key: rsa.RSAPrivateKey, algorithm: str) -> None:
    """Another algorithm is said to be none of ours."""
    with pytest.raises(ProvideError, match="a token cannot be signed by"):
        sign_jwt({}, CLAIMS, key, algorithm)


NO_KEYS = {
    "no-pem": "x",
    "empty": "",
    "elliptic": key_pem(make_key("ec")),
    "edwards": key_pem(make_key("ed25519")),
    "encrypted": key_pem(make_key("ec"), password="pw"),
    "certificate": make_certificate(make_key("ec")),
}


@pytest.mark.parametrize("pem", NO_KEYS.values(), ids=NO_KEYS)
def test_what_is_no_rsa_key_is_said(pem: str) -> None:
    """Without a word of it, and without a chain to what was caught."""
    with pytest.raises(ProvideError, match="the private key is not an RSA key in PEM") as caught:
        sign_jwt({}, CLAIMS, pem)
    assert caught.value.__context__ is None


NO_TOKENS = {
    "empty": "",
    "one-part": "abc",
    "two-parts": "e30.e30",
    "five-parts": "e30.e30.e30.e30.e30",
    "no-json": f"{encode_segment(b'x')}.{encode_segment(b'x')}.",
    "list": f"{encode_segment(b'[]')}.{encode_segment(b'[]')}.",
    "no-base64": "!.!.!",
    "deep": f"{encode_segment(b'[' * 20_000)}.{encode_segment(b'[' * 20_000)}.",
    "long": f"{encode_segment(b' ' * 60_000)}.e30.",
}


@pytest.mark.parametrize("token", NO_TOKENS.values(), ids=NO_TOKENS)
def test_what_is_no_token_is_said_and_not_quoted(token: str, key: rsa.RSAPrivateKey) -> None:
    """By everything that reads one."""
    for work in (read_claims, read_header, lambda text: verify_jwt(text, [jwk(key)], ALL)):
        with pytest.raises(ProvideError, match="JSON web token") as caught:
            work(token)
        assert caught.value.__context__ is None


def bundle(key: rsa.RSAPrivateKey, password: str = "") -> bytes:
    """A PKCS #12 file with a key, its certificate and another."""
    own = x509.load_pem_x509_certificate(make_certificate(key).encode())
    other = x509.load_pem_x509_certificate(make_certificate(make_key("ec")).encode())
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return serialize_key_and_certificates(b"name", key, own, [other], encryption)


@pytest.mark.parametrize("password", ["", "pw"])
def test_a_pkcs12_file_gives_its_key_and_its_chain(key: rsa.RSAPrivateKey, password: str) -> None:
    """The key's own certificate first."""
    loaded, certificates = load_key_and_certificates(bundle(key, password), password, is_pkcs12=True)
    assert loaded.private_numbers() == key.private_numbers()
    assert len(certificates) == 2
    assert certificates[0].public_key() == key.public_key()


@pytest.mark.parametrize("password", ["", "pw"])
def test_a_pem_file_gives_its_key_and_its_chain(key: rsa.RSAPrivateKey, password: str) -> None:
    """In whatever order they stand."""
    other, own = make_certificate(make_key("ec")), make_certificate(key)
    data = (other + key_pem(key, password=password) + own).encode()
    loaded, certificates = load_key_and_certificates(data, password, is_pkcs12=False)
    assert loaded.private_numbers() == key.private_numbers()
    assert [each.public_key() == key.public_key() for each in certificates] == [True, False]


def test_a_file_that_does_not_do_is_said(key: rsa.RSAPrivateKey) -> None:
    """No key, no certificate, another's certificate, another password: and which of them."""
    own, pem = make_certificate(key), key_pem(key)
    no_key, no_certificate = "holds no RSA private key", "holds no certificate of its private key"
    elliptic = make_key("ec")
    cases = [
        (b"", "", False, no_key),
        (b"x", "", True, no_key),
        (own.encode(), "", False, no_key),
        (pem.encode(), "", False, no_certificate),
        ((pem + make_certificate(make_key("rsa"))).encode(), "", False, no_certificate),
        ((key_pem(key, password="pw") + own).encode(), "", False, no_key),
        ((key_pem(key, password="pw") + own).encode(), "other", False, no_key),
        ((key_pem(elliptic) + make_certificate(elliptic)).encode(), "", False, no_key),
        (bundle(key, "pw"), "other", True, no_key),
        (bundle(key, "pw"), "", True, no_key),
    ]
    for data, password, is_pkcs12, words in cases:
        with pytest.raises(ProvideError, match=words) as caught:
            load_key_and_certificates(data, password, is_pkcs12=is_pkcs12)
        assert caught.value.__context__ is None


WITHOUT = """
import sys
sys.path.insert(0, sys.argv[1])
from keyferry.sdk import ProvideError
from keyferry_plugins.signing import jose
assert jose.read_claims("e30.eyJhIjoxfQ.") == {"a": 1}
for work in (
    lambda: jose.sign_jwt({}, {}, "pem"),
    lambda: jose.verify_jwt("eyJhbGciOiJSUzI1NiJ9.e30.", [{"kty": "RSA"}], ["RS256"]),
    lambda: jose.load_key_and_certificates(b"", "", is_pkcs12=True),
):
    try:
        work()
    except ProvideError as error:
        print(error)
"""


def test_without_cryptography_the_extra_is_named(tmp_path: Path) -> None:
    """And what needs none works."""
    # Where the packages are installed, cryptography stands beside them.
    for package in ("keyferry", "keyferry_plugins"):
        (tmp_path / package).symlink_to(Path(SOURCE) / package)
    command = [sys.executable, "-IS", "-c", WITHOUT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    hint = "in a clone of keyferry, pip install '.[crypto]'"
    line = f"RSA needs the package 'cryptography', which is not installed; {hint}"
    assert done.stdout.splitlines() == [line] * 3


LIGHT = """
import sys
from keyferry_plugins.signing import jose
import keyferry_plugins.openid.verify, keyferry_plugins.google.adc
jose.read_claims("e30.eyJhIjoxfQ.")
print(*{"cryptography", "jwt"} & set(sys.modules))
assert not jose.missing_package()
print(*{"cryptography", "jwt"} & set(sys.modules))
"""


def test_nothing_that_signs_is_loaded_before_it_is_needed() -> None:
    """Reading claims and asking whether the packages are there load neither."""
    command = [sys.executable, "-c", LIGHT]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []
