"""What AWS answers: XML, error codes, logins, and how long they may be kept."""

import base64

import pytest

from keyferry.sdk import ProvideError
from keyferry.sdk.http import Reply
from keyferry_plugins.aws.credentials import read_credentials
from keyferry_plugins.aws.failures import Refusal, is_transient, read_refusal
from keyferry_plugins.aws.registry import Login, _expiry, _split
from keyferry_plugins.aws.xml import element, text_in
from keyferry_plugins.ecr import cache_seconds

NOW = 1_700_000_000.0


def reply(status: int, body: bytes, **headers: str) -> Reply:
    """An answer of a server."""
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply("https://x.test/", status, fields, body)


def test_texts_are_taken_out_of_xml() -> None:
    """An element is found by its whole name, its text is unescaped."""
    body = b'<ErrorResponse xmlns="x"><Error><Code>A</Code><Message>a &lt;b&gt; &amp;amp; &#x41;&#66; &no;</Message>'
    inside = element(body + b"</Error></ErrorResponse>", "Error", "there")
    assert text_in(inside, "Code") == "A"
    assert text_in(inside, "Message") == "a <b> &amp; AB &no;"
    assert not text_in(inside, "Mess")
    assert not element(b"<Errors>x</Errors>", "Error", "there")
    assert not text_in("<A><B>x</B></A>", "A")
    assert text_in("<A>&#xD800;&#0;&#x110000;&#zz;</A>", "A") == "&#xD800;&#0;&#x110000;&#zz;"


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
        element(body, "Error", "there")


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
        ("ThrottlingException", "too much to do"),
        ("Strange", ""),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do(code: str, words: str) -> None:
    """Every usual code has its advice."""
    assert words in Refusal(code).advice("ecr:GetAuthorizationToken", "here")


@pytest.mark.parametrize(
    ("left", "seconds", "compat"),
    [
        (None, 0, 0),
        (43_200, 21_600, 21_600),
        (43_199.9, 21_599, 21_599),
        (2, 1, 1),
        (1.9, 0, None),
        (0, 0, None),
        (-1000, 0, None),
        (1e9, 21_600, 500_000_000),
    ],
)
def test_a_login_is_kept_for_half_its_life(left: float | None, seconds: int, compat: int | None) -> None:
    """A dead login is never to be cached; upstream leaves that to the config's default."""
    login = Login("AWS", "x", None if left is None else NOW + left)
    assert cache_seconds(login, NOW) == seconds
    assert cache_seconds(login, NOW, is_compat=True) == compat


def encoded(text: str) -> str:
    """Base64 of a text."""
    return base64.b64encode(text.encode()).decode()


def test_a_token_is_user_and_password() -> None:
    """The password begins after the first colon."""
    assert _split(encoded("AWS:pass:word"), "there") == ("AWS", "pass:word")


@pytest.mark.parametrize("token", [None, 5, "", "%%%", "QVdTOng", encoded("foo"), "\u00e9"])
def test_what_is_no_token_is_refused(token: object) -> None:
    """Missing, not base64, without a colon: an error that quotes none of it."""
    with pytest.raises(ProvideError, match="authorizationToken") as caught:
        _split(token, "there")
    assert not (isinstance(token, str) and token and token in str(caught.value))


@pytest.mark.parametrize("value", ["2024-01-01", True, -1, 1e30, []])
def test_an_expiry_is_a_number_of_seconds(value: object) -> None:
    """Anything else is refused, nothing is guessed."""
    with pytest.raises(ProvideError, match="expiresAt"):
        _expiry(value, "there")


def test_an_expiry_may_be_missing_or_fractional() -> None:
    """AWS leaves it out, or gives fractions of seconds."""
    assert _expiry(None, "there") is None
    assert _expiry(1.5, "there") == 1.5


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"AccessKeyId": "A"},
        {"AccessKeyId": "A", "SecretAccessKey": 5},
        {"AccessKeyId": "A\n", "SecretAccessKey": "b"},
    ],
)
def test_credentials_need_key_and_secret(document: dict[str, object]) -> None:
    """An answer without one of them, or with a line break in it, is refused."""
    with pytest.raises(ProvideError, match="the answer of the test has no"):
        read_credentials(document, "the test")


def test_credentials_have_an_expiry_or_none() -> None:
    """Times are RFC 3339; what is none is refused without being quoted."""
    keys: dict[str, object] = {"AccessKeyId": "A", "SecretAccessKey": "b"}
    assert read_credentials(keys, "x").expires_at is None
    assert read_credentials({**keys, "Expiration": "1970-01-01T00:01:00Z"}, "x").expires_at == 60
    with pytest.raises(ProvideError) as caught:
        read_credentials({**keys, "Expiration": "tomorrow"}, "x")
    assert "tomorrow" not in str(caught.value)
