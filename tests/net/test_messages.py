"""Answers and their headers, and what the errors of a network mean.

What is no answer is in ``tests/attacks/test_sdk_http.py``.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

import pytest

from keyferry._net import errors
from keyferry._net.challenge import ChallengeError, read_challenges
from keyferry._net.errors import (
    NetworkError,
    RefusedError,
    TimedOutError,
    UntrustedError,
    WrongNameError,
    explain,
)
from keyferry._net.http_errors import split_url, to_http_error
from keyferry._net.messages import Incoming
from keyferry._net.proxy import Origin
from keyferry.errors import HttpError

OK = b"HTTP/1.1 200 OK\r\n"


CHUNKED = b"Transfer-Encoding: chunked\r\n"


def read(answer: bytes, step: int = 1 << 20) -> tuple[int, bytes]:
    pieces: Iterator[bytes] = (answer[at : at + step] for at in range(0, len(answer), step))
    incoming = Incoming(lambda: next(pieces, b""))
    head = incoming.read_head()
    return head.status, b"".join(incoming.read_body(head))


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (OK + b"Content-Length: 2, 2\r\n\r\nhi", b"hi"),
        (OK + b"Content-Length: 0000000000000002\r\n\r\nhi", b"hi"),
        (OK + CHUNKED + b"\r\n2\r\nhi\r\n0\r\n\r\n", b"hi"),
        (OK + b"\r\nhi", b"hi"),
    ],
)
def test_a_body_is_as_long_as_the_head_says(answer: bytes, body: bytes, step: int) -> None:
    assert read(answer, step) == (200, body)


@pytest.mark.parametrize(
    ("header", "lenient", "strict"),
    [
        ("Bearer realm=a,realm=b", {"realm": "a"}, "it gives 'realm' twice"),
        ("Bearer REALM=a,Realm=b", {"realm": "a"}, "it gives 'realm' twice"),
        ('Bearer realm="a', {"realm": ""}, "a quote in it is not closed"),
        ('Bearer realm="a\\', {"realm": ""}, "a quote in it is not closed"),
        ('Bearer realm=a"b"', {"realm": 'a"b"'}, {"realm": "a"}),
        ('Bearer realm="a",service=s', {"realm": "a", "service": "s"}, {"realm": "a", "service": "s"}),
    ],
)
def test_what_can_be_taken_in_two_ways(header: str, lenient: object, strict: object) -> None:
    """Leniently there is always an answer; strictly it is refused."""
    assert list(read_challenges(header)) == [("bearer", lenient)]
    if isinstance(strict, dict):
        assert list(read_challenges(header, is_strict=True)) == [("bearer", strict)]
        return
    with pytest.raises(ChallengeError, match=f"^{strict}$"):
        list(read_challenges(header, is_strict=True))


def test_a_fault_in_a_later_challenge_leaves_the_first() -> None:
    """Each is read when it is asked for."""
    challenges = read_challenges('Bearer realm=a, Basic realm="b', is_strict=True)
    assert next(challenges) == ("bearer", {"realm": "a"})
    with pytest.raises(ChallengeError):
        next(challenges)


PROXY = Origin(scheme="http", host="proxy.example", port=3128, target="", user_info="me:pass-word")


def unverified(code: int) -> ssl.SSLCertVerificationError:
    """What OpenSSL says of a certificate that it does not accept."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "why"
    return error


def ssl_error(reason: str) -> ssl.SSLError:
    """Another error of OpenSSL."""
    error = ssl.SSLError(1, "some text")
    error.reason = reason
    return error


MEANINGS = {
    "timeout": (TimeoutError(), errors.TimedOutError, "no response in time"),
    "name": (
        socket.gaierror(-2, "Name or service not known"),
        errors.NotResolvedError,
        "cannot be reached: its name cannot be resolved",
    ),
    "refused": (
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        errors.RefusedError,
        "cannot be reached: connection refused",
    ),
    "reset": (
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        errors.ClosedEarlyError,
        "cannot be reached: connection reset by peer",
    ),
    "no route": (
        OSError(errno.EHOSTUNREACH, "No route to host"),
        errors.UnreachableError,
        "cannot be reached: no route to host",
    ),
    "untrusted": (unverified(20), errors.UntrustedError, "its certificate is not trusted: why"),
    "other name": (
        unverified(62),
        errors.WrongNameError,
        "its certificate is not trusted: why; only its subject alternative names count, a common name does not",
    ),
    "other address": (
        unverified(64),
        errors.WrongNameError,
        "its certificate is not trusted: why; only its subject alternative names count, a common name does not",
    ),
    "cut": (ssl.SSLEOFError(8, "EOF occurred"), errors.ClosedEarlyError, "the connection was cut off"),
    "cut, by Debian 12's Python": (
        ssl_error("UNEXPECTED_EOF_WHILE_READING"),
        errors.ClosedEarlyError,
        "the connection was cut off",
    ),
    "no TLS": (ssl_error("WRONG_VERSION_NUMBER"), errors.TlsError, "TLS failed: wrong version number"),
    "a value": (
        ValueError("s3cret"),
        errors.UnreachableError,
        "cannot be reached: the request cannot be sent",
    ),
    "ours": (errors.TooLongError("the response is longer"), errors.TooLongError, "the response is longer"),
}


@pytest.mark.parametrize("case", MEANINGS.values(), ids=MEANINGS)
def test_each_way_to_fail_has_a_type(case: tuple[Exception, type[NetworkError], str]) -> None:
    """Exactly one, whose words name the proxy if there is one, and never its password."""
    error, kind, words = case
    assert type(explain(error)) is kind
    assert str(explain(error)) == words
    assert str(explain(error, PROXY)) == f"{words} (through the proxy http://proxy.example:3128)"


def test_what_is_explained_has_no_frames() -> None:
    """They hold headers and bodies; a new error takes the place of the old one, also of one of ours."""
    for kind in (OSError, errors.ClosedEarlyError):
        try:
            raise kind("broken")
        except Exception as caught:  # noqa: BLE001 - either of the two
            found = explain(caught)
        assert (found.__traceback__, found.__context__, found.__cause__) == (None, None, None)


def test_what_is_not_the_servers_fault_names_whose_it_is() -> None:
    """And not the proxy beside it."""
    error = errors.ProxyError("the proxy refused", "try another", "http://proxy.example:3128")
    assert str(explain(error, PROXY)) == "http://proxy.example:3128: the proxy refused"
    assert explain(error, PROXY).hint == "try another"


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
