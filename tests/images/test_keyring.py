"""Keys are tried in descending byte order; docker configs and answers of providers are keyrings."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.errors import PluginExitError, PluginProtocolError, PullSecretError
from keyferry.images.answer import Answer, Failure, LookupInput, MissingInput, Provision, ProvisionOutcome
from keyferry.images.dockerconfig import (
    DockerEntry,
    PullSecret,
    load_docker_config,
    parse_docker_config_json,
    parse_dockercfg,
    read_pull_secret,
)
from keyferry.images.keyring import (
    Credential,
    Keyring,
    SecretRef,
    ServiceAccountRef,
    Source,
    SourceKind,
    credential_hash,
    join_keyrings,
    lookup_all,
)

ONE, TWO = Source(kind=SourceKind.PROVIDER, name="one"), Source(kind=SourceKind.PROVIDER, name="two")


def ring(*keys: str, source: Source = ONE) -> Keyring:
    keyring = Keyring()
    keyring.add(source, [(key, key, "p", "") for key in keys])
    return keyring


def names(found: list[Credential]) -> list[str]:
    return [credential.username for credential in found]


def test_keys_are_tried_in_descending_order() -> None:
    """Longer paths come first only because they sort so; a wildcard comes late."""
    keyring = ring("*.io", "reg.io", "reg.io/team/app", "reg.io/team", "other.io")
    assert keyring.index() == ["reg.io/team/app", "reg.io/team", "reg.io", "other.io", "*.io"]
    assert names(keyring.lookup("reg.io/team/app")) == ["reg.io/team/app", "reg.io/team", "reg.io", "*.io"]


def test_equal_keys_are_tried_in_the_order_they_came() -> None:
    """Nothing is overwritten: both spellings and both sources are offered."""
    keyring = ring("reg.io", "https://reg.io/v2/")
    keyring.add(TWO, [("reg.io/", "later", "p", "")])
    assert names(keyring.lookup("reg.io/app")) == ["reg.io", "https://reg.io/v2/", "later"]
    assert [credential.source.name for credential in keyring.lookup("reg.io/app")] == ["one", "one", "two"]


def test_the_default_registry_is_a_last_resort() -> None:
    """The old key of Docker Hub serves only where nothing else does, and only Docker Hub."""
    assert names(ring("https://index.docker.io/v1/").lookup("docker.io/library/busybox")) == [
        "https://index.docker.io/v1/"
    ]
    assert names(ring("index.docker.io", "docker.io").lookup("docker.io/library/busybox")) == ["docker.io"]
    assert ring("index.docker.io").lookup("reg.io/app") == []
    assert ring("reg.io").lookup("docker.io/library/busybox") == []


def test_keyrings_are_joined_not_mixed() -> None:
    """Each looks for itself, so a general key of the first is tried before a special one of the next."""
    first, second = ring("*.io", source=ONE), ring("reg.io/app", source=TWO)
    assert names(lookup_all([first, second], "reg.io/app")) == ["*.io", "reg.io/app"]
    assert lookup_all([], "reg.io/app") == []


def test_one_keyring_of_several_has_the_credentials_of_all_in_order() -> None:
    first, second = ring("reg.io", "bad host", source=ONE), ring("reg.io", "reg.io/app", source=TWO)
    joined = join_keyrings([first, second])
    assert [(each.key, each.source.name) for each in joined.lookup("reg.io/app")] == [
        ("reg.io/app", "two"),
        ("reg.io", "one"),
        ("reg.io", "two"),
    ]
    assert [each.key for each in joined.dropped] == ["bad host"]
    assert len(first.lookup("reg.io/app")) == 1, "what is joined stays as it was"
    assert join_keyrings([]).lookup("reg.io/app") == []
    assert join_keyrings([first]).lookup("reg.io/app") == first.lookup("reg.io/app")


def test_the_same_is_found_each_time() -> None:
    """However often it is looked for, and also after more was added."""
    keyring = ring("*.io", "reg.io", "reg.io/team")
    for _ in range(4):
        assert names(keyring.lookup("reg.io/team/app")) == ["reg.io/team", "reg.io", "*.io"]
        assert names(keyring.lookup("a.io/app")) == ["*.io"]
    keyring.add(TWO, [("reg.io/team/app", "more", "p", "")])
    for _ in range(3):
        assert names(keyring.lookup("reg.io/team/app")) == ["more", "reg.io/team", "reg.io", "*.io"]


def test_a_key_that_does_not_parse_is_dropped_and_noted() -> None:
    """The others stay, and what is noted shows nothing by itself."""
    keyring = ring("bad host", "reg.io")
    assert names(keyring.lookup("reg.io/app")) == ["reg.io"]
    (dropped,) = keyring.dropped
    assert dropped.key == "bad host"
    assert "forbidden character" in dropped.why
    assert repr(dropped) == "DroppedKey()"


def test_a_credential_hides_its_password_and_has_the_kubelets_hash() -> None:
    """The hash is that of compact JSON without empty fields."""
    credential = Credential(username="user", password="hunter2", source=ONE, key="reg.io", email="e@x")
    assert "hunter2" not in repr(credential)
    assert credential.hash == credential_hash("user", "hunter2", "e@x")
    assert credential_hash("", "") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert len({credential_hash("a", "b"), credential_hash("a", "", "b"), credential_hash("", "a", "b")}) == 3


def test_a_source_says_what_it_is() -> None:
    """In text: its kind and name; as a value: which secret or account it was."""
    ref, account = (
        SecretRef(namespace="ns", name="s", uid="u"),
        ServiceAccountRef(namespace="ns", name="a", uid="u"),
    )
    assert str(Source(kind=SourceKind.PULL_SECRET, name="ns/s", secret=ref)) == "pull secret ns/s"
    assert str(Source(kind=SourceKind.NODE_DOCKER_CONFIG, name="")) == "node docker config"
    assert Source(kind=SourceKind.PROVIDER, name="p", service_account=account).service_account == account


AUTH = {
    "reg.io": AuthConfig(username="user", password="p1"),
    "user:hidden@other.io": AuthConfig(username="other", password="p2"),
}


def test_a_keyring_has_the_answers_credentials_with_their_source() -> None:
    account = ServiceAccountRef(namespace="ns", name="sa", uid="uid")
    keyring = Provision(provider="p", outcome=ProvisionOutcome.RAN, auth=AUTH, account=account).keyring
    [credential] = keyring.lookup("reg.io/app")
    assert (credential.username, credential.password, credential.key) == ("user", "p1", "reg.io")
    assert (credential.source.kind, credential.source.name) == (SourceKind.PROVIDER, "p")
    assert credential.source.service_account == account
    assert keyring.index() == ["reg.io", "other.io"]


def test_an_answer_tells_which_inputs_were_missing() -> None:
    answer, pod = (
        Provision(provider="p", outcome=ProvisionOutcome.CACHED, auth=AUTH),
        (MissingInput(input=LookupInput.POD),),
    )
    assert answer.with_missing(()) is answer
    assert answer.with_missing(pod).missing == pod
    assert answer.with_missing(pod).keyring.lookup("reg.io/app") == answer.keyring.lookup("reg.io/app")


def test_an_answer_without_credentials_has_none() -> None:
    failed = Provision(provider="p", outcome=ProvisionOutcome.FAILED)
    assert failed.keyring.lookup("reg.io/app") == []
    assert failed == Provision(provider="p", outcome=ProvisionOutcome.FAILED)


FIRST = PluginExitError("one", 1, "kubernetes says hunter2")
PROVISIONS = (
    Provision(
        provider="one",
        outcome=ProvisionOutcome.FAILED,
        error=FIRST,
        kubernetes_text="kubernetes says hunter2",
    ),
    Provision(provider="two", outcome=ProvisionOutcome.SKIPPED, skipped="why"),
    Provision(
        provider="three", outcome=ProvisionOutcome.FAILED, error=PluginProtocolError("three", "problem")
    ),
)
CREDENTIAL = Credential(
    username="user", password="hunter2", source=Source(kind=SourceKind.PROVIDER, name="two"), key="reg.io"
)


def answer(provisions: tuple[Provision, ...]) -> Answer:
    return Answer(
        image="reg.io/app:v1",
        name="reg.io/app",
        credentials=(CREDENTIAL,),
        provisions=provisions,
        matching=(),
        providers=(),
    )


def test_failures_are_the_provisions_that_failed() -> None:
    """In order, with the error, Kubernetes' words beside it, and our words as text."""
    failures = answer(PROVISIONS).failures
    assert [(failure.provider, failure.error.kubernetes_text) for failure in failures] == [
        ("one", "kubernetes says hunter2"),
        ("three", "problem"),
    ]
    assert str(failures[0]) == "plugin 'one': exited with status 1"
    assert failures[0] == Failure(provider="one", error=FIRST, kubernetes_text="kubernetes says hunter2")


def test_the_first_failure_is_raised_on_request() -> None:
    """Without a failure nothing is raised."""
    with pytest.raises(PluginExitError) as caught:
        answer(PROVISIONS).raise_for_failures()
    assert caught.value is FIRST
    answer(PROVISIONS[1:2]).raise_for_failures()


def test_no_repr_shows_a_password_or_kubernetes_words() -> None:
    """Answer, failures and provisions can be printed as they are."""
    whole = answer(PROVISIONS)
    assert "hunter2" not in repr(whole) + repr(whole.failures) + repr(whole.provisions) + repr(vars(whole))
    assert "user" in repr(whole)


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
