"""Requests are written and responses read as by the kubelet, in every version."""

from __future__ import annotations

import json

import pytest

from keyferry.api.credentialprovider import v1
from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.api.wire import Reader

FULL = CredentialProviderRequest(
    image="reg.io/app", service_account_token="token", service_account_annotations={"b": "2", "a": "<1>"}
)


def test_a_request_is_one_line_of_json() -> None:
    """Fields in the kubelet's order, annotations sorted, HTML escaped, a newline at the end."""
    assert v1.encode_request(FULL).decode() == (
        '{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1",'
        '"image":"reg.io/app","serviceAccountToken":"token",'
        '"serviceAccountAnnotations":{"a":"\\u003c1\\u003e","b":"2"}}\n'
    )


def test_what_is_empty_is_left_out() -> None:
    """Without a token and annotations their fields are absent."""
    for request in (
        CredentialProviderRequest(image="reg.io/app"),
        CredentialProviderRequest(
            image="reg.io/app", service_account_token="", service_account_annotations={}
        ),
    ):
        assert sorted(json.loads(v1.encode_request(request))) == ["apiVersion", "image", "kind"]


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_older_versions_are_told_nothing_of_accounts(version: str) -> None:
    """A token never goes to a plugin whose version does not have the field."""
    encoded = v1.encode_request(FULL, f"{v1.GROUP}/{version}")
    document = json.loads(encoded)
    assert sorted(document) == ["apiVersion", "image", "kind"]
    assert document["apiVersion"] == f"credentialprovider.kubelet.k8s.io/{version}"
    assert b"token" not in encoded


def test_a_response_is_read_with_its_types() -> None:
    """Durations become nanoseconds, auth entries records."""
    reader = Reader()
    document = {
        "kind": "CredentialProviderResponse",
        "apiVersion": v1.API_VERSION,
        "cacheKeyType": "Image",
        "cacheDuration": "1m30s",
        "auth": {"reg.io": {"username": "u", "password": "p"}},
    }
    expected = CredentialProviderResponse(
        cache_key_type="Image",
        cache_duration_ns=90_000_000_000,
        auth={"reg.io": AuthConfig(username="u", password="p")},
    )
    assert CredentialProviderResponse.from_document(document, reader) == expected
    assert reader.problems == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, CredentialProviderResponse()),
        ({"auth": None, "cacheKeyType": None, "cacheDuration": None}, CredentialProviderResponse()),
        ({"auth": {}}, CredentialProviderResponse(auth={})),
        ({"auth": {"k": None}}, CredentialProviderResponse(auth={"k": AuthConfig()})),
        ({"auth": {"k": {"username": None}}}, CredentialProviderResponse(auth={"k": AuthConfig()})),
        ({"cacheDuration": "-1s"}, CredentialProviderResponse(cache_duration_ns=-1_000_000_000)),
        ({"cacheKeyType": "Nonsense"}, CredentialProviderResponse(cache_key_type="Nonsense")),
    ],
)
def test_what_is_absent_or_null_is_empty(document: object, expected: CredentialProviderResponse) -> None:
    """Decoding accepts what the kubelet's decoder accepts, and judges no values."""
    reader = Reader()
    assert CredentialProviderResponse.from_document(document, reader) == expected
    assert reader.problems == []


def test_unknown_fields_are_left_in_the_reader() -> None:
    """At the top and inside an entry alike."""
    reader = Reader()
    CredentialProviderResponse.from_document({"x": 1, "auth": {"k": {"email": "e"}}}, reader)
    assert [problem.path for _, problem in reader.problems] == ["x", "auth.k.email"]
