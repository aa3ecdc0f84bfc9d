"""Network errors as HttpError, the exception for callers outside."""

from __future__ import annotations

from keyferry._net.errors import NetworkError, TimedOutError, UntrustedError
from keyferry._net.proxy import Origin, parse_origin
from keyferry.errors import HttpError


def split_url(url: str) -> Origin:
    """Return the parts of an http or https URL; raise HttpError, which quotes no secret, for any other text."""
    try:
        return parse_origin(url)
    except NetworkError as error:
        failure = to_http_error(error)
    del url
    raise failure


def to_http_error(error: NetworkError, url: str = "", untrusted_hint: str = "") -> HttpError:
    """Return *error*, raised by a request to *url*; *untrusted_hint* is for a certificate of an unknown authority."""
    hint = error.hint or (untrusted_hint if isinstance(error, UntrustedError) else "")
    return HttpError(error.subject or url, error.problem, hint, isinstance(error, TimedOutError))
