"""The subject tokens of external accounts: from a file, a URL, a program, or a signed AWS request."""

from __future__ import annotations

from keyferry._core.json import dumps, read_object
from keyferry._net.forms import decode_percent, encode_percent, encode_query
from keyferry._net.http_errors import split_url
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded, read_private
from keyferry.sdk.http import Reply
from keyferry.sdk.process import run_program
from keyferry_plugins.google.calls import Calls, told
from keyferry_plugins.google.credential_file import CredentialFile, principal
from keyferry_plugins.oauth.answers import is_number, is_visible, refused
from keyferry_plugins.signing.sigv4 import Credentials, sign_headers

_MAX_BYTES = 1 << 20
_PERMIT = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
_TIMEOUT_MS, _MIN_TIMEOUT_MS, _MAX_TIMEOUT_MS = 30_000, 5_000, 120_000
_VERSION = 1
_MEMBERS = {
    "urn:ietf:params:oauth:token-type:jwt": "id_token",
    "urn:ietf:params:oauth:token-type:id_token": "id_token",
    "urn:ietf:params:oauth:token-type:saml2": "saml_response",
}
_VERIFICATION = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
_SESSION_SECONDS = "300"


def subject_token(credentials: CredentialFile, calls: Calls) -> str:
    """Return the other identity provider's token from the source in ``credential_source``."""
    source = credentials.part("credential_source")
    if source is None:
        raise ProvideError(f"{credentials.where}: credential_source is missing", "create the file again")
    if source.text("environment_id"):
        return _sign_aws_request(source, calls, credentials.need("audience"))
    if source.text("file"):
        data = read_bounded(source.text("file"), "the subject token's file", _MAX_BYTES)
        return _take(source, data)
    if source.text("url"):
        return _from_url(source, calls)
    program = source.part("executable")
    if program is not None:
        return _ask_program(program, credentials, calls)
    raise ProvideError(
        f"{source.where} has none of file, url, executable and environment_id",
        "other sources, such as certificates, are not supported",
    )


def _from_url(source: CredentialFile, calls: Calls) -> str:
    url, headers = source.text("url"), source.part("headers")
    given = {name: headers.text(name) for name in headers.members} if headers is not None else {}
    reply = calls.fetch_source("GET", url, given)
    if not reply.is_success:
        raise refused(
            reply,
            f"no subject token: {reply.url} answered status {reply.status}",
            "check credential_source.url and its headers in the credential file",
        )
    return _take(source, reply.body)


def _take(source: CredentialFile, data: bytes) -> str:
    """Return the token in *data*: all of it, or a member of a JSON object, depending on ``format``."""
    layout = source.part("format")
    kind = layout.text("type", "text") if layout is not None else "text"
    if kind not in ("text", "json"):
        raise ProvideError(f"{source.where}: format.type is {kind[:40]!r}, expected text or json")
    value: object = None
    if layout is not None and kind == "json":
        value = _member(layout, data)
    else:
        try:
            value = data.decode().strip()
        except UnicodeDecodeError:
            pass
    if not isinstance(value, str) or not value:
        raise ProvideError(f"{source.where}: the source contains no subject token")
    return value


def _member(layout: CredentialFile, data: bytes) -> object:
    name = layout.need("subject_token_field_name")
    document = read_object(data)
    if document is None:
        raise ProvideError(f"{layout.where}: type is json, but the content is not a JSON object")
    return document.get(name)


def _ask_program(program: CredentialFile, credentials: CredentialFile, calls: Calls) -> str:
    """Return the token that the program prints, or the one in its output file if that is still valid."""
    command, output = program.need("command"), program.text("output_file")
    if calls.setting(_PERMIT) != "1":
        raise ProvideError(
            f"{program.where}: the file runs a program, which {_PERMIT} does not allow",
            f"if you trust the file, set {_PERMIT}=1",
        )
    timeout_ms = program.number("timeout_millis", _TIMEOUT_MS)
    if not _MIN_TIMEOUT_MS <= timeout_ms <= _MAX_TIMEOUT_MS:
        raise ProvideError(
            f"{program.where}: timeout_millis is {timeout_ms}, expected {_MIN_TIMEOUT_MS} to {_MAX_TIMEOUT_MS}"
        )
    return _kept(output, calls) or _printed(command, output, timeout_ms / 1000, credentials, calls)


def _kept(output: str, calls: Calls) -> str:
    """Return the token in the program's output file, or an empty string if there is none that is still valid."""
    # A file that another user owns or can access is ignored: its writer could choose the identity.
    data = read_private(output) if output else None
    if not data:
        return ""
    try:
        return read_program_output(data, calls, needs_expiry=True)
    except ProvideError:
        return ""


def _printed(command: str, output: str, seconds: float, credentials: CredentialFile, calls: Calls) -> str:
    # Split at whitespace, without quotes and a shell, as in Google's libraries.
    words = command.split()
    if not words:
        raise ProvideError(f"{credentials.where}: credential_source.executable.command is blank")
    finished = run_program(
        words, deadline=calls.deadline.within(seconds), environ=_environment(output, credentials, calls)
    )
    if finished.status != 0:
        raise ProvideError(
            f"no subject token: the program {words[0]!r} ended with status {finished.status}:"
            f" {told(finished.stderr.decode('utf-8', 'replace')) or 'no message'}"
        )
    return read_program_output(finished.stdout, calls, needs_expiry=bool(output))


def _environment(output: str, credentials: CredentialFile, calls: Calls) -> dict[str, str]:
    told_program = {
        "GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE": credentials.need("audience"),
        "GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE": credentials.need("subject_token_type"),
        "GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE": "0",
        "GOOGLE_EXTERNAL_ACCOUNT_IMPERSONATED_EMAIL": principal(
            credentials.text("service_account_impersonation_url")
        ),
        "GOOGLE_EXTERNAL_ACCOUNT_OUTPUT_FILE": output,
    }
    return {**calls.environ, **{name: value for name, value in told_program.items() if value}}


def read_program_output(data: bytes, calls: Calls, *, needs_expiry: bool) -> str:
    """Return the token in a program's output; raise ProvideError, which quotes no token, if there is none."""
    what = "no subject token: the program of credential_source"
    document = read_object(data)
    if document is None:
        raise ProvideError(f"{what} printed no JSON object")
    if document.get("success") is not True:
        reasons = [document.get(name) for name in ("code", "message")]
        reason = ": ".join(told(each) for each in reasons if isinstance(each, str) and each)
        raise ProvideError(f"{what} reports a failure: {reason or 'no reason given'}")
    version = document.get("version")
    if version != _VERSION or isinstance(version, bool):
        raise ProvideError(f"{what} answered in a version other than {_VERSION}")
    ends = document.get("expiration_time")
    if ends is not None and not is_number(ends):
        raise ProvideError(f"{what} answered with an expiration_time that is not a number")
    if not ends and needs_expiry:
        raise ProvideError(f"{what} left out expiration_time, which an output_file needs")
    if ends and ends < calls.now():
        raise ProvideError(f"{what} answered with a token that is past its expiration_time")
    member = _MEMBERS.get(str(document.get("token_type")))
    if member is None:
        raise ProvideError(f"{what} answered with a token_type that is not one of {', '.join(_MEMBERS)}")
    value = document.get(member)
    if not isinstance(value, str) or not value:
        raise ProvideError(f"{what} left out {member}")
    return value


def _sign_aws_request(source: CredentialFile, calls: Calls, audience: str) -> str:
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
    pairs = [each.partition("=") for each in query.split("&") if each]
    return encode_query(sorted((decode_percent(name), decode_percent(value)) for name, _, value in pairs))


def _session(source: CredentialFile, calls: Calls) -> dict[str, str]:
    """Return the session header for AWS's metadata server; empty if it is not needed or the file has no URL for it."""
    url = source.text("imdsv2_session_token_url")
    if not url or (_from_environment(calls) is not None and _environment_region(calls)):
        return {}
    reply = calls.fetch_source("PUT", url, {"X-aws-ec2-metadata-token-ttl-seconds": _SESSION_SECONDS})
    return {"X-aws-ec2-metadata-token": _text(reply, "a session")}


def _from_environment(calls: Calls) -> Credentials | None:
    key, secret = calls.setting("AWS_ACCESS_KEY_ID"), calls.setting("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return Credentials(
        access_key_id=key, secret_access_key=secret, session_token=calls.setting("AWS_SESSION_TOKEN")
    )


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
    role = _text(calls.fetch_source("GET", url, session), "a role")
    reply = calls.fetch_source("GET", f"{url}/{encode_percent(role)}", session)
    if not reply.is_success:
        raise _refused(reply, "credentials")
    return _read_credentials(reply)


def _read_credentials(reply: Reply) -> Credentials:
    document = reply.json()
    key, secret, token = (document.get(name) or "" for name in ("AccessKeyId", "SecretAccessKey", "Token"))
    if not isinstance(key, str) or not isinstance(secret, str) or not isinstance(token, str):
        raise ProvideError(f"no subject token: {reply.url}: a part of the credentials is not a string")
    if not key or not secret:
        raise ProvideError(f"no subject token: {reply.url}: AccessKeyId or SecretAccessKey is missing")
    return Credentials(access_key_id=key, secret_access_key=secret, session_token=token)


def _region(source: CredentialFile, calls: Calls, session: dict[str, str]) -> str:
    region = _environment_region(calls)
    if not region:
        url = source.text("region_url")
        if not url:
            raise ProvideError(f"{source.where}: region_url is missing", "set AWS_REGION")
        # The response is an availability zone: the region and a letter.
        region = _text(calls.fetch_source("GET", url, session), "a zone")[:-1]
    if not region or not all(char.isascii() and (char.isalnum() or char == "-") for char in region):
        raise ProvideError(f"{source.where}: the AWS region found is not a region name", "set AWS_REGION")
    return region


def _text(reply: Reply, what: str) -> str:
    """Return the single word of a response."""
    if not reply.is_success:
        raise _refused(reply, what)
    word = reply.body.decode("ascii", "replace").strip()
    if not word or not is_visible(word):
        raise ProvideError(
            f"AWS's metadata server gave no {what.partition(' ')[2]}: {reply.url} did not answer with a single word"
        )
    return word


def _refused(reply: Reply, what: str) -> ProvideError:
    return refused(
        reply,
        f"no subject token: {reply.url} answered status {reply.status} when asked for {what}",
        "attach an IAM role to the instance, or set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    )
