"""Docker configs, read as the kubelet reads them and never quoted."""

from __future__ import annotations

import json

import pytest

from keyferry.errors import PullSecretError
from keyferry.images.dockerconfig import parse_docker_config_json
from keyferry.sdk import ProvideError
from keyferry_plugins.docker.config import Login, parse_config, parse_old_config
from support.docker_configs import auth, config, logins_of

SECRET = "s3cret-that-shows"


@pytest.mark.parametrize(
    "entry",
    [
        {"username": "u", "password": "p"},
        {"auth": auth("u:p")},
        {"auth": auth("u:p"), "username": "other", "password": "other"},
        {"AUTH": auth("u:p"), "email": "x@y"},
        {"auth": auth("u:p:q").rstrip("=")},
        {"auth": auth("user:a-longer-pass")[:6] + "\n" + auth("user:a-longer-pass")[6:]},
        {"auth": " " + auth("u:p")},
        {"auth": auth("u-without-colon")},
        {"auth": "!!!"},
        {"auth": auth("u:p") + "x"},
        {"auth": 3},
        {"username": ["u"]},
        "text",
    ],
    ids=str,
)
def test_entries_are_read_as_the_kubelet_reads_them(entry: object) -> None:
    """The same user name and password as in the kubelet, or both refuse the file."""
    content = json.dumps({"auths": {"reg.io": entry}, "HttpHeaders": {}}).encode()
    try:
        expected = {
            key: (one.username, one.password) for key, one in parse_docker_config_json(content).items()
        }
    except PullSecretError:
        with pytest.raises(ProvideError):
            parse_config(content, "file")
        return
    assert logins_of([parse_config(content, "file")]) == expected


@pytest.mark.parametrize(
    "content",
    [
        f'{{"auths": {{"reg.io": {{"auth": "{SECRET}'.encode(),
        json.dumps({"auths": {"reg.io": {"auth": auth(SECRET)}}}).encode(),
        json.dumps({"auths": {"reg.io": {"auth": SECRET + "!"}}}).encode(),
        json.dumps({"auths": {f"https://me:{SECRET}@reg.io/x": {"auth": 3}}}).encode(),
        json.dumps({"auths": [SECRET]}).encode(),
        json.dumps([SECRET]).encode(),
        b'{"auths":' * 20000,
        b"\xff\xfe" + SECRET.encode(),
    ],
)
def test_no_error_quotes_a_file(content: bytes) -> None:
    """What is wrong is said by place and expectation, never by what stands there."""
    with pytest.raises(ProvideError) as caught:
        parse_config(content, "docker config 'f'")
    assert SECRET not in repr(caught.value)
    assert auth(SECRET) not in repr(caught.value)
    assert "docker config 'f'" in str(caught.value)
    # Whoever prints the chain of causes prints no more.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_login_does_not_show_its_password() -> None:
    """A repr of what was read holds no secret."""
    read = parse_config(config(**{"reg.io": f"u:{SECRET}"}).encode(), "f")
    assert SECRET not in repr(read)
    assert read.logins["reg.io"].password == SECRET


def test_empty_entries_of_docker_are_no_logins_and_identity_tokens_are_told_apart() -> None:
    """An entry that a helper left behind gives nothing; one with an identity token says so."""
    content = {
        "auths": {"a.io": {}, "b.io": {"auth": auth("u:"), "identitytoken": "t"}},
        "credsStore": "pass",
    }
    read = parse_config(json.dumps(content).encode(), "f")
    assert read.logins == {"b.io": Login("u", "", has_identity_token=True)}
    assert read.store == "pass"


def test_the_old_form_is_the_entries_alone() -> None:
    """A .dockercfg has no auths around its entries."""
    read = parse_old_config(json.dumps({"reg.io": {"auth": auth("u:p")}}).encode(), "f")
    assert logins_of([read]) == {"reg.io": ("u", "p")}
