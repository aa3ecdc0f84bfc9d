"""Calls of AWS services: signing, retries, and error responses with advice for the user."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.values import Value, field
from keyferry._net.http_errors import split_url
from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.http import Reply, Retry, fetch
from keyferry_plugins.aws.endpoints import Endpoint
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.oauth.answers import refused
from keyferry_plugins.signing.sigv4 import Credentials, sign_headers

MAX_DELAY_SECONDS = 20.0
# AWS accepts signatures whose time is off by up to five minutes.
_TOLERATED_SECONDS = 240
_TRANSIENT_STATUSES = frozenset((408, 429, 500, 502, 503, 504))
_TRANSIENT_CODES = frozenset(
    [
        "RequestTimeout",
        "RequestTimeoutException",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "TransactionInProgressException",
        "SlowDown",
        "PriorRequestNotComplete",
        "EC2ThrottledException",
    ]
)
# Error codes of a wrong clock; each has other causes too, so the times are compared as well.
_CLOCK_CODES = frozenset(
    [
        "RequestTimeTooSkewed",
        "RequestExpired",
        "RequestInTheFuture",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "AuthFailure",
    ]
)
_DENIED = frozenset(("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"))
_BAD_KEYS = frozenset(
    [
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "IncompleteSignature",
        "MissingAuthenticationTokenException",
        "MissingAuthenticationToken",
    ]
)
_EXPIRED = frozenset(("ExpiredToken", "ExpiredTokenException", "RequestExpired"))
_BAD_IDENTITY = frozenset(("InvalidIdentityToken", "IDPRejectedClaim", "IDPCommunicationError"))
_MAX_CODE_LENGTH = 80
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class Call(Value):
    """One call; *right* is the IAM action it needs, *retried* are error codes to retry besides the usual ones.

    No message contains one of its *secrets*.
    """

    action: str
    endpoint: Endpoint
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    right: str = ""
    retried: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name of the call in messages."""
        return f"{self.endpoint.service} {self.action} at {self.endpoint.url}"


def send(environment: Environment, call: Call, credentials: Credentials | None) -> Reply:
    """Make a call, signed if *credentials* are given, and return its response; raise ProvideError on failure."""
    now = environment.now()
    reply = _fetch(environment, call, credentials, now)
    if reply.is_success:
        return reply
    refusal = read_refusal(reply)
    sent_at = reply.sent_at
    # By how many seconds the server's clock is ahead of the local one.
    skew = 0.0 if sent_at is None else sent_at - now
    is_clock_wrong = refusal.is_of_clock and abs(skew) > _TOLERATED_SECONDS
    if credentials is not None and is_clock_wrong:
        # The server's time is accurate enough to sign with; the user is still told that the local clock is
        # wrong.
        reply = _fetch(environment, call, credentials, now + skew)
        if reply.is_success:
            return reply
        refusal = read_refusal(reply)
        is_clock_wrong = refusal.is_of_clock
    said = refusal.text((*call.secrets, *(credentials.secrets if credentials is not None else ())))
    raise refused(
        reply,
        f"{call.name}: status {reply.status}, {said or 'without a reason'}",
        f"this machine's clock is off by {abs(skew):.0f} seconds: set it"
        if is_clock_wrong
        else refusal.advice(call.right, credentials.source if credentials is not None else ""),
    )


def _fetch(environment: Environment, call: Call, credentials: Credentials | None, now: float) -> Reply:
    headers = call.headers
    if credentials is not None:
        origin = split_url(call.endpoint.url)
        headers = sign_headers(
            credentials,
            method="POST",
            host=origin.authority,
            path=origin.target.partition("?")[0],
            headers=call.headers,
            body=call.body,
            region=call.endpoint.region,
            service=call.endpoint.service,
            now=now,
        )
    try:
        return fetch(
            "POST",
            call.endpoint.url,
            deadline=environment.deadline,
            headers=headers,
            body=call.body,
            retry=Retry(
                attempts=environment.attempts(),
                most_seconds=MAX_DELAY_SECONDS,
                is_transient=lambda reply: is_transient(reply, call.retried),
            ),
            options=environment.http_options(),
        )
    except HttpError as error:
        hint = error.hint or (
            "check that this machine reaches it: name service, route or VPC endpoint, HTTPS_PROXY and NO_PROXY"
        )
        message = f"{call.endpoint.service} {call.action}: {error.message}"
    raise ProvideError(message, hint)


class Refusal(Value):
    """The error code and message of an error response; either may be empty."""

    code: str = ""
    message: str = ""

    @property
    def is_of_clock(self) -> bool:
        """Whether a wrong clock may be the cause."""
        return self.code in _CLOCK_CODES

    def text(self, secrets: tuple[str, ...]) -> str:
        """Return code and message for the user, with *secrets* masked; an empty string if there is neither."""
        from keyferry.sdk.messages import shown

        return ": ".join(filter(None, (self.code, shown(self.message, known=secrets))))

    def advice(self, right: str, source: str) -> str:
        """Return advice for the user; *right* is the IAM action of the call, *source* the credentials' origin."""
        whose = f"the credentials from {source}" if source else "the service account's token"
        if self.code in _DENIED:
            return (
                f"grant {right} to the role or user of {whose}, and check its trust policy" if right else ""
            )
        if self.code in _EXPIRED:
            return f"{whose} have expired: renew them" if source else f"{whose} has expired"
        if self.code in _BAD_KEYS:
            return f"AWS does not accept {whose}: check that the keys are right and active, and the clock"
        if self.code in _BAD_IDENTITY:
            return (
                "check that the cluster's OIDC issuer is an identity provider in IAM, that the token's audience is"
                " sts.amazonaws.com, and that the role's trust policy names both"
            )
        if self.code in _TRANSIENT_CODES:
            return (
                "AWS throttles the requests of this account: start fewer nodes at a time, or cache for longer"
            )
        return ""


def read_refusal(reply: Reply) -> Refusal:
    """Return the code and message of a JSON or XML response; empty if it has none or is in another format."""
    if reply.body.lstrip()[:1] == b"<":
        try:
            inside = xml_element(reply.body, "Error", reply.url)
        except ProvideError as error:
            return Refusal(message=error.message)
        return Refusal(code=_short_code(xml_text(inside, "Code")), message=xml_text(inside, "Message"))
    try:
        document = reply.json()
    except ProvideError:
        document = {}
    named = next(iter(reply.values("x-amzn-errortype")), "")
    code = named or document.get("__type") or document.get("code") or document.get("Code") or ""
    message = document.get("message") or document.get("Message") or ""
    return Refusal(code=_short_code(str(code)), message=str(message))


def is_transient(reply: Reply, codes: frozenset[str] = frozenset()) -> bool:
    """Return whether a retry may help, by status, by AWS' transient error codes, or by *codes*."""
    if reply.is_success:
        return False
    if reply.status in _TRANSIENT_STATUSES:
        return True
    code = read_refusal(reply).code
    return code in _TRANSIENT_CODES or code in codes


def _short_code(code: str) -> str:
    """Return ``AccessDeniedException`` for ``com.amazonaws.ecr#AccessDeniedException:http://...``."""
    code = code.rpartition("#")[2].partition(":")[0]
    is_code = code.isascii() and code.replace("_", "").replace(".", "").isalnum()
    return code if is_code and len(code) < _MAX_CODE_LENGTH else ""


def xml_element(document: bytes, name: str, where: str) -> str:
    """Return the content of the first element *name* of an XML response, or an empty string.

    The responses are small and plain, and a parser would expand entities. Raise ProvideError if the document has
    declarations, CDATA sections or comments, which AWS never sends.
    """
    text = document.decode("utf-8", "replace")
    if "<!" in text:
        raise ProvideError(f"{where} answered with XML that contains a declaration, which is not accepted")
    return _inside(text, name)


def xml_text(inside: str, name: str) -> str:
    """Return the text of the first element *name* in the result of ``xml_element``, or an empty string."""
    found = _inside(inside, name)
    return "" if "<" in found else _unescape(found).strip()


def _inside(text: str, name: str) -> str:
    at, start, end = text.find(f"<{name}"), -1, -1
    while at >= 0:
        after = text[at + len(name) + 1 : at + len(name) + 2]
        # Looked for again only behind their last place: otherwise many beginnings without an end take long.
        start = text.find(">", at) if start < at else start
        end = text.find(f"</{name}>", at) if end < at else end
        if start < 0 or end < 0:
            return ""
        # "<ErrorResponse" also begins with "<Error".
        if after in {">", " ", "\t", "\r", "\n"} and start < end:
            return text[start + 1 : end]
        at = text.find(f"<{name}", at + 1)
    return ""


def _unescape(text: str) -> str:
    first, *rest = text.split("&")
    pieces = [first]
    for part in rest:
        entity, semicolon, after = part.partition(";")
        character = _character(entity) if semicolon else ""
        pieces.append(character + after if character else f"&{part}")
    return "".join(pieces)


def _character(entity: str) -> str:
    if not entity.startswith("#"):
        return _ENTITIES.get(entity, "")
    digits, radix = (entity[2:], 16) if entity[1:2] in {"x", "X"} else (entity[1:], 10)
    try:
        code = int(digits, radix)
    except ValueError:
        return ""
    return chr(code) if 0 < code <= _LAST_CHARACTER and code not in _SURROGATES else ""
