"""Image credential providers: from a typed request to a typed response, and the executable for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keyferry._core.json import loads
from keyferry._core.values import Value, field
from keyferry.api.credentialprovider.v1 import (
    GROUP,
    AuthConfig,
    CredentialProviderResponse,
    encode_response,
)
from keyferry.errors import DocumentError, ProvideError
from keyferry.sdk.stdio import deliver, program_name, read_request_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never

# The images that a cached response is for: this one, all of its registry, or all that the provider matches.
IMAGE = "Image"
REGISTRY = "Registry"
GLOBAL = "Global"
_VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_USAGE = "to try it: keyferry plugin trace PROGRAM IMAGE"
_NANOSECONDS = 1_000_000_000
# The limit of a 64-bit number of nanoseconds.
_MAX_SECONDS = 9_223_372_036


class Request(Value):
    """The kubelet's request for the credentials of *image*, which has no tag and no digest.

    Token and annotations are set only if the provider's config requests a service account.
    """

    image: str
    service_account_token: str = field(default="", repr=False)
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    api_version: str = _VERSIONS[0]

    @property
    def registry(self) -> str:
        """The text before the first slash: the host, with its port if it has one."""
        return self.image.partition("/")[0]


class Response(Value):
    """Credentials by the key that images are matched with, the scope of their cache entry, and its lifetime.

    With *cache_seconds* None the config's default applies; 0 disables caching. Without *auth* the kubelet gets no
    credentials from this plugin, and continues with the next one.
    """

    auth: Mapping[str, AuthConfig] = field(default_factory=dict)
    cache_key_type: str = REGISTRY
    cache_seconds: float | None = None

    @classmethod
    def for_registry(
        cls, request: Request, username: str, password: str, *, cache_seconds: float | None = None
    ) -> Response:
        """Return one login for every image of the requested registry."""
        auth = {request.registry: AuthConfig(username=username, password=password)}
        return cls(auth=auth, cache_key_type=REGISTRY, cache_seconds=cache_seconds)

    @classmethod
    def for_image(
        cls, request: Request, username: str, password: str, *, cache_seconds: float | None = None
    ) -> Response:
        """Return one login for the requested image alone."""
        auth = {request.image: AuthConfig(username=username, password=password)}
        return cls(auth=auth, cache_key_type=IMAGE, cache_seconds=cache_seconds)


Provide = Callable[[Request], Response]


def serve(provide: Provide, *, is_lenient: bool = False) -> Never:
    """Run as an image credential provider: read the request, call *provide*, write the response, exit.

    If *provide* raises ProvideError or any other exception, a message is written to standard error, nothing to standard
    output, and the exit status is 1. *is_lenient* accepts a request of any kind and version; the response is v1.
    """
    known: list[str] = []

    def make_answer() -> bytes:
        request = _read_request(read_request_bytes(program_name(), _USAGE), is_lenient=is_lenient)
        known.append(request.service_account_token)
        return _answer(provide, request)

    deliver(make_answer, known)


def respond(provide: Provide, data: bytes, *, is_lenient: bool = False) -> bytes:
    """Return the response to the request in *data* as bytes; raise ProvideError, and any exception of *provide*."""
    return _answer(provide, _read_request(data, is_lenient=is_lenient))


def _answer(provide: Provide, request: Request) -> bytes:
    response = provide(request)
    if not isinstance(response, Response):
        raise ProvideError(f"the plugin's function returned {type(response).__name__}, not a Response")
    return encode_response(_check(response), request.api_version)


def _read_request(data: bytes, *, is_lenient: bool) -> Request:
    document: object = None
    try:
        document = loads(data)
    except DocumentError as error:
        problem = str(error)
    else:
        problem = "it is not a JSON object"
    # Raised outside the except block: the caught error may hold the request, and with it a token.
    if not isinstance(document, dict):
        raise ProvideError(f"the request on standard input cannot be read: {problem}")
    if not is_lenient:
        _check_type(document)
    annotations = document.get("serviceAccountAnnotations") or {}
    if not isinstance(annotations, dict) or not all(isinstance(value, str) for value in annotations.values()):
        raise ProvideError("request: serviceAccountAnnotations is not an object of strings")
    request = Request(
        image=_text(document, "image"),
        service_account_token=_text(document, "serviceAccountToken"),
        service_account_annotations=annotations,
        api_version=_VERSIONS[0] if is_lenient else _text(document, "apiVersion"),
    )
    if not request.image:
        raise ProvideError("request: image is empty")
    return request


def _check_type(document: dict[str, object]) -> None:
    found = _text(document, "apiVersion")
    if found not in _VERSIONS:
        raise ProvideError(f"request: apiVersion is {found[:80]!r}, expected one of {', '.join(_VERSIONS)}")
    kind = _text(document, "kind")
    if kind != "CredentialProviderRequest":
        raise ProvideError(f"request: kind is {kind[:80]!r}, expected 'CredentialProviderRequest'")


def _text(document: dict[str, object], name: str) -> str:
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProvideError(f"request: {name} is not a string")
    return value


def _check(response: Response) -> CredentialProviderResponse:
    """Raise ProvideError for a response that the kubelet would reject, or would use and fail with."""
    if response.cache_key_type not in (IMAGE, REGISTRY, GLOBAL):
        raise ProvideError(
            f"response: cache_key_type is {response.cache_key_type!r}, expected Image, Registry or Global"
        )
    if not hasattr(response.auth, "items"):
        raise ProvideError(
            f"response: auth is {_kind(response.auth)}, expected a mapping of AuthConfig by key"
        )
    for key, entry in response.auth.items():
        _check_entry(key, entry)
    return CredentialProviderResponse(
        cache_key_type=response.cache_key_type,
        cache_duration_ns=_nanoseconds(response.cache_seconds),
        auth=response.auth,
    )


def _check_entry(key: object, entry: object) -> None:
    if not isinstance(key, str) or not key or not _is_plain(key, lowest="!"):
        raise ProvideError(
            f"response: auth key {key!r} is not a string, is empty, or has blanks or control characters"
        )
    if not isinstance(entry, AuthConfig):
        raise ProvideError(f"response: under {key!r} is {_kind(entry)}, expected an AuthConfig")
    for name in ("username", "password"):
        value = getattr(entry, name)
        if not isinstance(value, str):
            raise ProvideError(f"response: the {name} under {key!r} is {_kind(value)}, expected str")
        if not _is_plain(value):
            raise ProvideError(
                f"response: the {name} under {key!r} has a control character, such as a line break, or a lone surrogate"
            )
    if ":" in entry.username:
        raise ProvideError(f"response: the username under {key!r} has a colon, which HTTP does not allow")


def _is_plain(text: str, lowest: str = " ") -> bool:
    """Return whether *text* is valid in a header and unchanged by JSON, which excludes lone surrogates."""
    return not any(char < lowest or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in text)


def _kind(value: object) -> str:
    return type(value).__name__


def _nanoseconds(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise ProvideError(f"response: cache_seconds is {_kind(seconds)}, expected a number")
    # Not the other way round: NaN must fail, too.
    if not 0 <= seconds <= _MAX_SECONDS:
        raise ProvideError("response: cache_seconds is not a number from 0 to 292 years")
    return round(seconds * _NANOSECONDS)
