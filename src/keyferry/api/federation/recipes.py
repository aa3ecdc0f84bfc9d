"""What a recipe may do: how many calls, and which values may stand where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from keyferry._core.paths import Path
from keyferry._core.values import Value
from keyferry.api.federation.templates import (
    OF_THE_IMAGE,
    TemplateError,
    host_template,
    is_name,
    is_plain,
    parse_template,
)
from keyferry.api.federation.v1alpha1 import FieldEncoding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.api.federation.v1alpha1 import ExchangeCall, Recipe

__all__ = ["Provenance", "RecipeProblem", "find_problems"]

MAX_CALLS = 3
EXPIRY = "exp"
_METHODS = ("GET", "POST", "PUT")
_HEADER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
# The fields that say what a token is for, in place of who asks for it, and their names in the protocols.
_PURPOSES = frozenset((
    "aud", "audience", "client_assertion_type", "grant_type", "iss", "issuer", "requested_token_type", "resource",
    "scope", "subject_issuer", "subject_token_type",
))  # fmt: skip
# Parts of the names of fields that say what a token is for or who asks for it, in any protocol and spelling.
_NEVER_ANNOTATED = (
    "aud", "scope", "resource", "subject", "actor", "token", "grant", "issuer", "permission", "assertion", "password",
)  # fmt: skip
_USERNAME = "username"
# Set by the client itself, or by other fields of a call.
_OWN_HEADERS = frozenset((
    "accept", "authorization", "connection", "content-length", "content-type", "cookie", "expect", "host",
    "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
))  # fmt: skip


class Provenance(StrEnum):
    """Where a value comes from, which decides where it may be used."""

    FILE = "a text of this file"
    ANNOTATION = "an annotation"
    IMAGE = "the image's name"
    SECRET = "a secret"  # noqa: S105 - a word
    ANSWER = "the response of a server"
    SUBJECT = "the subject token"


class Place(StrEnum):
    """Where a value is used."""

    HOST = "a host"
    PATH = "a path"
    QUERY = "a query"
    FIELD = "a field"
    PURPOSE = "a field that says what a token is for"
    HEADER = "a header"
    BEARER = "a bearer token"
    LOGIN_NAME = "the user name of a call"
    LOGIN_PASSWORD = "the password of a call"  # noqa: S105 - a word
    USERNAME = "the user name"
    PASSWORD = "the password"  # noqa: S105 - a word


_SECRET_PLACES = frozenset((
    Place.FIELD, Place.PURPOSE, Place.HEADER, Place.BEARER, Place.LOGIN_NAME, Place.LOGIN_PASSWORD, Place.USERNAME,
    Place.PASSWORD,
))  # fmt: skip
_ALLOWED = {
    Provenance.FILE: frozenset(Place),
    # Whoever may annotate a service account must not choose where a token is sent, or what another one is for.
    Provenance.ANNOTATION: frozenset((Place.FIELD, Place.LOGIN_NAME, Place.USERNAME)),
    Provenance.IMAGE: frozenset((Place.FIELD, Place.PURPOSE, Place.QUERY)),
    # Nothing secret is a part of a URL, which servers and proxies log.
    Provenance.SECRET: _SECRET_PLACES,
    Provenance.ANSWER: _SECRET_PLACES,
    Provenance.SUBJECT: frozenset(
        (Place.FIELD, Place.HEADER, Place.BEARER, Place.LOGIN_PASSWORD, Place.PASSWORD)
    ),
}
_BUILT_IN = {
    "subject": Provenance.SUBJECT,
    "registry": Provenance.FILE,  # the entry of the rule, which is equal to the image's host
    **dict.fromkeys(OF_THE_IMAGE, Provenance.IMAGE),
}


class RecipeProblem(Value):
    """A problem of a recipe: its path in the recipe, and the name of the value that it is about, if there is one."""

    path: Path
    message: str
    name: str = ""


def find_problems(recipe: Recipe, parameters: Mapping[str, Provenance]) -> Iterator[RecipeProblem]:
    """Yield every problem of *recipe*, which may use *parameters*, the built-in values and those of earlier calls."""
    known = {**_BUILT_IN, **parameters}
    yield from _check_listed(recipe)
    if len(recipe.calls) > MAX_CALLS:
        yield RecipeProblem(
            path=("calls",), message=f"found {len(recipe.calls)} calls, expected at most {MAX_CALLS}"
        )
    for number, call in enumerate(recipe.calls):
        path: Path = ("calls", number)
        yield from _check_call(call, path, known)
        for name in call.out:
            if not is_name(name) or name in known or name == EXPIRY:
                yield RecipeProblem(
                    path=(*path, "out", name), message="the name is invalid, or has another meaning already"
                )
            known[name] = Provenance.ANSWER
    yield from _check_credentials(recipe, known)
    yield from _check_lifetime(recipe, known)
    yield from _check_annotated(recipe, known)


def _check_call(call: ExchangeCall, path: Path, known: Mapping[str, Provenance]) -> Iterator[RecipeProblem]:
    if call.method not in _METHODS:
        yield RecipeProblem(path=(*path, "method"), message=f"expected one of {', '.join(_METHODS)}")
    is_query = call.encode is FieldEncoding.QUERY
    if call.method == "GET" and call.fields and not is_query:
        yield RecipeProblem(path=(*path, "encode"), message="a GET has no body: expected query")
    yield from _check_url(call.url, (*path, "url"), known)
    for name, text in call.fields.items():
        place = Place.PURPOSE if _is_purpose(name) else Place.FIELD
        place = Place.QUERY if is_query else place
        yield from _check_text(text, (*path, "fields", name), known, place)
    for name, text in call.headers.items():
        if not name or not _HEADER.issuperset(name) or name.lower() in _OWN_HEADERS:
            yield RecipeProblem(path=(*path, "headers", name), message="this header cannot be set")
        yield from _check_text(text, (*path, "headers", name), known, Place.HEADER)
    yield from _check_login(call, path, known)
    for name, pointers in call.out.items():
        if not pointers or not all(pointer.startswith("/") for pointer in pointers):
            yield RecipeProblem(
                path=(*path, "out", name), message="expected a JSON pointer, such as /access_token"
            )


def _check_login(call: ExchangeCall, path: Path, known: Mapping[str, Provenance]) -> Iterator[RecipeProblem]:
    if call.bearer and (call.basic.username or call.basic.password):
        yield RecipeProblem(path=(*path, "bearer"), message="a call has either bearer or basic")
    yield from _check_text(call.bearer, (*path, "bearer"), known, Place.BEARER)
    yield from _check_text(call.basic.username, (*path, "basic", "username"), known, Place.LOGIN_NAME)
    yield from _check_text(call.basic.password, (*path, "basic", "password"), known, Place.LOGIN_PASSWORD)


def _check_url(url: str, path: Path, known: Mapping[str, Provenance]) -> Iterator[RecipeProblem]:
    try:
        host = host_template(url)
    except TemplateError as error:
        yield RecipeProblem(path=path, message=str(error))
        return
    yield from _check_text(host, path, known, Place.HOST)
    yield from _check_text(url.removeprefix(f"https://{host}"), path, known, Place.PATH)


def _check_text(
    text: str, path: Path, known: Mapping[str, Provenance], place: Place
) -> Iterator[RecipeProblem]:
    try:
        template = parse_template(text)
    except TemplateError as error:
        yield RecipeProblem(path=path, message=str(error))
        return
    if not is_plain(template.literals):
        yield RecipeProblem(path=path, message="the text has a control character")
    for piece in template.pieces:
        if piece.is_path and place is not Place.PATH:
            yield RecipeProblem(path=path, message="'${+' is for paths only", name=piece.name)
    for name in template.names:
        provenance = known.get(name)
        if provenance is None:
            yield RecipeProblem(path=path, message=f"the value {name!r} is not known here", name=name)
        elif place not in _ALLOWED[provenance]:
            yield RecipeProblem(
                path=path,
                message=f"the value {name!r} is {provenance}, which cannot be used in {place}",
                name=name,
            )


def _check_credentials(recipe: Recipe, known: Mapping[str, Provenance]) -> Iterator[RecipeProblem]:
    username, password = recipe.credentials.username, recipe.credentials.password
    path: Path = ("credentials",)
    yield from _check_text(username, (*path, "username"), known, Place.USERNAME)
    yield from _check_text(password, (*path, "password"), known, Place.PASSWORD)
    if not username or not password:
        yield RecipeProblem(path=path, message="expected a username and a password")
    elif not recipe.calls and password != "${subject}":  # noqa: S105 - a template
        yield RecipeProblem(
            path=(*path, "password"), message="without calls the password is the token: expected '${subject}'"
        )
    elif recipe.calls and "${subject}" in password:
        yield RecipeProblem(
            path=(*path, "password"),
            message="the subject token is a password only in a recipe without calls",
            name="subject",
        )


def _check_lifetime(recipe: Recipe, known: Mapping[str, Provenance]) -> Iterator[RecipeProblem]:
    lifetime = recipe.lifetime
    for number, name in enumerate(lifetime.sources):
        if name != EXPIRY and known.get(name) not in (Provenance.ANSWER, Provenance.FILE):
            message = f"expected {EXPIRY}, or the name of a parameter or of a value of a response"
            yield RecipeProblem(path=("lifetime", "from", number), message=message, name=name)
    for name, nanoseconds in (
        ("margin", lifetime.margin.ns),
        ("max", lifetime.most_ns),
        ("unknown", lifetime.unknown_ns),
    ):
        if nanoseconds < 0:
            yield RecipeProblem(path=("lifetime", name), message="a duration cannot be negative")


def _check_listed(recipe: Recipe) -> Iterator[RecipeProblem]:
    """Yield the names in the list of fields for annotations that no annotation may fill, or that are not there."""
    fields = {_USERNAME, *(name for call in recipe.calls for name in call.fields)}
    for number, name in enumerate(recipe.from_annotations):
        path: Path = ("fromAnnotations", number)
        plain = "".join(filter(str.isalnum, name.casefold()))
        part = next((each for each in _NEVER_ANNOTATED if each in plain), "")
        if part:
            yield RecipeProblem(
                path=path, message=f"no annotation may fill {name!r}: the name contains {part!r}"
            )
        elif name not in fields:
            yield RecipeProblem(
                path=path, message=f"no call has a field {name!r}, and it is not {_USERNAME!r}"
            )


def _check_annotated(recipe: Recipe, known: Mapping[str, Provenance]) -> Iterator[RecipeProblem]:
    """Yield the fields that an annotation fills and the recipe does not list."""
    for path, text in _fillable(recipe):
        for name in _names_in(text) if path[-1] not in recipe.from_annotations else ():
            if known.get(name) is Provenance.ANNOTATION:
                message = (
                    f"the value {name!r} is an annotation, and fromAnnotations does not have {path[-1]!r}"
                )
                yield RecipeProblem(path=path, message=message, name=name)


def _fillable(recipe: Recipe) -> Iterator[tuple[Path, str]]:
    """Yield the texts that an annotation may fill where the recipe says so."""
    for number, call in enumerate(recipe.calls):
        for name, text in call.fields.items() if call.encode is not FieldEncoding.QUERY else ():
            if not _is_purpose(name):
                yield ("calls", number, "fields", name), text
        yield ("calls", number, "basic", _USERNAME), call.basic.username
    yield ("credentials", _USERNAME), recipe.credentials.username


def _names_in(text: str) -> tuple[str, ...]:
    try:
        return parse_template(text).names
    except TemplateError:
        return ()  # a problem of its own


def _is_purpose(name: str) -> bool:
    return name.strip().casefold() in _PURPOSES
