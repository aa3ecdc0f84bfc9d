"""Changes that give a pod a credential or a lookup its inputs, with commands to paste.

No command destroys anything. A value comes from a variable of the shell that runs the command, and the command does
not run if the variable is not set. What is written over is saved first, to a new file that only the user can read, and
so are secrets and tokens. What others may use is only added to: an object is patched, since 'kubectl apply' takes away
what was applied before.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from os.path import join

from keyferry._core.host_root import host_root, place_on_host
from keyferry._core.json import dumps
from keyferry._core.secrets import redact
from keyferry.errors import KeyferryError, Kind, PluginError, PullSecretError
from keyferry.explain.explanation import Cure, Facts
from keyferry.images.answer import ACCOUNT_INPUTS, LookupInput, LookupOutcome, MissingInput
from keyferry.images.dockerconfig import SECRET_KEYS, PullSecret, read_pull_secret
from keyferry.images.keyring import Credential
from keyferry.images.provider.accounts import Pod
from keyferry.images.reasons.nearness import is_cloud_registry
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, as_pull_secret

_NEW_SECRET = "regcred"  # noqa: S105 - the name that the documentation of Kubernetes uses
# No password is ever written here; a shell runs nothing if one of these is not set or empty.
_USER, _PASSWORD = '"${REGISTRY_USERNAME:?}"', '"${REGISTRY_PASSWORD:?}"'
# What the pod's node has.
_ON_NODE = (LookupInput.NODE, LookupInput.DOCKER_CONFIG)
# The user of every token of Amazon ECR.
_ECR_USER = "AWS"
_TYPE, _KEY = next(iter(SECRET_KEYS.items()))

CORRECT_NAME = Cure(text="correct the name in the pod")


# Pull secrets.


def new_secret(facts: Facts) -> tuple[Cure, ...]:
    """Return how to create a secret and let the pod use it; nothing without a pod."""
    if facts.is_static:
        return (_node_login(facts),)
    pod = facts.pod
    if pod is None:
        return ()
    names = (*facts.secret_names, *(facts.account_secrets or ()))
    name = next(each for each in _names() if each not in names)
    create = Cure(
        text="create a pull secret; if there is a secret of that name already, choose another here and below",
        lines=(_create_secret(facts.registry, pod.namespace, name),),
        short="create a pull secret, and let the pod use it",
    )
    return (create, _listed_secret(facts, pod, name))


def _listed_secret(facts: Facts, pod: Pod, name: str) -> Cure:
    """Return how to let the pod use a secret, beside those that it and its service account list."""
    account = pod.service_account_name or "default"
    if facts.secret_names:
        # The account's secrets are used only for a pod that lists none itself, and both look the same in the pod.
        where = f"imagePullSecrets of the pod, or of service account {account!r} if they are listed there"
        return Cure(text=f"then add this to {where}, and create the pod again", lines=(f"- name: {name}",))
    # A patch of the whole list would take away the secrets that are in it, or that somebody added since.
    path, entry = "/imagePullSecrets", {"name": name}
    append = _patch_account(account, pod.namespace, {"op": "add", "path": f"{path}/-", "value": entry})
    begin = _patch_account(
        account,
        pod.namespace,
        {"op": "test", "path": path, "value": None},
        {"op": "add", "path": path, "value": [entry]},
    )
    line = append if facts.account_secrets else begin
    if facts.account_secrets is None:
        line = f"{append} || {begin}"
    recreate = recreated_pod(facts, pod)
    return Cure(
        text="then let its service account use it, and create the pod again", lines=(line, *recreate.lines)
    )


def _patch_account(account: str, namespace: str, *operations: dict[str, object]) -> str:
    patch = shlex.quote(dumps(operations))
    return f"kubectl patch serviceaccount {shlex.quote(account)} -n {shlex.quote(namespace)} --type=json -p {patch}"


def recreated_pod(facts: Facts, pod: Pod) -> Cure:
    """Return how to create the pod again, so that it gets the secrets of its service account."""
    name, namespace = shlex.quote(pod.name), shlex.quote(pod.namespace)
    if not pod.name:
        return Cure(text="create the pod again")
    if facts.is_replaced:
        return Cure(
            text="delete the pod: its owner creates another",
            lines=(f"kubectl delete pod {name} -n {namespace}",),
        )
    line = f'{_save("pod", pod.name, pod.namespace)} && kubectl replace --force -f "$saved"'
    text = "create the pod again"
    return Cure(text=f"{text}; {_saved_as(pod.name)} keeps a copy", lines=(line,), short=text)


def renewed_secret(facts: Facts, name: str, *credentials: Credential) -> tuple[Cure, ...]:
    """Return how to change the entry for the image's registry in the secret *name*, which is read and used.

    *credentials* are those of it that are refused; without any, the secret has no entry for the registry.
    """
    if facts.is_static:
        return (_node_login(facts),)
    secret, registry = _find_secret(facts, name), facts.registry
    keys = list(dict.fromkeys(each.key for each in credentials))
    if secret.type == _TYPE and len(keys) == 1 and list(read_pull_secret(secret) or ()) == keys:
        user = credentials[0].username
        user = user if redact(user) == user else ""  # a token in its place is not shown
        login = f"a user and password of {registry} to pull secret {name}"
        what = f"correct the password of {user!r}" if user else f"write {login}"
        if user == _ECR_USER and is_cloud_registry(registry):
            what = (
                f"renew the password of {user!r} with 'aws ecr get-login-password', since ECR's tokens end after 12 "
                "hours; a credential provider on the node renews them by itself"
            )
        return tuple(_changed(facts, secret, what, _rewrite_line(secret, keys[0], user)))
    # A command that writes a secret with one entry would lose the others, which other pods may use.
    what = f"add an entry for {registry}"
    if keys:
        what = f"correct the entr{'y' if len(keys) == 1 else 'ies'} {' and '.join(map(repr, keys))}"
    return tuple(_edited(facts, secret, f"{what} {_place_of(secret)}, and keep its other entries"))


def _find_secret(facts: Facts, name: str) -> PullSecret:
    """Return a pull secret that is used; one without data if its content is not known."""
    found = (each for each in facts.pull_secrets if f"{each.namespace}/{each.name}" == name)
    namespace, _, bare = name.rpartition("/")
    return next(found, PullSecret(namespace=namespace, name=bare, type=_TYPE, data={}))


def _place_of(secret: PullSecret) -> str:
    """Return where a secret has its entries."""
    key = SECRET_KEYS.get(secret.type, _KEY)
    place = 'under "auths"' if key == _KEY else f"at the top level of {key}"
    return f"{place} of pull secret {secret.namespace}/{secret.name}"


def _edited(facts: Facts, secret: PullSecret, what: str) -> Iterator[Cure]:
    """Yield how to edit the docker config of a secret."""
    return _changed(
        facts, secret, what, _edit_line(secret), edited=f"; {secret.name}-edited.* is what you edit"
    )


def _changed(
    facts: Facts,
    secret: PullSecret,
    what: str,
    line: str,
    *,
    kept: str = "the secret as it is now",
    edited: str = "",
) -> Iterator[Cure]:
    """Yield how to change a secret with a command, and what is to be done after that if it is immutable."""
    text = f"{what}{edited}"
    if secret.is_immutable:
        text += "; the secret is immutable, so it is deleted and created again"
        kept += ", which 'kubectl create -f' restores"
    yield Cure(text=f"{text}; {_saved_as(secret.name)} keeps {kept}", lines=(line,), short=what)
    yield from _read_again(facts, secret)


def _read_again(facts: Facts, secret: PullSecret) -> Iterator[Cure]:
    """Yield how a kubelet gets to read a secret that is immutable, and was replaced.

    It reads such a secret once, and keeps it until no pod of its node lists it.
    """
    if facts.pod is not None and secret.is_immutable:
        again = recreated_pod(facts, facts.pod)
        why = "its kubelet keeps an immutable secret that it has read until no pod of its node lists it"
        yield Cure(text=f"then {again.text}; {why}", lines=again.lines)


def used_secret(facts: Facts, unused: UnusedSecret) -> tuple[Cure, ...]:
    """Return how to let the kubelet use a secret that it does not use now; nothing without a pod."""
    if facts.is_static:
        return (_node_login(facts),)
    if facts.pod is None:
        return ()
    return tuple(_USED[unused.reason](facts, facts.pod, unused))


def _create_absent(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    is_listed = unused.reason is UnusedReason.ABSENT or unused.name in facts.secret_names
    then = "; the kubelet's next attempt uses it" if is_listed else ""
    yield Cure(
        text=f"create it in {pod.namespace!r}{then}",
        lines=(_create_secret(facts.registry, pod.namespace, unused.name),),
    )
    if not is_listed:
        yield _listed_secret(facts, pod, unused.name)


def _change_type(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    type_ = _type_of_data(unused.secret)
    if not type_:
        # An application may need it.
        text = f"remove {unused.name!r} from imagePullSecrets, and leave the secret as it is"
        yield Cure(text=f"{text}, since its data is not that of a pull secret")
        yield from new_secret(facts)
        return
    is_immutable = unused.secret is not None and unused.secret.is_immutable
    then = "" if is_immutable else ", and the kubelet's next attempt uses it"
    text = "a secret cannot change its type, so replace it by itself with the right one"
    yield Cure(
        text=f"{text}; {_saved_as(unused.name)} keeps a copy{then}",
        short=text,
        lines=(
            f"{_save('secret', unused.name, pod.namespace)} && "
            f"sed 's|^type: .*|type: {type_}|' \"$saved\" | kubectl replace --force -f -",
        ),
    )
    if unused.secret is not None:
        yield from _read_again(facts, unused.secret)


def _type_of_data(secret: PullSecret | None) -> str:
    """Return the type of pull secret that the data of a secret is for; empty if the server would refuse it as one.

    A secret is deleted before it is created with another type.
    """
    retyped = None if secret is None else as_pull_secret(secret)
    try:
        return "" if retyped is None or read_pull_secret(retyped) is None else retyped.type
    except PullSecretError:
        return ""


def _rewrite(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    secret = unused.secret or PullSecret(namespace=pod.namespace, name=unused.name, type=_TYPE, data={})
    if secret.type == _TYPE:
        what = f"write secret {unused.name!r} again"
        kept, entry = "the one of now, with its other entries", f", here with one entry, for {facts.registry}"
        yield from _changed(
            facts, secret, what, _rewrite_line(secret, facts.registry), kept=kept, edited=entry
        )
    else:
        yield from _edited(facts, secret, f"write an entry for {facts.registry} {_place_of(secret)}")


def _create_pod_again(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:  # noqa: ARG001 - one signature for all
    yield recreated_pod(facts, pod)


def _list_it(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    cure = _listed_secret(facts, pod, unused.name)
    yield Cure(text=cure.text.removeprefix("then "), lines=cure.lines)


_USED = {
    UnusedReason.ABSENT: _create_absent,
    UnusedReason.WRONG_TYPE: _change_type,
    UnusedReason.NO_DATA: _rewrite,
    UnusedReason.NO_ENTRIES: _rewrite,
    UnusedReason.UNREADABLE: _rewrite,
    UnusedReason.LATE: _create_pod_again,
    UnusedReason.NOT_LISTED: _list_it,
    UnusedReason.OTHER_NAMESPACE: _create_absent,
}


def _node_login(facts: Facts) -> Cure:
    """Return how to give the node of a static pod a credential.

    The API server lets no kubelet read secrets for such a pod, of which it has only a copy.
    """
    registry = facts.registry
    config = facts.config_path or "the kubelet's provider config"
    login = facts.config.get("dockerConfig") or "config.json in the kubelet's root directory"
    return Cure(
        text="the pod is static, and the kubelet reads no pull secret for it: give its node a credential, by a "
        f"provider for {registry} in {config}, then restart the kubelet; or by a login for {registry} in {login}"
    )


def _names() -> Iterator[str]:
    yield _NEW_SECRET
    at = 2
    while True:
        yield f"{_NEW_SECRET}-{at}"
        at += 1


def _saved_as(name: str) -> str:
    """Return the names of the files that keep copies, one for each time that a command is run."""
    return f"{name}-saved.*"


def _save(kind: str, name: str, namespace: str) -> str:
    """Return the command that saves an object to a new file, ``$saved``, for the user alone."""
    get = f"kubectl get {kind} {shlex.quote(name)} -n {shlex.quote(namespace)} -o yaml"
    return f'saved=$(mktemp {shlex.quote(f"{name}-saved.XXXXXX")}) && {get} > "$saved"'


def _edit_line(secret: PullSecret) -> str:
    """Return the command that takes the docker config out of a secret, and puts it back after it was edited.

    Nobody who lists the processes sees what is in it.
    """
    key = SECRET_KEYS.get(secret.type, _KEY)
    name = f"{shlex.quote(secret.name)} -n {shlex.quote(secret.namespace)}"
    template = shlex.quote(f'{{{{index .data "{key}" | base64decode}}}}')
    edited = f"edited=$(mktemp {shlex.quote(f'{secret.name}-edited.XXXXXX')})"
    extract = f'kubectl get secret {name} -o go-template={template} > "$edited"'
    create = f'kubectl create secret generic {name} --type={secret.type} --from-file={key}="$edited"'
    return (
        f'{_save("secret", secret.name, secret.namespace)} && {edited} && {extract} && ${{EDITOR:-vi}} "$edited" && '
        f"{create} --dry-run=client -o json | {_patch_secret(secret, '--patch-file /dev/stdin')}"
    )


def _rewrite_line(secret: PullSecret, key: str, username: str = "") -> str:
    """Return the command that writes a docker config with one entry to a secret."""
    create = f"{_create_secret(key, secret.namespace, secret.name, username)} --dry-run=client -o json"
    patch = _patch_secret(secret, f'-p "$({create})"')
    return f"{_save('secret', secret.name, secret.namespace)} && {patch}"


def _patch_secret(secret: PullSecret, patch: str) -> str:
    """Return the command that patches a secret; one that is immutable is patched in ``$saved``, and replaced."""
    if secret.is_immutable:
        return f'kubectl patch --local -f "$saved" {patch} -o json | kubectl replace --force -f -'
    return f"kubectl patch secret {shlex.quote(secret.name)} -n {shlex.quote(secret.namespace)} {patch}"


def _create_secret(registry: str, namespace: str, name: str, username: str = "") -> str:
    user = shlex.quote(username) if username else _USER
    return (
        f"kubectl create secret docker-registry {shlex.quote(name)} -n {shlex.quote(namespace)} "
        f"--docker-server={shlex.quote(registry)} --docker-username={user} --docker-password={_PASSWORD}"
    )


# Inputs of the lookup.


def input_cures(facts: Facts) -> Iterator[Cure]:
    """Yield how to give each missing input, and the command that tries the way of a token that is refused."""
    answer = facts.answer
    for at, (missing, hint) in enumerate(zip(answer.missing, facts.hints, strict=False)):
        # The verdict names the first one.
        is_told = not at and answer.outcome is LookupOutcome.UNKNOWN and facts.check is None
        short = hint.removeprefix(f"{missing}; ")
        text = short if is_told else hint
        if facts.node_cure is not None and missing.input in _ON_NODE:
            both = f", or {facts.node_cure.text}"
            yield Cure(text=f"{text}{both}", lines=facts.node_cure.lines, short=f"{short}{both}")
            continue
        yield Cure(text=text, lines=tuple(_input_lines(facts, missing)), short=short)
    if facts.try_command:
        where = "" if facts.half is None else f"on node {facts.half.node}, "
        yield Cure(
            text=f"{where}see which step from the service account to the registry fails",
            lines=(facts.try_command,),
        )


def _input_lines(facts: Facts, missing: MissingInput) -> Iterator[str]:
    command = facts.command
    if not command or missing.instead:
        return
    if missing is next((each for each in facts.answer.missing if each.input in ACCOUNT_INPUTS), None):
        yield from facts.account_lines
    elif missing.input is LookupInput.PULL_SECRET and facts.pod is not None:
        name, namespace = shlex.quote(missing.name), shlex.quote(facts.pod.namespace)
        new_file = f"secret=$(mktemp {shlex.quote(f'{missing.name}.XXXXXX')})"
        get = f'kubectl get secret {name} -n {namespace} -o yaml > "$secret"'
        yield f'{new_file} && {get} && {command} --secret "$secret"'
    elif missing.input is LookupInput.DOCKER_CONFIG:
        yield f"{command} --docker-config {shlex.quote(missing.name)}"
    elif missing.input is LookupInput.SERVICE_ACCOUNT_TOKEN:
        namespace, _, name = missing.name.partition("/")
        create = f"kubectl create token {shlex.quote(name)} -n {shlex.quote(namespace)}{_audience(facts)}"
        yield (
            f'token=$(mktemp token.XXXXXX) && {create} > "$token" && {command} --service-account-token "$token"'
        )


def _audience(facts: Facts) -> str:
    """Return the option for the audience of the first provider that lacks a token."""
    answer = facts.answer
    lacking = {each.provider for each in answer.provisions if each.missing}
    for provider in answer.providers:
        if provider.name in lacking and provider.token_attributes is not None:
            return f" --audience {shlex.quote(provider.token_attributes.service_account_token_audience)}"
    return ""


# Plugins.


def plugin_command(error: KeyferryError, provider: str, image: str, config: str, bin_dir: str) -> str:
    """Return the command to try after *error* of a provider for *image*; empty if no command shows more."""
    if not isinstance(error, PluginError) or not bin_dir:
        return ""
    if error.kind is Kind.NOT_FOUND:
        return lint_command(config, bin_dir)
    if host_root():
        return ""  # the command would run the plugin without the node's files
    return trace_command(provider, image, config, bin_dir)


def lint_command(config: str, bin_dir: str) -> str:
    """Return the command that lists the plugins that are missing; empty without a config."""
    if not config:
        return ""
    return shlex.join(("keyferry", "lint", place_on_host(config), "--bin-dir", place_on_host(bin_dir)))


def trace_command(provider: str, image: str, config: str, bin_dir: str) -> str:
    """Return the command that shows a plugin's request and response."""
    options = ("--config", config) if config else ()
    return shlex.join(("keyferry", "plugin", "trace", join(bin_dir, provider), image, *options, "-o", "text"))
