"""``v1`` kubeconfigs: clusters, users and contexts by name.

As in client-go, an unknown field is ignored, and a value of the wrong type, such as a number in place of a
string, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyferry._core.paths import Path
from keyferry._core.values import replace
from keyferry.api.wire import (
    Reader,
    Shape,
    WireValue,
    base64,
    boolean,
    json_text,
    list_of,
    map_of,
    object_of,
    text,
    wire,
)
from keyferry.errors import Detail, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = [
    "API_VERSION",
    "KIND",
    "AuthInfo",
    "Cluster",
    "Context",
    "ExecConfig",
    "ExecEnvVar",
    "Kubeconfig",
    "Preferences",
    "note_repeated_extensions",
    "read_kubeconfig",
]

API_VERSION = "v1"
KIND = "Config"
# Sections, each with the field that holds an entry's content, in the order in which client-go converts them.
SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
# Versions in which interactiveMode is not required.
_MODELESS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1beta1", "v1alpha1"))
_GO_TYPES = {
    "clusters": ("NamedCluster", "*api.Cluster"),
    "users": ("NamedAuthInfo", "*api.AuthInfo"),
    "contexts": ("NamedContext", "*api.Context"),
    "extensions": ("NamedExtension", "runtime.Object"),
}


def _named(key: str, content: Shape[T]) -> Shape[Mapping[str, T]]:
    """Return the shape of a list of objects with a name and, in *key*, a content."""

    def read(reader: Reader, value: object, path: Path) -> tuple[str, T]:
        found = reader.struct(value, path, {"name": text, key: content})
        return found.get("name", ""), found[key] if key in found else content.zero()

    def write(entry: tuple[str, T], api_version: str) -> object:
        return {"name": entry[0], key: content.write(entry[1], api_version)}

    entries = list_of(Shape("object", read, write, lambda: ("", content.zero())))
    return entries.then(dict, lambda contents: tuple(contents.items()))


_EXTENSIONS = _named("extension", json_text)


class ExecEnvVar(WireValue):
    """An environment variable for a plugin; its value may be a secret and is never shown."""

    name: str = wire("name", text, default="")
    value: str = wire("value", text, default="", repr=False)


class ExecConfig(WireValue):
    """The configuration of a credential plugin."""

    command: str = wire("command", text, default="")
    args: tuple[str, ...] | None = wire("args", list_of(text), default=None, repr=False)
    env: tuple[ExecEnvVar, ...] = wire("env", list_of(object_of(ExecEnvVar)), default=())
    api_version: str = wire("apiVersion", text, default="")
    install_hint: str = wire("installHint", text, default="")
    provide_cluster_info: bool = wire("provideClusterInfo", boolean, default=False)
    interactive_mode: str = wire("interactiveMode", text, default="")


def _default_mode(config: ExecConfig) -> ExecConfig:
    if config.interactive_mode or config.api_version not in _MODELESS:
        return config
    return replace(config, interactive_mode="IfAvailable")


_EXEC = object_of(ExecConfig).then(_default_mode, lambda config: config)


class _AuthProvider(WireValue):
    """A plugin that was part of client-go, and its config."""

    name: str = wire("name", text, default="")
    config: Mapping[str, str] = wire("config", map_of(text), default_factory=dict, repr=False)


_AUTH_PROVIDER_NAME = object_of(_AuthProvider).then(
    lambda provider: provider.name, lambda name: _AuthProvider(name=name)
)


class Cluster(WireValue):
    """The connection settings of a cluster; ``extensions`` maps names to compact JSON, ``null`` if empty."""

    server: str = wire("server", text, default="")
    tls_server_name: str = wire("tls-server-name", text, default="")
    insecure_skip_tls_verify: bool = wire("insecure-skip-tls-verify", boolean, default=False)
    certificate_authority: str = wire("certificate-authority", text, default="")
    certificate_authority_data: bytes = wire("certificate-authority-data", base64, default=b"", repr=False)
    proxy_url: str = wire("proxy-url", text, default="", repr=False)
    disable_compression: bool = wire("disable-compression", boolean, default=False)
    extensions: Mapping[str, str] = wire("extensions", _EXTENSIONS, default_factory=dict, repr=False)
    origin: str = ""


class AuthInfo(WireValue):
    """The credentials of a user; ``auth_provider`` is the name of the auth provider, without its config."""

    client_certificate: str = wire("client-certificate", text, default="")
    client_certificate_data: bytes = wire("client-certificate-data", base64, default=b"", repr=False)
    client_key: str = wire("client-key", text, default="")
    client_key_data: bytes = wire("client-key-data", base64, default=b"", repr=False)
    token: str = wire("token", text, default="", repr=False)
    token_file: str = wire("tokenFile", text, default="")
    impersonate: str = wire("as", text, default="")
    impersonate_uid: str = wire("as-uid", text, default="")
    impersonate_groups: tuple[str, ...] = wire("as-groups", list_of(text), default=())
    impersonate_user_extra: Mapping[str, tuple[str, ...]] = wire(
        "as-user-extra", map_of(list_of(text)), default_factory=dict
    )
    username: str = wire("username", text, default="")
    password: str = wire("password", text, default="", repr=False)
    auth_provider: str | None = wire("auth-provider", _AUTH_PROVIDER_NAME, default=None)
    exec: ExecConfig | None = wire("exec", _EXEC, default=None)
    extensions: Mapping[str, str] = wire("extensions", _EXTENSIONS, default_factory=dict, repr=False)
    origin: str = ""


class Context(WireValue):
    """The names of a cluster and a user, and a namespace."""

    cluster: str = wire("cluster", text, default="")
    user: str = wire("user", text, default="")
    namespace: str = wire("namespace", text, default="")
    extensions: Mapping[str, str] = wire("extensions", _EXTENSIONS, default_factory=dict, repr=False)
    origin: str = ""


class Preferences(WireValue):
    """The preferences of a kubeconfig, which kubectl does not use any more."""

    colors: bool = wire("colors", boolean, default=False)
    extensions: Mapping[str, str] = wire("extensions", _EXTENSIONS, default_factory=dict, repr=False)


class Kubeconfig(WireValue):
    """The content of a kubeconfig."""

    clusters: Mapping[str, Cluster] = wire(
        "clusters", _named("cluster", object_of(Cluster)), default_factory=dict
    )
    users: Mapping[str, AuthInfo] = wire("users", _named("user", object_of(AuthInfo)), default_factory=dict)
    contexts: Mapping[str, Context] = wire(
        "contexts", _named("context", object_of(Context)), default_factory=dict
    )
    current_context: str = wire("current-context", text, default="")
    preferences: Preferences = wire("preferences", object_of(Preferences), default=Preferences())
    extensions: Mapping[str, str] = wire("extensions", _EXTENSIONS, default_factory=dict, repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether the kubeconfig has no content, preferences and extensions included."""
        return self == Kubeconfig()


def read_kubeconfig(document: object, reader: Reader) -> Kubeconfig:
    """Return the kubeconfig in *document*; *reader* collects the problems."""
    config = Kubeconfig.from_document(document, reader)
    _note_clashes(document, reader)
    return config


def _note_clashes(document: object, reader: Reader) -> None:
    """Record in *reader* every name that occurs more than once in a list of *document*."""
    for path, name, section in _find_clashes(document):
        _note_clash(reader, path, name, section)


def note_repeated_extensions(cluster: object, path: Path, reader: Reader) -> None:
    """Record in *reader* every extension of *cluster*, which is at *path*, whose name another one has."""
    for at, name, section in _find_extension_clashes(cluster, path):
        _note_clash(reader, at, name, section)


def _note_clash(reader: Reader, path: Path, name: str, section: str) -> None:
    listed, mapped = _GO_TYPES[section]
    # client-go's text ends with the whole list, which includes tokens, so the list is left out.
    text = f'error converting *[]{listed} into *map[string]{mapped}: duplicate name "{name}" in list: <dump>'
    reader.note(
        path, f"the name {name!r} is given twice in this list", text, Kind.OTHER, Detail.REPEATED_NAME
    )


def _find_clashes(document: object) -> Iterator[tuple[Path, str, str]]:
    """Yield path, name and section of each repeated name, in the order in which client-go finds them."""
    if not isinstance(document, dict):
        return
    yield from _find_extension_clashes(document.get("preferences"), ("preferences",))
    for section, key in SECTIONS.items():
        seen: set[str] = set()
        for index, entry in enumerate(_entries(document, section)):
            yield from _find_extension_clashes(entry.get(key), (section, index, key))
            name = entry.get("name") or ""
            if str(name) in seen:
                yield (section, index, "name"), str(name), section
            seen.add(str(name))
    yield from _find_extension_clashes(document, ())


def _find_extension_clashes(holder: object, path: Path) -> Iterator[tuple[Path, str, str]]:
    seen: set[str] = set()
    for index, entry in enumerate(_entries(holder, "extensions")):
        name = str(entry.get("name") or "")
        if name in seen:
            yield (*path, "extensions", index, "name"), name, "extensions"
        # client-go does not count the name of an extension that is null.
        if entry.get("extension") is not None:
            seen.add(name)


def _entries(holder: object, section: str) -> list[dict[str, object]]:
    items = holder.get(section) if isinstance(holder, dict) else None
    return [item if isinstance(item, dict) else {} for item in items] if isinstance(items, list) else []
