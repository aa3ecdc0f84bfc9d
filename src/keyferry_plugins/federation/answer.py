"""The response: one login for the image's own registry, which is not the subject token in another form."""

from keyferry.sdk import AuthConfig, ProvideError, Response
from keyferry_plugins.federation.lifetime import kept_seconds
from keyferry_plugins.federation.parameters import expand

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from keyferry.sdk import Request
    from keyferry.sdk.federation import CompleteRule
    from keyferry_plugins.federation.subject import SubjectToken

__all__ = ["make_response"]

_STANDARD = bytes.maketrans(b"-_", b"+/")


def make_response(
    rule: "CompleteRule", values: "Mapping[str, str]", subject: "SubjectToken", request: "Request", now: float
) -> Response:
    """Return the login; raise ProvideError if a server returned the subject token in it."""
    credentials = rule.recipe.credentials
    username, password = expand(credentials.username, values), expand(credentials.password, values)
    if rule.recipe.calls:
        _refuse_subject(username, password, subject.text)
    if not username or not password:
        raise ProvideError("the login has no user name or no password")
    seconds = kept_seconds(rule.recipe.lifetime, values, password, now)
    return Response({request.registry: AuthConfig(username, password)}, rule.cache_key_type, seconds)


def _refuse_subject(username: str, password: str, subject: str) -> None:
    """Raise ProvideError if the login contains the token: the kubelet compares it with the whole password alone."""
    for text in (username, password):
        if any(subject in form for form in _forms(text)):
            raise ProvideError(
                "a server returned the subject token itself as a login, which is not passed on",
                "if the registry takes the token itself, use a recipe without calls, and cacheType: Token",
            )


def _forms(text: str) -> "Iterator[str]":
    """Yield *text* as it is, and decoded as often as it may be encoded."""
    from binascii import Error, a2b_base64

    from keyferry.sdk.forms import decode_percent

    yield text
    yield decode_percent(text)
    try:
        data = text.encode("ascii").translate(_STANDARD).rstrip(b"=")
        yield a2b_base64(data + b"=" * (-len(data) % 4)).decode("utf-8", "replace")
    except (Error, ValueError):
        pass
