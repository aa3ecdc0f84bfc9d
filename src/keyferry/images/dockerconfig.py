"""Docker config files and pull secrets, read as in the kubelet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping

from keyferry._core.base64 import corrupt_input_text, decode_base64
from keyferry._core.gotext import go_strerror
from keyferry._core.host_root import read_on_host
from keyferry._core.json import loads
from keyferry._core.values import Value, field
from keyferry.api.meta import article, json_type
from keyferry.errors import DocumentError, PullSecretError

_BAD_FILE = "error occurred while trying to unmarshal json"
_BAD_AUTH = "unable to parse auth field, must be formatted as base64(username:password)"
# The data key that is read for each type of secret; other keys are ignored.
SECRET_KEYS = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}


class DockerEntry(Value):
    """One entry of a docker config, with ``auth`` decoded."""

    username: str = ""
    password: str = field(default="", repr=False)
    email: str = ""


class PullSecret(Value):
    """An image pull secret of a pod; the values of ``data`` are decoded from base64.

    The data of one that is immutable cannot be changed; it can only be deleted, and created again.
    """

    namespace: str
    name: str
    type: str
    data: Mapping[str, bytes] = field(repr=False)
    uid: str = ""
    is_immutable: bool = False

    @classmethod
    def from_object(cls, secret: object, *, namespace: str = "") -> PullSecret:
        """Return the pull secret of a Secret: a document as the API has it, or an object of the official client.

        A Secret without a namespace, as in a manifest, is in *namespace*. Raise PullSecretError for anything else.
        """
        kind = _member(secret, "kind")
        if kind not in (None, "Secret"):
            raise PullSecretError(f"found kind {kind!r}, expected 'Secret'")
        metadata = _member(secret, "metadata")
        if metadata is None and _member(secret, "data") is None:
            raise PullSecretError("found neither metadata nor data, expected a Secret")
        name = _text_of(metadata, "name")
        if not name:
            raise PullSecretError("metadata.name is missing or empty, expected the name of the Secret")
        return cls(
            namespace=_text_of(metadata, "namespace") or namespace,
            name=name,
            type=_text_of(secret, "type"),
            data=dict(_decoded_data(secret, name)),
            uid=_text_of(metadata, "uid"),
            is_immutable=_member(secret, "immutable") is True,
        )


def _decoded_data(secret: object, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the data of a Secret; what its stringData has too comes last."""
    for key, value in _entries_of(secret, "data", name):
        data = decode_base64(str(value or "").encode("utf-8", "replace"))
        if data is None:
            raise PullSecretError(f"data[{key!r}] of secret {name!r} is not base64", secret=name)
        yield key, data
    for key, value in _entries_of(secret, "stringData", name):
        yield key, str(value or "").encode("utf-8", "surrogatepass")


def _entries_of(secret: object, field: str, name: str) -> Iterator[tuple[str, object]]:
    found = _member(secret, field)
    if found is None:
        return
    if not isinstance(found, Mapping):
        raise PullSecretError(f"{field} of secret {name!r} is no map", secret=name)
    yield from ((str(key), value) for key, value in found.items())


def _text_of(holder: object, field: str) -> str:
    found = _member(holder, field)
    if found is None or isinstance(found, str):
        return found or ""
    raise PullSecretError(f"found {article(json_type(found))} in {field!r} of a Secret, expected a string")


def _member(holder: object, name: str) -> object:
    """Return a field of a document or of an object, by its name in the API or in snake case; None without it."""
    snake = re.sub("(?=[A-Z])", "_", name).lower()
    if isinstance(holder, Mapping):
        return holder.get(name, holder.get(snake))
    return getattr(holder, name, getattr(holder, snake, None))


DockerConfig = Mapping[str, DockerEntry]


def parse_docker_config_json(content: bytes) -> DockerConfig:
    """Return the entries of a ``config.json``, or raise PullSecretError."""
    return _as_file(_read_config_json, content)


def parse_dockercfg(content: bytes) -> DockerConfig:
    """Return the entries of a file in the old format of ``.dockercfg``, or raise PullSecretError."""
    return _as_file(_read_entries, content)


def read_pull_secret(secret: PullSecret) -> DockerConfig | None:
    """Return the entries of a pull secret, or None for a secret that the kubelet ignores.

    Raise PullSecretError if the content cannot be read, which fails the whole lookup.
    """
    key = SECRET_KEYS.get(secret.type, "")
    content = secret.data.get(key, b"") if key else b""
    if not content:
        return None
    read = _read_config_json if key == ".dockerconfigjson" else _read_entries
    problem: PullSecretError
    try:
        return read(_load(content))
    except PullSecretError as error:
        problem = error
    del content  # so that a traceback with local variables does not show it
    name = f"{secret.namespace}/{secret.name}"
    raise PullSecretError(
        f"pull secret {name}, key {key!r}: {problem.message}", problem.kubernetes_text, name
    )


def load_docker_config(path: str) -> DockerConfig:
    """Return the entries of a docker config file; a ``.dockercfg`` has the old format."""
    try:
        content = read_on_host(path)
    except (OSError, ValueError) as error:
        raise PullSecretError(f"docker config {path}: cannot be read: {go_strerror(error)}") from None
    parse = parse_dockercfg if os.path.basename(path) == ".dockercfg" else parse_docker_config_json
    problem: PullSecretError
    try:
        return parse(content)
    except PullSecretError as error:
        problem = error
    del content
    raise PullSecretError(f"docker config {path}: {problem.message}", problem.kubernetes_text)


def _as_file(read: Callable[[object], DockerConfig], content: bytes) -> DockerConfig:
    """Read the content of a file, for which Kubernetes has the same text for all problems."""
    problem: PullSecretError
    try:
        return read(_load(content))
    except PullSecretError as error:
        problem = error
    raise PullSecretError(problem.message, _BAD_FILE)


def _load(content: bytes) -> object:
    text = ""
    try:
        return loads(content, quoting=True)
    except DocumentError as error:
        text = error.kubernetes_text
    raise PullSecretError("is not JSON" if content.strip() else "is empty, expected JSON", text)


def _read_config_json(document: object) -> DockerConfig:
    fields = _object(document, "", "DockerConfigJSON")
    headers = _object(_pick(fields, "httpheaders"), "HttpHeaders", "map[string]string")
    for value in headers.values():
        _string(value, "HttpHeaders")
    return _read_entries(_pick(fields, "auths"), "auths")


def _read_entries(document: object, where: str = "") -> DockerConfig:
    entries = _object(document, where, "credentialprovider.DockerConfig")
    return {key: _read_entry(value, f"{where}[{key!r}]") for key, value in entries.items()}


def _read_entry(value: object, where: str) -> DockerEntry:
    fields = _object(value, where, "credentialprovider.DockerConfigEntry")
    texts = {
        name: _string(_pick(fields, name), f"{where}.{name}")
        for name in ("username", "password", "email", "auth")
    }
    username, password = texts["username"], texts["password"]
    if texts["auth"]:
        username, password = _decode_auth(texts["auth"], where)
    return DockerEntry(username=username, password=password, email=texts["email"])


def _decode_auth(auth: str, where: str) -> tuple[str, str]:
    """Return the user name and password of an ``auth`` field; newlines are ignored."""
    text = auth.encode("utf-8", "surrogatepass")
    # As in Kubernetes: text that does not end with '=' is decoded as base64 without padding.
    padded = auth.strip().endswith("=")
    decoded = decode_base64(text, padded=padded)
    if decoded is None:
        raise PullSecretError(f"{where}.auth is not base64", corrupt_input_text(text, padded=padded))
    username, colon, password = decoded.partition(b":")
    if not colon:
        raise PullSecretError(f"{where}.auth has no ':', expected base64 of username:password", _BAD_AUTH)
    return username.decode("utf-8", "surrogateescape"), password.decode("utf-8", "surrogateescape")


def _pick(fields: Mapping[str, object], name: str) -> object:
    """Return a field by its name in any case; the last of several counts, as in Go."""
    found: object = None
    for key, value in fields.items():
        if key.lower() == name:
            found = value
    return found


def _object(value: object, where: str, go_type: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise _wrong_type(value, where, "object", go_type)


def _string(value: object, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise _wrong_type(value, where, "string", "string")


def _wrong_type(value: object, where: str, expected: str, go_type: str) -> PullSecretError:
    found = json_type(value)
    message = f"{where}: found {article(found)}, expected {article(expected)}".removeprefix(": ")
    return PullSecretError(message, f"json: cannot unmarshal {found} into Go value of type {go_type}")
