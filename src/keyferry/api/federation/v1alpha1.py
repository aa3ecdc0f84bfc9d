"""``keyferry.dev/v1alpha1``: FederationConfig, which says how a token becomes a login at a registry, and presets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from keyferry._core.paths import Path
from keyferry._core.values import Value
from keyferry.api.meta import format_duration
from keyferry.api.wire import (
    Reader,
    Shape,
    WireValue,
    boolean,
    duration,
    list_of,
    map_of,
    object_of,
    one_of,
    text,
    wire,
)
from keyferry.errors import Kind

__all__ = [
    "API_VERSION",
    "KIND",
    "BasicEncoding",
    "BasicLogin",
    "CacheLifetime",
    "CredentialTemplates",
    "ExchangeCall",
    "FederationConfig",
    "FederationPreset",
    "FederationRule",
    "FieldEncoding",
    "Margin",
    "ParameterSource",
    "PresetParameter",
    "Recipe",
    "SubjectSettings",
    "SubjectSource",
    "read_config",
]

GROUP = "keyferry.dev"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "FederationConfig"
_HOUR = 3_600_000_000_000


class SubjectSource(StrEnum):
    """Where the subject token comes from."""

    KUBELET = "kubelet"
    FILE = "file"
    ENV = "env"
    GITHUB = "github"


class FieldEncoding(StrEnum):
    """How the fields of a call are sent."""

    FORM = "form"
    JSON = "json"
    QUERY = "query"


class BasicEncoding(StrEnum):
    """How user name and password are encoded before they become Basic authentication.

    HTTP takes both as they are. OAuth has a client's ID and secret encoded as in a form (RFC 6749, section 2.3.1).
    """

    PLAIN = "plain"
    FORM = "form"


# A text for which the empty one is not set.
_filled = Shape("text", lambda reader, value, path: text.read(reader, value, path) or None, text.write, str)
_texts = map_of(text)


class SubjectSettings(WireValue):
    """The token that is exchanged: its source, and the audience and issuer that it must have.

    *file* is for a source of that kind, and *variable* names an environment variable.
    """

    source: SubjectSource = wire("from", one_of(SubjectSource), default=SubjectSource.KUBELET)
    audience: str = wire("audience", text, default="")
    issuer: str = wire("issuer", text, default="")
    file: str = wire("file", text, default="")
    variable: str = wire("variable", text, default="")


class ParameterSource(WireValue):
    """The value of a parameter: a text, an annotation of the service account, a file or a variable.

    The value of an *annotation* must match *pattern* as a whole.
    """

    annotation: str = wire("annotation", text, default="")
    pattern: str = wire("pattern", text, default="")
    file: str = wire("file", text, default="")
    variable: str = wire("env", text, default="")
    text: str = ""


def _read_source(reader: Reader, value: object, path: Path) -> ParameterSource:
    if isinstance(value, dict):
        return _source_object.read_item(reader, value, path)
    return ParameterSource(text=text.read_item(reader, value, path))


_source_object = object_of(ParameterSource)
_source = Shape(
    "object or text",
    _read_source,
    lambda source, _: source.text or source.to_document(),
    ParameterSource,
    ParameterSource,
)


class BasicLogin(WireValue):
    """The templates of Basic authentication."""

    username: str = wire("username", text, default="")
    password: str = wire("password", text, default="")
    encode: BasicEncoding = wire("encode", one_of(BasicEncoding), default=BasicEncoding.PLAIN)


def _read_pointers(reader: Reader, value: object, path: Path) -> tuple[str, ...]:
    if isinstance(value, list):
        return list_of(text).read_item(reader, value, path)
    return (text.read_item(reader, value, path),)


_pointers = Shape("text or list", _read_pointers, list_of(text).write, tuple, text)


class ExchangeCall(WireValue):
    """One HTTPS request of a recipe, and the values to take from its response.

    *url*, the values of *fields* and *headers*, *bearer* and the two parts of Basic authentication are templates.
    *out* has JSON pointers by name; of several, the first that leads to a value counts.
    """

    method: str = wire("method", _filled, default="POST")
    url: str = wire("url", text, default="")
    encode: FieldEncoding = wire("encode", one_of(FieldEncoding), default=FieldEncoding.FORM)
    fields: Mapping[str, str] = wire("fields", _texts, default_factory=dict)
    headers: Mapping[str, str] = wire("headers", _texts, default_factory=dict)
    bearer: str = wire("bearer", text, default="")
    basic: BasicLogin = wire("basic", object_of(BasicLogin), default=BasicLogin())
    out: Mapping[str, tuple[str, ...]] = wire("out", map_of(_pointers), default_factory=dict)


class CredentialTemplates(WireValue):
    """The templates of the login."""

    username: str = wire("username", text, default="")
    password: str = wire("password", text, default="")


class Margin(Value):
    """The part of a lifetime in which a login is no longer used: a percentage, or a duration."""

    percent: int | None = None
    ns: int = 0


def _read_margin(reader: Reader, value: object, path: Path) -> Margin:
    found = value if isinstance(value, str) else ""
    digits = found.removesuffix("%")
    if digits == found:
        return Margin(ns=duration.read_item(reader, value, path))
    if digits.isascii() and digits.isdigit() and len(digits) <= 2:
        return Margin(percent=int(digits))
    message = f"expected {_margin.title}"
    reader.note(path, message, message, Kind.OTHER)
    return Margin()


_margin = Shape(
    "a percentage from 0% to 99%, or a duration such as 5m",
    _read_margin,
    lambda margin, _: format_duration(margin.ns) if margin.percent is None else f"{margin.percent}%",
    Margin,
)


class CacheLifetime(WireValue):
    """How long the kubelet may keep the login: the first known lifetime less a margin, at most *most_ns*.

    *sources* are names of values in seconds, or ``exp``: the expiry in the password, if that is a JSON web token.
    *unknown_ns* applies if no source has a lifetime.
    """

    sources: tuple[str, ...] = wire("from", list_of(text), default=("exp",))
    margin: Margin = wire("margin", _margin, default=Margin(percent=10))
    most_ns: int = wire("max", duration, default=12 * _HOUR)
    unknown_ns: int = wire("unknown", duration, default=0)


class Recipe(WireValue):
    """From a subject token to a login, in none to three calls; without calls the token is the password.

    *from_annotations* are the names of the fields that an annotation may fill, and ``username`` for user names.
    """

    calls: tuple[ExchangeCall, ...] = wire("calls", list_of(object_of(ExchangeCall)), default=())
    credentials: CredentialTemplates = wire(
        "credentials", object_of(CredentialTemplates), default=CredentialTemplates()
    )
    lifetime: CacheLifetime = wire("lifetime", object_of(CacheLifetime), default=CacheLifetime())
    from_annotations: tuple[str, ...] = wire("fromAnnotations", list_of(text), default=())


class PresetParameter(WireValue):
    """A parameter of a preset: its meaning, and its default; None if it is required, empty if it is optional.

    The value of one that *is_secret* is in a file or variable, never in the config or an argument. A value matches
    *pattern* as a whole, if there is one; *expected* says in words what that is.
    """

    about: str = wire("about", text, default="")
    default: str | None = wire("default", text, default=None)
    is_secret: bool = wire("secret", boolean, default=False)
    pattern: str = wire("pattern", text, default="")
    expected: str = wire("expected", text, default="")


class FederationPreset(Recipe):
    """A recipe with parameters; *subject* has the settings that are fixed, and of *one_of* one must be set."""

    about: str = wire("about", text, default="")
    parameters: Mapping[str, PresetParameter] = wire(
        "params", map_of(object_of(PresetParameter)), default_factory=dict
    )
    one_of: tuple[str, ...] = wire("oneOf", list_of(text), default=())
    subject: SubjectSettings | None = wire("subject", object_of(SubjectSettings), default=None)


class FederationRule(WireValue):
    """How to log in to some registries; either *preset* is set or *recipe*.

    *lifetime* replaces that of the preset. *cache_key_type* is the kubelet's. *ca_file* is a bundle of authorities to
    trust in place of the system's.
    """

    registries: tuple[str, ...] = wire("registries", list_of(text), default=())
    subject: SubjectSettings = wire("subject", object_of(SubjectSettings), default=SubjectSettings())
    preset: str = wire("preset", text, default="")
    parameters: Mapping[str, ParameterSource] = wire("params", map_of(_source), default_factory=dict)
    cache_key_type: str = wire("cacheKeyType", _filled, default="Registry")
    ca_file: str = wire("caFile", text, default="")
    calls: tuple[ExchangeCall, ...] | None = wire("calls", list_of(object_of(ExchangeCall)), default=None)
    credentials: CredentialTemplates | None = wire(
        "credentials", object_of(CredentialTemplates), default=None
    )
    lifetime: CacheLifetime | None = wire("lifetime", object_of(CacheLifetime), default=None)
    from_annotations: tuple[str, ...] | None = wire("fromAnnotations", list_of(text), default=None)

    @property
    def recipe(self) -> Recipe | None:
        """The recipe that the rule has in place of a preset."""
        if self.calls is None and self.credentials is None and self.from_annotations is None:
            return None
        return Recipe(
            calls=self.calls or (),
            credentials=self.credentials or CredentialTemplates(),
            lifetime=self.lifetime or CacheLifetime(),
            from_annotations=self.from_annotations or (),
        )


class FederationConfig(WireValue):
    """The rules, of which each registry has at most one."""

    rules: tuple[FederationRule, ...] = wire("rules", list_of(object_of(FederationRule)), default=())


def read_config(document: object, reader: Reader) -> FederationConfig:
    """Return the config in *document*; *reader* collects the problems of its form."""
    config = FederationConfig.from_document(document, reader)
    fields = document if isinstance(document, dict) else {}
    for name, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if fields.get(name) != expected:
            message = f"expected {expected!r}"
            reader.note((name,), message, message, Kind.OTHER)
    return config
