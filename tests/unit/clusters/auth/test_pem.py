"""A certificate and key are taken or refused as by Go's ``tls.X509KeyPair``."""

from __future__ import annotations

import sys

import pytest
from cryptography.x509.oid import NameOID

from keyferry.clusters.auth.pem import find_blocks, parse_key_pair
from keyferry.errors import ClusterAuthError, EnvironmentProblem
from support.certificates import AFTER, BEFORE, key_pem, make_certificate, make_key

EC = make_key()
CERT = make_certificate(EC)
KEY = key_pem(EC)
OTHER = make_key()
SWITCHED = (
    "failed to find certificate PEM data in certificate input, but did find a private key; "
    "PEM inputs may have been switched"
)
SKIPPED = "after skipping PEM blocks of the following types:"
ENDING = 'type ending in "PRIVATE KEY"'


def block(kind: str, body: str = "QUJD") -> str:
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n"


def refusal(certificate: str, key: str) -> str:
    with pytest.raises(ClusterAuthError) as caught:
        parse_key_pair(certificate, key)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.kubernetes_text


@pytest.mark.parametrize("kind", ["rsa", "ec", "p384", "ed25519"])
@pytest.mark.parametrize("form", ["pkcs8", "traditional"])
def test_every_kind_of_key_is_taken(kind: str, form: str) -> None:
    key = make_key(kind)
    pem = key_pem(key, "pkcs8" if kind == "ed25519" else form)
    pair = parse_key_pair(make_certificate(key), pem)
    assert pair.subject == "CN=user"
    assert pair.not_before_ns == BEFORE.timestamp() * 1_000_000_000
    assert pair.not_after_ns == AFTER.timestamp() * 1_000_000_000


def test_only_the_first_certificate_must_belong_to_the_key() -> None:
    assert parse_key_pair(CERT + make_certificate(OTHER), KEY).chain_length == 2
    assert refusal(make_certificate(OTHER) + CERT, KEY) == "tls: private key does not match public key"


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        ("text before\n" + CERT + "text after", KEY),
        (CERT.replace("\n", "\r\n"), KEY.replace("\n", "\r\n")),
        (CERT.rstrip(), KEY.rstrip()),
        (KEY + CERT, CERT + KEY),
        (block("X") + CERT, "-----BEGIN PRIVATE KEY-----\nnot the end\n" + KEY),
        (CERT, KEY.replace("PRIVATE KEY", "ANY PRIVATE KEY")),
        (CERT, KEY.replace("-----\n", "----- \t\n", 1)),
        (CERT, KEY + key_pem(OTHER)),
    ],
    ids=["text", "crlf", "no-newline", "combined", "others", "label", "blanks", "first-key"],
)
def test_what_stands_around_the_blocks_is_passed_over(certificate: str, key: str) -> None:
    assert parse_key_pair(certificate, key).chain_length == 1


@pytest.mark.parametrize(
    ("certificate", "key", "text"),
    [
        ("x", "y", "failed to find any PEM data in certificate input"),
        (CERT.replace("-----\n", "-----", 1), KEY, "failed to find any PEM data in certificate input"),
        (" " + CERT, KEY, "failed to find any PEM data in certificate input"),
        (block("CERTIFICATE", "!"), KEY, "failed to find any PEM data in certificate input"),
        (
            KEY,
            CERT,
            SWITCHED,
        ),
        (
            block("A") + block("B C"),
            KEY,
            f'failed to find "CERTIFICATE" PEM block in certificate input {SKIPPED} [A B C]',
        ),
        (CERT, "y", "failed to find any PEM data in key input"),
        (CERT, CERT, "found a certificate rather than a key in the PEM for the private key"),
        (
            CERT,
            CERT + CERT,
            f"failed to find PEM block with {ENDING} in key input {SKIPPED} [CERTIFICATE CERTIFICATE]",
        ),
        (CERT, block("PRIVATE KEY"), "failed to parse private key"),
        (CERT, key_pem(EC, password="x"), "failed to parse private key"),
        (CERT, key_pem(OTHER), "private key does not match public key"),
        (CERT, key_pem(make_key("rsa")), "private key type does not match public key type"),
        (make_certificate(make_key("rsa")), KEY, "private key type does not match public key type"),
    ],
)
def test_what_cannot_be_used_is_refused_in_gos_words(certificate: str, key: str, text: str) -> None:
    assert refusal(certificate, key) == f"tls: {text}"


def test_a_certificate_that_cannot_be_parsed_comes_before_the_key() -> None:
    assert refusal(block("CERTIFICATE"), block("PRIVATE KEY")).startswith("x509: ")
    assert refusal(block("CERTIFICATE"), "y") == "tls: failed to find any PEM data in key input"


def test_messages_quote_nothing() -> None:
    with pytest.raises(ClusterAuthError) as caught:
        parse_key_pair(block("S3CRET"), KEY)
    assert "S3CRET" not in str(caught.value)


def test_headers_belong_to_no_content() -> None:
    text = "-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\nA: b\n\nQUJD\n-----END X-----\n"
    assert list(find_blocks(text)) == [("X", b"ABC")]
    assert list(find_blocks(block("X", "QU JD\t"))) == [("X", b"ABC")]
    assert list(find_blocks("-----BEGIN X-----\n-----END X-----")) == [("X", b"")]
    assert list(find_blocks("-----BEGIN X-----\nQUJD\n-----END Y-----\n" + block("Z"))) == [("Z", b"ABC")]


def test_a_subject_is_written_as_go_does() -> None:
    """By kind, whatever the order in the certificate; groups of one kind are joined."""
    names = [
        (NameOID.ORGANIZATION_NAME, "system:masters"),
        (NameOID.COMMON_NAME, "admin"),
        (NameOID.ORGANIZATION_NAME, "devs"),
        (NameOID.COUNTRY_NAME, "DE"),
    ]
    assert parse_key_pair(make_certificate(EC, names), KEY).subject == "CN=admin,O=system:masters+O=devs,C=DE"


def test_without_cryptography_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install '\.\[crypto\]'"):
        parse_key_pair(CERT, KEY)
