"""The references of AgentConfig and FederationConfig: fields, types, defaults and options are the program's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from keyferry.agent.settings import CONFIG_VARIABLE, DEFAULT_CONFIG, NAMES, flag_of, variable_of
from keyferry.agent.state import FIXED
from keyferry.api.agentconfig.v1alpha1 import DURATIONS, NUMBERS, SWITCHES, AgentConfig
from keyferry.api.federation.rules import RULE_FLAGS, make_document
from keyferry.api.federation.v1alpha1 import (
    API_VERSION,
    KIND,
    CacheLifetime,
    ExchangeCall,
    FederationConfig,
    FederationRule,
)
from keyferry.cli.agent import HELP, KUBELET_FLAGS, default_of, short_duration
from keyferry.lint.kinds.agent_config import RANGES, WORDS, why_wrong
from reference.fields import find_fields
from reference.tables import table

__all__ = ["agent_settings", "federation_config_tables"]

_MEANINGS = tomllib.loads(Path(__file__).with_name("meanings.toml").read_text(encoding="utf-8"))

_SETTINGS = f"""\
## Settings

`AgentConfig` is the agent's config file: `--agent-config`, else `{CONFIG_VARIABLE}`, else `{DEFAULT_CONFIG}` if it \
exists. It is YAML or JSON. The agent refuses an unknown field or a wrong value, and `keyferry lint` shows it with its \
position ([KF5](lint-codes.md)).

Each setting comes from its option, else from its environment variable, else from this file, else from the node \
(`providerConfig` and `binDir` only), else from the default. `keyferry agent config` shows every value and where it \
comes from. Durations are Go's, such as `90s` or `1h30m`; in an option or a variable, a bare number is in seconds.
"""
_EXAMPLE = f"""\
### An example

```yaml
{Path(__file__).with_name("agent-config.yaml").read_text(encoding="utf-8")}```
"""
_RULES = """\
### Rules

`access` and `manage` are lists of rules, in the file only; [the example](#an-example) has both. Without a rule, \
root and the agent's own user may do everything, and nobody else anything but ask for \
[health](#get-v1health-get-v1ready).
"""
_PARTS = {
    "": "The file",
    "rules[]": "A rule",
    "rules[].subject": "Its `subject`",
    "rules[].params.*": "A parameter",
    "rules[].calls[]": "A call",
    "rules[].calls[].basic": "Its `basic`",
    "rules[].credentials": "The `credentials`",
    "rules[].lifetime": "The `lifetime`",
}


def agent_settings() -> str:
    """Return the settings of the agent, and the fields of its rules."""
    values = [(f"`{name}`", HELP[name][1], _allowed(name), _shown_default(name)) for name in NAMES]
    places = [
        (f"`{name}`", _options(name), f"`{variable_of(name)}`", "restart" if name in FIXED else "reload")
        for name in NAMES
    ]
    fields, meanings = find_fields(AgentConfig), _MEANINGS["access"]
    _compare(meanings, [path for path in _rows(fields) if "[]" in path])
    rules = [(f"`{path}`", _type(fields, path), meaning) for path, meaning in meanings.items()]
    parts = (
        _SETTINGS,
        table(("field", "what", "value", "default"), values),
        table(("field", "option", "variable", "counts after a"), places),
        _EXAMPLE,
        _RULES,
        table(("field", "type", "what"), rules),
    )
    return "\n".join(parts)


def _options(name: str) -> str:
    return ", ".join(f"`{each}`" for each in (f"--{flag_of(name)}", *KUBELET_FLAGS.get(name, ())))


def _shown_default(name: str) -> str:
    value = default_of(name)
    return value if " " in value else f"`{value}`"


def _allowed(name: str) -> str:
    """Return the values that a setting may have, in the words of the check."""
    if name in SWITCHES:
        return "`true` or `false`"
    if name in DURATIONS:
        least, most = map(short_duration, RANGES[name])
        return f"a duration, `{least}` to `{most}`"
    if name in NUMBERS:
        least, most = map(str, RANGES[name])
        return f"a number, `{least}` to `{most}`"
    if name in WORDS:
        return " or ".join(f"`{word}`" for word in WORDS[name])
    return why_wrong(name, "?").partition("expected ")[2].replace("'", "`") or "a path"


def federation_config_tables() -> str:
    """Return the fields of FederationConfig."""
    fields = {"kind": f"'{KIND}'", "apiVersion": f"'{API_VERSION}'", **find_fields(FederationConfig)}
    meanings = _MEANINGS["federation"]
    rows = _rows(fields)
    _compare(meanings, rows)
    defaults, options = _federation_defaults(), _federation_options()
    parts = []
    for at, title in _PARTS.items():
        own = [path for path in rows if _parent(path) == at]
        shown = [
            (
                f"`{path.removeprefix(at).lstrip('.')}`",
                _type(fields, path),
                defaults.get(path, ""),
                options.get(path, ""),
                meanings[path],
            )
            for path in own
        ]
        parts += [
            f"### {title}\n",
            _without_empty_columns(("field", "type", "default", "option", "what"), shown),
        ]
    return "\n".join(parts)


def _without_empty_columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    kept = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    return table([heads[at] for at in kept], [[row[at] for at in kept] for row in rows])


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _rows(fields: dict[str, str]) -> list[str]:
    """Return the paths that have a row: not those of items, whose type is part of that of their list or map."""
    return [path for path in fields if not path.endswith(("[]", "*"))]


def _type(fields: dict[str, str], path: str) -> str:
    kind = fields[path]
    if kind == "list":
        return f"list of {_plural(fields[f'{path}[]'])}"
    if kind == "map":
        return f"map of {_plural(fields[f'{path}.*'])}"
    if kind.startswith("one of "):
        return "one of " + ", ".join(f"`{word}`" for word in kind.removeprefix("one of ").split(", "))
    return kind.replace("'", "`")


def _plural(kind: str) -> str:
    """Return the word for several values: ``objects or texts``, ``whole numbers``."""
    first, space, condition = kind.removeprefix("a whole ").partition(" that ")
    words = " or ".join(f"{word}s" for word in first.split(" or "))
    return f"whole {words}" if space and condition else words


def _compare(meanings: dict[str, str], paths: list[str]) -> None:
    """Raise LookupError if a field has no meaning, or a meaning no field."""
    differences = set(meanings) ^ set(paths)
    if differences:
        raise LookupError(f"reference/meanings.toml and the decoder differ in {sorted(differences)}")


def _federation_defaults() -> dict[str, str]:
    """Return the defaults of the types that are decoded."""
    rule, call, lifetime = FederationRule(), ExchangeCall(), CacheLifetime()
    found = {
        "subject.from": rule.subject.source,
        "cacheKeyType": rule.cache_key_type,
        "calls[].method": call.method,
        "calls[].encode": call.encode,
        "calls[].basic.encode": call.basic.encode,
        "lifetime.from": list(lifetime.sources),
        "lifetime.margin": f"{lifetime.margin.percent}%",
        "lifetime.max": short_duration(lifetime.most_ns),
        "lifetime.unknown": short_duration(lifetime.unknown_ns),
    }
    return {f"rules[].{path}": f"`{value}`".replace("'", '"') for path, value in found.items()}


def _federation_options() -> dict[str, str]:
    """Return the option of each field: where the plugin puts the value of an option."""
    found: dict[str, list[str]] = {}
    for flag in RULE_FLAGS:
        words = {"param": "NAME=*", "param-annotation": "NAME=*=*"}.get(flag)
        word = words or ("NAME=*" if flag.startswith("param-") else "*")
        document = make_document({flag: [word]}, {})
        for path in _places(document["rules"], "rules"):
            found.setdefault(path, []).append(f"`--{flag}`")
    return {path: ", ".join(flags) for path, flags in found.items()}


def _places(value: object, path: str) -> Iterator[str]:
    """Yield the paths of the fields in which the mark of an option is."""
    if value == "*":
        yield path.removesuffix("[]").removesuffix(".*")
    elif isinstance(value, list):
        for item in value:
            yield from _places(item, f"{path}[]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _places(item, f"{path}.{'*' if name.lower() == 'name' else name}")
