"""What AWS refuses with, in JSON and in XML: codes, messages, what may pass, and what to do."""

from __future__ import annotations

import pytest

from keyferry.sdk import ProvideError
from keyferry.sdk.http import Reply
from keyferry_plugins.aws.calls import Refusal, is_transient, read_refusal, xml_element, xml_text


def reply(status: int, body: bytes, **headers: str) -> Reply:
    """An answer of a server."""
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(url="https://x.test/", status=status, headers=fields, body=body)


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
    assert read_refusal(answer) == Refusal(code=code, message=message)


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
    assert words in Refusal(code=code).advice("ecr:GetAuthorizationToken", "here")


def test_texts_are_taken_out_of_xml() -> None:
    """An element is found by its whole name, its text is unescaped."""
    body = b'<ErrorResponse xmlns="x"><Error><Code>A</Code><Message>a &lt;b&gt; &amp;amp; &#x41;&#66; &no;</Message>'
    inside = xml_element(body + b"</Error></ErrorResponse>", "Error", "there")
    assert xml_text(inside, "Code") == "A"
    assert xml_text(inside, "Message") == "a <b> &amp; AB &no;"
    assert not xml_text(inside, "Mess")
    assert not xml_element(b"<Errors>x</Errors>", "Error", "there")
    assert not xml_text("<A><B>x</B></A>", "A")
    assert xml_text("<A</A><A <A>x</A>", "A") == "x"
    assert not xml_text("<A <A <A </A", "A")
    assert xml_text("<A>&#xD800;&#0;&#x110000;&#zz;</A>", "A") == "&#xD800;&#0;&#x110000;&#zz;"


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE a [<!ENTITY b "c">]><Error><Code>&b;</Code></Error>',
        b"<Error><Code><![CDATA[x]]></Code></Error>",
        b"<!-- x --><Error/>",
    ],
)
def test_xml_with_declarations_is_refused(body: bytes) -> None:
    """Entities are never declared in an answer of AWS."""
    with pytest.raises(ProvideError, match="declaration"):
        xml_element(body, "Error", "there")
