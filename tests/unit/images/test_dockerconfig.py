"""Docker configs and pull secrets are read from their own places, as the kubelet reads them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from keyferry.errors import PullSecretError
from keyferry.images.dockerconfig import (
    DockerEntry,
    PullSecret,
    load_docker_config,
    parse_docker_config_json,
    parse_dockercfg,
    read_pull_secret,
)

MODERN = b'{"auths": {"reg.io": {"username": "u", "password": "p", "email": "e"}}}'
LEGACY = b'{"reg.io": {"username": "u", "password": "p", "email": "e"}}'
ENTRY = DockerEntry(username="u", password="p", email="e")


def secret(kind: str, **data: bytes) -> PullSecret:
    return PullSecret(
        namespace="ns",
        name="name",
        type=f"kubernetes.io/{kind}",
        data={f".{key}": value for key, value in data.items()},
    )


def test_each_format_has_its_reader() -> None:
    """Names of fields may have any case, and unknown ones are passed over."""
    assert parse_docker_config_json(MODERN) == parse_dockercfg(LEGACY) == {"reg.io": ENTRY}
    assert parse_docker_config_json(MODERN.replace(b"auths", b"AUTHS").replace(b"password", b"Password")) == {
        "reg.io": ENTRY
    }
    assert parse_docker_config_json(b'{"credHelpers": {"a": 1}, "HttpHeaders": {"a": "b"}}') == {}
    assert parse_docker_config_json(b"null") == parse_dockercfg(b"{}") == {}


def test_an_auth_field_overrides_name_and_password() -> None:
    """Padded or not; an empty one does not count."""
    auth = base64.b64encode(b"a:b:c").decode()
    for text in (auth, auth.rstrip("="), auth + "\n"):
        content = json.dumps({"reg.io": {"username": "u", "password": "p", "auth": text}}).encode()
        assert parse_dockercfg(content) == {"reg.io": DockerEntry(username="a", password="b:c")}
    assert parse_dockercfg(b'{"r": {"username": "u", "auth": ""}}') == {"r": DockerEntry(username="u")}


def test_a_file_fails_with_kubernetes_fixed_text() -> None:
    """Whatever is wrong in a file, Kubernetes says one thing; our words say what."""
    for content in (b"{", b'{"auths": 1}', b'{"auths": {"reg.io": {"auth": "!"}}}'):
        with pytest.raises(PullSecretError) as caught:
            parse_docker_config_json(content)
        assert caught.value.kubernetes_text == "error occurred while trying to unmarshal json"
    assert str(caught.value) == "auths['reg.io'].auth is not base64"


def test_a_secret_is_read_from_the_key_of_its_type() -> None:
    """The other key, another type and an empty value are passed over."""
    assert read_pull_secret(secret("dockerconfigjson", dockerconfigjson=MODERN)) == {"reg.io": ENTRY}
    assert read_pull_secret(secret("dockercfg", dockercfg=LEGACY)) == {"reg.io": ENTRY}
    assert read_pull_secret(secret("dockerconfigjson", dockercfg=LEGACY)) is None
    assert read_pull_secret(secret("dockerconfigjson", dockerconfigjson=b"")) is None
    assert read_pull_secret(secret("tls", dockerconfigjson=MODERN)) is None
    assert read_pull_secret(PullSecret(namespace="ns", name="name", type="", data={"": b"x"})) is None


def test_a_broken_secret_is_named() -> None:
    """The error has the secret, its key, the place in it, and Go's own text beside."""
    with pytest.raises(PullSecretError) as caught:
        read_pull_secret(secret("dockercfg", dockercfg=b'{"reg.io": {"email": 1}}'))
    assert str(caught.value) == (
        "pull secret ns/name, key '.dockercfg': ['reg.io'].email: found a number, expected a string"
    )
    assert caught.value.kubernetes_text == "json: cannot unmarshal number into Go value of type string"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"not json", "invalid character 'o' in literal null (expecting 'u')"),
        (b'{"reg.io": }', "invalid character '}' looking for beginning of value"),
        (b'{"reg.io": {"auth": "dXNlcjpwYXNz!"}}', "illegal base64 data at input byte 12"),
        (b'{"reg.io": {"auth": "dXN lcjpw="}}', "illegal base64 data at input byte 3"),
        (b'{"reg.io": {"auth": "dXNlc"}}', "illegal base64 data at input byte 4"),
    ],
)
def test_a_broken_secret_has_gos_text(content: bytes, text: str) -> None:
    """As a pod's event shows it: encoding/json and encoding/base64 of Go, to the character and the byte."""
    with pytest.raises(PullSecretError) as caught:
        read_pull_secret(secret("dockercfg", dockercfg=content))
    assert caught.value.kubernetes_text == text


def test_the_name_of_a_file_tells_its_format(tmp_path: Path) -> None:
    """``.dockercfg`` is the old one; errors name the file."""
    for name, content in (("config.json", MODERN), (".dockercfg", LEGACY)):
        (tmp_path / name).write_bytes(content)
        assert load_docker_config(str(tmp_path / name)) == {"reg.io": ENTRY}
    (tmp_path / "config.json").write_bytes(b"x")
    with pytest.raises(PullSecretError, match=r"config\.json: is not JSON"):
        load_docker_config(str(tmp_path / "config.json"))


@pytest.mark.parametrize("name", ["missing", ".", "nul\0byte"])
def test_a_file_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path, name: str) -> None:
    """No OSError and no ValueError crosses the door."""
    with pytest.raises(PullSecretError, match="cannot be read"):
        load_docker_config(f"{tmp_path}/{name}")


def test_no_repr_shows_a_password() -> None:
    """Neither an entry nor a secret."""
    assert "hunter2" not in repr(DockerEntry(username="u", password="hunter2")) + repr(
        secret("dockercfg", dockercfg=b"hunter2")
    )
