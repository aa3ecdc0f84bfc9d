"""``v1`` kubeconfigs: clusters, users and contexts by name.

As in client-go, an unknown field is ignored, and a value of the wrong type, such as a number in place of a
string, is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.paths import Path
from keyferry._core.values import Value, field
from keyferry.api.codec import Reader
from keyferry.api.kubeconfig.lists import SECTIONS, encode_extension, note_clashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from keyferry.api.codec import Decode

__all__ = [
    "API_VERSION",
    "KIND",
    "AuthInfo",
    "Cluster",
    "Context",
    "ExecConfig",
    "ExecEnvVar",
    "Kubeconfig",
    "read_kubeconfig",
]

API_VERSION = "v1"
KIND = "Config"
# Versions in which interactiveMode is not required.
_MODELESS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1beta1", "v1alpha1"))


class ExecEnvVar(Value):
    """An environment variable for a plugin; its value may be a secret and is never shown."""

    name: str = ""
    value: str = field(default="", repr=False)


class ExecConfig(Value):
    """The configuration of a credential plugin."""

    command: str = ""
    args: tuple[str, ...] | None = field(default=None, repr=False)
    env: tuple[ExecEnvVar, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class Cluster(Value):
    """The connection settings of a cluster; ``extensions`` maps names to compact JSON, ``null`` if empty."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = field(default=b"", repr=False)
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    origin: str = ""


class AuthInfo(Value):
    """The credentials of a user; ``auth_provider`` is the name of the auth provider, without its config."""

    client_certificate: str = ""
    client_certificate_data: bytes = field(default=b"", repr=False)
    client_key: str = ""
    client_key_data: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_user_extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    username: str = ""
    password: str = field(default="", repr=False)
    auth_provider: str | None = None
    exec: ExecConfig | None = None
    origin: str = ""


class Context(Value):
    """The names of a cluster and a user, and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""
    origin: str = ""


class Kubeconfig(Value):
    """The content of a kubeconfig; ``has_extras`` is whether it has preferences or extensions."""

    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    users: Mapping[str, AuthInfo] = field(default_factory=dict)
    contexts: Mapping[str, Context] = field(default_factory=dict)
    current_context: str = ""
    has_extras: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the kubeconfig has no content, preferences and extensions included."""
        named = self.clusters or self.users or self.contexts
        return not (named or self.current_context or self.has_extras)


def read_kubeconfig(document: object, reader: Reader) -> Kubeconfig:
    """Return the kubeconfig in *document*; *reader* collects the problems."""

    def entries(section: str, read: Decode[Any]) -> Decode[Any]:
        return reader.list_of(lambda item, at: _read_entry(reader, item, at, (SECTIONS[section], read)))

    known: dict[str, Decode[Any]] = {
        "kind": reader.text,
        "apiVersion": reader.text,
        "preferences": lambda item, at: _read_preferences(reader, item, at),
        "clusters": entries("clusters", lambda item, at: _read_cluster(reader, item, at)),
        "users": entries("users", lambda item, at: _read_user(reader, item, at)),
        "contexts": entries("contexts", lambda item, at: _read_context(reader, item, at)),
        "current-context": reader.text,
        "extensions": lambda item, at: _read_extensions(reader, item, at),
    }
    fields = reader.struct(document, (), known)
    note_clashes(document, reader)
    return Kubeconfig(
        **{section: dict(fields.get(section) or ()) for section in SECTIONS},
        current_context=fields.get("current-context", ""),
        has_extras=bool(fields.get("preferences") or fields.get("extensions")),
    )


def _read_entry(
    reader: Reader, value: object, path: Path, content: tuple[str, Decode[Any]]
) -> tuple[str, object]:
    key, read = content
    fields = reader.struct(value, path, {"name": reader.text, key: read})
    return fields.get("name", ""), fields[key] if key in fields else read(None, (*path, key))


def _read_preferences(reader: Reader, value: object, path: Path) -> bool:
    extensions = _extensions_field(reader)
    fields = reader.struct(value, path, {"colors": reader.boolean, **extensions})
    return bool(fields.get("colors") or fields.get("extensions"))


def _read_cluster(reader: Reader, value: object, path: Path) -> Cluster:
    known: dict[str, Decode[Any]] = {
        "server": reader.text,
        "tls-server-name": reader.text,
        "insecure-skip-tls-verify": reader.boolean,
        "certificate-authority": reader.text,
        "certificate-authority-data": reader.data,
        "proxy-url": reader.text,
        "disable-compression": reader.boolean,
        **_extensions_field(reader),
    }
    fields = reader.struct(value, path, known)
    return Cluster(**{key.replace("-", "_"): item for key, item in fields.items() if item is not None})


def _read_context(reader: Reader, value: object, path: Path) -> Context:
    text = reader.text
    known: dict[str, Decode[Any]] = {"cluster": text, "user": text, "namespace": text}
    fields = reader.struct(value, path, {**known, **_extensions_field(reader)})
    return Context(**{key: fields[key] for key in known if key in fields})


_USER_FIELDS = {
    "tokenFile": "token_file",
    "as": "impersonate",
    "as-uid": "impersonate_uid",
    "as-groups": "impersonate_groups",
    "as-user-extra": "impersonate_user_extra",
}


def _read_user(reader: Reader, value: object, path: Path) -> AuthInfo:
    text, strings = reader.text, _strings(reader)
    known: dict[str, Decode[Any]] = {
        "client-certificate": text,
        "client-certificate-data": reader.data,
        "client-key": text,
        "client-key-data": reader.data,
        "token": text,
        "tokenFile": text,
        "as": text,
        "as-uid": text,
        "as-groups": strings,
        "as-user-extra": reader.map_of(lambda item, at: strings(item, at) or ()),
        "username": text,
        "password": text,
        "auth-provider": lambda item, at: _read_auth_provider(reader, item, at),
        "exec": lambda item, at: _read_exec(reader, item, at),
    }
    fields = reader.struct(value, path, {**known, **_extensions_field(reader)})
    return AuthInfo(
        **{
            _USER_FIELDS.get(key, key.replace("-", "_")): fields[key]
            for key in known
            if fields.get(key) is not None
        }
    )


def _read_auth_provider(reader: Reader, value: object, path: Path) -> str | None:
    known: dict[str, Decode[Any]] = {"name": reader.text, "config": reader.map_of(reader.text)}
    fields = reader.struct(value, path, known)
    name: str = fields.get("name", "")
    return None if value is None else name


def _read_exec(reader: Reader, value: object, path: Path) -> ExecConfig | None:
    if value is None:
        return None
    known: dict[str, Decode[Any]] = {
        "command": reader.text,
        "args": _strings(reader),
        "env": reader.list_of(lambda item, at: _read_env(reader, item, at)),
        "apiVersion": reader.text,
        "installHint": reader.text,
        "provideClusterInfo": reader.boolean,
        "interactiveMode": reader.text,
    }
    fields = reader.struct(value, path, known)
    api_version = fields.get("apiVersion", "")
    default_mode = "IfAvailable" if api_version in _MODELESS else ""
    return ExecConfig(
        command=fields.get("command", ""),
        args=fields.get("args"),
        env=tuple(fields.get("env") or ()),
        api_version=api_version,
        install_hint=fields.get("installHint", ""),
        provide_cluster_info=bool(fields.get("provideClusterInfo")),
        interactive_mode=fields.get("interactiveMode") or default_mode,
    )


def _read_env(reader: Reader, value: object, path: Path) -> ExecEnvVar:
    return ExecEnvVar(**reader.struct(value, path, {"name": reader.text, "value": reader.text}))


def _strings(reader: Reader) -> Decode[tuple[str, ...] | None]:
    read = reader.list_of(reader.text)

    def read_strings(value: object, path: Path) -> tuple[str, ...] | None:
        items = read(value, path)
        return None if items is None else tuple(items)

    return read_strings


def _extensions_field(reader: Reader) -> dict[str, Decode[Any]]:
    return {"extensions": lambda item, at: _read_extensions(reader, item, at)}


def _read_extensions(reader: Reader, value: object, path: Path) -> dict[str, str]:
    def read_extension(item: object, at: Path) -> tuple[str, str]:
        fields = reader.struct(item, at, {"name": reader.text, "extension": reader.anything})
        return fields.get("name", ""), encode_extension(fields.get("extension"))

    return dict(reader.list_of(read_extension)(value, path) or ())
