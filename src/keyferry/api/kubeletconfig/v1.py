"""``kubelet.config.k8s.io/v1``: the credential provider config."""

from __future__ import annotations

from keyferry._core.paths import Path
from keyferry._core.values import Value
from keyferry.api.codec import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from keyferry.api.codec import Decode

__all__ = [
    "API_VERSION",
    "CredentialProvider",
    "CredentialProviderConfig",
    "ExecEnvVar",
    "ServiceAccountTokenAttributes",
    "read_config",
]

GROUP = "kubelet.config.k8s.io"
API_VERSION = f"{GROUP}/v1"


class ExecEnvVar(Value):
    """An environment variable for a plugin; its value may be a secret and is never shown."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"ExecEnvVar(name={self.name!r})"


class ServiceAccountTokenAttributes(Value):
    """The settings for passing tokens of a pod's service account to a provider."""

    service_account_token_audience: str = ""
    cache_type: str = ""
    require_service_account: bool | None = None
    required_service_account_annotation_keys: tuple[str, ...] | None = None
    optional_service_account_annotation_keys: tuple[str, ...] | None = None


class CredentialProvider(Value):
    """The configuration of one plugin: its file name, the images it matches, and how it is run."""

    name: str = ""
    match_images: tuple[str, ...] | None = None
    default_cache_duration_ns: int | None = None
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecEnvVar, ...] | None = None
    token_attributes: ServiceAccountTokenAttributes | None = None


class CredentialProviderConfig(Value):
    """The providers of a node, in the order in which they are run."""

    providers: tuple[CredentialProvider, ...] = ()


def read_config(
    document: object, reader: Reader, *, token_attributes: bool = True
) -> CredentialProviderConfig:
    """Return the config in *document*; *reader* collects the problems.

    Versions before v1 do not have ``tokenAttributes``, so it is an unknown field there.
    """

    def read_provider(value: object, path: Path) -> CredentialProvider:
        return _read_provider(reader, value, path, token_attributes=token_attributes)

    fields = reader.struct(
        document,
        (),
        {"kind": reader.text, "apiVersion": reader.text, "providers": reader.list_of(read_provider)},
    )
    return CredentialProviderConfig(tuple(fields.get("providers") or ()))


def _read_provider(
    reader: Reader, value: object, path: Path, *, token_attributes: bool
) -> CredentialProvider:
    strings = reader.list_of(reader.text)
    known: dict[str, Decode[Any]] = {
        "name": reader.text,
        "matchImages": strings,
        "defaultCacheDuration": reader.duration,
        "apiVersion": reader.text,
        "args": strings,
        "env": reader.list_of(lambda item, at: _read_env(reader, item, at)),
    }
    if token_attributes:
        known["tokenAttributes"] = lambda item, at: _read_token_attributes(reader, item, at)
    fields = reader.struct(value, path, known)
    return CredentialProvider(
        name=fields.get("name", ""),
        match_images=_tuple(fields.get("matchImages")),
        default_cache_duration_ns=fields.get("defaultCacheDuration"),
        api_version=fields.get("apiVersion", ""),
        args=_tuple(fields.get("args")),
        env=None if fields.get("env") is None else tuple(fields["env"]),
        token_attributes=fields.get("tokenAttributes"),
    )


def _read_env(reader: Reader, value: object, path: Path) -> ExecEnvVar:
    fields = reader.struct(value, path, {"name": reader.text, "value": reader.text})
    return ExecEnvVar(fields.get("name", ""), fields.get("value", ""))


def _read_token_attributes(reader: Reader, value: object, path: Path) -> ServiceAccountTokenAttributes | None:
    if value is None:
        return None
    strings = reader.list_of(reader.text)
    fields = reader.struct(
        value,
        path,
        {
            "serviceAccountTokenAudience": reader.text,
            "cacheType": reader.text,
            "requireServiceAccount": reader.boolean,
            "requiredServiceAccountAnnotationKeys": strings,
            "optionalServiceAccountAnnotationKeys": strings,
        },
    )
    return ServiceAccountTokenAttributes(
        service_account_token_audience=fields.get("serviceAccountTokenAudience", ""),
        cache_type=fields.get("cacheType", ""),
        require_service_account=fields.get("requireServiceAccount"),
        required_service_account_annotation_keys=_tuple(fields.get("requiredServiceAccountAnnotationKeys")),
        optional_service_account_annotation_keys=_tuple(fields.get("optionalServiceAccountAnnotationKeys")),
    )


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
