"""Distinct inputs have distinct keys, whatever the inputs are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.keyring import Keyring, Source, SourceKind, credential_hash
from keyferry.images.provider.cache import (
    CACHE_KEY_TYPES,
    GLOBAL_KEY,
    Cache,
    account_cache_key,
    base_key,
    cache_key,
    hash_token,
    other_inputs,
    run_key,
)

# Short texts of few letters, the framing's own bytes among them, so that collisions would be met.
TEXT = st.text(st.sampled_from("ab\0\1\2"), max_size=5)
ANNOTATIONS = st.dictionaries(TEXT, TEXT, max_size=3)
ACCOUNT = st.tuples(TEXT, TEXT, TEXT, ANNOTATIONS, TEXT, st.sampled_from(["Token", "ServiceAccount"]))
Account = tuple[str, str, str, dict[str, str], str, str]


def key_of(account: Account) -> bytes:
    namespace, name, uid, annotations, token_hash, cache_type = account
    return account_cache_key(
        namespace=namespace,
        name=name,
        uid=uid,
        annotations=annotations,
        token_hash=token_hash,
        cache_type=cache_type,
    )


def what_counts(account: Account) -> object:
    *identity, token_hash, cache_type = account
    return identity, token_hash if cache_type == "Token" else None


@given(ACCOUNT, ACCOUNT)
def test_account_keys_are_equal_only_for_equal_accounts(one: Account, other: Account) -> None:
    """No shift of text between namespace, name, UID, annotations and token makes two accounts one."""
    assert (key_of(one) == key_of(other)) is (what_counts(one) == what_counts(other))


@given(TEXT, ACCOUNT, TEXT, ACCOUNT)
def test_cache_keys_are_equal_only_for_equal_parts(
    base: str, one: Account, other_base: str, other: Account
) -> None:
    """An image never runs into the account behind it."""
    keys = cache_key(base, key_of(one)), cache_key(other_base, key_of(other))
    assert (keys[0] == keys[1]) is (base == other_base and what_counts(one) == what_counts(other))


@given(TEXT, TEXT, ANNOTATIONS, TEXT, TEXT, ANNOTATIONS)
def test_runs_are_the_same_only_for_equal_questions(
    image: str,
    token: str,
    annotations: dict[str, str],
    image2: str,
    token2: str,
    annotations2: dict[str, str],
) -> None:
    """Two lookups share a run only if the plugin would be told the same."""
    same = (image, token, annotations) == (image2, token2, annotations2)
    first = run_key(image, other_inputs(token, annotations))
    assert (first == run_key(image2, other_inputs(token2, annotations2))) is same


# Images without a path, and one named like the global key, are found under the keys of other types.
IMAGES = st.sampled_from(["a", "a/x", "a/y", "b", "b/x", GLOBAL_KEY, f"{GLOBAL_KEY}/x"])


@given(st.lists(st.tuples(IMAGES, st.sampled_from(CACHE_KEY_TYPES)), max_size=5), IMAGES)
def test_a_cache_finds_what_a_search_by_all_keys_finds(stored: list[tuple[str, str]], image: str) -> None:
    """The image's own key comes first, then that of its registry, then the global one."""
    cache, by_key = Cache(0), dict[str, Provision]()
    for asked, kind in stored:
        kept = by_key[base_key(kind, asked)] = Provision(
            provider="p", outcome=ProvisionOutcome.CACHED, auth={}, cache_key_type=kind, expires_ns=100
        )
        cache.store(asked, b"", kept)
    expected = (by_key.get(base_key(kind, image)) for kind in CACHE_KEY_TYPES)
    assert cache.find(image, b"", 0) is next((found for found in expected if found is not None), None)


@given(ANNOTATIONS)
def test_the_order_of_annotations_does_not_count(annotations: dict[str, str]) -> None:
    """A mapping is what it maps."""
    turned = dict(reversed(annotations.items()))
    assert other_inputs("", annotations) == other_inputs("", turned)


@given(st.text(), st.text())
def test_tokens_are_told_apart(one: str, other: str) -> None:
    """Equal hashes mean equal tokens, and only the empty token has none."""
    one, other = (text.encode("utf-8", "replace").decode() for text in (one, other))
    assert (hash_token(one) == hash_token(other)) is (one == other)
    assert bool(hash_token(one)) is bool(one)


@given(TEXT, TEXT, TEXT, TEXT, TEXT, TEXT)
def test_credentials_are_told_apart(a: str, b: str, c: str, x: str, y: str, z: str) -> None:
    """The kubelet's hash has a place for each of the three fields."""
    assert (credential_hash(a, b, c) == credential_hash(x, y, z)) is ((a, b, c) == (x, y, z))


@given(
    st.lists(st.text(max_size=12), max_size=6),
    st.sampled_from(["reg.io/team/app", "docker.io/library/busybox"]),
)
def test_any_keys_at_all_give_an_ordered_ring(keys: list[str], image: str) -> None:
    """No auth key raises; what is kept is sorted, and every credential is kept once or dropped."""
    keyring = Keyring()
    keyring.add(Source(kind=SourceKind.PROVIDER, name="p"), [(key, "u", "p", "") for key in keys])
    assert keyring.index() == sorted(keyring.index(), reverse=True)
    kept = sum(len(keyring.credentials(key)) for key in keyring.index())
    assert kept + len(keyring.dropped) == len(keys)
    assert len(keyring.lookup(image)) <= kept
