"""The likely cause of a missing or refused credential, and changes and commands that cure it."""

from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry._core.values import Value
from keyferry.errors import KeyferryError, Kind, PullSecretError
from keyferry.explain.explanation import Explanation
from keyferry.explain.plugin_hint import plugin_command, trace_command
from keyferry.explain.registry import PullVerdict, RegistryCheck
from keyferry.explain.verdict import who
from keyferry.images.answer import Answer
from keyferry.images.keyring import Credential, SourceKind, lookup_all
from keyferry.images.lookup import pull_secrets_keyring
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.images.provider.provision import ProvisionOutcome
from keyferry.images.reference import registry_of
from keyferry.images.result import LookupOutcome
from keyferry.images.why.nearness import Miss, find_misses
from keyferry.show.paste import quote_word
from keyferry.workloads.secrets import UnusedReason, UnusedSecret

__all__ = ["Cure", "LikelyCause", "describe_miss", "find_cause"]

_NEW_SECRET = "regcred"  # noqa: S105 - the name that the documentation of Kubernetes uses
# The values come from the shell that runs the command: no password is ever written here.
_SECRET_TYPE = "kubernetes.io/dockerconfigjson"  # noqa: S105 - the type that kubectl creates
_USER, _PASSWORD = '"$REGISTRY_USERNAME"', '"$REGISTRY_PASSWORD"'
_PLUGIN_OUTCOMES = (ProvisionOutcome.CACHED, ProvisionOutcome.RAN, ProvisionOutcome.SHARED)


# More of them are hard to choose from.
_MOST_CURES = 3


class Cure(Value):
    """A change that helps, and the lines to paste for it: commands, or lines of a file."""

    text: str
    lines: tuple[str, ...] = ()


class LikelyCause(Value):
    """The likely cause, empty if there is nothing to explain, and its cures; *miss* is the near miss it is about."""

    cause: str = ""
    cures: tuple[Cure, ...] = ()
    miss: Miss | None = None


def find_cause(explanation: Explanation) -> LikelyCause:
    """Return the likely cause of what the verdict says, and its cures."""
    check, answer = explanation.check, explanation.answer
    unused = _of_unused(explanation)
    if explanation.unreadable is not None:
        return _of_unreadable(explanation, explanation.unreadable)
    if explanation.is_never_pulled:
        return LikelyCause(cures=_of_node(explanation))
    if check is not None and check.verdict is PullVerdict.YES:
        return LikelyCause()
    if check is not None and check.error is not None and (answer.credentials or _is_no_refusal(check)):
        found = _of_registry(explanation, check)
    elif answer.credentials:
        found = LikelyCause(cures=_next_check(explanation))
    else:
        found = unused or _of_lookup(explanation)
    inputs = tuple(_inputs(explanation))
    is_first = answer.outcome is LookupOutcome.UNKNOWN and found is not unused
    cures = (*inputs, *found.cures) if is_first else (*found.cures, *inputs)
    return LikelyCause(found.cause, cures, found.miss)


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
            return LikelyCause(f"provider {provision.provider!r} is skipped: {provision.skipped}")
        if provision.outcome in _PLUGIN_OUTCOMES:
            return _of_response(explanation, provision.provider, misses)
    if answer.provisions or answer.outcome is LookupOutcome.UNKNOWN:
        return LikelyCause()
    if misses:
        cause = f"{_subject(misses[0])} nearly matches: {misses[0].why}"
        return LikelyCause(cause, _miss_cures(explanation, misses[0]), misses[0])
    return LikelyCause(_nothing_near(explanation), _new_secret(explanation))


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
        return _renewed_secret(explanation, miss.source.name, "")
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
    return (Cure("see the plugin's request and response", (command,)),)


def _trace(explanation: Explanation, provider: str) -> tuple[str, ...]:
    if not explanation.bin_dir:
        return ()
    name, config = explanation.answer.name, explanation.config_path
    return (trace_command(provider, name, config, explanation.bin_dir),)


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
        cause = "the credential is wrong, has expired, or its user may not pull this image"
        cause = f"{registry} {check.error.message}: {cause}"
        refused = (each.credential for each in check.attempts if each.kind is Kind.REFUSED)
        cures = (_credential_cures(explanation, each) for each in refused if each is not None)
        return LikelyCause(cause, tuple(cure for each in cures for cure in each)[:_MOST_CURES])
    if check.kind is Kind.UNREACHABLE:
        # The verdict names the error.
        text = f"check the name and the port of {registry}, and the network, the proxy and the trusted certificates"
        return LikelyCause(cures=(Cure(f"{text} of the node"),))
    return LikelyCause()


def _credential_cures(explanation: Explanation, credential: Credential) -> tuple[Cure, ...]:
    source = credential.source
    if source.kind == SourceKind.PROVIDER:
        return (Cure("see what the plugin returns", _trace(explanation, source.name)),)
    if source.secret is not None:
        return _renewed_secret(explanation, source.name, credential.username)
    return (Cure(f"renew the login of {credential.key!r} in {source.name}"),)


# Secrets.


def _renewed_secret(explanation: Explanation, name: str, username: str) -> tuple[Cure, ...]:
    registry = registry_of(explanation.answer.name)
    if _has_other_keys(explanation, name):
        # The command would write a secret with one key, and the others would be lost.
        return (Cure(f"change the entry for {registry} in pull secret {name}, and keep its other entries"),)
    namespace, _, name = name.rpartition("/")
    text = f"replace secret {name!r} by one with a user and password of {registry}"
    command = _create_secret(explanation, namespace, name, username)
    return (Cure(text, (f"{command} --dry-run=client -o yaml | kubectl apply -f -",)),)


def _has_other_keys(explanation: Explanation, name: str) -> bool:
    keys = [
        credential.key
        for keyring in explanation.answer.keyrings
        for key in keyring.index()
        for credential in keyring.credentials(key)
        if credential.source.kind == SourceKind.PULL_SECRET and credential.source.name == name
    ]
    return len(keys) > 1


def _of_unreadable(explanation: Explanation, unused: UnusedSecret) -> LikelyCause:
    """Return the cause of a lookup that fails as a whole, and a secret in place of the one that cannot be read."""
    return LikelyCause(str(unused), _replaced(explanation, unused))


def _of_node(explanation: Explanation) -> tuple[Cure, ...]:
    """Return the cures for an image that must be on the node."""
    pull = Cure("or let the kubelet pull it: set imagePullPolicy to IfNotPresent")
    if explanation.decision is None:
        lines = (f"{explanation.command} --cri auto",) if explanation.command else ()
        return (Cure("ask the container runtime, on the pod's node", lines), pull)
    return (Cure("load the image into the container runtime of the node"), pull)


def _of_unused(explanation: Explanation) -> LikelyCause | None:
    """Return a secret that was meant for the image and is not used as the cause; None if there is none."""
    answer = explanation.answer
    if answer.credentials or answer.kubelet_failures:
        return None
    is_list_known = all(each.input is not LookupInput.ACCOUNT_SECRETS for each in answer.missing)
    for unused in explanation.unused:
        if unused.reason is UnusedReason.NOT_LISTED:
            if is_list_known and _matches(answer, unused):
                return LikelyCause(str(unused), _listed(explanation, unused.name))
        elif unused.reason is UnusedReason.OTHER_NAMESPACE:
            if unused.name in explanation.secret_names or _matches(answer, unused):
                return LikelyCause(str(unused), _copied(explanation, unused))
        else:
            return LikelyCause(str(unused), _replaced(explanation, unused))
    return None


def _matches(answer: Answer, unused: UnusedSecret) -> bool:
    if unused.secret is None:
        return False
    try:
        return bool(lookup_all(pull_secrets_keyring((unused.secret,)), answer.name))
    except PullSecretError:
        return False


def _copied(explanation: Explanation, unused: UnusedSecret) -> tuple[Cure, ...]:
    """Return the cures for a secret of another namespace: a copy in the pod's, and its name in the pod's list."""
    if explanation.pod is None:
        return ()
    old, new = unused.namespace, explanation.pod.namespace
    edit = quote_word(f"s/^  namespace: {old}$/  namespace: {new}/")
    get = f"kubectl get secret {quote_word(unused.name)} -n {quote_word(old)} -o yaml"
    copy = Cure("copy the secret to the pod's namespace", (f"{get} | sed {edit} | kubectl apply -f -",))
    if unused.name in explanation.secret_names:
        return (copy,)
    return (copy, *_listed(explanation, unused.name))


def _listed(explanation: Explanation, name: str) -> tuple[Cure, ...]:
    """Return the cure for a secret that the pod does not list."""
    text = f"add secret {name!r} to imagePullSecrets of the pod or of its service account, and create the pod again"
    return (Cure(text, (f"- name: {dumps(name)}",)),) if explanation.pod is not None else ()


def _replaced(explanation: Explanation, unused: UnusedSecret) -> tuple[Cure, ...]:
    """Return the cure for a secret that the pod lists and that is absent or has no login in it."""
    create = _create_secret(explanation, unused.namespace, unused.name, "")
    if unused.reason is UnusedReason.ABSENT:
        return (Cure("create the secret", (create,)),)
    text = f"replace secret {unused.name!r} by one with a user and password of {registry_of(explanation.answer.name)}"
    if unused.secret is not None and unused.secret.type == _SECRET_TYPE:
        return (Cure(text, (f"{create} --dry-run=client -o yaml | kubectl apply -f -",)),)
    # The type of a secret cannot be changed.
    delete = f"kubectl delete secret {quote_word(unused.name)} -n {quote_word(unused.namespace)}"
    return (Cure(f"{text}; keep a copy of what else uses it", (delete, create)),)


def _new_secret(explanation: Explanation) -> tuple[Cure, ...]:
    pod = explanation.pod
    if pod is None:
        return ()
    names = explanation.secret_names
    name = next(each for each in _names() if each not in names)
    create = Cure(
        "create a pull secret in the pod's namespace",
        (_create_secret(explanation, pod.namespace, name, ""),),
    )
    account = pod.service_account_name or "default"
    if names:
        # The account's secrets are used only for a pod that lists none itself, and both look the same in the pod.
        where = f"imagePullSecrets of the pod, or of service account {account!r} if they are listed there"
        return (create, Cure(f"then add this to {where}, and create the pod again", (f"- name: {name}",)))
    patch = dumps({"imagePullSecrets": [{"name": name}]})
    line = (
        f"kubectl patch serviceaccount {quote_word(account)} -n {quote_word(pod.namespace)} "
        f"-p {quote_word(patch)}"
    )
    return (create, Cure("then let its service account use it, and create the pod again", (line,)))


def _names() -> Iterator[str]:
    yield _NEW_SECRET
    at = 2
    while True:
        yield f"{_NEW_SECRET}-{at}"
        at += 1


def _create_secret(explanation: Explanation, namespace: str, name: str, username: str) -> str:
    server = quote_word(registry_of(explanation.answer.name))
    user = quote_word(username) if username else _USER
    return (
        f"kubectl create secret docker-registry {quote_word(name)} -n {quote_word(namespace)} --docker-server={server} "
        f"--docker-username={user} --docker-password={_PASSWORD}"
    )


# Inputs that are missing.


def _inputs(explanation: Explanation) -> Iterator[Cure]:
    answer = explanation.answer
    for at, (missing, hint) in enumerate(zip(answer.missing, explanation.hints, strict=False)):
        # The verdict names the first one.
        is_told = not at and answer.outcome is LookupOutcome.UNKNOWN and explanation.check is None
        text = hint.removeprefix(f"{missing}; ") if is_told else hint
        yield Cure(text, tuple(_input_lines(explanation, missing)))


def _input_lines(explanation: Explanation, missing: MissingInput) -> Iterator[str]:
    command = explanation.command
    if not command or missing.instead:
        return
    if missing.input is LookupInput.PULL_SECRET and explanation.pod is not None:
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
