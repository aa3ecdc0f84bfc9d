"""Error responses of AWS: their code and message, whether to retry, and advice for the user."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk.http import Reply

__all__ = ["Refusal", "is_transient", "read_refusal"]

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
_LONGEST_CODE = 80


class Refusal(Value):
    """The error code and message of an error response; either may be empty."""

    code: str = ""
    message: str = ""

    @property
    def is_of_clock(self) -> bool:
        """Whether a wrong clock may be the cause."""
        return self.code in _CLOCK_CODES

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
    named = next(iter(reply.values("x-amzn-errortype")), "")
    if reply.body.lstrip()[:1] == b"<":
        return _read_xml(reply)
    try:
        document = reply.json()
    except ProvideError:
        document = {}
    code = named or document.get("__type") or document.get("code") or document.get("Code") or ""
    message = document.get("message") or document.get("Message") or ""
    return Refusal(_short_code(str(code)), str(message))


def is_transient(reply: Reply, codes: frozenset[str] = frozenset()) -> bool:
    """Return whether a retry may help, by status, by AWS' transient error codes, or by *codes*."""
    if reply.is_success:
        return False
    if reply.status in _TRANSIENT_STATUSES:
        return True
    code = read_refusal(reply).code
    return code in _TRANSIENT_CODES or code in codes


def _read_xml(reply: Reply) -> Refusal:
    from keyferry_plugins.aws.xml import element, text_in

    try:
        inside = element(reply.body, "Error", reply.url)
    except ProvideError as error:
        return Refusal("", error.message)
    return Refusal(_short_code(text_in(inside, "Code")), text_in(inside, "Message"))


def _short_code(code: str) -> str:
    """Return ``AccessDeniedException`` for ``com.amazonaws.ecr#AccessDeniedException:http://...``."""
    code = code.rpartition("#")[2].partition(":")[0]
    return (
        code
        if code.isascii() and code.replace("_", "").replace(".", "").isalnum() and len(code) < _LONGEST_CODE
        else ""
    )
