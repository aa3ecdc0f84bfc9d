"""Changes to pull secrets that give a pod a credential, with commands to paste.

No command destroys anything. A value comes from a variable of the shell that runs the command, and the command does
not run if the variable is not set. What is written over is saved first, to a new file that only the user can read. What
others may use is only added to: an object is patched, since 'kubectl apply' takes away what was applied before.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry.errors import PullSecretError
from keyferry.explain.explanation import Cure
from keyferry.explain.facts import Facts
from keyferry.images.credential import Credential, SourceKind
from keyferry.images.dockerconfig import SECRET_KEYS, PullSecret, read_pull_secret
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import registry_of
from keyferry.show.paste import quote_word
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, as_pull_secret

__all__ = ["new_secret", "recreated_pod", "renewed_secret", "used_secret"]

_NEW_SECRET = "regcred"  # noqa: S105 - the name that the documentation of Kubernetes uses
# No password is ever written here; a shell runs nothing if one of these is not set or empty.
_USER, _PASSWORD = '"${REGISTRY_USERNAME:?}"', '"${REGISTRY_PASSWORD:?}"'
_TYPE, _KEY = next(iter(SECRET_KEYS.items()))


def new_secret(facts: Facts) -> tuple[Cure, ...]:
    """Return how to create a secret and let the pod use it; nothing without a pod."""
    pod = facts.pod
    if pod is None:
        return ()
    names = (*facts.secret_names, *(facts.account_secrets or ()))
    name = next(each for each in _names() if each not in names)
    registry = registry_of(facts.answer.name)
    create = Cure(
        "create a pull secret; if there is a secret of that name already, choose another here and below",
        (_create_secret(registry, pod.namespace, name),),
    )
    return (create, _listed_secret(facts, pod, name))


def _listed_secret(facts: Facts, pod: Pod, name: str) -> Cure:
    """Return how to let the pod use a secret, beside those that it and its service account list."""
    account = pod.service_account_name or "default"
    if facts.secret_names:
        # The account's secrets are used only for a pod that lists none itself, and both look the same in the pod.
        where = f"imagePullSecrets of the pod, or of service account {account!r} if they are listed there"
        return Cure(f"then add this to {where}, and create the pod again", (f"- name: {name}",))
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
    return Cure("then let its service account use it, and create the pod again", (line, *recreate.lines))


def _patch_account(account: str, namespace: str, *operations: dict[str, object]) -> str:
    patch = quote_word(dumps(operations))
    return f"kubectl patch serviceaccount {quote_word(account)} -n {quote_word(namespace)} --type=json -p {patch}"


def recreated_pod(facts: Facts, pod: Pod) -> Cure:
    """Return how to create the pod again, so that it gets the secrets of its service account."""
    name, namespace = quote_word(pod.name), quote_word(pod.namespace)
    if not pod.name:
        return Cure("create the pod again")
    if facts.is_replaced:
        return Cure(
            "delete the pod: its owner creates another", (f"kubectl delete pod {name} -n {namespace}",)
        )
    line = f'{_save("pod", pod.name, pod.namespace)} && kubectl replace --force -f "$saved"'
    return Cure(f"create the pod again; {_saved_as(pod.name)} keeps a copy", (line,))


def renewed_secret(facts: Facts, name: str, credential: Credential | None = None) -> tuple[Cure, ...]:
    """Return how to change the entry for the image's registry in the secret *name*, which is read and used.

    *credential* is the one of it that is refused; without one, the secret has no entry for the registry.
    """
    registry = registry_of(facts.answer.name)
    namespace, _, bare = name.rpartition("/")
    if credential is None or len(_keys(facts, name)) > 1:
        # A command that writes a secret with one entry would lose the others, which other pods may use.
        what = (
            f"add an entry for {registry}" if credential is None else f"correct the entry {credential.key!r}"
        )
        text = f'{what} under "auths" of pull secret {name}, and keep its other entries'
        kept = f"{_saved_as(bare)} keeps the secret as it is now, {bare}-edited.* what you edit"
        return (Cure(f"{text}; {kept}", (_edit_line(bare, namespace),)),)
    user = credential.username
    what = (
        f"correct the password of {user!r}"
        if user
        else f"write a user and password of {registry} to pull secret {name}"
    )
    text = f"{what}; {_saved_as(bare)} keeps the secret as it is now"
    return (Cure(text, (_rewrite_line(registry, namespace, bare, user),)),)


def used_secret(facts: Facts, unused: UnusedSecret) -> tuple[Cure, ...]:
    """Return how to let the kubelet use a secret that it does not use now; nothing without a pod."""
    return () if facts.pod is None else tuple(_USED[unused.reason](facts, facts.pod, unused))


def _create_absent(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    registry = registry_of(facts.answer.name)
    is_listed = unused.reason is UnusedReason.ABSENT or unused.name in facts.secret_names
    then = "; the kubelet's next attempt uses it" if is_listed else ""
    yield Cure(
        f"create it in {pod.namespace!r}{then}", (_create_secret(registry, pod.namespace, unused.name),)
    )
    if not is_listed:
        yield _listed_secret(facts, pod, unused.name)


def _change_type(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    type_ = _type_of_data(unused.secret)
    if not type_:
        # An application may need it.
        text = f"remove {unused.name!r} from imagePullSecrets, and leave the secret as it is"
        yield Cure(f"{text}, since its data is not that of a pull secret")
        yield from new_secret(facts)
        return
    saved = _saved_as(unused.name)
    yield Cure(
        f"a secret cannot change its type, so replace it by itself with the right one; {saved} keeps a copy, "
        "and the kubelet's next attempt uses it",
        (
            f"{_save('secret', unused.name, pod.namespace)} && "
            f"sed 's|^type: .*|type: {type_}|' \"$saved\" | kubectl replace --force -f -",
        ),
    )


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
    registry = registry_of(facts.answer.name)
    text = f"write secret {unused.name!r} again, here with one entry, for {registry}"
    yield Cure(
        f"{text}; {_saved_as(unused.name)} keeps the one of now, with its other entries",
        (_rewrite_line(registry, pod.namespace, unused.name),),
    )


def _create_pod_again(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:  # noqa: ARG001 - one signature for all
    yield recreated_pod(facts, pod)


def _list_it(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    cure = _listed_secret(facts, pod, unused.name)
    yield Cure(cure.text.removeprefix("then "), cure.lines)


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


def _keys(facts: Facts, name: str) -> list[str]:
    """Return the keys of a pull secret that is used."""
    return [
        credential.key
        for keyring in facts.answer.keyrings
        for key in keyring.index()
        for credential in keyring.credentials(key)
        if credential.source.kind == SourceKind.PULL_SECRET and credential.source.name == name
    ]


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
    get = f"kubectl get {kind} {quote_word(name)} -n {quote_word(namespace)} -o yaml"
    return f'saved=$(mktemp {quote_word(f"{name}-saved.XXXXXX")}) && {get} > "$saved"'


def _edit_line(name: str, namespace: str) -> str:
    """Return the command that takes the docker config out of a secret, and puts it back after it was edited.

    Nobody who lists the processes sees what is in it.
    """
    secret = f"{quote_word(name)} -n {quote_word(namespace)}"
    template = quote_word(f'{{{{index .data "{_KEY}" | base64decode}}}}')
    edited = f"edited=$(mktemp {quote_word(f'{name}-edited.XXXXXX')})"
    extract = f'kubectl get secret {secret} -o go-template={template} > "$edited"'
    create = f'kubectl create secret generic {secret} --type={_TYPE} --from-file={_KEY}="$edited"'
    return (
        f'{_save("secret", name, namespace)} && {edited} && {extract} && ${{EDITOR:-vi}} "$edited" && '
        f"{create} --dry-run=client -o json | kubectl patch secret {secret} --patch-file /dev/stdin"
    )


def _rewrite_line(registry: str, namespace: str, name: str, username: str = "") -> str:
    secret = f"{quote_word(name)} -n {quote_word(namespace)}"
    create = f"{_create_secret(registry, namespace, name, username)} --dry-run=client -o json"
    return f'{_save("secret", name, namespace)} && kubectl patch secret {secret} -p "$({create})"'


def _create_secret(registry: str, namespace: str, name: str, username: str = "") -> str:
    user = quote_word(username) if username else _USER
    return (
        f"kubectl create secret docker-registry {quote_word(name)} -n {quote_word(namespace)} "
        f"--docker-server={quote_word(registry)} --docker-username={user} --docker-password={_PASSWORD}"
    )
