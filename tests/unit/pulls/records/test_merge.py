"""Credentials go into a record by the kubelet's rules."""

from __future__ import annotations

from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.pulls.records.format import merge_credentials, merge_named
from support.records import EVERYBODY, NAME, account, record, secret, with_secrets


def test_a_new_hash_takes_the_place_of_the_old() -> None:
    """One secret has one hash."""
    assert merge_named([secret("a", "1")], [secret("a", "2")]) == ((secret("a", "2"),), True)


def test_the_order_stays_when_nothing_changes() -> None:
    """A list that is not sorted is left alone until something is added."""
    old = (secret("b"), secret("a"))
    assert merge_named(old, [secret("a")]) == (old, False)
    assert merge_named(old, [secret("c")])[0] == (secret("a"), secret("b"), secret("c"))


def test_everybody_absorbs_all_else() -> None:
    """Once every pod may use an image, secrets are neither kept nor added."""
    opened, changed = merge_credentials(record(entry=with_secrets(secret())), NAME, EVERYBODY, lambda: 7)
    assert changed
    assert opened.credential_mapping == {NAME: EVERYBODY}
    assert merge_credentials(opened, NAME, with_secrets(secret()), lambda: 8) == (opened, False)


def test_the_time_changes_with_the_content_only() -> None:
    """A merge that adds nothing leaves the record's time."""
    old = record(entry=with_secrets(secret()))
    assert merge_credentials(old, NAME, with_secrets(secret()), lambda: 7) == (old, False)
    assert merge_credentials(old, NAME, with_secrets(secret("b")), lambda: 7)[0].last_updated_ns == 7


def test_accounts_beside_secrets_are_passed_over() -> None:
    """As in the kubelet, an entry that exists takes the secrets alone."""
    new = ImagePullCredentials(kubernetes_secrets=(secret("b"),), kubernetes_service_accounts=(account(),))
    merged, _ = merge_credentials(record(entry=with_secrets(secret("a"))), NAME, new, lambda: 7)
    assert merged.credential_mapping[NAME].kubernetes_service_accounts == ()
