"""What is said of an image: a table of causes, the most specific first, each with its verdict and its cures.

What happened comes first: a container that runs, an attempt that failed. Only where nothing was seen does the answer of
the lookup, or the registry's own response, decide. Each rule returns an explanation, or None if it does not apply;
adding a cause is adding a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.values import replace
from keyferry.errors import Kind
from keyferry.explain.cures import input_cures, new_secret, recreated_pod
from keyferry.explain.evidence import AttemptKind
from keyferry.explain.explanation import (
    Cure,
    Explanation,
    Facts,
    Outcome,
    PullVerdict,
    Subject,
    age_text,
    all_of,
    clock_text,
    failed_text,
    found_text,
    next_check,
    retry_text,
    seen_text,
    wait_cure,
    who,
    why_pulled,
)
from keyferry.explain.lookup_causes import (
    MAX_CURES,
    credential_cures,
    find_lookup_cause,
    foresee,
    foresee_lookup,
    outcome_without,
    with_inputs,
)
from keyferry.images.answer import LookupOutcome
from keyferry.images.keyring import Credential, SourceKind
from keyferry.images.node.changes import ChangedFile
from keyferry.pulls.failure_text import FailureKind
from keyferry.show.text import duration_text

_SECOND = 1_000_000_000
_FORBIDDEN = 403
_RESTART = "sudo systemctl restart kubelet"

_Rule = Callable[[Facts], Explanation | None]
_RULES: list[_Rule] = []


def explain(facts: Facts) -> Explanation:
    """Return what is said of an image: outcome, verdict, cause and cures."""
    found = next(filter(None, (rule(facts) for rule in _RULES)), None) or foresee(facts)
    notes = tuple(dict.fromkeys((*found.notes, *_notes(facts, found))))
    return replace(found, text=f"{found.text}{_source(facts)}", notes=notes)


def _rule(rule: _Rule) -> _Rule:
    """Add a rule to the table, in the order of the module."""
    _RULES.append(rule)
    return rule


# The container has its image.


@_rule
def _runs(facts: Facts) -> Explanation | None:
    attempt, now = facts.evidence.last_attempt, facts.evidence.now
    if attempt.kind is not AttemptKind.RUNS:
        return None
    text = (
        "the container has its image"
        if attempt.since is None
        else f"runs since {clock_text(attempt.since, now)}"
    )
    if attempt.was_pulled and attempt.at is not None:
        text += f": the image was pulled {age_text(attempt.at, now)}"
    elif attempt.was_pulled is False or facts.may_use:
        text += ": the image is on the node and this pod may use it; nothing is pulled"
    notes = (f"a new pull: {foresee(facts).text}",)
    return Explanation(facts=facts, outcome=Outcome.RUNS, text=text, notes=notes, about=Subject.USE)


@_rule
def _ended(facts: Facts) -> Explanation | None:
    """The pod has failed, for example because it was evicted."""
    if facts.evidence.phase != "Failed":
        return None
    why = f" ({facts.evidence.reason})" if facts.evidence.reason else ""
    text = f"the pod has failed{why}: nothing is pulled for it any more"
    cures = () if facts.pod is None else (recreated_pod(facts, facts.pod),)
    return Explanation(facts=facts, outcome=Outcome.OTHER_REASON, text=text, cures=cures, about=Subject.USE)


@_rule
def _may_use_it(facts: Facts) -> Explanation | None:
    """Nothing is to be pulled: not at the first attempt, or not any more since the last one failed."""
    if not facts.containers or facts.is_always_pulled or not facts.may_use:
        return None
    text = "the image is on the node and this pod may use it; nothing is pulled"
    if facts.evidence.last_attempt.kind is not AttemptKind.FAILED:
        return Explanation(facts=facts, outcome=Outcome.RUNS, text=text, about=Subject.USE)
    text = f"the image is on the node now and this pod may use it, after {failed_text(facts)}; {retry_text(facts)}"
    return Explanation(facts=facts, outcome=Outcome.CHANGED, text=text, about=Subject.USE)


# The pod's own settings forbid every pull.


@_rule
def _unreadable_secret(facts: Facts) -> Explanation | None:
    unused = facts.unreadable
    found = None if unused is None else find_lookup_cause(facts)
    if unused is None or found is None:
        return None
    text = f"{found.cause}{seen_text(facts)}"
    return Explanation(
        facts=facts,
        outcome=Outcome.NO_CREDENTIAL,
        text=text,
        cause=found.cause,
        cures=found.cures,
        about=Subject.CREDENTIAL,
    )


@_rule
def _never_and_unknown_image(facts: Facts) -> Explanation | None:
    if not _is_never(facts) or facts.decision is not None:
        return None
    cures = (_ask_runtime(facts), _let_it_pull())
    if facts.evidence.last_attempt.kind is AttemptKind.FAILED:
        text = "the image is not on the node, or the node's policy does not let this pod use it"
        text = f"{text}; the pod forbids to pull it (imagePullPolicy: Never){seen_text(facts)}"
        return Explanation(
            facts=facts, outcome=Outcome.OTHER_REASON, text=text, cures=cures, about=Subject.USE
        )
    text = "cannot tell whether the image is on the node: the pod forbids to pull it (imagePullPolicy: Never)"
    return Explanation(facts=facts, outcome=Outcome.UNKNOWN, text=text, cures=cures, about=Subject.USE)


@_rule
def _never_and_absent_image(facts: Facts) -> Explanation | None:
    if not _is_never(facts) or facts.decision is None or facts.decision.situation.image_ref:
        return None
    text = f"the image is not on the node, and the pod forbids to pull it (imagePullPolicy: Never){seen_text(facts)}"
    load = Cure(text="load the image into the container runtime of the node")
    return Explanation(
        facts=facts, outcome=Outcome.OTHER_REASON, text=text, cures=(load, _let_it_pull()), about=Subject.USE
    )


@_rule
def _never_and_not_allowed(facts: Facts) -> Explanation | None:
    decision = facts.decision
    if not _is_never(facts) or decision is None:
        return None
    if facts.may_use is None:
        text = "cannot tell whether the pod may use the image on the node: the pod forbids to pull it"
        return Explanation(
            facts=facts,
            outcome=Outcome.UNKNOWN,
            text=f"{text} (imagePullPolicy: Never)",
            cures=tuple(input_cures(facts)),
            about=Subject.USE,
        )
    policy = decision.policy.name
    text = (
        f"the image is on the node, and policy {policy} does not let this pod use it without a pull, which the pod "
        f"forbids (imagePullPolicy: Never): {decision.summary}{seen_text(facts)}"
    )
    cures: tuple[Cure, ...] = (_let_it_pull("so that a pull can prove its access, "),)
    if not facts.answer.credentials:
        cures = (*new_secret(facts), *cures)
    return Explanation(
        facts=facts,
        outcome=Outcome.OTHER_REASON,
        text=text,
        cause=decision.summary,
        cures=cures,
        about=Subject.USE,
    )


def _is_never(facts: Facts) -> bool:
    failure = facts.evidence.last_attempt.failure
    return facts.is_never_pulled or (failure is not None and failure.kind is FailureKind.NEVER)


def _let_it_pull(why: str = "or ") -> Cure:
    return Cure(text=f"{why}let the kubelet pull it: set imagePullPolicy to IfNotPresent")


def _ask_runtime(facts: Facts) -> Cure:
    lines = (f"{facts.command} --cri auto",) if facts.command else ()
    return Cure(text="ask the container runtime, on the pod's node", lines=lines)


@_rule
def _blocked(facts: Facts) -> Explanation | None:
    mirrors = None if facts.check is None else facts.check.mirrors
    if mirrors is None or not mirrors.is_blocked:
        return None
    place = f"line {mirrors.blocked_line} of {mirrors.file}" if mirrors.blocked_line else mirrors.file
    cause = f"{place} blocks the image, whatever the registry says"
    cure = Cure(
        text=f"replace 'blocked = true' in {place} by this, then reload {mirrors.runtime}",
        lines=("blocked = false",),
        short=f"let {place} not block the image, then reload {mirrors.runtime}",
    )
    return Explanation(
        facts=facts,
        outcome=Outcome.OTHER_REASON,
        text=f"the image cannot be pulled: {cause}",
        cause=cause,
        cures=(cure,),
    )


# An attempt failed, and no credential is to blame.


@_rule
def _other_reason(facts: Facts) -> Explanation | None:
    evidence, check = facts.evidence, facts.check
    if evidence.last_attempt.kind is not AttemptKind.FAILED:
        return None
    from keyferry.explain.other_causes import find_other_cause

    found = find_other_cause(facts)
    if found is None:
        return None
    is_accepted = check is not None and check.verdict is PullVerdict.YES
    second = None if facts.answer.credentials else find_lookup_cause(facts)
    notes = () if second is None or is_accepted else (f"beside that, no credential is found: {second.cause}",)
    if evidence.since_the_failure():
        changed, retried = _change_texts(facts)
        if check is not None and is_accepted:
            return Explanation(facts=facts, outcome=Outcome.FOUND, text=f"{check.text}; {changed}; {retried}")
        text = f"{changed}, since the last attempt{seen_text(facts)}: {found.cause}; {retried}"
        return Explanation(
            facts=facts, outcome=Outcome.CHANGED, text=text, cures=next_check(facts), notes=notes
        )
    if check is not None and is_accepted:
        notes = (*notes, f"asked now, the registry says {check.text}")
    text = f"{why_pulled(facts)}{found.cause}{seen_text(facts)}"
    return Explanation(
        facts=facts,
        outcome=Outcome.OTHER_REASON,
        text=text,
        cause=found.cause,
        cures=found.cures,
        notes=notes,
    )


def _change_texts(facts: Facts) -> tuple[str, str]:
    """Return what changed since the last attempt, and by when the kubelet tries again."""
    evidence = facts.evidence
    last = max(evidence.since_the_failure(), key=lambda change: change.at)
    changed = f"{last.what} {last.how} {age_text(last.at, evidence.now)}"
    if last.delay_seconds:
        changed += f", which the kubelet knows after {duration_text(last.delay_seconds)}"
    return changed, retry_text(facts)


# An attempt failed, and a credential that is found did not help.


@_rule
def _mended(facts: Facts) -> Explanation | None:
    """Something changed since, and now there is a credential."""
    check = facts.check
    is_refused = check is not None and check.kind is Kind.REFUSED
    if not facts.evidence.since_the_failure() or not facts.has_credentials or is_refused:
        return None
    changed, retried = _change_texts(facts)
    if check is not None and check.verdict is PullVerdict.YES:
        text = f"{check.text}; {changed}, since {failed_text(facts)}; {retried}"
        return Explanation(facts=facts, outcome=Outcome.FOUND, text=text)
    text = f"{changed}, since the last attempt{seen_text(facts)}; {retried}; now {found_text(facts)}"
    return Explanation(facts=facts, outcome=Outcome.CHANGED, text=text, cures=next_check(facts))


@_rule
def _secret_was_unreadable(facts: Facts) -> Explanation | None:
    """The kubelet could not read a pull secret, and here all that are known can be read."""
    failure = facts.evidence.last_attempt.failure
    if failure is None or failure.kind is not FailureKind.SECRET:
        return None
    if facts.answer.missing:
        cause = f"one of its pull secrets cannot be read: {failure.detail or failure.text}"
        text = f"no image of the pod is pulled: {cause}{seen_text(facts)}"
        return Explanation(
            facts=facts,
            outcome=Outcome.NO_CREDENTIAL,
            text=text,
            cause=cause,
            cures=tuple(input_cures(facts)),
        )
    text = (
        f"the kubelet could not read a pull secret ({failure.detail or failure.text}){seen_text(facts)}, "
        f"and now all can be read; {foresee_lookup(facts).text}"
    )
    return Explanation(facts=facts, outcome=Outcome.CHANGED, text=text, cures=(wait_cure(facts),))


@_rule
def _not_read(facts: Facts) -> Explanation | None:
    """The config on the disk is not the one that the kubelet has read."""
    configs = (each for each in facts.evidence.unread if each.kind is ChangedFile.PROVIDER_CONFIG)
    file, now = next(configs, None), facts.evidence.now
    if file is None or not facts.is_refusal or not facts.has_credentials:
        return None
    if any(each.source.kind != SourceKind.PROVIDER for each in facts.answer.credentials):
        return None
    may = "has not read" if file.is_certain else "may not have read"
    cause = (
        f"this kubelet (started {clock_text(file.started, now)}) {may} {file.path}, "
        f"changed {clock_text(file.changed, now)}"
    )
    text = f"{cause}; as the files are now, {found_text(facts)}{seen_text(facts)}"
    cures = (Cure(text="restart the kubelet, on the node", lines=(_RESTART,)),)
    return Explanation(facts=facts, outcome=Outcome.NOT_KNOWN_YET, text=text, cause=cause, cures=cures)


@_rule
def _refused_rule(facts: Facts) -> Explanation | None:
    if not facts.is_refusal or not facts.has_credentials:
        return None
    return _older_answer(facts) or _accepted_here(facts) or _refused(facts)


def _older_answer(facts: Facts) -> Explanation | None:
    """Return that the kubelet may hold an older answer of the plugin than the one of now, if it may."""
    evidence, check = facts.evidence, facts.check
    first = _accepted(facts) or facts.answer.credentials[0]
    is_refused = check is not None and check.verdict is not PullVerdict.YES
    if first.source.kind != SourceKind.PROVIDER or is_refused or _is_known_user(facts):
        return None
    seconds = _cache_seconds(facts, first.source.name)
    until = None if evidence.last_attempt.at is None else evidence.last_attempt.at + seconds
    if not seconds or (until is not None and until <= evidence.now):
        return None
    works = ", which the registry accepts" if check is not None else ""
    bound = (
        "for its cache duration"
        if until is None
        else f"until {clock_text(until, evidence.now)} at the latest"
    )
    cause = (
        f"the kubelet may hold an older answer of provider {first.source.name!r} {bound} "
        f"(cache duration {duration_text(seconds)})"
    )
    text = f"{why_pulled(facts)}{failed_text(facts)}; now the plugin gives {who(first)}{works}; {cause}"
    cures: tuple[Cure, ...] = (Cure(text="wait, or restart the kubelet, on the node", lines=(_RESTART,)),)
    if check is None:
        cures = (*next_check(facts), *cures, *credential_cures(facts, first))
    return Explanation(facts=facts, outcome=Outcome.REFUSED, text=text, cause=cause, cures=cures[:MAX_CURES])


def _accepted_here(facts: Facts) -> Explanation | None:
    """Return that the registry accepts now what it refused, and nothing that is known has changed."""
    accepted = _accepted(facts)
    if accepted is None:
        return None
    text = (
        f"{why_pulled(facts)}{failed_text(facts)}, and nothing that is known has changed since, although "
        f"{facts.registry} accepts {who(accepted)} from here now"
    )
    return Explanation(facts=facts, outcome=Outcome.UNEXPLAINED, text=text, cures=(wait_cure(facts),))


def _accepted(facts: Facts) -> Credential | None:
    """Return the credential that the registry accepts now, if it was asked and the image can be pulled."""
    check = facts.check
    if check is None or check.verdict is not PullVerdict.YES:
        return None
    return next((each.credential for each in check.attempts if each.worked), None)


def _refused(facts: Facts) -> Explanation:
    whom = all_of(facts.credentials)
    cause = f"the registry refuses {whom}"
    cures = list(credential_cures(facts, *facts.credentials))
    mirror = _refusing_mirror(facts)
    if mirror and facts.mirrors is not None:
        cause = f"the mirror {mirror} refuses {whom}, which the kubelet has for {facts.registry}"
        text = f"let the mirror accept it or need none, or take it out of {facts.mirrors.file}"
        cures = [Cure(text=text), *cures]
    elif _is_known_user(facts):
        cause = f"the registry does not let {whom} pull this image, or has no such image"
        cures = [
            Cure(text="check the name of the image; if it is right, let that user read it, at the registry"),
            *cures,
        ]
    return Explanation(
        facts=facts,
        outcome=Outcome.REFUSED,
        text=f"{why_pulled(facts)}{cause}{seen_text(facts)}",
        cause=cause,
        cures=tuple(cures[:MAX_CURES]),
    )


def _refusing_mirror(facts: Facts) -> str:
    """Return the mirror that refused the last attempt; empty if it was the registry."""
    failure = facts.evidence.last_attempt.failure
    return failure.host if failure is not None and facts.is_mirror(failure.host) else ""


def _is_known_user(facts: Facts) -> bool:
    """Return whether the registry knows who asks, so that not the password but the access may be at fault."""
    failure = facts.evidence.last_attempt.failure
    if failure is None or failure.kind is FailureKind.EXPIRED:
        return False
    return failure.kind is FailureKind.HIDDEN or failure.status == _FORBIDDEN


def _cache_seconds(facts: Facts, provider: str) -> float:
    """Return how long the kubelet keeps an answer of a provider."""
    provision = next((each for each in facts.answer.provisions if each.provider == provider), None)
    config = next((each for each in facts.answer.providers if each.name == provider), None)
    own = None if provision is None else provision.cache_duration_ns
    if own is None and config is not None:
        own = config.default_cache_duration_ns
    return (own or 0) / _SECOND


# An attempt failed, and no credential is found.


@_rule
def _no_credential(facts: Facts) -> Explanation | None:
    answer = facts.answer
    is_failed = facts.evidence.last_attempt.kind is AttemptKind.FAILED
    if not is_failed or facts.has_credentials or not _is_about_credentials(facts):
        return None
    found = find_lookup_cause(facts)
    if found is None or (answer.outcome is LookupOutcome.UNKNOWN and not found.is_certain):
        return None
    text = f"{why_pulled(facts)}no credential is found: {found.cause}{seen_text(facts)}"
    cures = found.cures
    if _may_not_exist(facts):
        text = f"{why_pulled(facts)}the registry has no such image, or wants a credential for it, and none is found: "
        text += f"{found.cause}{seen_text(facts)}"
        cures = (
            Cure(text="check the name of the image in the pod; if it is right, it needs a credential"),
            *cures,
        )
    explanation = Explanation(
        facts=facts,
        outcome=outcome_without(answer),
        text=text,
        cause=found.cause,
        cures=cures,
        miss=found.miss,
    )
    return explanation if found.is_certain else with_inputs(explanation)


@_rule
def _unexplained(facts: Facts) -> Explanation | None:
    attempt = facts.evidence.last_attempt
    if attempt.kind is not AttemptKind.FAILED:
        return None
    why = f": {attempt.failure.text}" if attempt.failure is not None else ", and its status does not tell why"
    text = f"{why_pulled(facts)}the pull fails{seen_text(facts)}{why}"
    cures = (*next_check(facts), *input_cures(facts)) or (wait_cure(facts),)
    if facts.answer.outcome is LookupOutcome.UNKNOWN and facts.is_refusal:
        text = (
            f"{why_pulled(facts)}{failed_text(facts)}, and whether the kubelet has a credential cannot be told: "
            f"{facts.answer.missing[0]}"
        )
        cures = tuple(input_cures(facts))
        if _may_not_exist(facts):
            text = f"the registry has no such image, or does not let this user have it; {text}"
            cures = (Cure(text="check the name of the image in the pod"), *cures)
    return Explanation(facts=facts, outcome=Outcome.UNEXPLAINED, text=text, cures=cures[:MAX_CURES])


def _may_not_exist(facts: Facts) -> bool:
    """Return whether the registry's answer is the same for an image that does not exist."""
    failure = facts.evidence.last_attempt.failure
    return failure is not None and failure.kind is FailureKind.HIDDEN


def _is_about_credentials(facts: Facts) -> bool:
    """Return whether the last attempt failed for want of a credential, as far as its reason tells."""
    return facts.evidence.last_attempt.failure is None or facts.is_refusal


# Nothing was tried.


@_rule
def _not_tried(facts: Facts) -> Explanation | None:
    kind = facts.evidence.last_attempt.kind
    if kind not in (AttemptKind.NOT_TRIED, AttemptKind.TRYING) or facts.check is not None:
        return None
    tried = "the image is being pulled" if kind is AttemptKind.TRYING else "no pull was tried yet"
    hindrance = facts.evidence.hindrance
    if hindrance is not None and kind is AttemptKind.NOT_TRIED:
        tried += f" ({hindrance.reason}: {hindrance.message})"
    now = foresee(facts)
    return replace(now, outcome=Outcome.NOT_TRIED, text=f"{tried}; by the files of now, {now.text}")


# Notes beside the verdict.


def _source(facts: Facts) -> str:
    """Return that what the text tells of providers is what the node says; empty where it tells nothing of them."""
    half, answer = facts.half, facts.answer
    if half is None or facts.evidence.last_attempt.kind is AttemptKind.RUNS:
        return ""
    is_own = answer.credentials and not answer.provisions and answer.credentials[0].source.secret is not None
    return "" if is_own and facts.decision is None else f" (from node {half.node!r})"


def _notes(facts: Facts, explanation: Explanation) -> Iterator[str]:
    if facts.evidence.is_deleted:
        yield "the pod is being deleted, so nothing is tried for it any more"
    for failure in facts.answer.kubelet_failures if facts.answer.credentials else ():
        yield f"provider {failure.provider!r} fails, too: {failure.error}"
    if facts.evidence.is_limited:
        yield "the kubelet's own limit put off an attempt (pull QPS exceeded, registryPullQPS): no fault of the image"
    for file in facts.evidence.unread if explanation.outcome is not Outcome.NOT_KNOWN_YET else ():
        now = facts.evidence.now
        started, changed = clock_text(file.started, now), clock_text(file.changed, now)
        yield f"{file.path} changed {changed}, after the kubelet started ({started}), which reads it only then"
    if facts.decision is not None and facts.may_use is False and explanation.verdict is not PullVerdict.NO:
        yield f"the image is on the node, and this pod must pull it to verify its access: {facts.decision.summary}"
    told = " ".join((explanation.text, *explanation.notes))
    yield from (note for note in facts.notes if note not in told)
