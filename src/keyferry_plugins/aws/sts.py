"""The Security Token Service: temporary credentials of a role, for other credentials or an identity token."""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.calls import query_call, send
from keyferry_plugins.aws.credentials import Credentials, read_time
from keyferry_plugins.aws.endpoints import STS, find_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.aws.environment import Environment

__all__ = ["assume_role", "assume_role_with_web_identity", "caller_user_id", "read_token_file"]

_VERSION = "2011-06-15"
_NANOSECONDS = 1_000_000_000
# An issuer's new keys reach STS with a delay, so AWS' SDKs retry this error.
_RETRIED = frozenset(("InvalidIdentityToken",))


def assume_role(
    environment: Environment,
    credentials: Credentials,
    role_arn: str,
    *,
    region: str,
    session_name: str = "",
    external_id: str = "",
    duration_seconds: str = "",
    mfa_serial: str = "",
) -> Credentials:
    """Return credentials of a role, assumed with *credentials*; prompt for a code if *mfa_serial* is given."""
    fields = {
        "Action": "AssumeRole",
        "Version": _VERSION,
        "RoleArn": role_arn,
        "RoleSessionName": session_name or default_session_name(environment, "keyferry-"),
        "ExternalId": external_id,
        "DurationSeconds": duration_seconds,
        "SerialNumber": mfa_serial,
        "TokenCode": _ask_code(environment, mfa_serial) if mfa_serial else "",
    }
    call = query_call(
        find_endpoint(environment, STS, region),
        {name: value for name, value in fields.items() if value},
        f"sts:AssumeRole on {role_arn}",
        secrets=tuple(filter(None, (external_id, fields["TokenCode"]))),
    )
    reply = send(environment, call, credentials)
    return _read(reply.body, call.name, f"the role {role_arn}")


def assume_role_with_web_identity(
    environment: Environment, role_arn: str, token: str, *, region: str, session_name: str = ""
) -> Credentials:
    """Return credentials of a role for the token of an OIDC issuer, such as a service account's token."""
    fields = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": _VERSION,
        "RoleArn": role_arn,
        "RoleSessionName": session_name or default_session_name(environment),
        "WebIdentityToken": token,
    }
    call = query_call(
        find_endpoint(environment, STS, region),
        fields,
        f"sts:AssumeRoleWithWebIdentity on {role_arn}",
        retried=_RETRIED,
        secrets=(token,),
    )
    reply = send(environment, call, None)
    return _read(reply.body, call.name, f"the role {role_arn}")


def caller_user_id(environment: Environment, credentials: Credentials, *, region: str) -> str:
    """Return the unique id of the identity that owns *credentials*; for a role it is ``id:session name``."""
    from keyferry_plugins.aws.xml import element, text_in

    fields = {"Action": "GetCallerIdentity", "Version": _VERSION}
    call = query_call(find_endpoint(environment, STS, region), fields, "")
    reply = send(environment, call, credentials)
    return text_in(element(reply.body, "GetCallerIdentityResult", call.name), "UserId")


def read_token_file(path: str) -> str:
    """Return the identity token in a file; raise ProvideError, which quotes none of it, on failure."""
    from keyferry.sdk.files import read_bounded

    token = read_bounded(path, "the web identity token file").decode("utf-8", "replace").strip()
    if not token or any(not "!" <= char <= "~" for char in token):
        raise ProvideError(f"the web identity token file {path!r} does not hold a token")
    return token


def default_session_name(environment: Environment, prefix: str = "") -> str:
    """Return a unique session name: the time in nanoseconds."""
    return f"{prefix}{int(environment.now() * _NANOSECONDS)}"


def _ask_code(environment: Environment, serial: str) -> str:
    if environment.ask_code is None:
        raise ProvideError(
            f"the profile requires a code of the MFA device {serial!r}, but this run cannot prompt for it",
            "use a profile without mfa_serial",
        )
    return environment.ask_code(serial)


def _read(body: bytes, where: str, source: str) -> Credentials:
    from keyferry_plugins.aws.xml import element, text_in

    inside = element(body, "Credentials", where)
    key, secret, token, expiry = (
        text_in(inside, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    )
    if not (key and secret and token):
        raise ProvideError(f"{where}: the response has no credentials")
    if any(not "!" <= char <= "~" for char in key + secret + token):
        raise ProvideError(
            f"{where}: the response's credentials have characters that are not valid in a header"
        )
    return Credentials(key, secret, token, read_time(expiry, where), source)
