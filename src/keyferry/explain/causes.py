"""What is said of an image: a table of causes, the most specific first, each with its verdict and its cures.

What happened comes first: a container that runs, an attempt that failed. Only where nothing was seen does the answer of
the lookup, or the registry's own response, decide. Each rule returns an explanation, or None if it does not apply;
adding a cause is adding a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.values import replace
from keyferry.errors import Kind, ServiceAccountError
from keyferry.explain.evidence import AttemptKind
from keyferry.explain.explanation import Cure, Explanation, LikelyCause, Outcome, Subject
from keyferry.explain.facts import Facts
from keyferry.explain.lookup_causes import find_lookup_cause, trace_cure
from keyferry.explain.registry import PullVerdict, RegistryCheck
from keyferry.explain.registry import verdict as check_text
from keyferry.explain.secret_cures import new_secret, renewed_secret
from keyferry.explain.times import age_text, clock_text
from keyferry.images.credential import Credential, SourceKind
from keyferry.images.missing import ACCOUNT_INPUTS, LookupInput, MissingInput
from keyferry.images.provider.provision import Provision
from keyferry.images.reference import registry_of
from keyferry.images.result import LookupOutcome
from keyferry.images.why.traps import is_empty_login
from keyferry.pulls.failure_text import FailureKind, PullFailure
from keyferry.pulls.records.access import UseOutcome, judge_use
from keyferry.show.paste import quote_word

__all__ = ["explain", "who"]

# More of them are hard to choose from.
_MAX_CURES = 3
_SECOND = 1_000_000_000
_ABOUT_CREDENTIALS = (FailureKind.REFUSED, FailureKind.HIDDEN)
_RESTART = "sudo systemctl restart kubelet"

_Rule = Callable[[Facts], Explanation | None]
_RULES: list[_Rule] = []


def explain(facts: Facts) -> Explanation:
    """Return what is said of an image: outcome, verdict, cause and cures."""
    found = next(filter(None, (rule(facts) for rule in _RULES)))
    return replace(found, notes=tuple(dict.fromkeys((*found.notes, *_notes(facts, found)))))


def who(credential: Credential) -> str:
    """Return the user name and the source of a credential, as text for a message."""
    user = f"user {credential.username!r}" if credential.username else "no user name"
    if is_empty_login(credential):
        user = "an empty login"
    return f"{user} of {credential.source}"


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
    text = f"runs since {clock_text(attempt.since, now)}" if attempt.since is not None else "the container has its image"
    if attempt.was_pulled and attempt.at is not None:
        text += f": the image was pulled {age_text(attempt.at, now)}"
    elif attempt.was_pulled is False or _use(facts) is UseOutcome.USE:
        text += ": the image is on the node and this pod may use it; nothing is pulled"
    return Explanation(facts, Outcome.RUNS, text, about=Subject.USE)


@_rule
def _may_use_it(facts: Facts) -> Explanation | None:
    """Nothing was tried yet, and nothing is to be pulled."""
    if facts.evidence.last_attempt.kind is AttemptKind.FAILED or not facts.containers or facts.is_always_pulled:
        return None
    if _use(facts) is not UseOutcome.USE:
        return None
    text = "the image is on the node and this pod may use it; nothing is pulled"
    return Explanation(facts, Outcome.RUNS, text, about=Subject.USE)


# The pod's own settings forbid every pull.


@_rule
def _unreadable_secret(facts: Facts) -> Explanation | None:
    unused = facts.unreadable
    found = None if unused is None else find_lookup_cause(facts)
    if unused is None or found is None:
        return None
    text = f"no image of the pod is pulled: {found.cause}{_seen(facts)}"
    return Explanation(facts, Outcome.NO_CREDENTIAL, text, found.cause, found.cures, about=Subject.CREDENTIAL)


@_rule
def _never_and_unknown_image(facts: Facts) -> Explanation | None:
    if not _is_never(facts) or facts.decision is not None:
        return None
    cures = (_ask_runtime(facts), _let_it_pull())
    if facts.evidence.last_attempt.kind is AttemptKind.FAILED:
        text = "the image is not on the node, or the node's policy does not let this pod use it"
        text = f"{text}; the pod forbids to pull it (imagePullPolicy: Never){_seen(facts)}"
        return Explanation(facts, Outcome.OTHER_REASON, text, cures=cures, about=Subject.USE)
    text = "cannot tell whether the image is on the node: the pod forbids to pull it (imagePullPolicy: Never)"
    return Explanation(facts, Outcome.UNKNOWN, text, cures=cures, about=Subject.USE)


@_rule
def _never_and_absent_image(facts: Facts) -> Explanation | None:
    if not _is_never(facts) or facts.decision is None or facts.decision.situation.image_ref:
        return None
    text = f"the image is not on the node, and the pod forbids to pull it (imagePullPolicy: Never){_seen(facts)}"
    load = Cure("load the image into the container runtime of the node")
    return Explanation(facts, Outcome.OTHER_REASON, text, cures=(load, _let_it_pull()), about=Subject.USE)


@_rule
def _never_and_not_allowed(facts: Facts) -> Explanation | None:
    decision = facts.decision
    if not _is_never(facts) or decision is None:
        return None
    if _use(facts) is UseOutcome.UNKNOWN:
        text = "cannot tell whether the pod may use the image on the node: the pod forbids to pull it"
        return Explanation(
            facts, Outcome.UNKNOWN, f"{text} (imagePullPolicy: Never)", cures=tuple(_inputs(facts)), about=Subject.USE
        )
    policy = decision.policy.name
    text = (
        f"the image is on the node, and policy {policy} does not let this pod use it without a pull, which the pod "
        f"forbids (imagePullPolicy: Never): {decision.summary}{_seen(facts)}"
    )
    cures = (_let_it_pull("so that a pull can prove its access, "),)
    if not facts.answer.credentials:
        cures = (*new_secret(facts), *cures)
    return Explanation(facts, Outcome.OTHER_REASON, text, decision.summary, cures, about=Subject.USE)


def _is_never(facts: Facts) -> bool:
    failure = facts.evidence.last_attempt.failure
    return facts.is_never_pulled or (failure is not None and failure.kind is FailureKind.NEVER)


def _let_it_pull(why: str = "or ") -> Cure:
    return Cure(f"{why}let the kubelet pull it: set imagePullPolicy to IfNotPresent")


def _ask_runtime(facts: Facts) -> Cure:
    lines = (f"{facts.command} --cri auto",) if facts.command else ()
    return Cure("ask the container runtime, on the pod's node", lines)


@_rule
def _blocked(facts: Facts) -> Explanation | None:
    mirrors = None if facts.check is None else facts.check.mirrors
    if mirrors is None or not mirrors.is_blocked:
        return None
    place = f"line {mirrors.blocked_line} of {mirrors.file}" if mirrors.blocked_line else mirrors.file
    cause = f"{place} blocks the image, whatever the registry says"
    cure = Cure(
        f"replace 'blocked = true' in {place} by this, then reload {mirrors.runtime}", ("blocked = false",)
    )
    return Explanation(facts, Outcome.OTHER_REASON, f"the image cannot be pulled: {cause}", cause, (cure,))


# An attempt failed, and no credential is to blame.


def _of_kind(*kinds: FailureKind) -> Callable[[Callable[[Facts, PullFailure], tuple[str, tuple[Cure, ...]]]], _Rule]:
    """Return a decorator for a rule about failures of *kinds*, which returns the sentence and the cures."""

    def decorate(tell: Callable[[Facts, PullFailure], tuple[str, tuple[Cure, ...]]]) -> _Rule:
        def rule(facts: Facts) -> Explanation | None:
            failure = facts.evidence.last_attempt.failure
            if facts.evidence.last_attempt.kind is not AttemptKind.FAILED or failure is None:
                return None
            if failure.kind not in kinds:
                return None
            cause, cures = tell(facts, failure)
            text = f"{_why_pulled(facts)}{cause}{_seen(facts)}"
            notes = tuple(_second_cause(facts))
            return Explanation(facts, Outcome.OTHER_REASON, text, cause, cures, notes)

        return _rule(rule)

    return decorate


@_of_kind(FailureKind.NOT_FOUND)
def _no_such_image(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:  # noqa: ARG001 - one signature for all
    whom = "this user" if facts.answer.credentials else "users without access"
    cause = f"the registry has no such image or tag, or hides it from {whom}: {facts.answer.image}"
    users = [who(each) for each in facts.answer.credentials]
    access = f"give {users[0]} access to it" if users else "give the pod a credential that may read it"
    return cause, (Cure(f"check the name and the tag in the pod; if they are right, {access}"),)


@_of_kind(FailureKind.DNS)
def _unknown_host(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:
    host = failure.host or _registry(facts)
    cures = (
        Cure("check the name in the pod; if it is right, see whether the node resolves it", (f"getent hosts {_word(host)}",)),
    )
    return f"the node cannot resolve {host}: {failure.detail}", cures


@_of_kind(FailureKind.UNREACHABLE, FailureKind.TIMEOUT)
def _unreachable(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:
    host = failure.host or _registry(facts)
    cures = (
        Cure(
            "check the name and the port in the pod, then the network, the firewall and the proxy of the node, there",
            (f"curl -sSIo /dev/null {_word(f'https://{host}/v2/')}",),
        ),
    )
    return f"the node cannot reach {host}: {failure.detail}", cures


@_of_kind(FailureKind.CERTIFICATE)
def _untrusted(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:
    host = failure.host or _registry(facts)
    folder = f"/etc/containerd/certs.d/{_registry(facts)}"
    cures = (
        Cure(
            f"on the node, save the authority's certificate as {folder}/ca.crt and write this to {folder}/hosts.toml "
            "(add to it if it exists); containerd reads it at the next pull",
            (f'[host."https://{host}"]', f'  ca = "{folder}/ca.crt"'),
        ),
    )
    return f"the node does not trust the certificate of {host}: {failure.detail}", cures


@_of_kind(FailureKind.PROTOCOL)
def _other_protocol(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:
    host = failure.host or _registry(facts)
    cures = (
        Cure(
            f"if {host} has no TLS and the network is trusted, write this to "
            f"/etc/containerd/certs.d/{_registry(facts)}/hosts.toml on the node; else check its port",
            (f'[host."http://{host}"]',),
        ),
    )
    return f"the node and {host} do not speak the same protocol: {failure.detail}", cures


@_of_kind(FailureKind.RATE_LIMIT)
def _rate_limit(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:  # noqa: ARG001 - one signature for all
    cause = f"{_registry(facts)} limits the number of pulls, and the limit is reached"
    wait = "wait: the kubelet tries again by itself"
    if facts.answer.credentials:
        return cause, (Cure(wait),)
    return cause, (Cure(f"{wait}; registries permit more pulls to a user of their own"), *new_secret(facts))


@_of_kind(FailureKind.SERVER)
def _server(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:
    cause = f"{failure.host or _registry(facts)} fails by itself: {failure.detail}"
    return cause, (Cure("wait, or ask who runs the registry: the kubelet tries again by itself"),)


@_of_kind(FailureKind.PLATFORM)
def _platform(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:  # noqa: ARG001 - one signature for all
    cause = f"the image is not built for the node's platform: {failure.detail}"
    return cause, (Cure("build the image for it, or let the pod run on nodes that it is built for (nodeSelector)"),)


@_of_kind(FailureKind.DISK)
def _disk(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:  # noqa: ARG001 - one signature for all
    where = f" {facts.node_name}" if facts.node_name else ""
    return f"the disk of the node{where} is full: {failure.detail}", (Cure("free space on the node", ("df -h",)),)


@_of_kind(FailureKind.POLICY)
def _policy(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:  # noqa: ARG001 - one signature for all
    cause = f"a policy of the node's container runtime forbids the image: {failure.text}"
    return cause, (Cure("sign the image, or ask who sets that policy"),)


@_of_kind(FailureKind.NAME)
def _bad_name(facts: Facts, failure: PullFailure) -> tuple[str, tuple[Cure, ...]]:  # noqa: ARG001 - one signature for all
    return f"the name of the image is not valid: {failure.text}", (Cure("correct the name in the pod"),)


def _second_cause(facts: Facts) -> Iterator[str]:
    """Yield that there is no credential either, beside a failure that comes first."""
    found = None if facts.answer.credentials else find_lookup_cause(facts)
    if found is not None:
        yield f"beside that, no credential is found: {found.cause}"


# An attempt failed, and a credential that is found did not help.


@_rule
def _mended(facts: Facts) -> Explanation | None:
    """Something changed since, and now there is a credential."""
    changes, evidence = facts.evidence.since_the_failure(), facts.evidence
    if not changes or not _has_credentials(facts):
        return None
    at = max(change.at for change in changes)
    changed = f"{' and '.join(dict.fromkeys(each.what for each in changes))} changed {age_text(at, evidence.now)}"
    retried = "" if evidence.retried_by is None else f"; the kubelet tries again by {clock_text(evidence.retried_by, evidence.now)}"
    failed = f"{_failed_words(facts)}; {changed}{retried}"
    check = facts.check
    if check is not None and check.verdict is PullVerdict.YES:
        return Explanation(facts, Outcome.FOUND, f"{check_text(check)}; {failed}")
    if check is not None and check.kind is Kind.REFUSED:
        return _refused(facts)
    text = f"{changed}, since the last attempt{_seen(facts)}{retried}; now {_found_text(facts)}"
    return Explanation(facts, Outcome.CHANGED, text, cures=_next_check(facts))


@_rule
def _not_read(facts: Facts) -> Explanation | None:
    """The config on the disk is not the one that the kubelet has read."""
    evidence = facts.evidence
    if not evidence.unread or not _is_credential_failure(facts) or not _has_credentials(facts):
        return None
    if any(each.source.kind != SourceKind.PROVIDER for each in facts.answer.credentials):
        return None
    file, now = evidence.unread[0], evidence.now
    may = "has not read" if file.is_certain else "may not have read"
    cause = (
        f"this kubelet (started {clock_text(file.started_at, now)}) {may} {file.path}, "
        f"changed {clock_text(file.changed_at, now)}"
    )
    text = f"{cause}; as the files are now, {_found_text(facts)}{_seen(facts)}"
    cures = (Cure("restart the kubelet, on the node", (_RESTART,)),)
    return Explanation(facts, Outcome.NOT_KNOWN_YET, text, cause, cures)


@_rule
def _refused_rule(facts: Facts) -> Explanation | None:
    if not _is_credential_failure(facts) or not _has_credentials(facts):
        return None
    return _older_answer(facts) or _accepted_here(facts) or _refused(facts)


def _older_answer(facts: Facts) -> Explanation | None:
    """Return that the kubelet may hold an older answer of the plugin than the one of now, if it may."""
    evidence, check = facts.evidence, facts.check
    first = facts.answer.credentials[0]
    if first.source.kind != SourceKind.PROVIDER or (check is not None and check.verdict is not PullVerdict.YES):
        return None
    seconds = _cache_seconds(facts, first.source.name)
    until = None if evidence.last_attempt.at is None else evidence.last_attempt.at + seconds
    if not seconds or (until is not None and until <= evidence.now):
        return None
    works = ", which the registry accepts" if check is not None else ""
    bound = "for its cache duration" if until is None else f"until {clock_text(until, evidence.now)} at the latest"
    cause = (
        f"the kubelet may hold an older answer of provider {first.source.name!r} {bound} "
        f"(cache duration {_minutes(seconds)})"
    )
    text = f"{_why_pulled(facts)}{_failed_words(facts)}; now the plugin gives {who(first)}{works}; {cause}"
    cures: tuple[Cure, ...] = (Cure("wait, or restart the kubelet, on the node", (_RESTART,)),)
    if check is None:
        cures = (*_next_check(facts), *cures, *_credential_cures(facts, first))
    return Explanation(facts, Outcome.REFUSED, text, cause, cures[:_MAX_CURES])


def _accepted_here(facts: Facts) -> Explanation | None:
    """Return that the registry accepts now what it refused, and nothing that is known has changed."""
    check = facts.check
    if check is None or check.verdict is not PullVerdict.YES:
        return None
    text = (
        f"{_why_pulled(facts)}{_failed_words(facts)}, and nothing that is known has changed since, although "
        f"{_registry(facts)} accepts {who(facts.answer.credentials[0])} from here now"
    )
    return Explanation(facts, Outcome.UNEXPLAINED, text, cures=_again(facts))


def _refused(facts: Facts) -> Explanation:
    first, *others = facts.answer.credentials
    whom = who(first) if not others else f"all {len(others) + 1} credentials, first {who(first)}"
    cause = f"the registry refuses {whom}"
    cures = [cure for each in facts.answer.credentials for cure in _credential_cures(facts, each)]
    return Explanation(
        facts, Outcome.REFUSED, f"{_why_pulled(facts)}{cause}{_seen(facts)}", cause, tuple(dict.fromkeys(cures))[:_MAX_CURES]
    )


def _credential_cures(facts: Facts, credential: Credential) -> tuple[Cure, ...]:
    source = credential.source
    if source.kind == SourceKind.PROVIDER:
        return (trace_cure(facts, source.name, "see what the plugin returns"),)
    if source.secret is not None:
        return renewed_secret(facts, source.name, credential)
    return (Cure(f"renew the login of {credential.key!r} in {source.name}"),)


def _cache_seconds(facts: Facts, provider: str) -> float:
    """Return how long the kubelet keeps an answer of a provider."""
    provision = next((each for each in facts.answer.provisions if each.provider == provider), None)
    config = next((each for each in facts.answer.providers if each.name == provider), None)
    own = None if provision is None else _own_duration(provision)
    if own is None and config is not None:
        own = config.default_cache_duration_ns
    return (own or 0) / _SECOND


def _own_duration(provision: Provision) -> int | None:
    return provision.cache_duration_ns


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" if minutes and not rest else f"{round(seconds)} s"


# An attempt failed, and no credential is found.


@_rule
def _token_not_for_node(facts: Facts) -> Explanation | None:
    """The node may not request the token that a provider needs."""
    failures = facts.answer.kubelet_failures
    error = failures[0].error if failures else None
    if facts.answer.credentials or not isinstance(error, ServiceAccountError) or error.kind is not Kind.REFUSED:
        return None
    found = find_lookup_cause(facts)
    cures = () if found is None else found.cures
    text = f"{_why_pulled(facts)}no credential is found: {error}{_seen(facts)}"
    return Explanation(facts, Outcome.NO_CREDENTIAL, text, str(error), (*cures, *_inputs(facts)))


@_rule
def _no_credential(facts: Facts) -> Explanation | None:
    answer = facts.answer
    is_failed = facts.evidence.last_attempt.kind is AttemptKind.FAILED
    if not is_failed or _has_credentials(facts) or not _may_be_credential(facts):
        return None
    found = find_lookup_cause(facts)
    if found is None or (answer.outcome is LookupOutcome.UNKNOWN and not found.is_certain):
        return None
    outcome = Outcome.PLUGIN_FAILED if answer.kubelet_failures else Outcome.NO_CREDENTIAL
    text = f"{_why_pulled(facts)}no credential is found: {found.cause}{_seen(facts)}"
    return _with_inputs(Explanation(facts, outcome, text, found.cause, found.cures, miss=found.miss))


@_rule
def _unexplained(facts: Facts) -> Explanation | None:
    attempt = facts.evidence.last_attempt
    if attempt.kind is not AttemptKind.FAILED:
        return None
    why = f": {attempt.failure.text}" if attempt.failure is not None else ", and the reason is no longer shown"
    text = f"{_why_pulled(facts)}the pull fails{_when(facts)}{why}"
    cures = (*_next_check(facts), *_inputs(facts)) or _again(facts)
    if facts.answer.outcome is LookupOutcome.UNKNOWN and _is_credential_failure(facts):
        text = (
            f"{_why_pulled(facts)}{_failed_words(facts)}, and whether the kubelet has a credential cannot be told: "
            f"{facts.answer.missing[0]}"
        )
        cures = tuple(_inputs(facts))
    return Explanation(facts, Outcome.UNEXPLAINED, text, cures=cures[:_MAX_CURES])


# Nothing was seen to fail: what a kubelet that reads these files now would do.


@_rule
def _not_tried(facts: Facts) -> Explanation | None:
    kind = facts.evidence.last_attempt.kind
    if kind not in (AttemptKind.NOT_TRIED, AttemptKind.TRYING) or facts.check is not None:
        return None
    tried = "the image is being pulled" if kind is AttemptKind.TRYING else "no pull was tried yet"
    now = _of_lookup(facts)
    text = f"{tried}; by the files of now, {now.text}"
    return replace(now, outcome=Outcome.NOT_TRIED, text=text)


@_rule
def _of_check(facts: Facts) -> Explanation | None:
    check, answer = facts.check, facts.answer
    if check is None:
        return None
    if check.verdict is PullVerdict.YES:
        return Explanation(facts, Outcome.FOUND, check_text(check))
    if check.kind is Kind.NOT_FOUND:
        return _not_found_by_check(facts, check)
    if answer.credentials and check.kind is Kind.REFUSED and not all(map(is_empty_login, answer.credentials)):
        return _refused_by_check(facts, check)
    # Whether the registry answers or not, a cause that is found without it stays the cause.
    now = _of_lookup(facts)
    if now.verdict is PullVerdict.NO and check.verdict is not PullVerdict.NO:
        return replace(now, notes=(f"the registry was asked, too: {check_text(check)}",))
    if now.verdict is PullVerdict.NO:
        return now
    return _unknown_by_check(facts, check)


def _not_found_by_check(facts: Facts, check: RegistryCheck) -> Explanation:
    cause, cures = f"{_registry(facts)} {check.error.message}" if check.error is not None else "", ()
    users = [who(each) for each in facts.answer.credentials]
    access = f"{users[0]} access to it" if users else "a credential"
    cures = (Cure(f"check the name and the tag; if they are right, give {access}"),)
    outcome = Outcome.OTHER_REASON if check.verdict is PullVerdict.NO else Outcome.UNKNOWN
    return _with_inputs(Explanation(facts, outcome, check_text(check), cause, cures))


def _refused_by_check(facts: Facts, check: RegistryCheck) -> Explanation:
    refused = [each.credential for each in check.attempts if each.kind is Kind.REFUSED and each.credential]
    cures = [cure for each in refused for cure in _credential_cures(facts, each)][:_MAX_CURES]
    whom = who(refused[0]) if len(refused) == 1 else f"all {len(refused)} credentials, first {who(refused[0])}"
    message = "" if check.error is None else f": {check.error.message}"
    cause = f"the registry refuses {whom}{message}"
    outcome = Outcome.REFUSED if check.verdict is PullVerdict.NO else Outcome.UNKNOWN
    text = cause if outcome is Outcome.REFUSED else f"{check_text(check)}; {cause}"
    return _with_inputs(Explanation(facts, outcome, text, cause, tuple(cures)))


def _unknown_by_check(facts: Facts, check: RegistryCheck) -> Explanation:
    cures: tuple[Cure, ...] = ()
    if check.kind is Kind.UNREACHABLE:
        text = f"check the name and the port of {_registry(facts)}, and the network, the proxy and the trusted certificates"
        cures = (Cure(f"{text} of the node"),)
    elif check.kind is Kind.THROTTLED:
        cures = (Cure("wait: the kubelet tries again by itself"), *(() if facts.answer.credentials else new_secret(facts)))
    outcome = Outcome.UNKNOWN if check.verdict is PullVerdict.UNKNOWN else Outcome.NO_CREDENTIAL
    return _with_inputs(Explanation(facts, outcome, check_text(check), cures=cures))


@_rule
def _of_lookup(facts: Facts) -> Explanation:
    """What a kubelet would find; this rule always applies."""
    answer = facts.answer
    if _has_credentials(facts):
        outcome = Outcome.UNKNOWN if _is_unsure(facts) else Outcome.FOUND
        more = "; the kubelet may get another in its place" if _is_unsure(facts) else ""
        found = Explanation(
            facts, outcome, f"{_found_text(facts)}{more}", cures=_next_check(facts), about=Subject.CREDENTIAL
        )
        return _with_inputs(found)
    cause = find_lookup_cause(facts) or LikelyCause("")
    if answer.credentials:  # they are empty
        outcome = Outcome.UNKNOWN if answer.missing else Outcome.NO_CREDENTIAL
        more = "; the kubelet may have others too" if answer.missing else ""
        text = f"a login is found, but it is empty: {cause.cause}{more}"
        cures = (*cause.cures, *_next_check(facts))
    elif answer.outcome is LookupOutcome.UNKNOWN:
        outcome = Outcome.UNKNOWN
        text = f"cannot tell whether the kubelet has a credential: {answer.missing[0]}"
        text += f"; likely: {cause.cause}" if cause.cause else ""
        cures = cause.cures
    else:
        outcome = Outcome.PLUGIN_FAILED if answer.kubelet_failures else Outcome.NO_CREDENTIAL
        text = f"no credential is found: {cause.cause}"
        cures = cause.cures
    return _with_inputs(
        Explanation(facts, outcome, text, cause.cause, cures, miss=cause.miss, about=Subject.CREDENTIAL)
    )


# Words and questions that several rules share.


def _registry(facts: Facts) -> str:
    return registry_of(facts.answer.name)


def _word(text: str) -> str:
    return quote_word(text)


def _use(facts: Facts) -> UseOutcome | None:
    """Return whether the image on the node may be used; None if it is not there, or that is not known."""
    if facts.decision is None or not facts.decision.situation.image_ref:
        return None
    return judge_use(facts.decision, facts.answer.missing)


def _why_pulled(facts: Facts) -> str:
    """Return why an image that is on the node is pulled, before what came of the pull."""
    decision = facts.decision
    if decision is None or facts.is_always_pulled or _use(facts) is not UseOutcome.PULL:
        return ""
    return f"the image is on the node, but by policy {decision.policy.name} this pod may not use it without a pull, which fails: "


def _has_credentials(facts: Facts) -> bool:
    credentials = facts.answer.credentials
    return bool(credentials) and not all(map(is_empty_login, credentials))


def _is_credential_failure(facts: Facts) -> bool:
    """Return whether the registry refused the last attempt."""
    attempt = facts.evidence.last_attempt
    return attempt.kind is AttemptKind.FAILED and attempt.failure is not None and attempt.failure.kind in _ABOUT_CREDENTIALS


def _may_be_credential(facts: Facts) -> bool:
    """Return whether the last attempt failed for want of a credential, as far as its reason tells."""
    failure = facts.evidence.last_attempt.failure
    return failure is None or failure.kind in (*_ABOUT_CREDENTIALS, FailureKind.SECRET)


def _when(facts: Facts) -> str:
    at = facts.evidence.last_attempt.at
    return "" if at is None else f" ({age_text(at, facts.evidence.now)})"


def _seen(facts: Facts) -> str:
    """Return the registry's word in the last attempt, and how long ago that was, in brackets; empty if none failed."""
    attempt = facts.evidence.last_attempt
    if attempt.kind is not AttemptKind.FAILED:
        return ""
    failure = attempt.failure
    word = "" if failure is None or failure.kind not in (*_ABOUT_CREDENTIALS, FailureKind.RATE_LIMIT) else failure.detail
    age = "" if attempt.at is None else age_text(attempt.at, facts.evidence.now)
    parts = ", ".join(filter(None, (word, age)))
    return f" ({parts})" if parts else ""


def _failed_words(facts: Facts) -> str:
    """Return that the registry refused the last attempt, or that it failed, and when."""
    what = "the registry refused the kubelet" if _is_credential_failure(facts) else "the last attempt failed"
    return f"{what}{_seen(facts)}"


def _found_text(facts: Facts) -> str:
    first, *others = facts.answer.credentials
    if not others:
        return f"a credential is found: {who(first)}"
    return f"{len(others) + 1} credentials are found; the first is {who(first)}"


def _is_unsure(facts: Facts) -> bool:
    """Return whether every credential is of a provider that lacked an input, so that the kubelet may get others."""
    unsure = {provision.provider for provision in facts.answer.provisions if provision.missing}
    return all(
        each.source.kind == SourceKind.PROVIDER and each.source.name in unsure
        for each in facts.answer.credentials
    )


def _next_check(facts: Facts) -> tuple[Cure, ...]:
    if facts.check is not None or not facts.command:
        return ()
    return (Cure(f"to check whether {_registry(facts)} accepts it", (f"{facts.command} --check-registry",)),)


def _again(facts: Facts) -> tuple[Cure, ...]:
    at = facts.evidence.retried_by
    when = "" if at is None else f" by {clock_text(at, facts.evidence.now)}"
    return (Cure(f"wait: the kubelet tries again{when}"),)


# Notes beside the verdict.


def _notes(facts: Facts, explanation: Explanation) -> Iterator[str]:
    if facts.evidence.is_limited and explanation.verdict is not PullVerdict.YES:
        yield "the kubelet's own limit put off an attempt (pull QPS exceeded, registryPullQPS): the next one decides"
    for file in facts.evidence.unread if explanation.outcome is not Outcome.NOT_KNOWN_YET else ():
        now = facts.evidence.now
        started, changed = clock_text(file.started_at, now), clock_text(file.changed_at, now)
        yield f"{file.path} changed {changed}, after the kubelet started ({started}), which reads it only then"
    yield from (note for note in facts.notes if note not in explanation.text)


# Inputs that are missing.


def _with_inputs(explanation: Explanation) -> Explanation:
    """Return the explanation with how to give the inputs that are missing; first, if nothing else is known."""
    facts = explanation.facts
    inputs = tuple(_inputs(facts))
    is_first = explanation.outcome is Outcome.UNKNOWN and not explanation.cause
    cures = (*inputs, *explanation.cures) if is_first else (*explanation.cures, *inputs)
    return replace(explanation, cures=cures)


def _inputs(facts: Facts) -> Iterator[Cure]:
    answer = facts.answer
    for at, (missing, hint) in enumerate(zip(answer.missing, facts.hints, strict=False)):
        # The verdict names the first one.
        is_told = not at and answer.outcome is LookupOutcome.UNKNOWN and facts.check is None
        text = hint.removeprefix(f"{missing}; ") if is_told else hint
        yield Cure(text, tuple(_input_lines(facts, missing)))
    if facts.try_command:
        yield Cure("see which step from the service account to the registry fails", (facts.try_command,))


def _input_lines(facts: Facts, missing: MissingInput) -> Iterator[str]:
    command = facts.command
    if not command or missing.instead:
        return
    if missing is next((each for each in facts.answer.missing if each.input in ACCOUNT_INPUTS), None):
        yield from facts.account_lines
    elif missing.input is LookupInput.PULL_SECRET and facts.pod is not None:
        name, namespace = quote_word(missing.name), quote_word(facts.pod.namespace)
        file = quote_word(f"{missing.name}.yaml")
        yield f"kubectl get secret {name} -n {namespace} -o yaml > {file}"
        yield f"{command} --secret {file}"
    elif missing.input is LookupInput.DOCKER_CONFIG:
        yield f"{command} --docker-config {quote_word(missing.name)}"
    elif missing.input is LookupInput.SERVICE_ACCOUNT_TOKEN:
        namespace, _, name = missing.name.partition("/")
        audience = _audience(facts)
        yield f"kubectl create token {quote_word(name)} -n {quote_word(namespace)}{audience} > token"
        yield f"{command} --service-account-token token"


def _audience(facts: Facts) -> str:
    """Return the option for the audience of the first provider that lacks a token."""
    answer = facts.answer
    lacking = {each.provider for each in answer.provisions if each.missing}
    for provider in answer.providers:
        if provider.name in lacking and provider.token_attributes is not None:
            return f" --audience {quote_word(provider.token_attributes.service_account_token_audience)}"
    return ""
