"""Provider configs are read field by field, and older versions never had service accounts."""

from __future__ import annotations

from keyferry.api.kubeletconfig import v1
from keyferry.api.kubeletconfig.v1 import (
    CredentialProvider,
    CredentialProviderConfig,
    ExecEnvVar,
    ServiceAccountTokenAttributes,
)
from keyferry.api.wire import Reader

FULL: dict[str, object] = {
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
    config = CredentialProviderConfig.from_document({"providers": [FULL]}, reader)
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
            {"providers": [FULL]}, reader, f"{v1.GROUP}/{version}"
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
