"""The secrets of an answer are found wherever they turn up."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from keyferry._core.secrets import MASK
from keyferry.kit.lab.secrets import Secrets, find_leaks, secrets_in, shown_key

ANSWER = b'{"auth":{"r.io":{"username":"user","password":"s3cret-password"}}}'


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
