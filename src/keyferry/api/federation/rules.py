"""A rule with its preset filled in, and the problems of rules that only their meaning shows."""

from __future__ import annotations

from keyferry._core.values import Value, field, replace
from keyferry.api.federation.addresses import build_url, is_host_port, is_plain
from keyferry.api.federation.presets import PRESETS, load_preset
from keyferry.api.federation.templates import BUILT_IN, OF_THE_IMAGE, TemplateError, is_name, parse_template
from keyferry.api.federation.v1alpha1 import FederationPreset, ParameterSource, SubjectSource
from keyferry.errors import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from keyferry._core.paths import Path
    from keyferry.api.codec import Reader
    from keyferry.api.federation.recipes import RecipeProblem
    from keyferry.api.federation.v1alpha1 import (
        FederationConfig,
        FederationRule,
        PresetParameter,
        Recipe,
        SubjectSettings,
    )

    Found = Iterator[tuple[Path, str]]

__all__ = [
    "CompleteRule",
    "check_config",
    "complete_rule",
    "expand_parameter",
    "has_form",
    "is_cluster_audience",
]

_CLUSTER = "kubernetes.default"
_CACHE_KEY_TYPES = ("Registry", "Image")
_NOT_ABSOLUTE = "expected an absolute path"


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


def complete_rule(rule: FederationRule) -> CompleteRule:
    """Return *rule* with what its preset adds; of an unknown preset, nothing."""
    return _complete(rule, _preset_of(rule))


def _complete(rule: FederationRule, preset: FederationPreset) -> CompleteRule:
    defaults = {
        name: ParameterSource(parameter.default or "") for name, parameter in preset.parameters.items()
    }
    recipe = preset.recipe if rule.lifetime is None else replace(preset.recipe, lifetime=rule.lifetime)
    return CompleteRule(
        rule.registries,
        preset.subject or rule.subject,
        {**defaults, **rule.parameters},
        recipe,
        rule.cache_key_type,
        rule.ca_file,
        {name: known for name, known in preset.parameters.items() if known.pattern},
    )


def _preset_of(rule: FederationRule) -> FederationPreset:
    if rule.recipe is not None:
        return FederationPreset(recipe=rule.recipe)
    return load_preset(rule.preset) or FederationPreset()


def expand_parameter(text: str, registry: str) -> str:
    """Return the text of a parameter, which may refer to the registry."""
    return text.replace("${registry}", registry)


def has_form(parameter: PresetParameter, value: str) -> bool:
    """Return whether a value has the form of its parameter, if there is a known one."""
    if not parameter.pattern:
        return True
    import re  # only here: few parameters have a form

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
    problems = [] if no_recipe or _only_fills_in(rule) else _check_recipe(complete)
    yield from ((_path_of(problem, rule), problem.message) for problem in problems)
    yield from () if problems or no_recipe else _check_urls(rule, complete)
    yield from _check_caching(rule, complete)


def _only_fills_in(rule: FederationRule) -> bool:
    """Return whether a rule adds nothing but texts to its preset, which may stand wherever a preset has a parameter."""
    return bool(rule.preset) and rule.lifetime is None and all(map(_is_text, rule.parameters.values()))


def _is_text(source: ParameterSource) -> bool:
    return not (source.annotation or source.file or source.variable)


def _check_recipe(complete: CompleteRule) -> list[RecipeProblem]:
    from keyferry.api.federation.recipes import Provenance, find_problems  # here: most rules do not need it

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
    import re  # only here: most configs have no patterns

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
