"""The subject token: where it comes from, and the checks that it passes before it is sent anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from keyferry._core.values import Value, field
from keyferry.api.federation.rules import is_cluster_audience
from keyferry.api.federation.v1alpha1 import SubjectSettings, SubjectSource
from keyferry.sdk import Deadline, ProvideError, Request
from keyferry.sdk.files import read_bounded
from keyferry.sdk.http import HttpOptions
from keyferry.sdk.messages import shown
from keyferry_plugins.oauth.answers import is_number, is_visible, refused, text_of
from keyferry_plugins.oauth.calls import ask_github
from keyferry_plugins.signing.jose import read_claims, read_header

_MAX_BYTES = 1 << 16
# Clocks of machines differ by a few seconds.
_LEEWAY_SECONDS = 60.0
_GITHUB_URL, _GITHUB_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"


class SubjectToken(Value):
    """A token that passed the checks, and what it says of itself."""

    text: str = field(repr=False)
    issuer: str
    subject: str
    audience: str
    expires_at: float

    @property
    def claims(self) -> dict[str, object]:
        """The claims that a trust policy compares."""
        return {
            "iss": self.issuer,
            "sub": self.subject,
            "aud": self.audience,
            "exp": int(self.expires_at),
        }

    def __str__(self) -> str:
        iss, sub, aud = (_quote(each) for each in (self.issuer, self.subject, self.audience))
        return f"iss {iss}, sub {sub}, aud {aud}, exp {int(self.expires_at)}"


def obtain_subject(
    settings: SubjectSettings, request: Request, environ: Mapping[str, str], ends_at: float
) -> str:
    """Return the token from its one source, by the monotonic time *ends_at*; there is no other in place of it."""
    if settings.source is SubjectSource.KUBELET:
        return _need(
            request.service_account_token,
            "the kubelet sent no service account token",
            "set tokenAttributes in the kubelet's config, with requireServiceAccount: true",
        )
    if settings.source is SubjectSource.FILE:
        data = read_bounded(settings.file, "the subject token", _MAX_BYTES)
        return _need(data.decode("ascii", "replace").strip(), f"{settings.file!r} is empty")
    if settings.source is SubjectSource.ENV:
        return _need(
            environ.get(settings.variable, "").strip(),
            f"the variable {settings.variable!r} is not set or empty",
            "in GitLab, add it to the job's id_tokens",
        )
    return _ask_github(settings.audience, environ, ends_at)


def _need(token: str, problem: str, hint: str = "") -> str:
    if not token:
        raise ProvideError(f"there is no subject token: {problem}", hint)
    return token


def _ask_github(audience: str, environ: Mapping[str, str], ends_at: float) -> str:
    """Return the token of the current job of GitHub Actions."""
    url, token = environ.get(_GITHUB_URL, ""), environ.get(_GITHUB_TOKEN, "")
    if not url.startswith("https://") or not token:
        raise ProvideError(
            f"there is no subject token: {_GITHUB_URL} is not an https:// URL, or {_GITHUB_TOKEN} is not set",
            "give the job the permission 'id-token: write'",
        )
    limit = HttpOptions(most_bytes=_MAX_BYTES)
    reply = ask_github(url, token, audience, Deadline(ends_at - monotonic()), limit)
    value = text_of(reply.json(), "value") if reply.is_success else ""
    if not value:
        raise refused(reply, f"{reply.url}: answered status {reply.status} without a token")
    return value


def check_subject(token: str, settings: SubjectSettings, now: float) -> SubjectToken:
    """Return *token* if it has exactly the configured audience and issuer and is valid now; raise ProvideError if not.

    Its signature is the receiver's to verify. These checks keep a token from those it is not meant for.
    """
    claims = _read_claims(token)
    issuer, subject = text_of(claims, "iss"), text_of(claims, "sub")
    audience = _audience(claims.get("aud"))
    if is_cluster_audience(audience, issuer):
        raise ProvideError(
            f"the subject token is for the API server itself (aud {_quote(audience)}), and is not sent anywhere",
            "set serviceAccountTokenAudience in the kubelet's config to the audience of the registry",
        )
    for name, found, expected, hint in (
        (
            "aud",
            audience,
            settings.audience,
            "make the rule's audience and serviceAccountTokenAudience equal",
        ),
        ("iss", issuer, settings.issuer, "set the rule's issuer to that of the cluster, in its own spelling"),
    ):
        if found != expected:
            raise ProvideError(
                f"the subject token's {name} is {_quote(found)}, expected {expected!r}; it is not sent anywhere",
                hint,
            )
    expires_at, not_before = read_claim_time(claims, "exp"), read_claim_time(claims, "nbf")
    if expires_at is None or expires_at <= now:
        raise ProvideError("the subject token has expired or has no expiry", "check this machine's clock")
    if not_before is not None and not_before > now + _LEEWAY_SECONDS:
        raise ProvideError("the subject token is not valid yet", "check this machine's clock")
    return SubjectToken(text=token, issuer=issuer, subject=subject, audience=audience, expires_at=expires_at)


def _quote(text: str) -> str:
    """Return a claim for a message."""
    return repr(shown(text, 200))


def _read_claims(token: str) -> dict[str, object]:
    problem = "the token is not a JSON web token"
    if is_visible(token):
        try:
            read_header(token)  # which may have no member twice either
            return read_claims(token)
        except ProvideError as error:
            problem = error.message
    raise ProvideError(f"the subject token cannot be used: {problem}")


def _audience(value: object) -> str:
    """Return the one audience of a token; a token for several could be used by each of them at the others."""
    values = value if isinstance(value, list) else [value]
    if len(values) != 1 or not isinstance(values[0], str):
        raise ProvideError(
            f"the subject token has {len(values) if value is not None else 'no'} audiences, expected one"
        )
    return values[0]


def read_claim_time(claims: Mapping[str, object], name: str) -> float | None:
    """Return a time in a token's claims in Unix seconds, or None; digits in a string are no time."""
    value = claims.get(name)
    return float(value) if is_number(value) and -1e15 < value < 1e15 else None
