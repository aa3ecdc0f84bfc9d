"""Make the calls of a recipe, one after the other, and take the values that the next one needs from each response."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from keyferry._core.json import dumps, read_object
from keyferry._net.forms import encode_form, encode_form_text, encode_query
from keyferry.api.federation.rules import CompleteRule
from keyferry.api.federation.templates import TemplateError, build_url, is_plain
from keyferry.api.federation.v1alpha1 import BasicEncoding, ExchangeCall, FieldEncoding
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import HttpOptions, Reply, fetch
from keyferry_plugins.federation.parameters import expand
from keyferry_plugins.federation.progress import Progress
from keyferry_plugins.federation.subject import SubjectToken
from keyferry_plugins.oauth.answers import is_number, refused
from keyferry_plugins.oauth.calls import basic_authorization

_MAX_BYTES = 1 << 20
_MAX_VALUE = 1 << 16
_MAX_NUMBER = 1 << 63  # also excludes infinity
_ATTEMPT_SECONDS = 15.0
_CODE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_MAX_CODE = 64
_WORD = frozenset("abcdefghijklmnopqrstuvwxyz-")
_MAX_SENTENCE, _MAX_WORD = 120, 20
_MIN_SECRET = 4
_OF_THE_IMAGE = ("registry", "image", "repository")
_KINDS = {FieldEncoding.FORM: "application/x-www-form-urlencoded", FieldEncoding.JSON: "application/json"}


def make_calls(
    rule: CompleteRule,
    values: dict[str, str],
    subject: SubjectToken,
    ends_at: float,
    progress: Progress,
) -> dict[str, str]:
    """Return *values* and those that the responses add; raise ProvideError for the first call that fails.

    All calls together end by the monotonic time *ends_at*. Each call and its status go to *progress*.
    """
    found = dict(values)
    deadline = Deadline(ends_at - monotonic())
    optional = frozenset(rule.recipe.lifetime.sources)
    for number, call in enumerate(rule.recipe.calls, 1):
        with progress.step(f"call-{number}"):
            started = monotonic()
            reply = _send(call, found, rule.ca_file, deadline)
            seconds = monotonic() - started
            progress.note(call.method, f"{reply.url}: status {reply.status} after {seconds:.1f} s")
            if not reply.is_success:
                raise _refusal(reply, subject, _secrets(rule, found))
            taken = _take(call, reply, optional)
            found |= taken
            host, _, path = reply.url.removeprefix("https://").partition("/")
            progress.done(
                f"{call.method} {reply.url}: status {reply.status}",
                {
                    "method": call.method,
                    "host": host,
                    "path": f"/{path}",
                    "status": reply.status,
                    "seconds": round(seconds, 3),
                    "taken": [name for name, value in taken.items() if value],
                },
            )
    return found


def _send(call: ExchangeCall, values: Mapping[str, str], ca_file: str, deadline: Deadline) -> Reply:
    try:
        url = build_url(call.url, values)
    except TemplateError as error:
        problem = str(error)
    else:
        fields = {name: expand(text, values) for name, text in call.fields.items()}
        # An optional parameter that is not given.
        fields = {name: value for name, value in fields.items() if value}
        query = f"?{encode_query(fields)}" if fields and call.encode is FieldEncoding.QUERY else ""
        options = HttpOptions(ca_file=ca_file, attempt_seconds=_ATTEMPT_SECONDS, most_bytes=_MAX_BYTES)
        return fetch(
            call.method,
            url + query,
            headers=_headers(call, values),
            body=_body(call, fields),
            deadline=deadline,
            options=options,
        )
    raise ProvideError(f"a URL of the recipe cannot be used: {problem}")


def _body(call: ExchangeCall, fields: Mapping[str, str]) -> bytes:
    if call.encode is FieldEncoding.FORM:
        return encode_form(fields)
    if call.encode is FieldEncoding.JSON:
        return dumps(fields).encode()
    return b""


def _headers(call: ExchangeCall, values: Mapping[str, str]) -> dict[str, str]:
    headers = {"Accept": "application/json"}
    if call.encode in _KINDS:
        headers["Content-Type"] = _KINDS[call.encode]
    for name, text in call.headers.items():
        value = expand(text, values)
        if value:
            headers[name] = _header_value(value, name)
    bearer = expand(call.bearer, values)
    username, password = expand(call.basic.username, values), expand(call.basic.password, values)
    if bearer:
        headers["Authorization"] = _header_value(f"Bearer {bearer}", "Authorization")
    elif username or password:
        headers["Authorization"] = _basic(username, password, call.basic.encode)
    return headers


def _header_value(value: str, name: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise ProvideError(f"a value for the header {name!r} has characters that a header cannot have")
    return value


def _basic(username: str, password: str, encode: BasicEncoding) -> str:
    if encode is BasicEncoding.FORM:
        username, password = encode_form_text(username), encode_form_text(password)
    if ":" in username:
        raise ProvideError("the user name of a call has a colon, which HTTP does not allow")
    return basic_authorization(username, password)


def _take(call: ExchangeCall, reply: Reply, optional: frozenset[str]) -> dict[str, str]:
    """Return the values that a response has for the names of *out*; only those of the lifetime may be missing."""
    document = reply.json()
    found = {}
    for name, pointers in call.out.items():
        value = next((text for text in (_text(document, each) for each in pointers) if text), "")
        if value and (len(value) > _MAX_VALUE or not is_plain(value)):
            raise ProvideError(
                f"{reply.url}: the value at {pointers[0]} is too long or has a control character"
            )
        if not value and name not in optional:
            raise ProvideError(f"{reply.url}: answered status {reply.status} without a text at {pointers[0]}")
        found[name] = value
    return found


def _text(document: object, pointer: str) -> str:
    """Return the string or number at a JSON pointer (RFC 6901); empty if there is nothing, or something else."""
    value = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 6:
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return ""
    if isinstance(value, str):
        return value
    return str(value) if is_number(value) and abs(value) < _MAX_NUMBER else ""


def _refusal(reply: Reply, subject: SubjectToken, secrets: list[str]) -> ProvideError:
    """Return the error for a status that is no success: with the server's error code, and nothing else of the body."""
    if 300 <= reply.status < 400:
        return ProvideError(
            f"{reply.url}: answered with a redirect (status {reply.status}), which is never followed",
            "set the host and path that it leads to, if the token may be sent there",
        )
    code = _error_code(reply, secrets)
    said = f" and the error {code!r}" if code else ""
    hint = f"the token has {subject}: check what the server expects, and that it trusts the issuer"
    if reply.status == 429 or reply.status >= 500:  # the server's own state
        hint = "the server is busy or out of order; the kubelet tries again"
    return refused(reply, f"{reply.url}: refused with status {reply.status}{said}", hint)


def _error_code(reply: Reply, secrets: list[str]) -> str:
    """Return OAuth's error code, or the first error of Vault's list; empty for what may be one of *secrets*."""
    body = read_object(reply.body) or {}
    code, errors = body.get("error"), body.get("errors")
    if code is None and isinstance(errors, list) and errors and _is_sentence(errors[0]):
        code = errors[0]
    elif not (isinstance(code, str) and len(code) <= _MAX_CODE and _CODE.issuperset(code)):
        return ""
    return "" if _echoes(str(code).lower(), secrets) else str(code)


def _is_sentence(text: object) -> bool:
    """Return whether a text is of short words in lower case: no token has this form."""
    if not isinstance(text, str) or len(text) > _MAX_SENTENCE:
        return False
    words = [word.strip(",:;") for word in text.split(" ")]
    return all(0 < len(word) <= _MAX_WORD and _WORD.issuperset(word) for word in words)


def _secrets(rule: CompleteRule, values: Mapping[str, str]) -> list[str]:
    """Return the values that are not of the config, the image or an annotation: the token, secrets, responses."""
    plain = {name for name, source in rule.parameters.items() if not source.file and not source.variable}
    return [value for name, value in values.items() if name not in plain and name not in _OF_THE_IMAGE]


def _echoes(text: str, secrets: list[str]) -> bool:
    """Return whether a server's text has a secret in it, or is a piece of one."""
    lowered = [secret.lower() for secret in secrets]
    return any(text in secret or (len(secret) >= _MIN_SECRET and secret in text) for secret in lowered)
