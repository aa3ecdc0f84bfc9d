"""``credentialprovider.kubelet.k8s.io/v1``: requests to and responses from image credential provider plugins."""

from __future__ import annotations

from keyferry._core.json import dumps
from keyferry._core.values import Value, field
from keyferry.api.meta import format_duration, parse_duration
from keyferry.errors import DurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry._core.paths import Path
    from keyferry.api.codec import Reader

__all__ = [
    "API_VERSION",
    "AuthConfig",
    "CredentialProviderRequest",
    "CredentialProviderResponse",
    "encode_request",
    "encode_response",
    "read_response",
]

GROUP = "credentialprovider.kubelet.k8s.io"
API_VERSION = f"{GROUP}/v1"


class AuthConfig(Value):
    """A user name and a password for one key of a response."""

    username: str = ""
    password: str = field(default="", repr=False)


class CredentialProviderRequest(Value):
    """A request for credentials for *image*, on behalf of a service account if one is given."""

    image: str
    service_account_token: str = field(default="", repr=False)
    service_account_annotations: Mapping[str, str] | None = None


class CredentialProviderResponse(Value):
    """A response: credentials by auth key, and for which images and how long they are cached."""

    cache_key_type: str = ""
    cache_duration_ns: int | None = None
    auth: Mapping[str, AuthConfig] | None = None


def encode_request(request: CredentialProviderRequest, api_version: str = API_VERSION) -> bytes:
    """Return the bytes the kubelet writes to a plugin of *api_version*: one JSON document and a newline.

    The fields of the service account exist in v1 only; older versions omit them.
    """
    text = f'{{"kind":"CredentialProviderRequest","apiVersion":"{api_version}","image":{dumps(request.image)}'
    if api_version == API_VERSION:
        if request.service_account_token:
            text += f',"serviceAccountToken":{dumps(request.service_account_token)}'
        if request.service_account_annotations:
            annotations = dict(sorted(request.service_account_annotations.items()))
            text += f',"serviceAccountAnnotations":{dumps(annotations)}'
    return (text + "}\n").encode()


def encode_response(response: CredentialProviderResponse, api_version: str = API_VERSION) -> bytes:
    """Return the bytes a plugin of *api_version* writes: one JSON document on one line, without absent fields."""
    text = f'{{"kind":"CredentialProviderResponse","apiVersion":"{api_version}"'
    text += f',"cacheKeyType":{dumps(response.cache_key_type)}'
    if response.cache_duration_ns is not None:
        text += f',"cacheDuration":"{format_duration(response.cache_duration_ns)}"'
    if response.auth:
        auth = {
            key: {"username": entry.username, "password": entry.password}
            for key, entry in sorted(response.auth.items())
        }
        text += f',"auth":{dumps(auth)}'
    return (text + "}\n").encode()


def read_response(document: object, reader: Reader) -> CredentialProviderResponse:
    """Return the response, of any version, in *document*; *reader* collects the problems.

    All three versions have the same fields. ``cacheKeyType`` is not validated
    here, as in Kubernetes: the caller refuses an unknown one.
    """
    fields = reader.struct(
        document,
        (),
        {
            "kind": reader.text,
            "apiVersion": reader.text,
            "cacheKeyType": reader.text,
            "cacheDuration": reader.duration,
            "auth": reader.map_of(lambda value, path: _read_auth(reader, value, path)),
        },
    )
    return CredentialProviderResponse(
        fields.get("cacheKeyType") or "", fields.get("cacheDuration"), fields.get("auth")
    )


_FIELDS = frozenset(("kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth"))
_AUTH_FIELDS = frozenset(("username", "password"))
# The strings of a response with each field once, and of each of its entries: names, and values that are strings.
_STRINGS, _AUTH_STRINGS = 9, 5


def read_plain_response(  # noqa: PLR0911 - one return for each check
    document: object, api_version: str, strings: int | None = None
) -> CredentialProviderResponse | None:
    """Return a response that is complete and valid, or None for any other document.

    With *strings*, the number of strings in its text, also None for a document in which a member is repeated. This is
    the fast path. ``read_response`` reads all other documents and collects their problems.
    """
    if type(document) is not dict or not document.keys() <= _FIELDS:
        return None
    if document.get("kind") != "CredentialProviderResponse" or document.get("apiVersion") != api_version:
        return None
    cache_key_type, duration, entries = map(document.get, ("cacheKeyType", "cacheDuration", "auth"))
    if type(cache_key_type) is not str or type(duration) is not str or type(entries) is not dict:
        return None
    auth = {}
    for key, entry in entries.items():
        if type(entry) is not dict or entry.keys() != _AUTH_FIELDS:
            return None
        username, password = entry["username"], entry["password"]
        if type(username) is not str or type(password) is not str:
            return None
        auth[key] = AuthConfig(username, password)
    if strings is not None and strings != _STRINGS + _AUTH_STRINGS * len(auth):
        return None
    try:
        return CredentialProviderResponse(cache_key_type, parse_duration(duration), auth)
    except DurationError:
        return None


def _read_auth(reader: Reader, value: object, path: Path) -> AuthConfig:
    fields = reader.struct(value, path, {"username": reader.text, "password": reader.text})
    return AuthConfig(fields.get("username") or "", fields.get("password") or "")
