"""External accounts on AWS: the subject token is a signed request that proves the caller's AWS identity."""

from __future__ import annotations

from keyferry._core.json import dumps
from keyferry._net.forms import encode_percent, encode_query
from keyferry._net.http_errors import split_url
from keyferry.sdk import ProvideError
from keyferry_plugins.google.calls import fetch_source
from keyferry_plugins.signing.sigv4 import Credentials, sign_headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk.http import Reply
    from keyferry_plugins.google.calls import Calls
    from keyferry_plugins.google.credential_file import CredentialFile

__all__ = ["aws_subject_token"]

_VERIFICATION = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
_SESSION_SECONDS = "300"


def aws_subject_token(source: CredentialFile, calls: Calls, audience: str) -> str:
    """Return a signed GetCallerIdentity request as text; Google sends it to AWS to identify the caller."""
    if source.text("environment_id") != "aws1":
        raise ProvideError(f"{source.where}: environment_id is not aws1, the only supported version")
    session = _session(source, calls)
    credentials = _credentials(source, calls, session)
    region = _region(source, calls, session)
    url = source.text("regional_cred_verification_url", _VERIFICATION).replace("{region}", region, 1)
    return _signed(url, credentials, region, audience, calls.now())


def _signed(url: str, credentials: Credentials, region: str, audience: str, now: float) -> str:
    origin = split_url(url)
    path, _, query = origin.target.partition("?")
    headers = sign_headers(
        credentials,
        method="POST",
        host=origin.authority,
        path=path,
        query=_sorted(query),
        # This header is signed as well, so that the request is valid only for this pool.
        headers={"X-Goog-Cloud-Target-Resource": audience},
        body=b"",
        region=region,
        service="sts",
        now=now,
    )
    pairs = sorted({**headers, "Host": origin.authority}.items())
    request = {
        "url": url,
        "method": "POST",
        "headers": [{"key": name, "value": value} for name, value in pairs],
    }
    return encode_percent(dumps(request))


def _sorted(query: str) -> str:
    from keyferry._net.forms import decode_percent

    pairs = [each.partition("=") for each in query.split("&") if each]
    return encode_query(sorted((decode_percent(name), decode_percent(value)) for name, _, value in pairs))


def _session(source: CredentialFile, calls: Calls) -> dict[str, str]:
    """Return the session header for AWS's metadata server; empty if it is not needed or the file has no URL for it."""
    url = source.text("imdsv2_session_token_url")
    if not url or (_from_environment(calls) is not None and _environment_region(calls)):
        return {}
    reply = fetch_source(calls, "PUT", url, {"X-aws-ec2-metadata-token-ttl-seconds": _SESSION_SECONDS})
    return {"X-aws-ec2-metadata-token": _text(reply, "a session")}


def _from_environment(calls: Calls) -> Credentials | None:
    key, secret = calls.setting("AWS_ACCESS_KEY_ID"), calls.setting("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return Credentials(key, secret, calls.setting("AWS_SESSION_TOKEN"))


def _environment_region(calls: Calls) -> str:
    return calls.setting("AWS_REGION") or calls.setting("AWS_DEFAULT_REGION")


def _credentials(source: CredentialFile, calls: Calls, session: dict[str, str]) -> Credentials:
    found = _from_environment(calls)
    if found is not None:
        return found
    url = source.text("url")
    if not url:
        raise ProvideError(
            f"{source.where}: url is missing, and the environment has no AWS keys",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or create the file again",
        )
    role = _text(fetch_source(calls, "GET", url, session), "a role")
    reply = fetch_source(calls, "GET", f"{url}/{encode_percent(role)}", session)
    if not reply.is_success:
        raise _refused(reply, "credentials")
    return _read(reply)


def _read(reply: Reply) -> Credentials:
    document = reply.json()
    key, secret, token = (document.get(name) or "" for name in ("AccessKeyId", "SecretAccessKey", "Token"))
    if not isinstance(key, str) or not isinstance(secret, str) or not isinstance(token, str):
        raise ProvideError(f"no subject token: {reply.url}: a part of the credentials is not a string")
    if not key or not secret:
        raise ProvideError(f"no subject token: {reply.url}: AccessKeyId or SecretAccessKey is missing")
    return Credentials(key, secret, token)


def _region(source: CredentialFile, calls: Calls, session: dict[str, str]) -> str:
    region = _environment_region(calls)
    if not region:
        url = source.text("region_url")
        if not url:
            raise ProvideError(f"{source.where}: region_url is missing", "set AWS_REGION")
        # The response is an availability zone: the region and a letter.
        region = _text(fetch_source(calls, "GET", url, session), "a zone")[:-1]
    if not region or not all(char.isascii() and (char.isalnum() or char == "-") for char in region):
        raise ProvideError(f"{source.where}: the AWS region found is not a region name", "set AWS_REGION")
    return region


def _text(reply: Reply, what: str) -> str:
    """Return the single word of a response."""
    if not reply.is_success:
        raise _refused(reply, what)
    word = reply.body.decode("ascii", "replace").strip()
    if not word or any(not "!" <= char <= "~" for char in word):
        raise ProvideError(
            f"AWS's metadata server gave no {what.partition(' ')[2]}: {reply.url} did not answer with a single word"
        )
    return word


def _refused(reply: Reply, what: str) -> ProvideError:
    return ProvideError(
        f"no subject token: {reply.url} answered status {reply.status} when asked for {what}",
        "attach an IAM role to the instance, or set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    )
