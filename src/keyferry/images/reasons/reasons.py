"""The reasons for an answer as values: the facts of every stage, in order, with text.

This module decides nothing. It calls the functions that decided on patterns and
keys again, so that reasons cost time only if they are requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.docker_hub import LOGIN_HOST
from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.secrets import redact
from keyferry._core.user_info import hide_user_info
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.images.answer import (
    Answer,
    LookupOutcome,
    MissingInput,
    Provision,
    ProvisionOutcome,
    missing_documents,
)
from keyferry.images.keyring import Credential, Keyring, SourceKind
from keyferry.images.match import MatchVerdict, explain_match
from keyferry.show.text import duration_text

_SECOND_NS = 1_000_000_000


def reasons_for(answer: Answer) -> tuple[Reason, ...]:
    """Return the reasons for *answer*, in the order of the kubelet's stages."""
    return (
        _image(answer),
        *_providers(answer),
        *(reason for keyring in answer.keyrings for reason in _keys(keyring, answer)),
        *(_credential(at, credential) for at, credential in enumerate(answer.credentials, 1)),
        _decision(answer),
    )


def _image(answer: Answer) -> Reason:
    if answer.image == answer.name:
        return Reason(
            stage=ReasonStage.IMAGE,
            subject=answer.image,
            outcome=ReasonOutcome.AS_IS,
            text="looked up under this name",
        )
    changes = []
    if not answer.image.startswith(answer.name):
        changes.append("the registry is added")
    if ":" in answer.image.rpartition("/")[2]:
        changes.append("tag and digest are dropped")
    text = f"looked up as {answer.name}: {' and '.join(changes) or 'the name is normalised'}"
    return Reason(
        stage=ReasonStage.IMAGE,
        subject=answer.image,
        outcome=ReasonOutcome.NORMALISED,
        text=text,
        facts={"name": answer.name},
    )


def _providers(answer: Answer) -> Iterator[Reason]:
    matching = dict(answer.matching)
    provisions = iter(answer.provisions)
    for index, provider in enumerate(answer.providers):
        if index not in matching:
            yield _no_match(provider, answer.name)
            continue
        yield _match(provider, matching[index], answer.name)
        yield _provision(next(provisions), answer.answered_ns)


def _match(provider: CredentialProvider, pattern: str, name: str) -> Reason:
    shown = hide_user_info(pattern)
    facts: dict[str, object] = {"pattern": shown, "rule": "matched"}
    if provider.token_attributes is not None:
        facts["tokenAttributes"] = provider.token_attributes.to_document()
    if provider.default_cache_duration_ns is not None:
        facts["defaultCacheDurationSeconds"] = provider.default_cache_duration_ns / _SECOND_NS
    text = f"pattern {shown!r} matches the image: {explain_match(pattern, name).why}"
    return Reason(
        stage=ReasonStage.MATCH, subject=provider.name, outcome=ReasonOutcome.MATCHED, text=text, facts=facts
    )


def _no_match(provider: CredentialProvider, name: str) -> Reason:
    verdicts = [(pattern, explain_match(pattern, name)) for pattern in provider.match_images or ()]
    text = (
        f"none of its {len(verdicts)} patterns matches the image"
        if len(verdicts) != 1
        else "its pattern does not match the image"
    )
    patterns = [_verdict_facts(pattern, verdict) for pattern, verdict in verdicts]
    return Reason(
        stage=ReasonStage.MATCH,
        subject=provider.name,
        outcome=ReasonOutcome.NO_MATCH,
        text=text,
        facts={"patterns": patterns},
    )


def _verdict_facts(pattern: str, verdict: MatchVerdict) -> dict[str, object]:
    return {
        "pattern": hide_user_info(pattern),
        "rule": str(verdict.rule),
        "found": verdict.found,
        "expected": verdict.expected,
        "why": verdict.why,
    }


def _provision(provision: Provision, answered_ns: int) -> Reason:
    texts = _AGENT_PROVISIONS if provision.is_from_agent else _PROVISIONS
    text = texts[provision.outcome](provision, answered_ns)
    if provision.agent is not None and provision.agent.fallback:
        text += f"; the node agent was not used: {provision.agent.message}"
    if provision.missing and provision.outcome is not ProvisionOutcome.UNKNOWN:
        text += f"; the kubelet may get another response: {_say(provision.missing)}"
    facts = _provision_facts(provision, answered_ns)
    return Reason(
        stage=ReasonStage.PROVIDER,
        subject=provision.provider,
        outcome=provision.outcome,
        text=text,
        facts=facts,
    )


def _provision_facts(provision: Provision, answered_ns: int) -> dict[str, object]:
    facts: dict[str, object] = {}
    if provision.cache_key_type:
        facts["cacheKeyType"] = provision.cache_key_type
        facts["keys"] = list(provision.auth)
    if provision.seconds is not None:
        facts["seconds"] = round(provision.seconds, 6)
    if provision.cache_duration_ns is not None:
        facts["cacheDurationSeconds"] = provision.cache_duration_ns / _SECOND_NS
    if provision.expires_ns is not None:
        facts["expiresInSeconds"] = round(remaining_seconds(provision, answered_ns), 1)
    if provision.error is not None and provision.outcome is not ProvisionOutcome.UNKNOWN:
        facts["error"] = str(provision.error)
    if provision.missing:
        facts["missing"] = missing_documents(provision.missing)
    if provision.agent is not None:
        used = provision.is_from_agent
        facts["agent"] = {"used": used, "fallback": provision.agent.fallback, "why": provision.agent.message}
    return facts


def _say(missing: tuple[MissingInput, ...]) -> str:
    return "; ".join(map(str, missing))


def remaining_seconds(provision: Provision, answered_ns: int) -> float:
    """Return the seconds from the instant of the answer to the expiry of *provision*."""
    return ((provision.expires_ns or 0) - answered_ns) / _SECOND_NS


def _describe(provision: Provision, answered_ns: int) -> str:
    """Return the number of auth keys in a provision, and how long it is cached."""
    held = _held(provision)
    if provision.expires_ns is None:
        kept = "not cached"
    else:
        left = _time_left(remaining_seconds(provision, answered_ns))
        kept = f"cached by {provision.cache_key_type.lower()} for {left}"
    return f"{held}, {kept}"


def _held(provision: Provision) -> str:
    number = len(provision.auth)
    return f"{number} auth key{'s' if number != 1 else ''}" if number else "no credentials"


def _time_left(seconds: float) -> str:
    if seconds <= 0:
        return "0 s: it has already expired"
    return duration_text(seconds) if round(seconds) else f"{seconds * 1000:.0f} ms"


_PROVISIONS: dict[ProvisionOutcome, Callable[[Provision, int], str]] = {
    ProvisionOutcome.CACHED: lambda p, at: f"from the cache, the plugin was not run: {_describe(p, at)}",
    ProvisionOutcome.RAN: lambda p, at: (
        f"the plugin ran for {(p.seconds or 0) * 1000:.1f} ms: {_describe(p, at)}"
    ),
    ProvisionOutcome.SHARED: lambda p, at: f"from the run of another lookup: {_describe(p, at)}",
    ProvisionOutcome.SKIPPED: lambda p, _: f"skipped: {p.skipped}",
    ProvisionOutcome.FAILED: lambda p, _: f"failed: {p.error}",
    ProvisionOutcome.UNKNOWN: lambda p, _: (
        f"cannot tell what it returns, the plugin was not run: {_say(p.missing)}"
    ),
}

_AGENT_PROVISIONS: dict[ProvisionOutcome, Callable[[Provision, int], str]] = {
    ProvisionOutcome.CACHED: lambda p, _: (
        f"from the cache of the node agent, the plugin was not run: {_held(p)}"
    ),
    ProvisionOutcome.RAN: lambda p, _: f"the node agent ran the plugin: {_held(p)}",
    ProvisionOutcome.SHARED: lambda p, _: (
        f"the node agent ran the plugin, for several lookups at once: {_held(p)}"
    ),
}


def _keys(keyring: Keyring, answer: Answer) -> Iterator[Reason]:
    given = set(map(id, answer.credentials))
    for key in keyring.index():
        for credential in keyring.credentials(key):
            yield _key(key, credential, answer.name, is_given=id(credential) in given)
    for dropped in keyring.dropped:
        text = f"is dropped, since it does not parse: {dropped.why}"
        yield Reason(stage=ReasonStage.KEY, subject=dropped.key, outcome=ReasonOutcome.DROPPED, text=text)


def _key(key: str, credential: Credential, name: str, *, is_given: bool) -> Reason:
    verdict = explain_match(key, name)
    facts: dict[str, object] = {
        "source": str(credential.source),
        "normalised": key,
        "rule": str(verdict.rule),
    }
    if verdict.matched:
        return Reason(
            stage=ReasonStage.KEY,
            subject=credential.key,
            outcome=ReasonOutcome.COVERS,
            text=f"matches the image: {verdict.why}",
            facts=facts,
        )
    if is_given and key == LOGIN_HOST:
        text = "is used as the key of Docker Hub, since no other key of its source matches the image"
        return Reason(
            stage=ReasonStage.KEY,
            subject=credential.key,
            outcome=ReasonOutcome.DEFAULT_REGISTRY,
            text=text,
            facts=facts,
        )
    return Reason(
        stage=ReasonStage.KEY,
        subject=credential.key,
        outcome=ReasonOutcome.NO_MATCH,
        text=f"does not match the image: {verdict.why}",
        facts=facts,
    )


def _credential(at: int, credential: Credential) -> Reason:
    user = redact(credential.username)  # a token may stand in the place of the user name
    text = f"user {user!r} of {credential.source}, key {credential.key!r}"
    facts: dict[str, object] = {"order": at, "source": str(credential.source), "key": credential.key}
    return Reason(
        stage=ReasonStage.CREDENTIAL, subject=user, outcome=ReasonOutcome.TRIED, text=text, facts=facts
    )


def _decision(answer: Answer) -> Reason:
    """Return what the kubelet does with the answer."""
    failed = [failure.provider for failure in answer.kubelet_failures]
    facts: dict[str, object] = {
        "credentials": len(answer.credentials),
        "failedProviders": failed,
        "missing": missing_documents(answer.missing),
    }
    return Reason(
        stage=ReasonStage.DECISION,
        subject=answer.name,
        outcome=answer.outcome,
        text=_DECISIONS[answer.outcome](answer),
        facts=facts,
    )


def _tries(answer: Answer) -> str:
    number = len(answer.credentials)
    which = (
        "this credential"
        if number == 1
        else f"these {number} credentials, one after the other until one works"
    )
    if not answer.missing:
        return f"credentials exist: the kubelet tries {which}; it makes no anonymous attempt"
    unsure = {provision.provider for provision in answer.provisions if provision.missing}
    if all(c.source.kind == SourceKind.PROVIDER and c.source.name in unsure for c in answer.credentials):
        return f"credentials are found: the kubelet tries {which}, or others in their place: {_say(answer.missing)}"
    told = f"the kubelet tries {which} and makes no anonymous attempt"
    return f"credentials exist: {told}; it may have others too: {_say(answer.missing)}"


def _failed_names(answer: Answer) -> str:
    return ", ".join(repr(failure.provider) for failure in answer.kubelet_failures)


def _cannot_tell(answer: Answer) -> str:
    failed = f", and {_failed_names(answer)} failed" if answer.kubelet_failures else ""
    return f"cannot tell: no credentials are found{failed}, but inputs are missing: {_say(answer.missing)}"


def _after_failure(answer: Answer) -> str:
    return (
        f"no credentials, since {_failed_names(answer)} failed: the kubelet logs that, makes one anonymous attempt, "
        "and the pod's events show only the registry's response to that"
    )


def _anonymous(_: Answer) -> str:
    return "no credentials: the kubelet makes one anonymous attempt"


_DECISIONS = {
    LookupOutcome.CREDENTIALS: _tries,
    LookupOutcome.UNKNOWN: _cannot_tell,
    LookupOutcome.ANONYMOUS_AFTER_FAILURE: _after_failure,
    LookupOutcome.ANONYMOUS: _anonymous,
}
