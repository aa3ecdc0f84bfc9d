"""The Security Token Service: temporary credentials of a role, for other credentials or an identity token."""

from __future__ import annotations

from keyferry._net.forms import encode_form
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded
from keyferry_plugins.aws.calls import Call, send, xml_element, xml_text
from keyferry_plugins.aws.credentials import read_expiry
from keyferry_plugins.aws.endpoints import STS, find_endpoint
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.oauth.answers import is_visible
from keyferry_plugins.signing.sigv4 import Credentials

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
    code = _ask_code(environment, mfa_serial) if mfa_serial else ""
    fields = {
        "RoleArn": role_arn,
        "RoleSessionName": session_name or default_session_name(environment, "keyferry-"),
        "ExternalId": external_id,
        "DurationSeconds": duration_seconds,
        "SerialNumber": mfa_serial,
        "TokenCode": code,
    }
    given = {name: value for name, value in fields.items() if value}
    secrets = tuple(filter(None, (external_id, code)))
    call = _call(environment, "AssumeRole", region, given, f"sts:AssumeRole on {role_arn}", secrets=secrets)
    return read_sts_credentials(send(environment, call, credentials).body, call.name, f"the role {role_arn}")


def assume_role_with_web_identity(
    environment: Environment, role_arn: str, token: str, *, region: str, session_name: str = ""
) -> Credentials:
    """Return credentials of a role for the token of an OIDC issuer, such as a service account's token."""
    action = "AssumeRoleWithWebIdentity"
    fields = {
        "RoleArn": role_arn,
        "RoleSessionName": session_name or default_session_name(environment),
        "WebIdentityToken": token,
    }
    right = f"sts:{action} on {role_arn}"
    call = _call(environment, action, region, fields, right, secrets=(token,), retried=_RETRIED)
    return read_sts_credentials(send(environment, call, None).body, call.name, f"the role {role_arn}")


def caller_user_id(environment: Environment, credentials: Credentials, *, region: str) -> str:
    """Return the unique id of the identity that owns *credentials*; for a role it is ``id:session name``."""
    call = _call(environment, "GetCallerIdentity", region, {})
    reply = send(environment, call, credentials)
    return xml_text(xml_element(reply.body, "GetCallerIdentityResult", call.name), "UserId")


def _call(
    environment: Environment,
    action: str,
    region: str,
    fields: dict[str, str],
    right: str = "",
    *,
    secrets: tuple[str, ...] = (),
    retried: frozenset[str] = frozenset(),
) -> Call:
    """Return a call in AWS' query protocol, a form; *secrets* are the field values that no message may contain."""
    return Call(
        action=action,
        endpoint=find_endpoint(environment, STS, region),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        body=encode_form({"Action": action, "Version": "2011-06-15", **fields}),
        right=right,
        retried=retried,
        secrets=secrets,
    )


def read_token_file(path: str) -> str:
    """Return the identity token in a file; raise ProvideError, which quotes none of it, on failure."""
    token = read_bounded(path, "the web identity token file").decode("utf-8", "replace").strip()
    if not token or not is_visible(token):
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


def read_sts_credentials(body: bytes, where: str, source: str) -> Credentials:
    """Return the credentials in an XML response; raise ProvideError, which quotes none of it, on failure."""
    inside = xml_element(body, "Credentials", where)
    key, secret, token, expiry = (
        xml_text(inside, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    )
    if not (key and secret and token):
        raise ProvideError(f"{where}: the response has no credentials")
    if not is_visible(key + secret + token):
        raise ProvideError(
            f"{where}: the response's credentials have characters that are not valid in a header"
        )
    return Credentials(
        access_key_id=key,
        secret_access_key=secret,
        session_token=token,
        expires_at=read_expiry(expiry, where),
        source=source,
    )
