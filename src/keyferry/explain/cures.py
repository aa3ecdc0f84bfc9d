"""The likely cause of a missing or refused credential, and changes and commands that cure it."""

from collections.abc import Iterator
from os.path import join

from keyferry._core.json import dumps
from keyferry._core.program.start_problem import missing_interpreter
from keyferry._core.values import Value, replace
from keyferry.errors import KeyferryError, Kind, PullSecretError
from keyferry.explain.explanation import Explanation
from keyferry.explain.mirrors import MirrorTrap
from keyferry.explain.plugin_hint import plugin_command, trace_command
from keyferry.explain.registry import PullVerdict, RegistryCheck
from keyferry.explain.secret_cures import Cure, new_secret, renewed_secret, used_secret
from keyferry.explain.verdict import who
from keyferry.images.answer import Answer
from keyferry.images.credential import Credential, Source, SourceKind
from keyferry.images.keyring import lookup_all
from keyferry.images.lookup import pull_secrets_keyring
from keyferry.images.missing import ACCOUNT_INPUTS, LookupInput, MissingInput
from keyferry.images.provider.provision import ProvisionOutcome
from keyferry.images.reference import registry_of
from keyferry.images.result import LookupOutcome
from keyferry.images.why.nearness import Miss, MissKind, find_misses
from keyferry.images.why.traps import empty_login_text, is_empty_login
from keyferry.show.paste import join_words, quote_word
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, as_pull_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.pulls.mirrors.endpoints import Mirrors

__all__ = ["LikelyCause", "describe_miss", "find_cause"]

_PLUGIN_OUTCOMES = (ProvisionOutcome.CACHED, ProvisionOutcome.RAN, ProvisionOutcome.SHARED)


# More of them are hard to choose from.
_MOST_CURES = 3


class LikelyCause(Value):
    """The likely cause, empty if there is nothing to explain, and its cures.

    *miss* is the near miss that it is about.
    """

    cause: str = ""
    cures: tuple[Cure, ...] = ()
    miss: Miss | None = None


def find_cause(explanation: Explanation) -> LikelyCause:
    """Return the likely cause of what the verdict says, and its cures."""
    check, answer = explanation.check, explanation.answer
    if explanation.unreadable is not None:
        unreadable = explanation.unreadable
        return LikelyCause(str(unreadable), used_secret(explanation, unreadable))
    if explanation.is_never_pulled:
        return LikelyCause(cures=_of_node(explanation))
    if check is not None and check.verdict is PullVerdict.YES:
        return LikelyCause()
    if check is not None and check.mirrors is not None and check.is_blocked:
        return _of_block(check.mirrors)
    if check is not None and check.error is not None and (answer.credentials or _is_no_refusal(check)):
        found = _of_registry(explanation, check)
    elif answer.credentials and all(map(is_empty_login, answer.credentials)):
        found = _of_empty_login(explanation, answer.credentials[0])
        found = replace(found, cures=(*found.cures, *_next_check(explanation)))
    elif answer.credentials:
        found = LikelyCause(cures=_next_check(explanation))
    else:
        found = _of_lookup(explanation)
    inputs = tuple(_inputs(explanation))
    is_first = answer.outcome is LookupOutcome.UNKNOWN and not found.cause
    cures = (*inputs, *found.cures) if is_first else (*found.cures, *inputs)
    return replace(found, cures=cures)


def describe_miss(miss: Miss) -> str:
    """Return a near miss in one sentence, with the pattern that would match."""
    would = f"; {miss.wanted!r} would match" if miss.wanted and not miss.is_response else ""
    return (
        f"{_subject(miss)} {miss.why}{would}" if miss.is_response else f"{_subject(miss)}: {miss.why}{would}"
    )


def _subject(miss: Miss) -> str:
    noun = "key" if miss.is_response or miss.source.kind != SourceKind.PROVIDER else "pattern"
    return f"{noun} {miss.pattern!r} of {_owner(miss)}"


def _owner(miss: Miss) -> str:
    source = miss.source
    return f"provider {source.name!r}" if source.kind == SourceKind.PROVIDER else str(source)


def _next_check(explanation: Explanation) -> tuple[Cure, ...]:
    if explanation.check is not None or not explanation.command:
        return ()
    registry = registry_of(explanation.answer.name)
    return (Cure(f"to check whether {registry} accepts it", (f"{explanation.command} --check-registry",)),)


# A lookup without credentials.


def _of_lookup(explanation: Explanation) -> LikelyCause:
    answer = explanation.answer
    if answer.kubelet_failures:
        failure = answer.kubelet_failures[0]
        return LikelyCause(str(failure.error), _plugin_cures(explanation, failure.provider, failure.error))
    misses = [miss for miss in find_misses(answer) if miss.is_near]
    for provision in answer.provisions:
        if provision.outcome is ProvisionOutcome.SKIPPED:
            cause = f"provider {provision.provider!r} is skipped: {provision.skipped}"
            return LikelyCause(cause, _annotation_cures(explanation, provision.lacking))
        if provision.outcome in _PLUGIN_OUTCOMES:
            return _of_response(explanation, provision.provider, misses)
    return (
        _of_key(explanation, misses)
        or _of_secret(explanation, is_listed=True)
        or _of_miss(explanation, misses)
    )


def _of_key(explanation: Explanation, misses: list[Miss]) -> LikelyCause | None:
    """Return the nearest key of a secret that is read, unless a secret that is not used has a login for the image."""
    answer, unused = explanation.answer, _unused_secret(explanation, is_listed=True)
    keys = [miss for miss in misses if miss.source.secret is not None]
    if not keys or answer.provisions or (unused is not None and _has_login(answer, unused)):
        return None
    return _of_miss(explanation, keys)


def _of_secret(explanation: Explanation, *, is_listed: bool) -> LikelyCause | None:
    """Return a secret that is not used as the cause, if there is one."""
    unused = _unused_secret(explanation, is_listed=is_listed)
    return None if unused is None else LikelyCause(str(unused), used_secret(explanation, unused))


def _unused_secret(explanation: Explanation, *, is_listed: bool) -> UnusedSecret | None:
    """Return a secret that is not used, among those that the pod or its account lists or among the others.

    It is the first that has a login for the image; without any such, the first.
    """
    meant = (
        each
        for each in explanation.unused
        if (each.reason is not UnusedReason.NOT_LISTED) is is_listed and _is_meant(explanation, each)
    )
    return min(meant, key=lambda each: not _has_login(explanation.answer, each), default=None)


def _is_meant(explanation: Explanation, unused: UnusedSecret) -> bool:
    """Return whether a secret was meant for the image: the pod lists it, or it has a login for the image."""
    answer = explanation.answer
    if unused.reason is UnusedReason.NOT_LISTED:
        is_list_known = all(each.input is not LookupInput.ACCOUNT_SECRETS for each in answer.missing)
        return is_list_known and _has_login(answer, unused)
    if unused.reason is UnusedReason.OTHER_NAMESPACE:
        return unused.name in explanation.secret_names or _has_login(answer, unused)
    return True


def _of_miss(explanation: Explanation, misses: list[Miss]) -> LikelyCause:
    answer = explanation.answer
    if answer.provisions:
        return LikelyCause()
    if misses:
        cause = f"{_subject(misses[0])} nearly matches: {misses[0].why}"
        return LikelyCause(cause, _miss_cures(explanation, misses[0]), misses[0])
    if explanation.answer.outcome is LookupOutcome.UNKNOWN:
        return LikelyCause()
    nothing = LikelyCause(_nothing_near(explanation), new_secret(explanation))
    return _of_mirror(explanation) or _of_secret(explanation, is_listed=False) or nothing


def _of_mirror(explanation: Explanation) -> LikelyCause | None:
    """Return the first pattern that is meant for a mirror, which is never matched."""
    for trap in explanation.traps:
        if trap.outcome is MirrorTrap.MIRROR_PATTERN:
            source = Source(SourceKind.PROVIDER, str(trap.facts["provider"]))
            wanted = registry_of(explanation.answer.name)
            miss = Miss(source, trap.subject, MissKind.OTHER_HOST, trap.text, wanted)
            return LikelyCause(trap.text, _miss_cures(explanation, miss), miss)
    return None


def _annotation_cures(explanation: Explanation, key: str) -> tuple[Cure, ...]:
    pod = explanation.pod
    if pod is None or not key:
        return ()
    account, namespace = quote_word(pod.service_account_name), quote_word(pod.namespace)
    line = f"kubectl annotate serviceaccount {account} -n {namespace} {quote_word(f'{key}=VALUE')}"
    return (Cure("add the annotation, with the value that the plugin expects", (line,)),)


def _of_response(explanation: Explanation, provider: str, misses: list[Miss]) -> LikelyCause:
    registry = registry_of(explanation.answer.name)
    cures = (
        Cure(
            f"see what the plugin returns; a key such as {registry!r} matches",
            _trace(explanation, provider),
        ),
    )
    stray = [miss for miss in misses if miss.is_response and miss.source.name == provider]
    if not stray:
        return LikelyCause(f"the plugin of provider {provider!r} returned no credentials", cures)
    keys = ", ".join(repr(miss.pattern) for miss in stray[:3]) + (", ..." if len(stray) > 3 else "")
    cause = f"provider {provider!r} returned credentials for {keys} only, which do not match the image"
    return LikelyCause(cause, cures, stray[0])


def _nothing_near(explanation: Explanation) -> str:
    answer = explanation.answer
    if not answer.providers and not any(tuple(keyring.index()) for keyring in answer.keyrings):
        return "there is no provider, no pull secret and no docker config"
    return f"nothing that is configured is for {registry_of(answer.name)}"


def _miss_cures(explanation: Explanation, miss: Miss) -> tuple[Cure, ...]:
    if not miss.wanted:
        return ()
    if miss.source.kind == SourceKind.PROVIDER:
        where = f" in {explanation.config_path}" if explanation.config_path else ""
        text = f"add this to matchImages of provider {miss.source.name!r}{where}, then restart the kubelet"
        return (Cure(text, (f"- {dumps(miss.wanted)}",)),)
    if miss.source.secret is not None:
        return renewed_secret(explanation, miss.source.name, "")
    return (Cure(f"change the key {miss.pattern!r} to {miss.wanted!r} in {miss.source.name}"),)


def _plugin_cures(explanation: Explanation, provider: str, error: KeyferryError) -> tuple[Cure, ...]:
    name, config, bin_dir = explanation.answer.name, explanation.config_path, explanation.bin_dir
    command = plugin_command(error, provider, name, config, bin_dir)
    if not command:
        return ()
    if error.kind is Kind.NOT_FOUND:
        return (
            Cure(f"install {provider!r} in {bin_dir}; this lists everything that is missing", (command,)),
        )
    if error.kind is Kind.START:
        return (_start_cure(join(bin_dir, provider)),)
    return (Cure("see the plugin's request and response", (command,)),)


def _start_cure(path: str) -> Cure:
    interpreter = missing_interpreter(path)
    if interpreter.endswith("\r"):
        return Cure("convert its line ends", (join_words("sed", "-i", r"s/\r$//", path),))
    if interpreter:
        return Cure(f"install {interpreter}, or change line 1 of {path}")
    return Cure(f"check that {path} is a program for this machine, and that its loader is installed")


def _trace(explanation: Explanation, provider: str) -> tuple[str, ...]:
    if not explanation.bin_dir:
        return ()
    name, config = explanation.answer.name, explanation.config_path
    return (trace_command(provider, name, config, explanation.bin_dir),)


# An image that the runtime blocks.


def _of_block(mirrors: "Mirrors") -> LikelyCause:
    place = f"line {mirrors.blocked_line} of {mirrors.file}" if mirrors.blocked_line else mirrors.file
    text = f"replace 'blocked = true' in {place} by this, then reload {mirrors.runtime}"
    cause = f"{place} blocks the image, whatever the registry says"
    return LikelyCause(cause, (Cure(text, ("blocked = false",)),))


# A registry that refused.


def _is_no_refusal(check: RegistryCheck) -> bool:
    return check.kind is not Kind.REFUSED


def _of_registry(explanation: Explanation, check: RegistryCheck) -> LikelyCause:
    assert check.error is not None  # noqa: S101 - the caller checked
    failed = next(each for each in check.attempts if each.error is check.error)
    registry = registry_of(explanation.answer.name)
    if check.kind is Kind.NOT_FOUND:
        cause = f"{registry} {check.error.message}; registries respond so to every user without access"
        access = "a credential" if failed.credential is None else f"{who(failed.credential)} access to it"
        return LikelyCause(cause, (Cure(f"check the name and the tag; if they are right, give {access}"),))
    if check.kind is Kind.REFUSED and failed.credential is not None:
        if is_empty_login(failed.credential):
            return _of_empty_login(explanation, failed.credential)
        cause = "the credential is wrong, has expired, or its user may not pull this image"
        cause = f"{registry} {check.error.message}: {cause}"
        refused = (each.credential for each in check.attempts if each.kind is Kind.REFUSED)
        cures = (_credential_cures(explanation, each) for each in refused if each is not None)
        return LikelyCause(cause, tuple(cure for each in cures for cure in each)[:_MOST_CURES])
    if check.kind is Kind.UNREACHABLE:
        # The verdict names the error.
        text = f"check the name and the port of {registry}, and the network, the proxy and the trusted certificates"
        return LikelyCause(cures=(Cure(f"{text} of the node"),))
    if check.kind is Kind.THROTTLED:
        return LikelyCause(cures=_slower(explanation, failed.credential))
    return LikelyCause()


def _slower(explanation: Explanation, credential: Credential | None) -> tuple[Cure, ...]:
    wait = Cure("wait: the kubelet tries again by itself")
    if credential is not None:
        return (wait,)
    return (
        Cure(f"{wait.text}; a registry may permit more pulls to a user of its own"),
        *new_secret(explanation),
    )


def _of_empty_login(explanation: Explanation, credential: Credential) -> LikelyCause:
    source = credential.source
    cures = () if source.secret is None else renewed_secret(explanation, source.name, "")
    text = f"write a user name and a password, or auth, for {credential.key!r} in {source}"
    helper = "a credential helper of docker (credsStore, credHelpers) or an identity token stays unread"
    lines = tuple(line for cure in cures for line in cure.lines)
    return LikelyCause(empty_login_text(credential), (Cure(f"{text}, since {helper}", lines),))


def _credential_cures(explanation: Explanation, credential: Credential) -> tuple[Cure, ...]:
    source = credential.source
    if source.kind == SourceKind.PROVIDER:
        return (Cure("see what the plugin returns", _trace(explanation, source.name)),)
    if source.secret is not None:
        return renewed_secret(explanation, source.name, credential.username)
    return (Cure(f"renew the login of {credential.key!r} in {source.name}"),)


def _of_node(explanation: Explanation) -> tuple[Cure, ...]:
    """Return the cures for an image that must be on the node."""
    pull = Cure("or let the kubelet pull it: set imagePullPolicy to IfNotPresent")
    if explanation.decision is None:
        lines = (f"{explanation.command} --cri auto",) if explanation.command else ()
        return (Cure("ask the container runtime, on the pod's node", lines), pull)
    return (Cure("load the image into the container runtime of the node"), pull)


def _has_login(answer: Answer, unused: UnusedSecret) -> bool:
    """Return whether the kubelet would find a login for the image if it used the secret, with the type of its data."""
    if unused.secret is None:
        return False
    secret = as_pull_secret(unused.secret) or unused.secret
    try:
        return bool(lookup_all(pull_secrets_keyring((secret,)), answer.name))
    except PullSecretError:
        return False


# Inputs that are missing.


def _inputs(explanation: Explanation) -> Iterator[Cure]:
    answer = explanation.answer
    for at, (missing, hint) in enumerate(zip(answer.missing, explanation.hints, strict=False)):
        # The verdict names the first one.
        is_told = not at and answer.outcome is LookupOutcome.UNKNOWN and explanation.check is None
        text = hint.removeprefix(f"{missing}; ") if is_told else hint
        yield Cure(text, tuple(_input_lines(explanation, missing)))
    if explanation.try_command:
        text = "see which step from the service account to the registry fails"
        yield Cure(text, (explanation.try_command,))


def _input_lines(explanation: Explanation, missing: MissingInput) -> Iterator[str]:
    command = explanation.command
    if not command or missing.instead:
        return
    if missing is next((each for each in explanation.answer.missing if each.input in ACCOUNT_INPUTS), None):
        yield from explanation.account_lines
    elif missing.input is LookupInput.PULL_SECRET and explanation.pod is not None:
        name, namespace = quote_word(missing.name), quote_word(explanation.pod.namespace)
        file = quote_word(f"{missing.name}.yaml")
        yield f"kubectl get secret {name} -n {namespace} -o yaml > {file}"
        yield f"{command} --secret {file}"
    elif missing.input is LookupInput.DOCKER_CONFIG:
        yield f"{command} --docker-config {quote_word(missing.name)}"
    elif missing.input is LookupInput.SERVICE_ACCOUNT_TOKEN:
        namespace, _, name = missing.name.partition("/")
        audience = _audience(explanation)
        yield f"kubectl create token {quote_word(name)} -n {quote_word(namespace)}{audience} > token"
        yield f"{command} --service-account-token token"


def _audience(explanation: Explanation) -> str:
    """Return the option for the audience of the first provider that lacks a token."""
    answer = explanation.answer
    lacking = {each.provider for each in answer.provisions if each.missing}
    for provider in answer.providers:
        if provider.name in lacking and provider.token_attributes is not None:
            return f" --audience {quote_word(provider.token_attributes.service_account_token_audience)}"
    return ""
