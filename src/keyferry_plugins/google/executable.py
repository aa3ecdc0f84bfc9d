"""External accounts whose subject token a program prints; it runs only if the environment allows it."""

from __future__ import annotations

from keyferry._core.json import read_object
from keyferry.sdk import ProvideError
from keyferry_plugins.google.answers import told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry_plugins.google.calls import Calls
    from keyferry_plugins.google.credential_file import CredentialFile

__all__ = ["executable_subject_token"]

_PERMIT = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
_TIMEOUT_MS, _SHORTEST_MS, _LONGEST_MS = 30_000, 5_000, 120_000
_VERSION = 1
_MEMBERS = {
    "urn:ietf:params:oauth:token-type:jwt": "id_token",
    "urn:ietf:params:oauth:token-type:id_token": "id_token",
    "urn:ietf:params:oauth:token-type:saml2": "saml_response",
}


def executable_subject_token(program: CredentialFile, credentials: CredentialFile, calls: Calls) -> str:
    """Return the token that the program prints, or the one in its output file if that is still valid."""
    command, output = program.need("command"), program.text("output_file")
    if calls.setting(_PERMIT) != "1":
        raise ProvideError(
            f"{program.where}: the file runs a program, which {_PERMIT} does not allow",
            f"if you trust the file, set {_PERMIT}=1",
        )
    seconds = _timeout(program)
    return _kept(output, calls) or _printed(command, output, seconds, credentials, calls)


def _timeout(program: CredentialFile) -> float:
    timeout_ms = program.number("timeout_millis", _TIMEOUT_MS)
    if not _SHORTEST_MS <= timeout_ms <= _LONGEST_MS:
        raise ProvideError(
            f"{program.where}: timeout_millis is {timeout_ms}, expected {_SHORTEST_MS} to {_LONGEST_MS}"
        )
    return timeout_ms / 1000


def _kept(output: str, calls: Calls) -> str:
    """Return the token in the program's output file, or an empty string if there is none that is still valid."""
    from keyferry.sdk.files import read_private

    # A file that another user owns or can access is ignored: its writer could choose the identity.
    data = read_private(output) if output else None
    if not data:
        return ""
    try:
        return _read(_parse(data), calls, is_kept=True)
    except ProvideError:
        return ""


def _printed(command: str, output: str, seconds: float, credentials: CredentialFile, calls: Calls) -> str:
    from keyferry.sdk.process import run_program

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
    return _read(_parse(finished.stdout), calls, needs_expiry=bool(output))


def _environment(output: str, credentials: CredentialFile, calls: Calls) -> dict[str, str]:
    from keyferry_plugins.google.impersonation import principal

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


def _parse(data: bytes) -> Mapping[str, object]:
    document = read_object(data)
    if document is None:
        raise ProvideError("no subject token: the program of credential_source printed no JSON object")
    return document


def _read(
    document: Mapping[str, object], calls: Calls, *, is_kept: bool = False, needs_expiry: bool = False
) -> str:
    what = "no subject token: the program of credential_source"
    if document.get("success") is not True:
        reasons = [document.get(name) for name in ("code", "message")]
        reason = ": ".join(told(each) for each in reasons if isinstance(each, str) and each)
        raise ProvideError(f"{what} reports a failure: {reason or 'no reason given'}")
    version = document.get("version")
    if version != _VERSION or isinstance(version, bool):
        raise ProvideError(f"{what} answered in a version other than {_VERSION}")
    ends = document.get("expiration_time")
    if ends is not None and (isinstance(ends, bool) or not isinstance(ends, int | float)):
        raise ProvideError(f"{what} answered with an expiration_time that is not a number")
    if not ends and (is_kept or needs_expiry):
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
