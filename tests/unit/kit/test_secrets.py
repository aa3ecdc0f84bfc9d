"""The secrets of an answer are found wherever they turn up, and what can be seen of one without showing it."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest

from keyferry._core.secrets import MASK
from keyferry.kit.lab.secrets import Secrets, describe, expiry_of, find_leaks, secrets_in, shown_key, skeleton
from support.kit_plugins import jwt

ANSWER = b'{"auth":{"r.io":{"username":"user","password":"s3cret-password"}}}'
NOW_NS = 1_000_000_000_000_000_000


def test_the_secrets_of_an_answer_are_its_passwords_and_pairs() -> None:
    """A password counts alone and together with its user."""
    assert secrets_in(ANSWER) == {"s3cret-password", "user:s3cret-password"}


def test_the_secrets_of_a_cluster_answer_are_its_token_and_key() -> None:
    """A certificate is no secret, its key is."""
    status = b'{"status":{"token":"s3cret-token","clientKeyData":"KEY-KEY-KEY","clientCertificateData":"CERTIFICATE"}}'
    assert secrets_in(status) == {"s3cret-token", "KEY-KEY-KEY"}


def test_an_answer_with_something_around_it_has_the_same_secrets() -> None:
    """A banner before the answer does not hide its secrets from us."""
    assert secrets_in(b"banner\n" + ANSWER + b"\nbye") == secrets_in(ANSWER)


@pytest.mark.parametrize("data", [b"", b"{", b"}{", b"null", b"[1]", b"\xff\xfe", b'{"password":"short"}'])
def test_what_is_no_answer_has_no_secrets(data: bytes) -> None:
    """Texts too short to be told from chance are left out."""
    assert secrets_in(data) == frozenset()


@pytest.mark.parametrize(
    "spelling",
    [
        b"s3cret-password",
        base64.b64encode(b"user:s3cret-password"),
        base64.b64encode(b"s3cret-password"),
        base64.urlsafe_b64encode(b"user:s3cret-password").rstrip(b"="),
    ],
)
def test_a_secret_is_found_in_every_spelling(spelling: bytes) -> None:
    """A header's base64 is as good as the password, and both are hidden."""
    secrets = Secrets(texts=secrets_in(ANSWER))
    text = b"login: " + spelling + b"!"
    assert secrets.found_in(text)
    assert spelling not in secrets.hide(text.decode()).encode()


def test_a_file_that_others_can_read_is_told_from_one_that_they_cannot(tmp_path: Path) -> None:
    """The mode of a file decides."""
    for name, mode in (("open", 0o644), ("closed", 0o600), ("clean", 0o644)):
        path = tmp_path / name
        path.write_text("nothing" if name == "clean" else "x s3cret-password x")
        path.chmod(mode)
    leaks = {leak.path: leak.is_open for leak in find_leaks(str(tmp_path), Secrets(texts=secrets_in(ANSWER)))}
    assert leaks == {"open": True, "closed": False}


def test_secrets_show_in_no_repr() -> None:
    """Not even by accident."""
    assert "s3cret" not in repr(Secrets(texts=secrets_in(ANSWER)))


@pytest.mark.parametrize(
    "key",
    [
        "reg.io",
        "*.reg.io",
        "*",
        "reg.io:5000/team",
        "localhost:5000",
        "registry:5000",
        "https://reg.io/v1/",
        "[::1]:5000",
    ],
)
def test_a_registry_as_a_key_is_shown(key: str) -> None:
    """The names that configs have."""
    assert shown_key(key) == key


@pytest.mark.parametrize(
    "key",
    [
        "hunter2",
        "jo:hunter2@reg.io",
        "jo@reg.io",
        "reg.io:hunter2",
        "hunter 2",
        "",
        f"{'a' * 100}.io",
        "reg.io/%zz",
    ],
)
def test_anything_else_as_a_key_may_be_a_secret(key: str) -> None:
    """A plugin may have put its password there."""
    assert shown_key(key) == MASK


def test_the_end_of_a_token_is_read_from_it() -> None:
    """A JSON web token says when it ends."""
    end = expiry_of(jwt(600))
    assert end is not None
    assert abs(end / 1e9 - time.time() - 600) < 60


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password",
        "a.b.c",
        "eyJhbGciOiJub25lIn0.bm90IGpzb24.x",
        "eyJhbGciOiJub25lIn0.e30.x",
        "..",
        "é.é.é",
    ],
)
def test_other_texts_have_no_end(text: str) -> None:
    """Text that is no token, or a token that never ends, has no end."""
    assert expiry_of(text) is None


@pytest.mark.parametrize(
    ("secret", "shape"),
    [
        ("", "empty"),
        ("deadbeef", "hexadecimal, up to 8 characters"),
        ("Passw0rdPassw0rd", "letters and digits, up to 16 characters"),
        ("QUJD+/==", "base64, up to 8 characters"),
        ("with space and more", "printable ASCII, up to 32 characters"),
        ("zwölf", "other text, up to 8 characters"),
        ("x" * 20000, "letters and digits, over 16384 characters"),
    ],
)
def test_a_shape_says_no_more_than_it_should(secret: str, shape: str) -> None:
    """A shape has the alphabet and a rounded length."""
    assert describe(secret, NOW_NS) == shape


def test_the_shape_of_a_token_tells_when_it_ends() -> None:
    """A token's time is what bug reports are often about."""
    text = describe(jwt(3600))
    assert text.startswith("JWT, up to 128 characters, ends in 3")
    assert "ago" in describe(jwt(-60))


def test_a_skeleton_keeps_structure_and_the_words_of_the_protocol() -> None:
    """Nothing of a value is left but its length."""
    text = 'log: Tok3n\n{"kind":"ExecCredential","status":{"token":"s3cret"}}'
    assert skeleton(text) == 'xxx: xxx0x\n{"kind":"ExecCredential","status":{"token":"x0xxxx"}}'
