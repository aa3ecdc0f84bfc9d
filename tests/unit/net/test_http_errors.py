"""Network errors as callers outside see them."""

from __future__ import annotations

import pytest

from keyferry._net.errors import NetworkError, RefusedError, TimedOutError, UntrustedError, WrongNameError
from keyferry._net.http_errors import split_url, to_http_error
from keyferry.errors import HttpError

URL = "https://a.example/x"


@pytest.mark.parametrize(
    ("error", "args"),
    [
        (RefusedError("refused"), (URL, "refused", "", False)),
        (RefusedError("refused", "start it"), (URL, "refused", "start it", False)),
        (RefusedError("refused", subject="the proxy"), ("the proxy", "refused", "", False)),
        (TimedOutError("slow"), (URL, "slow", "", True)),
        (UntrustedError("untrusted"), (URL, "untrusted", "trust it", False)),
        (WrongNameError("other name", "rename it"), (URL, "other name", "rename it", False)),
    ],
)
def test_an_error_keeps_what_it_says(error: NetworkError, args: tuple[object, ...]) -> None:
    """Its own subject and hint come first; the caller's hint is for trust alone."""
    assert to_http_error(error, URL, "trust it").args == args


def test_a_url_is_split_or_refused_without_being_quoted() -> None:
    """A text that does not parse may hold a password."""
    assert str(split_url(f"{URL}?q=1")) == URL
    with pytest.raises(HttpError) as caught:
        split_url("ftp://user:s3cret@a.example")
    assert caught.value.args == ("a configured URL", "is not an http:// or https:// URL", "", False)
    assert caught.value.__context__ is None
