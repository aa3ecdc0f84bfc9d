"""What only a FederationConfig and the provider config together show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keyferry._core.paths import Path
from keyferry.api.federation.rules import CompleteRule, complete_rule
from keyferry.api.federation.v1alpha1 import SubjectSource
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.api.meta import format_duration
from keyferry.errors import MatchError
from keyferry.images.match import Pattern, matches, parse_pattern
from keyferry.lint.federation.arguments import find_federation, is_federate
from keyferry.lint.federation.decode import FederationFile

__all__ = ["check_federations"]

Suspicion = tuple[Path, str, str]  # path, code, message

_CACHE_TYPE, _AUDIENCE, _NO_TOKEN, _WIDER, _UNCOVERED, _ANNOTATION, _DURATION, _NO_ACCOUNT = (
    "KF670",
    "KF671",
    "KF672",
    "KF673",
    "KF674",
    "KF675",
    "KF676",
    "KF677",
)
_ATTRIBUTES = "tokenAttributes"


def check_federations(
    providers: Sequence[CredentialProvider], beside: Sequence[FederationFile]
) -> Iterator[tuple[int, Suspicion]]:
    """Yield the suspicions about the providers that run ``keyferry-federate``, each with the provider's number."""
    chosen = [
        (number, provider, find_federation(provider, beside))
        for number, provider in enumerate(providers)
        if is_federate(provider, beside)
    ]
    for number, provider, found in chosen:
        if found.config is None:
            yield number, (found.at, found.code, found.message)
            continue
        rules = [complete_rule(rule) for rule in found.config.rules]
        # Several providers may share a file, each for an audience of its own.
        sharing = [other for _, other, each in chosen if found.source and each.source == found.source]
        for suspicion in _check(provider, rules, sharing or [provider]):
            yield number, suspicion


def _check(
    provider: CredentialProvider, rules: list[CompleteRule], sharing: list[CredentialProvider]
) -> Iterator[Suspicion]:
    covered = [rule for rule in rules if any(_covers(provider, registry) for registry in rule.registries)]
    yield from _check_patterns(provider, rules)
    yield from _check_uncovered(provider, rules, sharing)
    yield from _check_token(provider, covered or rules)
    duration = provider.default_cache_duration_ns
    if duration:
        message = (
            f"{format_duration(duration)!r} has no effect: the plugin always sets the duration; set '0s'"
        )
        yield ("defaultCacheDuration",), _DURATION, message


def _covers(provider: CredentialProvider, registry: str) -> bool:
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


def _check_patterns(provider: CredentialProvider, rules: list[CompleteRule]) -> Iterator[Suspicion]:
    registries = [registry for rule in rules for registry in rule.registries]
    for index, text in enumerate(provider.match_images or ()):
        host = text.partition("/")[0]
        if _parse(text) is not None and host not in registries:
            shown = ", ".join(map(repr, registries[:5])) + (", ..." if len(registries) > 5 else "")
            message = f"{text!r} covers registries without a rule, whose images the plugin refuses"
            yield ("matchImages", index), _WIDER, f"{message}; the rules have {shown}"


def _check_uncovered(
    provider: CredentialProvider, rules: list[CompleteRule], sharing: list[CredentialProvider]
) -> Iterator[Suspicion]:
    if sharing[0] is not provider:
        return  # said once, of the first
    for registry in [each for rule in rules for each in rule.registries]:
        if not any(_covers(other, registry) for other in sharing):
            message = f"no pattern covers {registry!r}, which a rule is for; add {registry!r}"
            yield ("matchImages",), _UNCOVERED, message


def _check_token(provider: CredentialProvider, rules: list[CompleteRule]) -> Iterator[Suspicion]:
    """Check the token that the kubelet passes against the rules that take it."""
    taking = [rule for rule in rules if rule.subject.source is SubjectSource.KUBELET]
    attributes = provider.token_attributes
    if not taking:
        return
    if attributes is None:
        message = (
            "the kubelet passes no token, which the rules need; add tokenAttributes with serviceAccountTokenAudience "
            f"{taking[0].subject.audience!r}"
        )
        yield (), _NO_TOKEN, message
        return
    yield from _check_attributes(attributes, taking)
    passed = {
        *(attributes.required_service_account_annotation_keys or ()),
        *(attributes.optional_service_account_annotation_keys or ()),
    }
    used = [source.annotation for rule in taking for source in rule.parameters.values() if source.annotation]
    for key in dict.fromkeys(used):
        if key not in passed:
            message = f"a rule uses the annotation {key!r}, which the kubelet does not pass; add it here"
            yield (_ATTRIBUTES, "requiredServiceAccountAnnotationKeys"), _ANNOTATION, message


def _check_attributes(
    attributes: ServiceAccountTokenAttributes, taking: list[CompleteRule]
) -> Iterator[Suspicion]:
    audience = attributes.service_account_token_audience
    for expected in dict.fromkeys(rule.subject.audience for rule in taking):
        if audience and expected != audience:
            message = f"the kubelet requests {audience!r}, and the rule expects {expected!r}"
            yield (_ATTRIBUTES, "serviceAccountTokenAudience"), _AUDIENCE, message
    passing = next((rule for rule in taking if not rule.recipe.calls), None)
    if passing is not None and attributes.cache_type == "ServiceAccount":
        message = f"the rule for {passing.registries[0]!r} passes the token on as the password"
        refused = "which the kubelet refuses with ServiceAccount; set Token"
        yield (_ATTRIBUTES, "cacheType"), _CACHE_TYPE, f"{message}, {refused}"
    if attributes.require_service_account is False:
        message = "pods without a service account run the plugin without a token, and it fails; set true"
        yield (_ATTRIBUTES, "requireServiceAccount"), _NO_ACCOUNT, message
