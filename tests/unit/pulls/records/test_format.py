"""The format of record files: decoding, and merging credentials."""

from __future__ import annotations

import pytest

from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    encode_record,
)
from keyferry.errors import RecordError
from keyferry.pulls.records.format import decode_intent, decode_record, merge_credentials, merge_named
from support.records import EVERYBODY, HASH, NAME, account, record, secret, with_secrets


def test_a_record_comes_back_as_it_was() -> None:
    """What is written is read again, without loss."""
    entry = ImagePullCredentials(
        kubernetes_secrets=(secret("b"), secret("a")), kubernetes_service_accounts=(account(),)
    )
    written = ImagePulledRecord(
        image_ref="r",
        last_updated_ns=1_700_000_000_000_000_000,
        credential_mapping={"x": entry, "y": ImagePullCredentials()},
    )
    decoded = decode_record(encode_record(written))
    assert decoded.value == written
    assert decoded.is_current


def test_the_first_version_is_known_as_an_old_one() -> None:
    """v1alpha1 is read, and told apart."""
    data = encode_record(record(), "kubelet.config.k8s.io/v1alpha1")
    assert not decode_record(data).is_current


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "type"),
        (b"\x00" * 100, "syntax"),
        (b'{"kind":"ImagePulledRecord"', "syntax"),
        (b"[1]", "type"),
        (b'{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v2"}', "type"),
        (b'{"kind":"ImagePulledRecord","apiVersion":"a/b/c"}', "type"),
        (b'{"kind":"Pod","apiVersion":"v1"}', "type"),
        (b'{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","x":1}', "content"),
        (
            b'{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":1}',
            "content",
        ),
        (b"{" * 200_000, "syntax"),
    ],
    ids=["empty", "zeros", "cut", "list", "version", "slashes", "kind", "unknown", "type", "depth"],
)
def test_what_is_no_record_says_why(data: bytes, cause: str) -> None:
    """Every damage is one error with its cause."""
    with pytest.raises(RecordError) as caught:
        decode_record(data, "/f")
    assert caught.value.kind == cause
    assert str(caught.value).startswith("/f: ")


def test_an_error_quotes_no_hash() -> None:
    """A damaged record's hashes stay where they are, in words and in what Python keeps of an error."""
    data = encode_record(record(entry=with_secrets(secret())))
    for broken in (data[:-4], data.replace(b'"uid"', b'"uid":"x","uid"'), data.replace(b'"kind"', b'"kin"')):
        with pytest.raises(RecordError) as caught:
            decode_record(broken)
        assert HASH not in f"{caught.value}{caught.value!r}{caught.value.__context__!r}"


def test_an_intent_may_be_yaml() -> None:
    """What does not begin with a brace is YAML, as Kubernetes has it."""
    data = b"kind: ImagePullIntent\napiVersion: kubelet.config.k8s.io/v1beta1\nimage: app\n"
    assert decode_intent(data).value.image == "app"


def test_a_repeated_yaml_key_is_refused() -> None:
    """Repeated keys are told in YAML as well."""
    data = b"kind: ImagePullIntent\napiVersion: kubelet.config.k8s.io/v1beta1\nimage: a\nimage: b\n"
    with pytest.raises(RecordError, match="more than once") as caught:
        decode_intent(data)
    assert caught.value.document_kind == "strict"


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
