"""A plugin's answer is read as client-go reads it, and its key pair is checked."""

from __future__ import annotations

import json
import sys
import time

import pytest
from cryptography.x509.oid import NameOID

from keyferry.api.clientauthentication import v1
from keyferry.clusters.auth.credential import ClusterCredential, read_credential
from keyferry.clusters.auth.pem import parse_key_pair
from keyferry.errors import ClusterAuthError, EnvironmentProblem, PluginProtocolError
from support.certificates import key_pem, make_certificate, make_key

V1 = v1.API_VERSION
INTERNAL = "client.authentication.k8s.io/__internal"
MISMATCH = f"exec plugin is configured to use API version {V1}, plugin returned version"
SECRET = "Zq7marked-S3cret9vX"


def answer(status: object, **fields: object) -> bytes:
    document = {"apiVersion": V1, "kind": "ExecCredential", "status": status, **fields}
    return json.dumps(document).encode()


def refusal(stdout: bytes) -> PluginProtocolError:
    with pytest.raises(PluginProtocolError) as caught:
        read_credential(V1, stdout, plugin="plugin")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def test_yaml_is_read_up_to_a_limit_and_json_beyond() -> None:
    """What a plugin prints as YAML costs a thousand times its size, so little of it is read at all."""
    for size in (256 * 1024, 256 * 1024 + 1):
        stdout = answer({"token": "t"})
        yaml = b"#".ljust(size - len(stdout) - 1, b"x") + b"\n" + stdout
        assert len(yaml) == size
        if size == 256 * 1024:
            assert read_credential(V1, yaml) == ClusterCredential(token="t")
        else:
            assert "found 262145 bytes of YAML, expected at most 262144" in str(refusal(yaml))
    assert read_credential(V1, answer({"token": "t"}, x="x" * 10**6)) == ClusterCredential(token="t")


@pytest.mark.parametrize("comment", ["", "# YAML\n"], ids=["json", "yaml"])
def test_what_is_read_too_late_is_no_answer(comment: str) -> None:
    """Whoever waits for it no longer wants the rest."""
    with pytest.raises(TimeoutError):
        read_credential(V1, comment.encode() + answer({"token": "t"}), until=time.monotonic())


def test_a_large_answer_costs_little_more_than_its_size() -> None:
    """Nobody asks where in an answer its parts stood."""
    import tracemalloc

    stdout = answer({"token": "t"}, x=[1] * 100_000, y=[[]] * 50_000)
    tracemalloc.start()
    try:
        assert read_credential(V1, stdout) == ClusterCredential(token="t")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * len(stdout)


@pytest.mark.parametrize(
    ("stdout", "text"),
    [
        (
            b"k8s",
            "decoding stdout: couldn't get version/kind; json parse error: json: cannot unmarshal string",
        ),
        (
            b'{"apiVersion":"a/b/c","kind":"ExecCredential"}',
            "decoding stdout: unexpected GroupVersion string: a/b/c",
        ),
        (b'{"apiVersion":"client.authentication.k8s.io/"}', f"{MISMATCH} {INTERNAL}"),
        (
            b'{"apiVersion":"other.io/"}',
            """decoding stdout: Object 'apiVersion' is missing in '{"apiVersion":"other.io/"}'""",
        ),
        (
            b'{"kind":"Foo"}',
            f'decoding stdout: no kind "Foo" is registered for version "{INTERNAL}"',
        ),
        (
            b'{"apiVersion":"/v1","kind":"Foo"}',
            'decoding stdout: no kind "Foo" is registered for version "v1" in scheme "<scheme>"',
        ),
        (
            b'{"apiVersion":"v1","kind":"Status","status":"Failure"}',
            "decoding stdout: converting (v1.Status) to (clientauthentication.ExecCredential): unknown",
        ),
    ],
)
def test_odd_documents_are_refused_in_client_gos_words(stdout: bytes, text: str) -> None:
    assert refusal(stdout).kubernetes_text.startswith(text)


def test_an_empty_answer_is_called_so() -> None:
    """client-go speaks of a version that no plugin ever returned."""
    assert str(refusal(b" \n")) == "plugin 'plugin': it printed nothing"


STDOUT = {
    "bare": SECRET.encode(),
    "not-json": b'{"token": "' + SECRET.encode(),
    "version": answer({"token": SECRET}, apiVersion=SECRET),
    "group": answer({"token": SECRET}, apiVersion=f"{SECRET.lower()}.k8s.io/v1"),
    "no-version": answer({"token": SECRET}, apiVersion="other.io/"),
    "slashes": answer({"token": SECRET}, apiVersion=f"a/b/{SECRET}"),
    "kind": answer({"token": SECRET}, kind=SECRET),
    "type": answer({"token": [SECRET]}),
    "expiry": answer({"token": SECRET, "expirationTimestamp": SECRET}),
    "unknown": answer({SECRET: SECRET}),
    "half": answer({"clientKeyData": SECRET}),
    "pem": answer({"clientCertificateData": SECRET, "clientKeyData": SECRET}),
    "pem-type": answer(
        {"clientCertificateData": f"-----BEGIN {SECRET}-----\n-----END {SECRET}-----\n", "clientKeyData": "k"}
    ),
    "yaml": f"a: *{SECRET}".encode(),
    "utf16": SECRET.encode("utf-16"),
}


@pytest.mark.parametrize("stdout", STDOUT.values(), ids=STDOUT)
def test_no_byte_of_the_answer_is_in_a_message(stdout: bytes) -> None:
    error = refusal(stdout)
    assert SECRET.lower() not in f"{error} {error!r} {error.problem}".lower()


def test_a_credential_shows_no_secret() -> None:
    credential = ClusterCredential(token=SECRET, certificate_pem="certificate", key_pem=SECRET, expires_ns=5)
    assert SECRET not in f"{credential} {credential!r}"


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


def refusal_of_pair(certificate: str, key: str) -> str:
    with pytest.raises(ClusterAuthError) as caught:
        parse_key_pair(certificate, key)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.kubernetes_text


def test_only_the_first_certificate_must_belong_to_the_key() -> None:
    assert parse_key_pair(CERT + make_certificate(OTHER), KEY).chain_length == 2
    assert (
        refusal_of_pair(make_certificate(OTHER) + CERT, KEY) == "tls: private key does not match public key"
    )


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
        (CERT.replace("-----\n", "-----\nProc-Type: 4\nA: b\n\n", 1), KEY),
    ],
    ids=["text", "crlf", "no-newline", "combined", "others", "label", "blanks", "first-key", "headers"],
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
        (CERT, block("PRIVATE KEY"), "failed to parse private key"),
        (CERT, CERT, "found a certificate rather than a key in the PEM for the private key"),
        (
            CERT,
            CERT + CERT,
            f"failed to find PEM block with {ENDING} in key input {SKIPPED} [CERTIFICATE CERTIFICATE]",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_gos_words(certificate: str, key: str, text: str) -> None:
    assert refusal_of_pair(certificate, key) == f"tls: {text}"


@pytest.mark.parametrize("form", ["pkcs8", "traditional"])
def test_an_encrypted_key_is_called_one(form: str) -> None:
    with pytest.raises(ClusterAuthError, match="the key is encrypted, expected a key without a passphrase"):
        parse_key_pair(CERT, key_pem(EC, form, "pass"))


def test_a_certificate_that_cannot_be_parsed_comes_before_the_key() -> None:
    assert refusal_of_pair(block("CERTIFICATE"), block("PRIVATE KEY")).startswith("x509: ")
    assert refusal_of_pair(block("CERTIFICATE"), "y") == "tls: failed to find any PEM data in key input"


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
