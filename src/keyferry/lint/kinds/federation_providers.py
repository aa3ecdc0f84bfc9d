"""Lint the providers that run ``keyferry-federate``: what only their entries and the FederationConfig together show."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from keyferry._core.paths import Path
from keyferry._core.severity import Severity
from keyferry._core.values import Value
from keyferry.api.federation.presets import PRESETS
from keyferry.api.federation.rules import (
    CONFIG_FLAG,
    RULE_FLAGS,
    CompleteRule,
    complete_rule,
    make_document,
    read_setting,
)
from keyferry.api.federation.v1alpha1 import FederationConfig, SubjectSource
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.api.meta import format_duration
from keyferry.errors import MatchError, ProvideError
from keyferry.images.match import Pattern, matches, parse_pattern
from keyferry.lint.code import Code, Finding, Rules
from keyferry.lint.kinds.federation import FederationFile, decode_federation, interpret_federation

_PROGRAM = "keyferry-federate"
_MAX_BYTES = 1 << 20
_ATTRIBUTES = "tokenAttributes"


class FederatedProvider(Value):
    """A provider, the rules of its config, and the providers that share the config, this one included."""

    provider: CredentialProvider
    rules: tuple[CompleteRule, ...]
    sharing: tuple[CredentialProvider, ...]

    @property
    def taking(self) -> list[CompleteRule]:
        """The rules for the provider's images, or else all, that take the token which the kubelet passes."""
        own = [
            rule for rule in self.rules if any(_is_run_for(self.provider, each) for each in rule.registries)
        ]
        return [rule for rule in own or self.rules if rule.subject.source is SubjectSource.KUBELET]


federated_rule = Rules[FederatedProvider]()


def check_federations(
    providers: Sequence[CredentialProvider], beside: Sequence[FederationFile]
) -> Iterator[tuple[int, Finding]]:
    """Yield what is suspicious about the providers that run ``keyferry-federate``, each with the provider's number.

    *beside* are the federation configs that were given too.
    """
    chosen = [
        (number, provider, _find_federation(provider, beside))
        for number, provider in enumerate(providers)
        if is_federate(provider, beside)
    ]
    for number, provider, found in chosen:
        if isinstance(found, Finding):
            yield number, found
            continue
        # Several providers may share a file, each for an audience of its own.
        sharing = [
            other
            for _, other, each in chosen
            if found.source and isinstance(each, _Federation) and each.source == found.source
        ]
        subject = FederatedProvider(
            provider=provider,
            rules=tuple(map(complete_rule, found.config.rules)),
            sharing=tuple(sharing or [provider]),
        )
        yield from ((number, finding) for finding in federated_rule.check(subject))


def is_federate(provider: CredentialProvider, beside: Sequence[FederationFile] = ()) -> bool:
    """Return whether a provider runs ``keyferry-federate``: by its name, its arguments, or the file that they name."""
    if provider.name == _PROGRAM or provider.name.startswith(f"{_PROGRAM}-"):
        return True
    flags = _flags(provider.args or ())
    if flags.get("registry") and not PRESETS.keys().isdisjoint(flags.get("preset", ())):
        return True
    path = named_config(provider)
    return bool(path) and any(_stem(each.path) == _stem(path) for each in beside)


def named_config(provider: CredentialProvider) -> str:
    """Return the path of the FederationConfig that a provider's arguments or variables name, or an empty text."""
    return read_setting(_flags(provider.args or ()), _variables(provider), CONFIG_FLAG)


# The config of a provider: a file, or arguments that stand for one.


class _Federation(Value):
    """The config of a provider; *source* is its file, empty for arguments."""

    source: str
    config: FederationConfig


KF678 = Code(
    "KF678",
    Severity.INFO,
    "the FederationConfig of a provider does not exist on this machine",
    why="the plugin fails without it",
    fix="write it with 'keyferry plugin install federate --federation-config FILE', or give it to lint as well",
    on_this_machine=True,
)
KF679 = Code(
    "KF679",
    Severity.WARNING,
    "the FederationConfig of a provider is refused",
    why="the plugin refuses a config with problems, and reads JSON only",
    fix="lint that file; 'keyferry plugin install federate --federation-config FILE' writes JSON",
)
KF680 = Code(
    "KF680",
    Severity.WARNING,
    "the arguments of the plugin are refused",
    why="they stand for a config with one rule, which is decoded as strictly",
    fix="correct the argument, or use --config alone",
)


def _find_federation(provider: CredentialProvider, beside: Sequence[FederationFile]) -> _Federation | Finding:
    """Return the config of a provider, one of *beside* or the file on this machine, or why there is none."""
    flags = _flags(provider.args or ())
    path = named_config(provider)
    if not path:
        return _from_arguments(flags, provider)
    both = [f"--{name}" for name in RULE_FLAGS if name in flags]
    if both:
        message = f"--config cannot be used with {', '.join(both)}; write these settings into the config"
        return KF680.at("args", message=message)
    return _from_file(path, _config_place(provider), beside)


def _from_arguments(flags: dict[str, list[str]], provider: CredentialProvider) -> _Federation | Finding:
    try:
        config, problems = interpret_federation(make_document(flags, _variables(provider)))
    except ProvideError as error:
        return KF680.at("args", message=str(error))
    if problems:
        return KF680.at("args", message=f"the plugin refuses them: {problems[0][1]}")
    return _Federation(source="", config=config)


def _from_file(path: str, at: Path, beside: Sequence[FederationFile]) -> _Federation | Finding:
    given = _choose(path, beside)
    file = given or (_read(path) if os.path.isfile(path) else None)
    if file is None:
        message = f"the FederationConfig {path!r} does not exist on this machine, or cannot be read"
        return KF678.at(*at, message=message)
    if file.refusals:
        # Not quoted: the arguments may name any file, and a message may have a part of it.
        message = f"{file.path!r} is no FederationConfig that the plugin accepts; lint that file"
        return KF679.at(*at, message=message)
    if given is None and not file.is_json:
        message = (
            f"{path!r} is YAML, and the plugin reads JSON; write it with 'keyferry plugin install federate'"
        )
        return KF679.at(*at, message=message)
    return _Federation(source=path, config=file.config)


def _choose(path: str, beside: Sequence[FederationFile]) -> FederationFile | None:
    """Return the given file of that path, else of that name but for its ending, else the only one."""
    same = [each for each in beside if os.path.abspath(each.path) == path]
    named = [each for each in beside if _stem(each.path) == _stem(path)]
    chosen = same or named or (list(beside) if len(beside) == 1 else [])
    return chosen[0] if chosen else None


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _read(path: str) -> FederationFile | None:
    try:
        with open(path, "rb") as stream:
            return decode_federation(path, stream.read(_MAX_BYTES))
    except OSError:
        return None


def _config_place(provider: CredentialProvider) -> Path:
    for index, word in enumerate(provider.args or ()):
        if word.lstrip("-").partition("=")[0] == CONFIG_FLAG:
            return "args", index
    return ("env",)


def _variables(provider: CredentialProvider) -> dict[str, str]:
    return {variable.name: variable.value for variable in provider.env or ()}


def _flags(args: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of the flags that matter here, in both of the forms that the plugin accepts."""
    found: dict[str, list[str]] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not word.startswith("-") or name not in (CONFIG_FLAG, *RULE_FLAGS):
            continue
        if not equals and rest:
            value = rest.pop(0)
        found.setdefault(name, []).append(value)
    return found


# The rules.


def _is_run_for(provider: CredentialProvider, registry: str) -> bool:
    """Return whether a provider is meant to be run for some image of *registry*.

    ``host/*`` matches no image, which is a finding of its own; whoever writes it means the host.
    """
    for text in provider.match_images or ():
        meant = text.removesuffix("/*")
        pattern = _parse(meant)
        if pattern is not None and matches(meant, f"{registry}{pattern.raw_path or '/app'}"):
            return True
    return False


def _parse(text: str) -> Pattern | None:
    try:
        return parse_pattern(text)
    except MatchError:
        return None  # an error of its own


KF673 = Code(
    "KF673",
    Severity.WARNING,
    "matchImages covers registries without a rule",
    why="the plugin refuses their images, and the kubelet logs an error for each pull",
    fix="list the registries of the rules, without wildcards",
)


@federated_rule(KF673)
def wide_patterns(federated: FederatedProvider) -> Iterator[Finding]:
    """Patterns that match more registries than the rules have."""
    registries = [registry for rule in federated.rules for registry in rule.registries]
    for index, text in enumerate(federated.provider.match_images or ()):
        host = text.partition("/")[0]
        if _parse(text) is not None and host not in registries:
            shown = ", ".join(map(repr, registries[:5])) + (", ..." if len(registries) > 5 else "")
            message = f"{text!r} covers registries without a rule, whose images the plugin refuses"
            yield KF673.at("matchImages", index, message=f"{message}; the rules have {shown}")


KF674 = Code(
    "KF674",
    Severity.WARNING,
    "matchImages does not cover a registry of a rule",
    why="the kubelet does not run the plugin for its images, and pulls them without a login",
    fix="add the registry to matchImages",
)


@federated_rule(KF674)
def uncovered_registries(federated: FederatedProvider) -> Iterator[Finding]:
    """Registries for which no provider is run; of providers that share a config, the first has the finding."""
    if federated.sharing[0] is not federated.provider:
        return
    for registry in [each for rule in federated.rules for each in rule.registries]:
        if not any(_is_run_for(other, registry) for other in federated.sharing):
            message = f"no pattern covers {registry!r}, which a rule is for; add {registry!r}"
            yield KF674.at("matchImages", message=message)


KF671 = Code(
    "KF671",
    Severity.WARNING,
    "the kubelet requests another audience than the rule expects",
    why="the plugin compares the audience to the letter, and sends the token nowhere",
    fix="set serviceAccountTokenAudience and the rule's audience to the same text",
)
KF672 = Code(
    "KF672",
    Severity.WARNING,
    "the kubelet passes no token to the plugin",
    why="a rule takes the kubelet's token, which a provider without tokenAttributes does not get",
    fix="add tokenAttributes, with the rule's audience",
)


@federated_rule(KF671, KF672)
def audience(federated: FederatedProvider) -> Iterator[Finding]:
    """A token that the rules do not get, or not for their audience."""
    attributes, taking = federated.provider.token_attributes, federated.taking
    if attributes is None:
        if taking:
            message = (
                "the kubelet passes no token, which the rules need; add tokenAttributes with "
                f"serviceAccountTokenAudience {taking[0].subject.audience!r}"
            )
            yield KF672.at(message=message)
        return
    found = attributes.service_account_token_audience
    for expected in dict.fromkeys(rule.subject.audience for rule in taking):
        if found and expected != found:
            message = f"the kubelet requests {found!r}, and the rule expects {expected!r}"
            yield KF671.at(_ATTRIBUTES, "serviceAccountTokenAudience", message=message)


KF670 = Code(
    "KF670",
    Severity.WARNING,
    "cacheType must be Token for a rule that passes the token on",
    why="with ServiceAccount, the kubelet refuses a response whose password is the token",
    fix="set cacheType: Token",
)
KF675 = Code(
    "KF675",
    Severity.WARNING,
    "the kubelet does not pass an annotation that a rule uses",
    why="the kubelet passes only the annotations that the provider lists, so the plugin fails",
    fix="add the key to requiredServiceAccountAnnotationKeys",
)
KF677 = Code(
    "KF677",
    Severity.WARNING,
    "pods without a service account run the plugin",
    why="the plugin then gets no token, and fails",
    fix="set requireServiceAccount: true",
)


@federated_rule(KF670, KF675, KF677)
def token_attributes(federated: FederatedProvider) -> Iterator[Finding]:
    """Attributes with which the plugin, or the kubelet, refuses the token."""
    attributes, taking = federated.provider.token_attributes, federated.taking
    if attributes is None or not taking:
        return
    passing = next((rule for rule in taking if not rule.recipe.calls), None)
    if passing is not None and attributes.cache_type == "ServiceAccount":
        message = f"the rule for {passing.registries[0]!r} passes the token on as the password"
        refused = "which the kubelet refuses with ServiceAccount; set Token"
        yield KF670.at(_ATTRIBUTES, "cacheType", message=f"{message}, {refused}")
    if attributes.require_service_account is False:
        message = "pods without a service account run the plugin without a token, and it fails; set true"
        yield KF677.at(_ATTRIBUTES, "requireServiceAccount", message=message)
    passed = {
        *(attributes.required_service_account_annotation_keys or ()),
        *(attributes.optional_service_account_annotation_keys or ()),
    }
    used = [source.annotation for rule in taking for source in rule.parameters.values() if source.annotation]
    for key in dict.fromkeys(used):
        if key not in passed:
            message = f"a rule uses the annotation {key!r}, which the kubelet does not pass; add it here"
            yield KF675.at(_ATTRIBUTES, "requiredServiceAccountAnnotationKeys", message=message)


KF676 = Code(
    "KF676",
    Severity.INFO,
    "defaultCacheDuration has no effect",
    why="keyferry-federate always sets the duration, from the login's own lifetime",
    fix="set '0s'",
)


@federated_rule(KF676)
def cache_duration(federated: FederatedProvider) -> Iterator[Finding]:
    """A duration that the plugin replaces."""
    duration = federated.provider.default_cache_duration_ns
    if duration:
        message = (
            f"{format_duration(duration)!r} has no effect: the plugin always sets the duration; set '0s'"
        )
        yield KF676.at("defaultCacheDuration", message=message)
