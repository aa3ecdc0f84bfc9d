"""Provider configs, requests and responses, as the kubelet reads and writes them, in every version."""

from __future__ import annotations

import json

import pytest

from keyferry.api.credentialprovider import v1
from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.api.kubeletconfig import v1 as config_v1
from keyferry.api.kubeletconfig.v1 import (
    CredentialProvider,
    CredentialProviderConfig,
    ExecEnvVar,
    ServiceAccountTokenAttributes,
)
from keyferry.api.wire import Reader

FULL_PROVIDER: dict[str, object] = {
    "name": "ecr",
    "matchImages": ["reg.io", "*.reg.io"],
    "defaultCacheDuration": "12h",
    "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
    "args": ["get"],
    "env": [{"name": "A", "value": "b"}, None, {}],
    "tokenAttributes": {
        "serviceAccountTokenAudience": "aud",
        "cacheType": "Token",
        "requireServiceAccount": True,
        "requiredServiceAccountAnnotationKeys": ["r"],
        "optionalServiceAccountAnnotationKeys": [],
    },
}


def test_every_field_is_read() -> None:
    """A full provider arrives as a v1 object, null variables as empty ones."""
    reader = Reader()
    config = CredentialProviderConfig.from_document({"providers": [FULL_PROVIDER]}, reader)
    assert reader.problems == []
    assert config.providers == (
        CredentialProvider(
            name="ecr",
            match_images=("reg.io", "*.reg.io"),
            default_cache_duration_ns=12 * 3600 * 1_000_000_000,
            api_version="credentialprovider.kubelet.k8s.io/v1",
            args=("get",),
            env=(
                ExecEnvVar(name="A", value="b"),
                ExecEnvVar(name="", value=""),
                ExecEnvVar(name="", value=""),
            ),
            token_attributes=ServiceAccountTokenAttributes(
                service_account_token_audience="aud",
                cache_type="Token",
                require_service_account=True,
                required_service_account_annotation_keys=("r",),
                optional_service_account_annotation_keys=(),
            ),
        ),
    )


def test_nothing_is_a_config_without_providers() -> None:
    """Absent and null lists are empty; an absent field of a provider is told from an empty one."""
    documents: list[object] = [{}, None, {"providers": None}, {"providers": []}]
    for document in documents:
        assert CredentialProviderConfig.from_document(document, Reader()).providers == ()
    provider = CredentialProviderConfig.from_document(
        {"providers": [{"args": [], "tokenAttributes": None}]}, Reader()
    ).providers[0]
    assert provider == CredentialProvider(args=())


def test_older_versions_do_not_know_token_attributes() -> None:
    """The field is unknown there, so it is neither read nor passed over."""
    for version in ("v1alpha1", "v1beta1"):
        reader = Reader()
        config = CredentialProviderConfig.from_document(
            {"providers": [FULL_PROVIDER]}, reader, f"{config_v1.GROUP}/{version}"
        )
        assert config.providers[0].token_attributes is None
        assert [problem.path for _, problem in reader.problems] == ["providers[0].tokenAttributes"]


def test_problems_name_their_place() -> None:
    """A wrong type deep inside has its whole path."""
    reader = Reader()
    broken = {
        "env": [{"value": 1}],
        "tokenAttributes": {"requireServiceAccount": "yes", "x": 1},
        "matchImages": "a",
    }
    CredentialProviderConfig.from_document({"providers": [{}, broken], "y": 1}, reader)
    assert [problem.path for _, problem in reader.problems] == [
        "providers[1].env[0].value",
        "providers[1].tokenAttributes.requireServiceAccount",
        "providers[1].tokenAttributes.x",
        "providers[1].matchImages",
        "y",
    ]


def test_the_value_of_a_variable_is_not_shown() -> None:
    """The name is, since it says which one."""
    assert repr(ExecEnvVar(name="TOKEN", value="hunter2")) == "ExecEnvVar(name='TOKEN')"


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
