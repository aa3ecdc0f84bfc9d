"""Keys are tried in descending byte order, several sources one after the other."""

from __future__ import annotations

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
