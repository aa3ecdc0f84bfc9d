"""What a kubelet that reads these files now would find, and what the registry says to it: nothing of it was seen."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.values import replace
from keyferry.errors import Kind, NodeAudienceError, RegistryError
from keyferry.explain.explanation import Cure, Explanation, LikelyCause, Outcome, Subject
from keyferry.explain.facts import Facts
from keyferry.explain.input_cures import input_cures
from keyferry.explain.lookup_causes import find_lookup_cause, trace_cure
from keyferry.explain.registry import PullVerdict, RegistryCheck
from keyferry.explain.registry import verdict as check_text
from keyferry.explain.secret_cures import new_secret, renewed_secret
from keyferry.explain.wording import (
    all_of,
    found_text,
    has_credentials,
    is_unsure,
    next_check,
    registry,
    wait_cure,
    who,
)
from keyferry.images.answer import Answer, LookupOutcome
from keyferry.images.keyring import Credential, SourceKind

__all__ = ["MAX_CURES", "credential_cures", "foresee", "foresee_lookup", "outcome_without", "with_inputs"]

_ANONYMOUS = "without a credential the kubelet pulls anonymously, which is enough for a public image"
# More of them are hard to choose from.
MAX_CURES = 3


def foresee(facts: Facts) -> Explanation:
    """Return what would happen: by the registry's response if it was asked, else by what is found."""
    check = facts.check
    now = foresee_lookup(facts)
    if check is None:
        return now
    if check.verdict is PullVerdict.YES:
        return Explanation(facts=facts, outcome=Outcome.FOUND, text=check_text(check))
    if check.kind is Kind.NOT_FOUND:
        return _not_found(facts, check)
    if now.verdict is not PullVerdict.NO:
        is_refused = check.kind is Kind.REFUSED and has_credentials(facts)
        return _refused(facts, check) if is_refused else _unknown(facts, check)
    # Whether the registry answers or not, a cause that is found without it stays the cause.
    told = () if check.kind is Kind.REFUSED else (f"the registry was asked, too: {check_text(check)}",)
    return replace(now, notes=told)


def foresee_lookup(facts: Facts) -> Explanation:
    """Return which credentials a kubelet would find, or why none."""
    answer = facts.answer
    if has_credentials(facts):
        unsure = "; the kubelet may get another in its place" if is_unsure(facts) else ""
        outcome = Outcome.UNKNOWN if unsure else Outcome.FOUND
        text = f"{found_text(facts)}{unsure}"
        found = Explanation(
            facts=facts, outcome=outcome, text=text, cures=next_check(facts), about=Subject.CREDENTIAL
        )
        return with_inputs(found)
    cause = find_lookup_cause(facts) or LikelyCause(cause="")
    cures = cause.cures
    if answer.credentials:  # they are empty
        outcome = Outcome.UNKNOWN if answer.missing else Outcome.NO_CREDENTIAL
        text = f"a login is found, but it is empty: {cause.cause}"
        text += "; the kubelet may have others too" if answer.missing else ""
        cures = (*cures, *next_check(facts))
    elif answer.outcome is LookupOutcome.UNKNOWN:
        outcome = Outcome.UNKNOWN
        text = f"cannot tell whether the kubelet has a credential: {answer.missing[0]}"
        text = f"no credential is found as far as is known: {cause.cause}" if cause.cause else text
    else:
        outcome = outcome_without(answer)
        text = f"no credential is found: {cause.cause}"
    notes = (_ANONYMOUS,) if outcome is Outcome.NO_CREDENTIAL and not answer.credentials else ()
    return with_inputs(
        Explanation(
            facts=facts,
            outcome=outcome,
            text=text,
            cause=cause.cause,
            cures=cures,
            notes=notes,
            miss=cause.miss,
            about=Subject.CREDENTIAL,
        )
    )


def outcome_without(answer: Answer) -> Outcome:
    """Return the outcome of an answer without credentials: that a plugin failed, or only that there are none.

    A plugin whose token the node may not request was not run.
    """
    failures = answer.kubelet_failures
    has_failed = bool(failures) and not isinstance(failures[0].error, NodeAudienceError)
    return Outcome.PLUGIN_FAILED if has_failed else Outcome.NO_CREDENTIAL


def credential_cures(facts: Facts, *credentials: Credential) -> Iterator[Cure]:
    """Yield what to do about credentials that are refused, once for each source of them."""
    for source in dict.fromkeys(each.source for each in credentials):
        refused = [each for each in credentials if each.source == source]
        if source.kind == SourceKind.PROVIDER:
            yield trace_cure(facts, source.name, "see what the plugin returns")
        elif source.secret is not None:
            yield from renewed_secret(facts, source.name, *refused)
        else:
            keys = " and ".join(dict.fromkeys(repr(each.key) for each in refused))
            yield Cure(text=f"renew the login of {keys} in {source.name}")


def with_inputs(explanation: Explanation) -> Explanation:
    """Return the explanation with how to give the inputs that are missing; first, if nothing else is known."""
    inputs = tuple(input_cures(explanation.facts))
    is_first = explanation.outcome is Outcome.UNKNOWN and not explanation.cause
    cures = (*inputs, *explanation.cures) if is_first else (*explanation.cures, *inputs)
    return replace(explanation, cures=cures)


def _not_found(facts: Facts, check: RegistryCheck) -> Explanation:
    users = [who(each) for each in facts.answer.credentials]
    access = f"{users[0]} access to it" if users else "a credential"
    cure = Cure(text=f"check the name and the tag; if they are right, give {access}")
    outcome = Outcome.OTHER_REASON if check.verdict is PullVerdict.NO else Outcome.UNKNOWN
    cause = "the registry has no such image or tag, or hides it from users without access"
    text = check_text(check) if outcome is Outcome.OTHER_REASON else f"{check_text(check)}; {cause}"
    return with_inputs(Explanation(facts=facts, outcome=outcome, text=text, cause=cause, cures=(cure,)))


def _refused(facts: Facts, check: RegistryCheck) -> Explanation:
    attempts = (each for each in check.attempts if each.kind is Kind.REFUSED)
    refused = list(dict.fromkeys(each.credential for each in attempts if each.credential))
    cures = tuple(credential_cures(facts, *refused))
    message = "" if check.error is None else f": {check.error.message}"
    host = check.error.registry if isinstance(check.error, RegistryError) else registry(facts)
    cause = f"{host} refuses {all_of(refused)}{message}"
    outcome = Outcome.REFUSED if check.verdict is PullVerdict.NO else Outcome.UNKNOWN
    text = cause if outcome is Outcome.REFUSED else f"{check_text(check)}; {cause}"
    return with_inputs(
        Explanation(facts=facts, outcome=outcome, text=text, cause=cause, cures=cures[:MAX_CURES])
    )


def _unknown(facts: Facts, check: RegistryCheck) -> Explanation:
    cures: tuple[Cure, ...] = ()
    if check.kind is Kind.UNREACHABLE:
        checked = "the network, the proxy and the trusted certificates of the node"
        cures = (Cure(text=f"check the name and the port of {registry(facts)}, and {checked}"),)
    elif check.kind is Kind.THROTTLED:
        cures = (wait_cure(facts), *(() if facts.answer.credentials else new_secret(facts)))
    outcome = Outcome.UNKNOWN if check.verdict is PullVerdict.UNKNOWN else Outcome.NO_CREDENTIAL
    return with_inputs(Explanation(facts=facts, outcome=outcome, text=check_text(check), cures=cures))
