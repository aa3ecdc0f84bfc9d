"""Image credential providers: from a typed request to a typed response, and an executable that does the rest."""

from keyferry._values import Value, field
from keyferry.api.credentialprovider.v1 import (
    GROUP,
    AuthConfig,
    CredentialProviderResponse,
    encode_response,
)
from keyferry.errors import DocumentError, ProvideError
from keyferry.sdk.stdio import (
    FAILED,
    guard_stdout,
    leave,
    program_name,
    read_request_bytes,
    report,
    write_all,
)

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Never

    Provide = Callable[["Request"], "Response"]

__all__ = ["GLOBAL", "IMAGE", "REGISTRY", "AuthConfig", "Request", "Response", "respond", "serve"]

IMAGE, REGISTRY, GLOBAL = "Image", "Registry", "Global"
_VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_USAGE = "to try it: keyferry plugin trace PROGRAM IMAGE"
_NANOSECONDS = 1_000_000_000
_LONGEST_NS = (1 << 63) - 1


class Request(Value):
    """What the kubelet asks: credentials for *image*, which has no tag and no digest.

    Token and annotations are there only if the provider's config asks for a service account.
    """

    image: str
    service_account_token: str = field(default="", repr=False)
    service_account_annotations: "Mapping[str, str]" = field(default_factory=dict)
    api_version: str = _VERSIONS[0]

    @property
    def registry(self) -> str:
        """What stands before the first slash: the host, with its port if it has one."""
        return self.image.partition("/")[0]


class Response(Value):
    """What to answer: credentials by the key that images are matched with, how widely they hold, and how long.

    *cache_seconds* None leaves it to the config's default, 0 means never to cache. Without *auth* the kubelet
    has no credentials from this plugin and goes on with the next.
    """

    auth: "Mapping[str, AuthConfig]" = field(default_factory=dict)
    cache_key_type: str = REGISTRY
    cache_seconds: float | None = None

    @classmethod
    def for_registry(
        cls, request: Request, username: str, password: str, *, cache_seconds: float | None = None
    ) -> "Response":
        """One login for every image of the registry asked for."""
        return cls({request.registry: AuthConfig(username, password)}, REGISTRY, cache_seconds)

    @classmethod
    def for_image(
        cls, request: Request, username: str, password: str, *, cache_seconds: float | None = None
    ) -> "Response":
        """One login for the image asked for alone."""
        return cls({request.image: AuthConfig(username, password)}, IMAGE, cache_seconds)


def serve(provide: "Provide", *, is_lenient: bool = False) -> "Never":
    """Be an image credential provider: read the request, call *provide*, answer, exit.

    A ProvideError from it, and any other exception, becomes a message on standard error and exit status 1, with
    nothing on standard output. *is_lenient* takes a request of any kind and version, and answers as v1.
    """
    kept = guard_stdout()
    program = program_name()
    try:
        answer = respond(provide, read_request_bytes(program, _USAGE), is_lenient=is_lenient)
    except Exception as error:  # noqa: BLE001 - whatever it is, the kubelet gets a message and a status
        report(program, error)
        leave(FAILED)
    leave(0 if write_all(kept, answer) else FAILED)


def respond(provide: "Provide", data: bytes, *, is_lenient: bool = False) -> bytes:
    """The answer to the request in *data*, as bytes; raises what *provide* raises, and ProvideError."""
    request = _read_request(data, is_lenient=is_lenient)
    response = provide(request)
    if not isinstance(response, Response):
        raise ProvideError(f"the plugin's function returned {type(response).__name__}, not a Response")
    return encode_response(_check(response), request.api_version)


def _read_request(data: bytes, *, is_lenient: bool) -> Request:
    from keyferry._json import loads

    document: object = None
    try:
        document = loads(data)
    except DocumentError as error:
        problem = str(error)
    else:
        problem = "it is not a JSON object"
    # Raised out here on purpose: what was caught may hold the request, and with it a token.
    if not isinstance(document, dict):
        raise ProvideError(f"the request on standard input cannot be read: {problem}")
    if not is_lenient:
        _check_type(document)
    annotations = document.get("serviceAccountAnnotations") or {}
    if not isinstance(annotations, dict) or not all(isinstance(value, str) for value in annotations.values()):
        raise ProvideError("request: serviceAccountAnnotations is not an object of strings")
    request = Request(
        _text(document, "image"),
        _text(document, "serviceAccountToken"),
        annotations,
        _VERSIONS[0] if is_lenient else _text(document, "apiVersion"),
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
    """Refuse what the kubelet would refuse, or would use and fail with."""
    if response.cache_key_type not in (IMAGE, REGISTRY, GLOBAL):
        raise ProvideError(
            f"response: cache_key_type {response.cache_key_type!r} is none of Image, Registry, Global"
        )
    for key, entry in response.auth.items():
        _check_entry(key, entry)
    return CredentialProviderResponse(
        response.cache_key_type, _nanoseconds(response.cache_seconds), response.auth
    )


def _check_entry(key: str, entry: AuthConfig) -> None:
    if not key or any(char <= " " or char == "\x7f" for char in key):
        raise ProvideError(f"response: auth key {key!r} is empty or has blanks or control characters")
    if ":" in entry.username or not _fits_header(entry.username):
        raise ProvideError(f"response: the user name under {key!r} has a colon or a control character")
    if not _fits_header(entry.password):
        raise ProvideError(
            f"response: the password under {key!r} has a line break or another control character"
        )


def _fits_header(text: str) -> bool:
    return not any(char < " " or char == "\x7f" for char in text)


def _nanoseconds(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    # Not a comparison: it is to fail for what is not a number, too.
    if not 0 <= seconds * _NANOSECONDS <= _LONGEST_NS:
        raise ProvideError(
            f"response: cache_seconds is {seconds!r}, expected 0 or more, and less than 292 years"
        )
    return int(seconds * _NANOSECONDS)
