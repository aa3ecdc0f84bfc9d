"""The types of a FederationConfig, in version v1alpha1 of keyferry's own group."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "API_VERSION",
    "KIND",
    "BasicEncoding",
    "CacheLifetime",
    "CredentialTemplates",
    "ExchangeCall",
    "FederationConfig",
    "FederationPreset",
    "FederationRule",
    "FieldEncoding",
    "ParameterSource",
    "PresetParameter",
    "Recipe",
    "SubjectSettings",
    "SubjectSource",
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


class SubjectSettings(Value):
    """The token that is exchanged: its source, and the audience and issuer that it must have.

    *file* is for a source of that kind, and *variable* names an environment variable.
    """

    source: SubjectSource = SubjectSource.KUBELET
    audience: str = ""
    issuer: str = ""
    file: str = ""
    variable: str = ""


class ParameterSource(Value):
    """The value of a parameter: a text, an annotation of the service account, a file or a variable.

    The value of an *annotation* must match *pattern* as a whole.
    """

    text: str = ""
    annotation: str = ""
    pattern: str = ""
    file: str = ""
    variable: str = ""


class ExchangeCall(Value):
    """One HTTPS request of a recipe, and the values to take from its response.

    *url*, the values of *fields* and *headers*, *bearer* and the two parts of Basic authentication are templates.
    *out* has JSON pointers by name; of several, the first that leads to a value counts.
    """

    method: str = "POST"
    url: str = ""
    encode: FieldEncoding = FieldEncoding.FORM
    fields: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    bearer: str = ""
    basic_username: str = ""
    basic_password: str = ""
    basic_encode: BasicEncoding = BasicEncoding.PLAIN
    out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class CredentialTemplates(Value):
    """The templates of the login."""

    username: str = ""
    password: str = ""


class CacheLifetime(Value):
    """How long the kubelet may keep the login: the first known lifetime less a margin, at most *most_ns*.

    *sources* are names of values in seconds, or ``exp``: the expiry in the password, if that is a JSON web token.
    *unknown_ns* applies if no source has a lifetime. The margin is a percentage or a duration.
    """

    sources: tuple[str, ...] = ("exp",)
    margin_percent: int | None = 10
    margin_ns: int = 0
    most_ns: int = 12 * _HOUR
    unknown_ns: int = 0


class Recipe(Value):
    """From a subject token to a login, in none to three calls; without calls the token is the password.

    *from_annotations* are the names of the fields that an annotation may fill, and ``username`` for user names.
    """

    calls: tuple[ExchangeCall, ...] = ()
    credentials: CredentialTemplates = CredentialTemplates()
    lifetime: CacheLifetime = CacheLifetime()
    from_annotations: tuple[str, ...] = ()


class PresetParameter(Value):
    """A parameter of a preset: its meaning, and its default; None if it is required, empty if it is optional.

    The value of one that *is_secret* is in a file or variable, never in the config or an argument. A value matches
    *pattern* as a whole, if there is one; *expected* says in words what that is.
    """

    about: str = ""
    default: str | None = None
    is_secret: bool = False
    pattern: str = ""
    expected: str = ""


class FederationPreset(Value):
    """A recipe with parameters; *subject* has the settings that are fixed, and of *one_of* one must be set."""

    about: str = ""
    parameters: Mapping[str, PresetParameter] = field(default_factory=dict)
    one_of: tuple[str, ...] = ()
    subject: SubjectSettings | None = None
    recipe: Recipe = Recipe()


class FederationRule(Value):
    """How to log in to some registries; either *preset* is set or *recipe*.

    *lifetime* replaces that of the preset. *cache_key_type* is the kubelet's. *ca_file* is a bundle of authorities to
    trust in place of the system's.
    """

    registries: tuple[str, ...] = ()
    subject: SubjectSettings = SubjectSettings()
    preset: str = ""
    parameters: Mapping[str, ParameterSource] = field(default_factory=dict)
    recipe: Recipe | None = None
    lifetime: CacheLifetime | None = None
    cache_key_type: str = "Registry"
    ca_file: str = ""


class FederationConfig(Value):
    """The rules, of which each registry has at most one."""

    rules: tuple[FederationRule, ...] = ()
