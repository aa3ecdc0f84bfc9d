"""Docker configs, pull secrets and providers as sources of credentials, beyond what tests/conformance compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry import Credential, Providers, PullSecret, Source, SourceKind
from keyferry.errors import PluginExitError, PluginProtocolError, PullSecretError
from keyferry.images.keyring import SecretRef
from support.function_plugins import answering, failing, provider, providers
from support.plugins import SteppedClock

MODERN = b'{"auths": {"reg.io": {"username": "u", "password": "p", "email": "e"}}}'
LEGACY = b'{"reg.io": {"username": "u", "password": "p", "email": "e"}}'


def secret(kind: str, content: bytes) -> PullSecret:
    return PullSecret(
        namespace="ns", name="name", type=f"kubernetes.io/{kind}", data={f".{kind}": content}, uid="uid"
    )


def test_one_keyring_of_several_providers_has_the_credentials_of_all_in_order() -> None:
    """By key in descending order, then in the order of the providers; a key that does not parse is left out."""
    asked = providers(
        provider("one", ["reg.io"], answering({"reg.io": ("1", "p"), "bad host": ("0", "p")})),
        provider("two", ["reg.io"], answering({"reg.io": ("2", "p"), "reg.io/app": ("3", "p")})),
    )
    for _ in range(2):
        answer = asked.lookup("reg.io/app")
        assert [(each.key, each.source.name) for each in answer.credentials] == [
            ("reg.io/app", "two"),
            ("reg.io", "one"),
            ("reg.io", "two"),
        ]
    own = answer.provisions[0].keyring
    assert [each.source.name for each in own.lookup("reg.io/app")] == ["one"]
    # A plugin may have put a secret in the place of a key.
    (dropped,) = own.dropped
    assert (dropped.key, "bad host" in repr(dropped)) == ("bad host", False)


def test_a_credential_knows_its_source() -> None:
    answer = Providers(()).lookup("reg.io/app", pull_secrets=[secret("dockercfg", LEGACY)])
    (credential,) = answer.credentials
    assert credential.source.secret == SecretRef(namespace="ns", name="name", uid="uid")
    assert str(credential.source) == "pull secret ns/name"
    assert str(Source(kind=SourceKind.NODE_DOCKER_CONFIG, name="")) == "node docker config"


def test_the_first_failure_is_raised_on_request() -> None:
    """All are listed in order, with our words as text and Kubernetes' beside them; without one nothing is raised."""
    first = PluginExitError("one", 1, "kubernetes says hunter2")
    answer = providers(
        provider("one", ["reg.io"], failing(lambda: first)),
        provider("two", ["reg.io"], answering({"reg.io": ("user", "hunter2")})),
        provider("three", ["reg.io"], failing(lambda: PluginProtocolError("three", "problem"))),
    ).lookup("reg.io/app:v1")
    assert [failure.provider for failure in answer.failures] == ["one", "three"]
    assert answer.failures[0].error.kubernetes_text == "kubernetes says hunter2"
    assert str(answer.failures[0]) == "plugin 'one': exited with status 1"
    with pytest.raises(PluginExitError) as caught:
        answer.raise_for_failures()
    assert caught.value is first
    assert "hunter2" not in repr(answer) + repr(answer.failures) + repr(answer.provisions) + repr(
        vars(answer)
    )
    providers(provider("two", ["reg.io"], answering({}))).lookup("reg.io/app").raise_for_failures()


@pytest.mark.parametrize(
    ("kind", "content", "said", "kubernetes"),
    [
        (
            "dockercfg",
            b'{"reg.io": {"email": 1}}',
            "['reg.io'].email: found a number, expected a string",
            "json: cannot unmarshal number into Go value of type string",
        ),
        (
            "dockercfg",
            b'{"reg.io": }',
            "is not JSON",
            "invalid character '}' looking for beginning of value",
        ),
        (
            "dockercfg",
            b'{"reg.io": {"auth": "dXNlcjpwYXNz!"}}',
            "['reg.io'].auth is not base64",
            "illegal base64 data at input byte 12",
        ),
        (
            "dockercfg",
            b'{"reg.io": {"auth": "dXN lcjpw="}}',
            "['reg.io'].auth is not base64",
            "illegal base64 data at input byte 3",
        ),
        (
            "dockerconfigjson",
            b'{"auths": {"reg.io": {"auth": "dXNlc"}}}',
            "auths['reg.io'].auth is not base64",
            "illegal base64 data at input byte 4",
        ),
    ],
)
def test_a_broken_secret_is_named(kind: str, content: bytes, said: str, kubernetes: str) -> None:
    """With its key, the place in it, and Go's own text beside, as a pod's event shows it."""
    with pytest.raises(PullSecretError) as caught:
        Providers(()).lookup("reg.io/app", pull_secrets=[secret(kind, content)])
    assert str(caught.value).startswith(f"pull secret ns/name, key '.{kind}'")
    assert said in str(caught.value)
    assert caught.value.kubernetes_text == kubernetes


def of_node(path: Path | str) -> tuple[Credential, ...]:
    """The credentials of a node's docker config."""
    return Providers((), docker_config=str(path), clock=SteppedClock()).lookup("reg.io/app").credentials


def test_the_name_of_a_file_tells_its_format(tmp_path: Path) -> None:
    """``.dockercfg`` is the old one; errors name the file."""
    for name, content in (("config.json", MODERN), (".dockercfg", LEGACY)):
        (tmp_path / name).write_bytes(content)
        assert [(each.username, each.email) for each in of_node(tmp_path / name)] == [("u", "e")]
    (tmp_path / "config.json").write_bytes(b"x")
    with pytest.raises(PullSecretError, match=r"config\.json: is not JSON"):
        of_node(tmp_path / "config.json")


@pytest.mark.parametrize("name", ["missing", ".", "nul\0byte"])
def test_a_file_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path, name: str) -> None:
    """No OSError and no ValueError leaves the library."""
    with pytest.raises(PullSecretError, match="cannot be read"):
        of_node(f"{tmp_path}/{name}")
