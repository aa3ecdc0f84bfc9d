"""Keys of tokens depend on every byte of the token, and on no claim."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyferry.agent.lookups import Tenants
from support.agents import make_token

NOW_NS, NOW = 5_000_000_000, 1_000_000.0


def tenants(secret: bytes = b"k" * 32) -> Tenants:
    return Tenants(secret, clock=lambda: NOW_NS, wall_clock=lambda: NOW)


def test_tokens_with_the_same_claims_have_different_keys() -> None:
    """A forged copy of an account's token, with another signature, is another tenant."""
    real, forged = make_token(NOW + 60, signature="good"), make_token(NOW + 60, signature="evil")
    assert tenants().relay(real, {}).key != tenants().relay(forged, {}).key


def test_keys_hold_in_one_process_only() -> None:
    """The key of the hash is random, so a key tells nothing about a token."""
    token = make_token(NOW + 60)
    assert tenants().relay(token, {}).key == tenants().relay(token, {}).key
    assert Tenants().relay(token, {}).key != Tenants().relay(token, {}).key


def test_answers_end_with_the_token() -> None:
    assert tenants().relay(make_token(NOW + 60), {}).until_ns == NOW_NS + 60_000_000_000
    assert tenants().relay(make_token(None), {}).until_ns is None
    assert tenants().relay(make_token("soon"), {}).until_ns is None
    assert tenants().relay(make_token(1e300), {}).until_ns is None
    assert tenants().relay(make_token(True), {}).until_ns is None
    assert tenants().relay(make_token(0), {}).until_ns is None
    assert tenants().relay("no-jwt", {}).until_ns is None


def test_a_token_that_is_long_past_ends_its_answers_too() -> None:
    assert tenants().relay(make_token(1), {}).until_ns == NOW_NS - int((NOW - 1) * 1_000_000_000)


def test_the_end_of_a_token_counts_even_if_its_base64_is_not_strict() -> None:
    """A plugin may be less strict than others, and accept it."""
    head, claims, signature = make_token(NOW + 60).split(".")
    relayed = tenants().relay(f"{head}.{claims[:4]}!{claims[4:]}.{signature}", {})
    assert relayed.until_ns == NOW_NS + 60_000_000_000


def test_the_token_is_in_no_repr() -> None:
    relayed = tenants().relay("secret-token", {"a": "b"})
    assert "secret-token" not in repr(relayed)
    assert repr(relayed.key) not in repr(relayed)


@given(st.dictionaries(st.text(), st.text(), max_size=3), st.dictionaries(st.text(), st.text(), max_size=3))
def test_different_annotations_have_different_keys(one: dict[str, str], two: dict[str, str]) -> None:
    """However they are split into names and values."""
    same = tenants().relay("t", one).key == tenants().relay("t", two).key
    assert same is (one == two)
