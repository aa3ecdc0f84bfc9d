"""The flags and variables of keyferry-federate, and the config that they stand for."""

from keyferry.sdk import IMAGE, REGISTRY, ProvideError
from keyferry.sdk.federation import API_VERSION, KIND
from keyferry.sdk.flags import LOG_FLAGS, Flag

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.flags import Flags

__all__ = ["FLAGS", "PREFIX", "make_document", "read_text", "read_timeout", "refuse_both"]

PREFIX = "KEYFERRY_FEDERATE_"
FLAGS = (
    Flag("config", "a FederationConfig as JSON; the flags from --registry to --ca-file take its place"),
    Flag("registry", "a registry that the login is for, as in image names", is_repeated=True),
    Flag("preset", "the preset to use; --show-preset prints one"),
    Flag("param", "NAME=VALUE, a parameter of the preset", is_repeated=True),
    Flag("param-annotation", "NAME=KEY=PATTERN, a parameter from an annotation", is_repeated=True),
    Flag("param-file", "NAME=PATH, a parameter whose value is in a file", is_repeated=True),
    Flag("param-env", "NAME=VARIABLE, a parameter whose value is in a variable", is_repeated=True),
    Flag("audience", "the audience that the token must have"),
    Flag("issuer", "the issuer that the token must have"),
    Flag("subject-from", "where the token is: kubelet, file, env or github"),
    Flag("subject-file", "the file that the token is in"),
    Flag("subject-variable", "the variable that the token is in"),
    Flag("cache-key-type", "the images that a login applies to", choices=(REGISTRY, IMAGE)),
    Flag("ca-file", "a bundle of authorities to trust in place of the system's"),
    Flag("timeout", "the time for all calls together, at most 50s", default="45s"),
    Flag("verbose", "tell each step on standard error, without secrets", is_switch=True),
    Flag("show-preset", "print a preset, which can be the start of a recipe, and exit"),
    *LOG_FLAGS,
)
_RULE_FLAGS = tuple(flag.name for flag in FLAGS[1:14])
_NANOSECONDS = 1_000_000_000
# The kubelet kills a plugin after 60 seconds and discards its error message.
_MOST_SECONDS = 50.0


def read_text(flags: "Flags", environ: "Mapping[str, str]", name: str) -> str:
    """Return the value of a flag, or else of its variable."""
    return flags.text(name) or environ.get(PREFIX + name.replace("-", "_").upper(), "")


def read_timeout(flags: "Flags") -> float:
    """Return the seconds for all calls together."""
    from keyferry.sdk.times import DurationError, parse_duration

    text = flags.text("timeout")
    try:
        seconds = parse_duration(text) / _NANOSECONDS
    except DurationError:
        seconds = 0.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise ProvideError(f"--timeout: found {text[:40]!r}, expected a duration up to {_MOST_SECONDS:g}s")
    return seconds


def make_document(flags: "Flags", environ: "Mapping[str, str]") -> dict[str, object]:
    """Return the document of a config with one rule, made of the flags and variables."""
    registries = list(flags.texts("registry")) or read_text(flags, environ, "registry").split(",")
    subject = {
        "from": read_text(flags, environ, "subject-from"),
        "audience": read_text(flags, environ, "audience"),
        "issuer": read_text(flags, environ, "issuer"),
        "file": read_text(flags, environ, "subject-file"),
        "variable": read_text(flags, environ, "subject-variable"),
    }
    rule = {
        "registries": [registry for registry in registries if registry],
        "preset": read_text(flags, environ, "preset"),
        "params": _parameters(flags, environ),
        "subject": {name: text for name, text in subject.items() if text},
        "cacheKeyType": read_text(flags, environ, "cache-key-type"),
        "caFile": read_text(flags, environ, "ca-file"),
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "rules": [rule]}


def refuse_both(flags: "Flags") -> None:
    """Raise ProvideError if there are a config and flags that would take its place."""
    given = [f"--{name}" for name in _RULE_FLAGS if name in flags.given]
    if given:
        raise ProvideError(
            f"--config cannot be used with {', '.join(given)}", "write these settings into the config"
        )


def _parameters(flags: "Flags", environ: "Mapping[str, str]") -> dict[str, object]:
    start = f"{PREFIX}PARAM_"
    found: dict[str, object] = {
        name.removeprefix(start).lower(): value
        for name, value in environ.items()
        if name.startswith(start) and value
    }
    for word in flags.texts("param"):
        name, value = _pair(word, "param")
        found[name] = value
    for flag, member in (("param-file", "file"), ("param-env", "env")):
        for word in flags.texts(flag):
            name, value = _pair(word, flag)
            found[name] = {member: value}
    for word in flags.texts("param-annotation"):
        name, rest = _pair(word, "param-annotation")
        key, pattern = _pair(rest, "param-annotation")
        found[name] = {"annotation": key, "pattern": pattern}
    return found


def _pair(word: str, flag: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name or not value:
        # Not quoted: the value may be a secret.
        raise ProvideError(f"--{flag}: a value has no '=', or nothing before or after it")
    return name, value
