"""What AWS refuses with: codes, messages, what may pass, and what to do."""

from __future__ import annotations

import pytest

from keyferry.sdk.http import Reply
from keyferry_plugins.aws.failures import Refusal, is_transient, read_refusal


def reply(status: int, body: bytes, **headers: str) -> Reply:
    """An answer of a server."""
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply("https://x.test/", status, fields, body)


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (reply(400, b'{"__type":"com.amazon#AccessDeniedException","message":"no"}'), "AccessDeniedException", "no"),
        (reply(400, b'{"__type":"ServerException","Message":"no"}'), "ServerException", "no"),
        (reply(403, b'{"message":"no"}', x_amzn_errortype="ForbiddenException:http://x"), "ForbiddenException", "no"),
        (reply(403, b"<ErrorResponse><Error><Code>A</Code><Message>b</Message></Error></ErrorResponse>"), "A", "b"),
        (reply(400, b'{"code":"X","message":"y"}'), "X", "y"),
        (reply(500, b"garbage"), "", ""),
        (reply(500, b"[1]"), "", ""),
        (reply(400, b'{"__type":"secret with blanks"}'), "", ""),
    ],
)  # fmt: skip
def test_codes_and_messages_are_read(answer: Reply, code: str, message: str) -> None:
    """Both protocols, all spellings; what is no code is not shown as one."""
    assert read_refusal(answer) == Refusal(code, message)


@pytest.mark.parametrize(
    ("answer", "is_retried"),
    [
        (reply(200, b"{}"), False),
        (reply(500, b""), True),
        (reply(502, b""), True),
        (reply(503, b""), True),
        (reply(504, b""), True),
        (reply(400, b'{"__type":"ThrottlingException"}'), True),
        (reply(400, b'{"__type":"RequestLimitExceeded"}'), True),
        (reply(400, b"<E><Error><Code>Throttling</Code></Error></E>"), True),
        (reply(400, b'{"__type":"AccessDeniedException"}'), False),
        (reply(403, b""), False),
        (reply(400, b"<E><Error><Code>InvalidIdentityToken</Code></Error></E>"), False),
    ],
)
def test_what_may_pass_is_tried_again(answer: Reply, is_retried: bool) -> None:
    """Throttling and faults of the server are transient, refusals are not."""
    assert is_transient(answer) is is_retried


def test_a_call_can_add_codes_to_try_again() -> None:
    """A token that STS does not know yet is tried again where identity tokens are used."""
    answer = reply(400, b"<E><Error><Code>InvalidIdentityToken</Code></Error></E>")
    assert is_transient(answer, frozenset(("InvalidIdentityToken",)))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AccessDeniedException", "grant ecr:GetAuthorizationToken to the role or user of the credentials from here"),
        ("ExpiredTokenException", "the credentials from here have expired"),
        ("UnrecognizedClientException", "AWS does not accept the credentials from here"),
        ("InvalidIdentityToken", "identity provider in IAM"),
        ("ThrottlingException", "AWS throttles the requests"),
        ("Strange", ""),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do(code: str, words: str) -> None:
    """Every usual code has its advice."""
    assert words in Refusal(code).advice("ecr:GetAuthorizationToken", "here")
