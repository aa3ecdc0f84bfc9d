"""What a kubelet that reads these files now would find, and why it would find no credential.

The causes are a table, the most specific first. Each rule returns a cause with its cures, or None if it does not apply;
adding a cause is adding a rule.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from os.path import join

from keyferry._core.host_root import host_root, on_host
from keyferry._core.json import dumps
from keyferry._core.program.start import missing_interpreter
from keyferry._core.values import replace
from keyferry.errors import (
    KeyferryError,
    Kind,
    NodeAudienceError,
    PluginExitError,
    PluginNotFoundError,
    PullSecretError,
    RegistryError,
)
from keyferry.explain.cures import (
    input_cures,
    new_secret,
    plugin_command,
    renewed_secret,
    trace_command,
    used_secret,
)
from keyferry.explain.explanation import (
    Cause,
    Cure,
    Explanation,
    Facts,
    MirrorTrap,
    Outcome,
    PullVerdict,
    Subject,
    all_of,
    clock_text,
    found_text,
    next_check,
    wait_cure,
    who,
)
from keyferry.images.answer import Answer, LookupInput, LookupOutcome, ProvisionOutcome
from keyferry.images.keyring import Credential, Source, SourceKind, lookup_all
from keyferry.images.lookup import pull_secrets_keyring
from keyferry.images.node.kubelet import BIN_DIR_FLAG, CONFIG_FLAG
from keyferry.images.reasons.nearness import Miss, MissKind, find_misses
from keyferry.images.reasons.traps import empty_login_text, is_empty_login
from keyferry.images.reference import registry_of
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, as_pull_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.explain.node_half import NodeHalf
    from keyferry.explain.registry import RegistryCheck

_PLUGIN_OUTCOMES = (ProvisionOutcome.CACHED, ProvisionOutcome.RAN, ProvisionOutcome.SHARED)
_MAX_KEYS = 3
_ANONYMOUS = "without a credential the kubelet pulls anonymously, which is enough for a public image"
# More of them are hard to choose from.
MAX_CURES = 3
_Rule = Callable[[Facts], Cause | None]
_RULES: list[_Rule] = []


def find_lookup_cause(facts: Facts) -> Cause | None:
    """Return why no credential is found, or why the one that is found is empty; None if nothing tells."""
    return next(filter(None, (rule(facts) for rule in _RULES)), None)


def describe_miss(miss: Miss) -> str:
    """Return a near miss in one sentence, with the pattern that would match."""
    would = f"; {miss.wanted!r} would match" if miss.wanted and not miss.is_response else ""
    return f"{_subject(miss)}{' ' if miss.is_response else ': '}{miss.why}{would}"


def _rule(rule: _Rule) -> _Rule:
    """Add a rule to the table, in the order of the module."""
    _RULES.append(rule)
    return rule


@_rule
def _unreadable_secret(facts: Facts) -> Cause | None:
    unused = facts.unreadable
    return None if unused is None else Cause(cause=str(unused), cures=used_secret(facts, unused))


@_rule
def _empty_login(facts: Facts) -> Cause | None:
    credentials = facts.answer.credentials
    if not credentials or not all(map(is_empty_login, credentials)):
        return None
    source = credentials[0].source
    if source.secret is not None:
        cures = renewed_secret(facts, source.name, credentials[0])
    else:
        cures = (
            Cure(text=f"write a user name and a password, or auth, for {credentials[0].key!r} in {source}"),
        )
    return Cause(cause=empty_login_text(credentials[0]), cures=cures)


@_rule
def _node_may_not_request_token(facts: Facts) -> Cause | None:
    failures = facts.answer.kubelet_failures
    error = failures[0].error if failures else None
    if not isinstance(error, NodeAudienceError):
        return None
    if facts.half is not None:  # a node that lies must not choose what an administrator permits
        text = (
            f"if {facts.config_path} on node {facts.half.node} names this audience, let plugin try, there, print the "
            "objects that permit it"
        )
        return Cause(cause=str(error), cures=(Cure(text=text),))
    objects = {"apiVersion": "v1", "kind": "List", "items": list(error.manifests)}
    line = f"echo {shlex.quote(dumps(objects))} | kubectl apply -f -"
    text = "as an administrator of the cluster, permit it; this adds objects of their own, and takes nothing away"
    return Cause(cause=str(error), cures=(Cure(text=text, lines=(line,)),))


@_rule
def _failed_plugin(facts: Facts) -> Cause | None:
    failures = facts.answer.kubelet_failures
    if not failures:
        return None
    provider, error = failures[0].provider, failures[0].error
    return Cause(cause=_plugin_words(facts, error), cures=_plugin_cures(facts, provider, error))


def _plugin_words(facts: Facts, error: KeyferryError) -> str:
    """Return an error of a plugin with the plugin's own sentence first, or since when the plugin is gone."""
    if isinstance(error, PluginNotFoundError) and error.folder_changed_ns and facts.evidence.now:
        since = clock_text(error.folder_changed_ns / 1e9, facts.evidence.now)
        return f"{error}, since {since} at the latest"
    if isinstance(error, PluginExitError) and error.stderr_tail and error.status >= 0:
        return f"plugin {error.plugin!r} fails: {error.stderr_tail} (exit status {error.status})"
    return str(error)


def _plugin_cures(facts: Facts, provider: str, error: KeyferryError) -> tuple[Cure, ...]:
    name, config, bin_dir = facts.answer.name, facts.config_path, facts.bin_dir
    command = plugin_command(error, provider, name, config, bin_dir)
    if not command:
        return ()
    if facts.half is not None:
        return (_cure_there(facts, facts.half, "see what is wrong"),)
    if error.kind is Kind.NOT_FOUND:
        return (
            Cure(text=f"install {provider!r} in {bin_dir}; this lists all that is missing", lines=(command,)),
        )
    if error.kind is Kind.START:
        return (_start_cure(join(bin_dir, provider)),)
    return (Cure(text="see the plugin's request and response", lines=(command,)),)


def _cure_there(facts: Facts, half: NodeHalf, text: str) -> Cure:
    """Return the command that finds all of it on the node.

    It has none of the paths that the node told: a program there would be run if it is pasted here.
    """
    return Cure(
        text=f"on node {half.node}, {text}", lines=(shlex.join(("keyferry", "explain", facts.answer.image)),)
    )


def _start_cure(path: str) -> Cure:
    interpreter = missing_interpreter(path, on_host)
    if interpreter.endswith("\r"):
        return Cure(text="convert its line ends", lines=(f"sed -i 's/\\r$//' {shlex.quote(path)}",))
    if interpreter:
        return Cure(text=f"install {interpreter}, or change line 1 of {path}")
    return Cure(text=f"check that {path} is a program for this machine, and that its loader is installed")


@_rule
def _skipped_provider(facts: Facts) -> Cause | None:
    for provision in facts.answer.provisions:
        if provision.outcome is ProvisionOutcome.SKIPPED:
            cause = f"provider {provision.provider!r} is skipped: {provision.skipped}"
            return Cause(cause=cause, cures=_annotation_cures(facts, provision.lacking))
    return None


def _annotation_cures(facts: Facts, key: str) -> tuple[Cure, ...]:
    pod = facts.pod
    if pod is None or not key or facts.is_static:
        return ()
    account, namespace = shlex.quote(pod.service_account_name), shlex.quote(pod.namespace)
    line = f'kubectl annotate serviceaccount {account} -n {namespace} {shlex.quote(key)}="${{VALUE:?}}"'
    return (Cure(text="add the annotation, with the value that the plugin expects", lines=(line,)),)


@_rule
def _response_without_key(facts: Facts) -> Cause | None:
    answer = facts.answer
    provider = next((each.provider for each in answer.provisions if each.outcome in _PLUGIN_OUTCOMES), "")
    if not provider or answer.credentials:
        return None
    registry = registry_of(answer.name)
    cures = (trace_cure(facts, provider, f"see what the plugin returns; a key such as {registry!r} matches"),)
    misses = _near_misses(answer)
    stray = [miss for miss in misses if miss.is_response and miss.source.name == provider]
    if not stray:
        return Cause(cause=f"the plugin of provider {provider!r} returned no credentials", cures=cures)
    keys = ", ".join(repr(miss.pattern) for miss in stray[:_MAX_KEYS])
    keys += ", ..." if len(stray) > _MAX_KEYS else ""
    cause = f"provider {provider!r} returned credentials for {keys} only, which do not match the image"
    return Cause(cause=cause, cures=cures, miss=stray[0])


def trace_cure(facts: Facts, provider: str, text: str) -> Cure:
    """Return how to see what a plugin returns."""
    if not facts.bin_dir or host_root():
        return Cure(text=text)
    if facts.half is not None:
        return _cure_there(facts, facts.half, text)
    return Cure(
        text=text, lines=(trace_command(provider, facts.answer.name, facts.config_path, facts.bin_dir),)
    )


@_rule
def _ignored_setting(facts: Facts) -> Cause | None:
    """The kubelet's config names providers where no kubelet looks for them."""
    if facts.config_path or not facts.ignored_settings:
        return None
    text = "give the kubelet these flags, in the file or unit that starts it, and restart it"
    lines = (f"{CONFIG_FLAG}=FILE {BIN_DIR_FLAG}=DIR",)
    return Cause(cause=facts.ignored_settings[0], cures=(Cure(text=text, lines=lines),))


@_rule
def _near_key_of_secret(facts: Facts) -> Cause | None:
    """The nearest key of a secret that is read, unless a secret that is not used has a login for the image."""
    answer, unused = facts.answer, _unused_secret(facts, is_listed=True)
    keys = [miss for miss in _near_misses(answer) if miss.source.secret is not None]
    if not keys or answer.provisions or (unused is not None and _has_login(answer, unused)):
        return None
    return _of_miss(facts, keys[0])


@_rule
def _listed_secret(facts: Facts) -> Cause | None:
    unused = _unused_secret(facts, is_listed=True)
    return None if unused is None else Cause(cause=str(unused), cures=used_secret(facts, unused))


@_rule
def _secret_that_the_kubelet_cannot_read(facts: Facts) -> Cause | None:
    """By the kubelet's own event, for somebody who may not read secrets."""
    listed = {each.name for each in facts.answer.missing if each.input is LookupInput.PULL_SECRET}
    name = next((each for each in facts.evidence.unread_secrets if each in listed), "")
    if not name or facts.pod is None:
        return None
    namespace = facts.pod.namespace
    cause = (
        f"the kubelet cannot read pull secret {namespace}/{name}, as its event tells: it does not exist there"
    )
    absent = UnusedSecret(name=name, namespace=namespace, reason=UnusedReason.ABSENT, text=cause)
    return Cause(cause=cause, cures=used_secret(facts, absent))


@_rule
def _near_pattern(facts: Facts) -> Cause | None:
    misses = _near_misses(facts.answer)
    return _of_miss(facts, misses[0]) if misses and not facts.answer.provisions else None


@_rule
def _pattern_for_mirror(facts: Facts) -> Cause | None:
    """A pattern that is meant for a mirror, which is never matched."""
    if facts.answer.provisions or facts.answer.outcome is LookupOutcome.UNKNOWN:
        return None
    for trap in facts.traps:
        if trap.outcome is MirrorTrap.MIRROR_PATTERN:
            source = Source(kind=SourceKind.PROVIDER, name=str(trap.facts["provider"]))
            wanted = facts.registry
            miss = Miss(
                source=source, pattern=trap.subject, kind=MissKind.OTHER_HOST, why=trap.text, wanted=wanted
            )
            return Cause(cause=trap.text, cures=_miss_cures(facts, miss), miss=miss)
    return None


@_rule
def _unlisted_secret(facts: Facts) -> Cause | None:
    if facts.answer.provisions or facts.answer.outcome is LookupOutcome.UNKNOWN:
        return None
    unused = _unused_secret(facts, is_listed=False)
    return None if unused is None else Cause(cause=str(unused), cures=used_secret(facts, unused))


@_rule
def _nothing(facts: Facts) -> Cause | None:
    answer = facts.answer
    if answer.provisions or answer.credentials or answer.outcome is LookupOutcome.UNKNOWN:
        return None
    cause = f"nothing that is configured is for {registry_of(answer.name)}"
    if not answer.providers and not any(tuple(keyring.index()) for keyring in answer.keyrings):
        cause = "there is no provider, no pull secret and no docker config"
    return Cause(cause=cause, cures=new_secret(facts), is_certain=False)


def _near_misses(answer: Answer) -> list[Miss]:
    return [miss for miss in find_misses(answer) if miss.is_near]


def _of_miss(facts: Facts, miss: Miss) -> Cause:
    return Cause(
        cause=f"{_subject(miss)} nearly matches: {miss.why}", cures=_miss_cures(facts, miss), miss=miss
    )


def _subject(miss: Miss) -> str:
    is_provider = miss.source.kind == SourceKind.PROVIDER
    noun = "key" if miss.is_response or not is_provider else "pattern"
    owner = f"provider {miss.source.name!r}" if is_provider else str(miss.source)
    return f"{noun} {miss.pattern!r} of {owner}"


def _miss_cures(facts: Facts, miss: Miss) -> tuple[Cure, ...]:
    if not miss.wanted:
        return ()
    if miss.source.kind == SourceKind.PROVIDER:
        where = f" in {facts.config_path}" if facts.config_path else ""
        to = f"to matchImages of provider {miss.source.name!r}{where}, then restart the kubelet"
        line, short = f"- {dumps(miss.wanted)}", f"add {miss.wanted!r} {to}"
        return (Cure(text=f"add this {to}", lines=(line,), short=short),)
    if miss.source.secret is not None:
        return renewed_secret(facts, miss.source.name)
    return (Cure(text=f"add an entry for {miss.wanted!r} to {miss.source.name}"),)


def _unused_secret(facts: Facts, *, is_listed: bool) -> UnusedSecret | None:
    """Return a secret that is not used, among those that the pod or its account lists or among the others.

    It is the first that has a login for the image; without any such, the first.
    """
    meant = (
        each
        for each in facts.unused
        if (each.reason is not UnusedReason.NOT_LISTED) is is_listed and _is_meant(facts, each)
    )
    return min(meant, key=lambda each: not _has_login(facts.answer, each), default=None)


def _is_meant(facts: Facts, unused: UnusedSecret) -> bool:
    """Return whether a secret was meant for the image: the pod lists it, or it has a login for the image."""
    answer = facts.answer
    if unused.reason is UnusedReason.NOT_LISTED:
        is_list_known = all(each.input is not LookupInput.ACCOUNT_SECRETS for each in answer.missing)
        return is_list_known and _has_login(answer, unused)
    if unused.reason is UnusedReason.OTHER_NAMESPACE:
        return unused.name in facts.secret_names or _has_login(answer, unused)
    return True


def _has_login(answer: Answer, unused: UnusedSecret) -> bool:
    """Return whether the kubelet would find a login for the image if it used the secret, with the type of its data."""
    if unused.secret is None:
        return False
    secret = as_pull_secret(unused.secret) or unused.secret
    try:
        return bool(lookup_all(pull_secrets_keyring((secret,)), answer.name))
    except PullSecretError:
        return False


# What a kubelet that reads these files now would find, and what the registry says to it: nothing of it was seen.


def foresee(facts: Facts) -> Explanation:
    """Return what would happen: by the registry's response if it was asked, else by what is found."""
    check = facts.check
    now = foresee_lookup(facts)
    if check is None:
        return now
    if check.verdict is PullVerdict.YES:
        return Explanation(facts=facts, outcome=Outcome.FOUND, text=check.text)
    if check.kind is Kind.NOT_FOUND:
        return _not_found(facts, check)
    if now.verdict is not PullVerdict.NO:
        is_refused = check.kind is Kind.REFUSED and facts.has_credentials
        return _refused(facts, check) if is_refused else _unknown(facts, check)
    # Whether the registry answers or not, a cause that is found without it stays the cause.
    told = () if check.kind is Kind.REFUSED else (f"the registry was asked, too: {check.text}",)
    return replace(now, notes=told)


def foresee_lookup(facts: Facts) -> Explanation:
    """Return which credentials a kubelet would find, or why none."""
    answer = facts.answer
    if facts.has_credentials:
        unsure = "; the kubelet may get another in its place" if facts.is_unsure else ""
        outcome = Outcome.UNKNOWN if unsure else Outcome.FOUND
        text = f"{found_text(facts)}{unsure}"
        found = Explanation(
            facts=facts, outcome=outcome, text=text, cures=next_check(facts), about=Subject.CREDENTIAL
        )
        return with_inputs(found)
    cause = find_lookup_cause(facts) or Cause(cause="")
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
    text = check.text if outcome is Outcome.OTHER_REASON else f"{check.text}; {cause}"
    return with_inputs(Explanation(facts=facts, outcome=outcome, text=text, cause=cause, cures=(cure,)))


def _refused(facts: Facts, check: RegistryCheck) -> Explanation:
    attempts = (each for each in check.attempts if each.kind is Kind.REFUSED)
    refused = list(dict.fromkeys(each.credential for each in attempts if each.credential))
    cures = tuple(credential_cures(facts, *refused))
    message = "" if check.error is None else f": {check.error.message}"
    host = check.error.registry if isinstance(check.error, RegistryError) else facts.registry
    cause = f"{host} refuses {all_of(refused)}{message}"
    outcome = Outcome.REFUSED if check.verdict is PullVerdict.NO else Outcome.UNKNOWN
    text = cause if outcome is Outcome.REFUSED else f"{check.text}; {cause}"
    return with_inputs(
        Explanation(facts=facts, outcome=outcome, text=text, cause=cause, cures=cures[:MAX_CURES])
    )


def _unknown(facts: Facts, check: RegistryCheck) -> Explanation:
    cures: tuple[Cure, ...] = ()
    if check.kind is Kind.UNREACHABLE:
        checked = "the network, the proxy and the trusted certificates of the node"
        cures = (Cure(text=f"check the name and the port of {facts.registry}, and {checked}"),)
    elif check.kind is Kind.THROTTLED:
        cures = (wait_cure(facts), *(() if facts.answer.credentials else new_secret(facts)))
    outcome = Outcome.UNKNOWN if check.verdict is PullVerdict.UNKNOWN else Outcome.NO_CREDENTIAL
    return with_inputs(Explanation(facts=facts, outcome=outcome, text=check.text, cures=cures))
