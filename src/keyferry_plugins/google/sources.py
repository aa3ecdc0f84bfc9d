"""The sources of an external account's subject token: a file, a URL, a program, or a signed AWS request."""

from __future__ import annotations

from keyferry._core.json import read_object
from keyferry.sdk import ProvideError
from keyferry_plugins.google.calls import fetch_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.google.calls import Calls
    from keyferry_plugins.google.credential_file import CredentialFile

__all__ = ["subject_token"]

_MOST_BYTES = 1 << 20


def subject_token(credentials: CredentialFile, calls: Calls) -> str:
    """Return the other identity provider's token from the source in ``credential_source``."""
    source = credentials.part("credential_source")
    if source is None:
        raise ProvideError(f"{credentials.where}: credential_source is missing", "create the file again")
    if source.text("environment_id"):
        from keyferry_plugins.google.aws_source import aws_subject_token

        return aws_subject_token(source, calls, credentials.need("audience"))
    if source.text("file"):
        return _from_file(source)
    if source.text("url"):
        return _from_url(source, calls)
    program = source.part("executable")
    if program is not None:
        from keyferry_plugins.google.executable import executable_subject_token

        return executable_subject_token(program, credentials, calls)
    raise ProvideError(
        f"{source.where} has none of file, url, executable and environment_id",
        "other sources, such as certificates, are not supported",
    )


def _from_file(source: CredentialFile) -> str:
    from keyferry.sdk.files import read_bounded

    return _take(source, read_bounded(source.text("file"), "the subject token's file", _MOST_BYTES))


def _from_url(source: CredentialFile, calls: Calls) -> str:
    url, headers = source.text("url"), source.part("headers")
    names = headers.members if headers is not None else {}
    given = {name: headers.text(name) for name in names} if headers is not None else {}
    reply = fetch_source(calls, "GET", url, given)
    if not reply.is_success:
        raise ProvideError(
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
