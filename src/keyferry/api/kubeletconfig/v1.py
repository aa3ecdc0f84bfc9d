"""``kubelet.config.k8s.io/v1``: the credential provider config, which older versions have without token attributes."""

from __future__ import annotations

from keyferry.api.wire import WireValue, boolean, duration, list_of, object_of, text, wire

__all__ = [
    "API_VERSION",
    "API_VERSIONS",
    "CredentialProvider",
    "CredentialProviderConfig",
    "ExecEnvVar",
    "ServiceAccountTokenAttributes",
]

GROUP = "kubelet.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
OLD_VERSIONS = (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1")
API_VERSIONS = (API_VERSION, *OLD_VERSIONS)


class ExecEnvVar(WireValue):
    """An environment variable for a plugin; its value may be a secret and is never shown."""

    name: str = wire("name", text, default="")
    value: str = wire("value", text, default="", repr=False)


class ServiceAccountTokenAttributes(WireValue):
    """The settings for passing tokens of a pod's service account to a provider."""

    service_account_token_audience: str = wire("serviceAccountTokenAudience", text, default="")
    cache_type: str = wire("cacheType", text, default="")
    require_service_account: bool | None = wire("requireServiceAccount", boolean, default=None)
    required_service_account_annotation_keys: tuple[str, ...] | None = wire(
        "requiredServiceAccountAnnotationKeys", list_of(text), default=None
    )
    optional_service_account_annotation_keys: tuple[str, ...] | None = wire(
        "optionalServiceAccountAnnotationKeys", list_of(text), default=None
    )


class CredentialProvider(WireValue):
    """The configuration of one plugin: its file name, the images it matches, and how it is run."""

    name: str = wire("name", text, default="")
    match_images: tuple[str, ...] | None = wire("matchImages", list_of(text), default=None)
    default_cache_duration_ns: int | None = wire("defaultCacheDuration", duration, default=None)
    api_version: str = wire("apiVersion", text, default="")
    args: tuple[str, ...] | None = wire("args", list_of(text), default=None)
    env: tuple[ExecEnvVar, ...] | None = wire("env", list_of(object_of(ExecEnvVar)), default=None)
    token_attributes: ServiceAccountTokenAttributes | None = wire(
        "tokenAttributes", object_of(ServiceAccountTokenAttributes), absent_from=OLD_VERSIONS, default=None
    )


class CredentialProviderConfig(WireValue):
    """The providers of a node, in the order in which they are run."""

    providers: tuple[CredentialProvider, ...] = wire(
        "providers", list_of(object_of(CredentialProvider)), default=()
    )
