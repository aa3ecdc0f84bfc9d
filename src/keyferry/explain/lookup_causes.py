"""Why no credential is found for an image: a table of causes, the most specific first, each with its cure."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from os.path import join

from keyferry._core.json import dumps
from keyferry._core.program.start import missing_interpreter
from keyferry.errors import (
    KeyferryError,
    Kind,
    NodeAudienceError,
    PluginExitError,
    PluginNotFoundError,
    PullSecretError,
)
from keyferry.explain.explanation import Cure, LikelyCause
from keyferry.explain.facts import Facts
from keyferry.explain.mirrors import MirrorTrap
from keyferry.explain.plugin_hint import plugin_command, trace_command
from keyferry.explain.secret_cures import new_secret, renewed_secret, used_secret
from keyferry.explain.times import clock_text
from keyferry.images.answer import Answer, LookupInput, LookupOutcome, ProvisionOutcome
from keyferry.images.keyring import Source, SourceKind, lookup_all
from keyferry.images.lookup import pull_secrets_keyring
from keyferry.images.node.kubelet import BIN_DIR_FLAG, CONFIG_FLAG
from keyferry.images.reasons.nearness import Miss, MissKind, find_misses
from keyferry.images.reasons.traps import empty_login_text, is_empty_login
from keyferry.images.reference import registry_of
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, as_pull_secret

__all__ = ["describe_miss", "find_lookup_cause", "trace_cure"]

_PLUGIN_OUTCOMES = (ProvisionOutcome.CACHED, ProvisionOutcome.RAN, ProvisionOutcome.SHARED)
_MOST_KEYS = 3
_Rule = Callable[[Facts], LikelyCause | None]
_RULES: list[_Rule] = []


def find_lookup_cause(facts: Facts) -> LikelyCause | None:
    """Return why no credential is found, or why the one that is found is empty; None if nothing tells."""
    return next(filter(None, (rule(facts) for rule in _RULES)), None)


def describe_miss(miss: Miss) -> str:
    """Return a near miss in one sentence, with the pattern that would match."""
    would = f"; {miss.wanted!r} would match" if miss.wanted and not miss.is_response else ""
    return f"{_subject(miss)}{' ' if miss.is_response else ': '}{miss.why}{would}"


def _cause(rule: _Rule) -> _Rule:
    """Add a rule to the table, in the order of the module."""
    _RULES.append(rule)
    return rule


@_cause
def _unreadable_secret(facts: Facts) -> LikelyCause | None:
    unused = facts.unreadable
    return None if unused is None else LikelyCause(cause=str(unused), cures=used_secret(facts, unused))


@_cause
def _empty_login(facts: Facts) -> LikelyCause | None:
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
    return LikelyCause(cause=empty_login_text(credentials[0]), cures=cures)


@_cause
def _node_may_not_request_token(facts: Facts) -> LikelyCause | None:
    failures = facts.answer.kubelet_failures
    error = failures[0].error if failures else None
    if not isinstance(error, NodeAudienceError):
        return None
    objects = {"apiVersion": "v1", "kind": "List", "items": list(error.manifests)}
    line = f"echo {shlex.quote(dumps(objects))} | kubectl apply -f -"
    text = "as an administrator of the cluster, permit it; this adds objects of their own, and takes nothing away"
    return LikelyCause(cause=str(error), cures=(Cure(text=text, lines=(line,)),))


@_cause
def _failed_plugin(facts: Facts) -> LikelyCause | None:
    failures = facts.answer.kubelet_failures
    if not failures:
        return None
    provider, error = failures[0].provider, failures[0].error
    return LikelyCause(cause=_plugin_words(facts, error), cures=_plugin_cures(facts, provider, error))


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
    if error.kind is Kind.NOT_FOUND:
        return (
            Cure(text=f"install {provider!r} in {bin_dir}; this lists all that is missing", lines=(command,)),
        )
    if error.kind is Kind.START:
        return (_start_cure(join(bin_dir, provider)),)
    return (Cure(text="see the plugin's request and response", lines=(command,)),)


def _start_cure(path: str) -> Cure:
    interpreter = missing_interpreter(path)
    if interpreter.endswith("\r"):
        return Cure(text="convert its line ends", lines=(f"sed -i 's/\\r$//' {shlex.quote(path)}",))
    if interpreter:
        return Cure(text=f"install {interpreter}, or change line 1 of {path}")
    return Cure(text=f"check that {path} is a program for this machine, and that its loader is installed")


@_cause
def _skipped_provider(facts: Facts) -> LikelyCause | None:
    for provision in facts.answer.provisions:
        if provision.outcome is ProvisionOutcome.SKIPPED:
            cause = f"provider {provision.provider!r} is skipped: {provision.skipped}"
            return LikelyCause(cause=cause, cures=_annotation_cures(facts, provision.lacking))
    return None


def _annotation_cures(facts: Facts, key: str) -> tuple[Cure, ...]:
    pod = facts.pod
    if pod is None or not key or facts.is_static:
        return ()
    account, namespace = shlex.quote(pod.service_account_name), shlex.quote(pod.namespace)
    line = f'kubectl annotate serviceaccount {account} -n {namespace} {shlex.quote(key)}="${{VALUE:?}}"'
    return (Cure(text="add the annotation, with the value that the plugin expects", lines=(line,)),)


@_cause
def _response_without_key(facts: Facts) -> LikelyCause | None:
    answer = facts.answer
    provider = next((each.provider for each in answer.provisions if each.outcome in _PLUGIN_OUTCOMES), "")
    if not provider or answer.credentials:
        return None
    registry = registry_of(answer.name)
    cures = (trace_cure(facts, provider, f"see what the plugin returns; a key such as {registry!r} matches"),)
    misses = _near_misses(answer)
    stray = [miss for miss in misses if miss.is_response and miss.source.name == provider]
    if not stray:
        return LikelyCause(cause=f"the plugin of provider {provider!r} returned no credentials", cures=cures)
    keys = ", ".join(repr(miss.pattern) for miss in stray[:_MOST_KEYS])
    keys += ", ..." if len(stray) > _MOST_KEYS else ""
    cause = f"provider {provider!r} returned credentials for {keys} only, which do not match the image"
    return LikelyCause(cause=cause, cures=cures, miss=stray[0])


def trace_cure(facts: Facts, provider: str, text: str) -> Cure:
    """Return how to see what a plugin returns."""
    if not facts.bin_dir:
        return Cure(text=text)
    return Cure(
        text=text, lines=(trace_command(provider, facts.answer.name, facts.config_path, facts.bin_dir),)
    )


@_cause
def _ignored_setting(facts: Facts) -> LikelyCause | None:
    """The kubelet's config names providers where no kubelet looks for them."""
    if facts.config_path or not facts.ignored_settings:
        return None
    text = "give the kubelet these flags, in the file or unit that starts it, and restart it"
    lines = (f"{CONFIG_FLAG}=FILE {BIN_DIR_FLAG}=DIR",)
    return LikelyCause(cause=facts.ignored_settings[0], cures=(Cure(text=text, lines=lines),))


@_cause
def _near_key_of_secret(facts: Facts) -> LikelyCause | None:
    """The nearest key of a secret that is read, unless a secret that is not used has a login for the image."""
    answer, unused = facts.answer, _unused_secret(facts, is_listed=True)
    keys = [miss for miss in _near_misses(answer) if miss.source.secret is not None]
    if not keys or answer.provisions or (unused is not None and _has_login(answer, unused)):
        return None
    return _of_miss(facts, keys[0])


@_cause
def _listed_secret(facts: Facts) -> LikelyCause | None:
    unused = _unused_secret(facts, is_listed=True)
    return None if unused is None else LikelyCause(cause=str(unused), cures=used_secret(facts, unused))


@_cause
def _secret_that_the_kubelet_cannot_read(facts: Facts) -> LikelyCause | None:
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
    return LikelyCause(cause=cause, cures=used_secret(facts, absent))


@_cause
def _near_pattern(facts: Facts) -> LikelyCause | None:
    misses = _near_misses(facts.answer)
    return _of_miss(facts, misses[0]) if misses and not facts.answer.provisions else None


@_cause
def _pattern_for_mirror(facts: Facts) -> LikelyCause | None:
    """A pattern that is meant for a mirror, which is never matched."""
    if facts.answer.provisions or facts.answer.outcome is LookupOutcome.UNKNOWN:
        return None
    for trap in facts.traps:
        if trap.outcome is MirrorTrap.MIRROR_PATTERN:
            source = Source(kind=SourceKind.PROVIDER, name=str(trap.facts["provider"]))
            wanted = registry_of(facts.answer.name)
            miss = Miss(
                source=source, pattern=trap.subject, kind=MissKind.OTHER_HOST, why=trap.text, wanted=wanted
            )
            return LikelyCause(cause=trap.text, cures=_miss_cures(facts, miss), miss=miss)
    return None


@_cause
def _unlisted_secret(facts: Facts) -> LikelyCause | None:
    if facts.answer.provisions or facts.answer.outcome is LookupOutcome.UNKNOWN:
        return None
    unused = _unused_secret(facts, is_listed=False)
    return None if unused is None else LikelyCause(cause=str(unused), cures=used_secret(facts, unused))


@_cause
def _nothing(facts: Facts) -> LikelyCause | None:
    answer = facts.answer
    if answer.provisions or answer.credentials or answer.outcome is LookupOutcome.UNKNOWN:
        return None
    cause = f"nothing that is configured is for {registry_of(answer.name)}"
    if not answer.providers and not any(tuple(keyring.index()) for keyring in answer.keyrings):
        cause = "there is no provider, no pull secret and no docker config"
    return LikelyCause(cause=cause, cures=new_secret(facts), is_certain=False)


def _near_misses(answer: Answer) -> list[Miss]:
    return [miss for miss in find_misses(answer) if miss.is_near]


def _of_miss(facts: Facts, miss: Miss) -> LikelyCause:
    return LikelyCause(
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
        text = f"add this to matchImages of provider {miss.source.name!r}{where}, then restart the kubelet"
        return (Cure(text=text, lines=(f"- {dumps(miss.wanted)}",)),)
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
