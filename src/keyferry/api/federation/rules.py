"""Rules: made of flags, completed with their presets, and checked for problems that only their meaning shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.paths import Path
from keyferry._core.values import Value, field, replace
from keyferry.api.federation.presets import PRESETS, load_preset
from keyferry.api.federation.recipes import Provenance, RecipeProblem, find_problems
from keyferry.api.federation.templates import (
    BUILT_IN,
    OF_THE_IMAGE,
    TemplateError,
    build_url,
    is_host_port,
    is_name,
    is_plain,
    parse_template,
)
from keyferry.api.federation.v1alpha1 import (
    API_VERSION,
    KIND,
    FederationConfig,
    FederationPreset,
    FederationRule,
    ParameterSource,
    PresetParameter,
    Recipe,
    SubjectSettings,
    SubjectSource,
)
from keyferry.api.wire import Reader
from keyferry.errors import Kind, ProvideError

__all__ = [
    "CONFIG_FLAG",
    "RULE_FLAGS",
    "CompleteRule",
    "check_config",
    "complete_rule",
    "expand_parameter",
    "has_form",
    "is_cluster_audience",
    "make_document",
    "read_setting",
]

Values = Mapping[str, Sequence[str]]
Found = Iterator[tuple[Path, str]]

_CLUSTER = "kubernetes.default"
_CACHE_KEY_TYPES = ("Registry", "Image")
_NOT_ABSOLUTE = "expected an absolute path"
CONFIG_FLAG = "config"
# The flags that take the place of a config.
RULE_FLAGS = (
    "registry", "preset", "param", "param-annotation", "param-file", "param-env", "audience", "issuer",
    "subject-from", "subject-file", "subject-variable", "cache-key-type", "ca-file",
)  # fmt: skip
_PREFIX = "KEYFERRY_FEDERATE_"


class CompleteRule(Value):
    """A rule that needs no preset: its recipe and all parameters, also those that have a default.

    *forms* has the parameters whose values have a known form.
    """

    registries: tuple[str, ...]
    subject: SubjectSettings
    parameters: Mapping[str, ParameterSource]
    recipe: Recipe
    cache_key_type: str
    ca_file: str
    forms: Mapping[str, PresetParameter] = field(default_factory=dict)


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


def complete_rule(rule: FederationRule) -> CompleteRule:
    """Return *rule* with what its preset adds; of an unknown preset, nothing."""
    return _complete(rule, _preset_of(rule))


def _complete(rule: FederationRule, preset: FederationPreset) -> CompleteRule:
    defaults = {
        name: ParameterSource(text=parameter.default or "") for name, parameter in preset.parameters.items()
    }
    return CompleteRule(
        registries=rule.registries,
        subject=preset.subject or rule.subject,
        parameters={**defaults, **rule.parameters},
        recipe=preset if rule.lifetime is None else replace(preset, lifetime=rule.lifetime),
        cache_key_type=rule.cache_key_type,
        ca_file=rule.ca_file,
        forms={name: known for name, known in preset.parameters.items() if known.pattern},
    )


def _preset_of(rule: FederationRule) -> FederationPreset:
    recipe = rule.recipe
    if recipe is not None:
        return FederationPreset(
            calls=recipe.calls,
            credentials=recipe.credentials,
            lifetime=recipe.lifetime,
            from_annotations=recipe.from_annotations,
        )
    return load_preset(rule.preset) or FederationPreset()


def expand_parameter(text: str, registry: str) -> str:
    """Return the text of a parameter, which may refer to the registry."""
    return text.replace("${registry}", registry)


def has_form(parameter: PresetParameter, value: str) -> bool:
    """Return whether a value has the form of its parameter, if there is a known one."""
    if not parameter.pattern:
        return True
    return re.fullmatch(parameter.pattern, value) is not None


def is_cluster_audience(audience: str, issuer: str) -> bool:
    """Return whether a token for *audience* is one for the API server, where it could be used for anything."""
    host = audience.lower().rpartition("://")[2].partition("/")[0].partition(":")[0].rstrip(".")
    return audience.rstrip("/") == issuer.rstrip("/") or host == _CLUSTER or host.startswith(f"{_CLUSTER}.")


def check_config(config: FederationConfig, reader: Reader) -> None:
    """Report every problem of the rules to *reader*."""
    if not config.rules:
        reader.note(("rules",), "there are no rules", "there are no rules", Kind.OTHER)
    owners: dict[str, int] = {}
    for number, rule in enumerate(config.rules):
        for path, message in _check_rule(rule, number, owners):
            reader.note(("rules", number, *path), message, message, Kind.OTHER)


def _check_rule(rule: FederationRule, number: int, owners: dict[str, int]) -> Found:
    yield from _check_registries(rule, number, owners)
    no_recipe = list(_check_source(rule))
    yield from no_recipe
    preset = _preset_of(rule)
    complete = _complete(rule, preset)
    yield from _check_subject(rule, complete.subject)
    yield from _check_parameters(rule, preset)
    problems = [] if no_recipe else _check_recipe(complete)
    yield from ((_path_of(problem, rule), problem.message) for problem in problems)
    yield from () if problems or no_recipe else _check_urls(rule, complete)
    yield from _check_caching(rule, complete)


def _is_text(source: ParameterSource) -> bool:
    return not (source.annotation or source.file or source.variable)


def _check_recipe(complete: CompleteRule) -> list[RecipeProblem]:
    def classify(source: ParameterSource) -> Provenance:
        if _is_text(source):
            return Provenance.FILE
        return Provenance.ANNOTATION if source.annotation else Provenance.SECRET

    classes = {name: classify(source) for name, source in complete.parameters.items()}
    return list(find_problems(complete.recipe, classes))


def _check_registries(rule: FederationRule, number: int, owners: dict[str, int]) -> Found:
    if not rule.registries:
        yield ("registries",), "there are no registries"
    for index, registry in enumerate(rule.registries):
        path: Path = ("registries", index)
        if registry.startswith("[") or registry.count(":") > 1:
            yield (
                path,
                "an IPv6 address is not supported: expected a host name, such as registry.example.com:5000",
            )
        elif not is_host_port(registry):
            yield (
                path,
                "expected a host in lower case, with its port if it has one, such as registry.example.com:5000",
            )
        elif owners.setdefault(registry, number) != number:
            yield path, f"the registry has a rule already: rules[{owners[registry]}]"


def _check_source(rule: FederationRule) -> Found:
    if bool(rule.preset) == (rule.recipe is not None):
        yield (), "expected either preset, or calls and credentials"
    elif rule.preset and rule.preset not in PRESETS:
        yield ("preset",), f"there is no preset {rule.preset[:40]!r}, expected one of {', '.join(PRESETS)}"


def _check_subject(rule: FederationRule, subject: SubjectSettings) -> Found:
    if subject is not rule.subject and not _agrees(rule.subject, subject):
        yield (
            ("subject",),
            f"the preset takes only tokens from {subject.source} of {subject.issuer} for {subject.audience}",
        )
        return
    for name, text in (("audience", subject.audience), ("issuer", subject.issuer)):
        if not text or not is_plain(text):
            yield ("subject", name), f"expected the {name} that the token must have"
    if subject.audience and is_cluster_audience(subject.audience, subject.issuer):
        yield (
            ("subject", "audience"),
            "a token for this audience is one for the API server; choose an audience of the registry's own",
        )
    for name, text, source in (
        ("file", subject.file, SubjectSource.FILE),
        ("variable", subject.variable, SubjectSource.ENV),
    ):
        if bool(text) != (subject.source is source):
            yield ("subject", name), f"is needed with 'from: {source}', and only there"
    if subject.file and not _is_absolute(subject.file):
        yield ("subject", "file"), _NOT_ABSOLUTE


def _agrees(given: SubjectSettings, fixed: SubjectSettings) -> bool:
    """Return whether the settings of a rule that are set are equal to those of its preset."""
    texts = (given.audience, fixed.audience), (given.issuer, fixed.issuer)
    return (
        all(one in ("", other) for one, other in texts)
        and given.source in (SubjectSource.KUBELET, fixed.source)
        and not given.file
        and not given.variable
    )


def _check_parameters(rule: FederationRule, preset: FederationPreset) -> Found:
    for name, source in rule.parameters.items():
        path: Path = ("params", name)
        if rule.preset in PRESETS and name not in preset.parameters:
            yield path, f"the preset has no such parameter, expected one of {', '.join(preset.parameters)}"
        elif rule.preset in PRESETS and preset.parameters[name].is_secret and source.text:
            yield path, "a secret is read from a file or a variable: expected an object with file or env"
        if not is_name(name) or name in BUILT_IN:
            yield path, "the name is invalid, or has another meaning already"
        yield from ((path, message) for message in _source_problems(source))
        known = preset.parameters.get(name)
        if known is not None and source.text and not has_form(known, source.text):
            yield path, f"expected {known.expected}"
    for name, parameter in preset.parameters.items():
        if parameter.default is None and name not in rule.parameters:
            yield ("params",), f"the preset needs {name!r}: {parameter.about}"
    if preset.one_of and not any(name in rule.parameters for name in preset.one_of):
        yield ("params",), f"the preset needs one of {', '.join(preset.one_of)}"


def _source_problems(source: ParameterSource) -> Iterator[str]:
    if sum(map(bool, (source.text, source.annotation, source.file, source.variable))) != 1:
        yield "expected a text, or an object with one of annotation, file and env"
    if bool(source.annotation) != bool(source.pattern):
        yield "an annotation needs a pattern that its whole value matches, and nothing else has one"
    try:
        names = parse_template(source.text).names
    except TemplateError as error:
        yield str(error)
        names = ()
    if not is_plain(source.text) or set(names) - {"registry"}:
        yield "the text has a control character, or a value other than '${registry}'"
    if source.file and not _is_absolute(source.file):
        yield _NOT_ABSOLUTE
    if source.pattern and not _is_pattern(source.pattern):
        yield "the pattern is not a regular expression"


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _path_of(problem: RecipeProblem, rule: FederationRule) -> Path:
    """Return where a problem of the recipe is in the rule: that of a preset lies in the parameter that was given."""
    if rule.recipe is not None or problem.path[0] == "lifetime":
        return problem.path
    return ("params", problem.name) if problem.name in rule.parameters else ("preset",)


def _check_urls(rule: FederationRule, complete: CompleteRule) -> Found:
    """Build every URL, which is possible because its values are in the file."""
    texts = {name: source.text for name, source in complete.parameters.items()}
    for registry in rule.registries:
        values = {
            "registry": registry,
            **{name: expand_parameter(text, registry) for name, text in texts.items()},
        }
        for number, call in enumerate(complete.recipe.calls):
            try:
                build_url(call.url, values)
            except TemplateError as error:
                at = ("calls", number, "url") if rule.recipe else _source_of(call.url, rule)
                yield at, f"the URL of a call cannot be made: {error}"
                return


def _source_of(url: str, rule: FederationRule) -> Path:
    """Return the path of the parameter that a preset's URL has a problem with: the only given one in it, or all."""
    given = [name for name in parse_template(url).names if name in rule.parameters]
    return ("params", given[0]) if len(given) == 1 else ("params",)


def _check_caching(rule: FederationRule, complete: CompleteRule) -> Found:
    if rule.cache_key_type not in _CACHE_KEY_TYPES:
        yield ("cacheKeyType",), f"expected one of {', '.join(_CACHE_KEY_TYPES)}"
    texts = [text for call in complete.recipe.calls for text in call.fields.values()]
    uses = {name for name in OF_THE_IMAGE if any(f"${{{name}}}" in text for text in texts)}
    if uses and rule.cache_key_type != "Image":
        yield (
            ("cacheKeyType",),
            f"the calls use {', '.join(sorted(uses))}, so the login is for one image: expected Image",
        )
    if rule.ca_file and not _is_absolute(rule.ca_file):
        yield ("caFile",), _NOT_ABSOLUTE


def _is_absolute(path: str) -> bool:
    """Return whether a path does not depend on the current folder, which is the kubelet's to choose."""
    return path.startswith("/") or path[1:3] == ":\\"
