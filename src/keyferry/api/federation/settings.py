"""A config with one rule, made of the flags and variables of ``keyferry-federate``."""

from __future__ import annotations

from keyferry.api.federation.v1alpha1 import API_VERSION, KIND
from keyferry.errors import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Values = Mapping[str, Sequence[str]]

__all__ = ["CONFIG_FLAG", "RULE_FLAGS", "make_document", "read_setting"]

CONFIG_FLAG = "config"
# The flags that take the place of a config.
RULE_FLAGS = (
    "registry", "preset", "param", "param-annotation", "param-file", "param-env", "audience", "issuer",
    "subject-from", "subject-file", "subject-variable", "cache-key-type", "ca-file",
)  # fmt: skip
_PREFIX = "KEYFERRY_FEDERATE_"


def read_setting(flags: Values, environ: Mapping[str, str], name: str) -> str:
    """Return the last value of a flag, or else of its variable."""
    given = flags.get(name)
    return given[-1] if given else environ.get(_PREFIX + name.replace("-", "_").upper(), "")


def make_document(flags: Values, environ: Mapping[str, str]) -> dict[str, object]:
    """Return the document of a config with one rule, made of the flags and variables."""
    registries = list(flags.get("registry", ())) or read_setting(flags, environ, "registry").split(",")
    subject = {
        "from": read_setting(flags, environ, "subject-from"),
        "audience": read_setting(flags, environ, "audience"),
        "issuer": read_setting(flags, environ, "issuer"),
        "file": read_setting(flags, environ, "subject-file"),
        "variable": read_setting(flags, environ, "subject-variable"),
    }
    rule = {
        "registries": [registry for registry in registries if registry],
        "preset": read_setting(flags, environ, "preset"),
        "params": _parameters(flags, environ),
        "subject": {name: text for name, text in subject.items() if text},
        "cacheKeyType": read_setting(flags, environ, "cache-key-type"),
        "caFile": read_setting(flags, environ, "ca-file"),
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "rules": [rule]}


def _parameters(flags: Values, environ: Mapping[str, str]) -> dict[str, object]:
    start = f"{_PREFIX}PARAM_"
    found: dict[str, object] = {
        name.removeprefix(start).lower(): value
        for name, value in environ.items()
        if name.startswith(start) and value
    }
    for word in flags.get("param", ()):
        name, value = _pair(word, "param")
        found[name] = value
    for flag, member in (("param-file", "file"), ("param-env", "env")):
        for word in flags.get(flag, ()):
            name, value = _pair(word, flag)
            found[name] = {member: value}
    for word in flags.get("param-annotation", ()):
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
