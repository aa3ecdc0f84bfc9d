"""What holds for all records: round trips, merging, deciding, patterns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    ImagePullServiceAccount,
    encode_record,
)
from keyferry.errors import ImageNameError, RecordError
from keyferry.images.reference import trim
from keyferry.pulls.records.decide import PodCredentials, Situation, decide
from keyferry.pulls.records.disk import stripe_count, stripe_of
from keyferry.pulls.records.format import decode_record, merge_credentials
from keyferry.pulls.records.policy import Allowlist, VerificationPolicy
from keyferry.pulls.records.store import RecordLookup

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FEW = st.sampled_from(["", "a", "b", "c"])
SECRETS = st.builds(ImagePullSecret, uid=FEW, namespace=FEW, name=FEW, credential_hash=FEW)
ACCOUNTS = st.builds(ImagePullServiceAccount, uid=FEW, namespace=FEW, name=FEW)
ENTRIES = st.builds(
    ImagePullCredentials,
    kubernetes_secrets=st.lists(SECRETS, max_size=4).map(tuple),
    kubernetes_service_accounts=st.lists(ACCOUNTS, max_size=3).map(tuple),
    node_pods_accessible=st.booleans(),
)
SECONDS = st.integers(-62_135_596_800, 253_402_300_799)
RECORDS = st.builds(
    ImagePulledRecord,
    image_ref=TEXT,
    last_updated_ns=SECONDS.map(lambda s: s * 10**9),
    credential_mapping=st.dictionaries(TEXT, ENTRIES, max_size=3),
)
NAMES = st.sampled_from(
    ["a.io/x", "a.io/x/y", "a.io/xy", "b", "a.io/x:1", "a.io/x/y@sha256:" + "0" * 64, "B"]
)
ALWAYS = VerificationPolicy("AlwaysVerify")


@given(RECORDS)
def test_a_record_survives_its_file(record: ImagePulledRecord) -> None:
    """Whatever can be in a record comes back from the bytes."""
    assert decode_record(encode_record(record)).value == record


@given(RECORDS, st.integers(0, 400), st.binary(max_size=3))
def test_damage_is_noticed_or_harmless(record: ImagePulledRecord, at: int, noise: bytes) -> None:
    """Bytes changed anywhere give a record or one error, never another exception."""
    data = encode_record(record)
    try:
        decode_record(data[:at] + noise + data[at + 1 :])
    except RecordError as error:
        assert error.kind in ("syntax", "type", "content")


@given(ENTRIES, ENTRIES)
def test_merging_twice_is_merging_once(old: ImagePullCredentials, new: ImagePullCredentials) -> None:
    """A second merge of the same changes nothing; access is never lost but to 'everybody'."""
    once, _ = merge_credentials(
        ImagePulledRecord(image_ref="r", last_updated_ns=0, credential_mapping={"x": old}),
        "x",
        new,
        lambda: 1,
    )
    assert merge_credentials(once, "x", new, lambda: 2) == (once, False)
    entry = once.credential_mapping["x"]
    if not entry.node_pods_accessible:
        kept = {each.coordinates for each in entry.kubernetes_secrets}
        assert kept >= {each.coordinates for each in old.kubernetes_secrets}


@given(ENTRIES, st.lists(SECRETS, max_size=3), st.none() | ACCOUNTS)
def test_a_pod_gets_in_only_by_what_is_recorded(
    entry: ImagePullCredentials, secrets: list[ImagePullSecret], account: ImagePullServiceAccount | None
) -> None:
    """Being let in always has a recorded equal: the credential, the secret, the account, or everybody."""
    lookup = RecordLookup(
        record=ImagePulledRecord(image_ref="r", last_updated_ns=0, credential_mapping={"a.io/x": entry})
    )
    shown = PodCredentials(secrets=tuple(secrets), service_account=account)
    decision = decide(Situation(image="a.io/x:1", image_ref="r", lookup=lookup), ALWAYS, lambda: shown)
    hashes = {each.credential_hash for each in entry.kubernetes_secrets} - {""}
    places = {each.coordinates for each in entry.kubernetes_secrets}
    is_known = (
        entry.node_pods_accessible
        or any(each.credential_hash in hashes or each.coordinates in places for each in secrets)
        or account in entry.kubernetes_service_accounts
    )
    assert decision.must_pull is not is_known


@given(st.lists(st.sampled_from(["a.io/*", "a.io/x/*", "a.io/x", "b", "c/*"])), NAMES)
def test_the_allowlist_agrees_with_plain_comparison(patterns: list[str], image: str) -> None:
    """Looking patterns up gives what trying each of them gives."""
    try:
        name = trim(image)
    except ImageNameError:
        name = image
    expected = any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)
    assert (Allowlist(patterns).find(image) is not None) == expected


@given(TEXT, st.none() | st.integers(-5, 100))
def test_every_key_has_its_stripe(key: str, pulls: int | None) -> None:
    """The lock of a key exists, and is always the same."""
    stripes = stripe_count(pulls)
    assert 1 <= stripes <= 31
    assert 0 <= stripe_of(key, stripes) < stripes
