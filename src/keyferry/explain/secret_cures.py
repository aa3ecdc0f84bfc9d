"""Changes to pull secrets that give a pod a credential, with commands to paste.

No command destroys anything. A value comes from a variable of the shell that runs the command, and the command does
not run if the variable is not set. What is written over is saved to a file first. What others may use is only added to.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry.explain.explanation import Cure
from keyferry.explain.facts import Facts
from keyferry.images.credential import Credential, SourceKind
from keyferry.images.dockerconfig import SECRET_KEYS
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import registry_of
from keyferry.show.paste import quote_word
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, as_pull_secret

__all__ = ["new_secret", "recreated_pod", "renewed_secret", "used_secret"]

_NEW_SECRET = "regcred"  # noqa: S105 - the name that the documentation of Kubernetes uses
# No password is ever written here; a shell runs nothing if one of these is not set or empty.
_USER, _PASSWORD = '"${REGISTRY_USERNAME:?}"', '"${REGISTRY_PASSWORD:?}"'
_APPLY = "--dry-run=client -o yaml | kubectl apply -f -"
_KEY = ".dockerconfigjson"


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
    command = f"kubectl patch serviceaccount {quote_word(account)} -n {quote_word(pod.namespace)}"
    if facts.account_secrets == ():
        patch = dumps({"imagePullSecrets": [{"name": name}]})
        line = f"{command} -p {quote_word(patch)}"
    else:
        # A patch of the whole list would take away the secrets that are in it.
        patch = dumps([{"op": "add", "path": "/imagePullSecrets/-", "value": {"name": name}}])
        line = f"{command} --type=json -p {quote_word(patch)}"
    recreate = recreated_pod(facts, pod)
    return Cure("then let its service account use it, and create the pod again", (line, *recreate.lines))


def recreated_pod(facts: Facts, pod: Pod) -> Cure:
    """Return how to create the pod again, so that it gets the secrets of its service account."""
    name, namespace = quote_word(pod.name), quote_word(pod.namespace)
    if not pod.name:
        return Cure("create the pod again")
    if facts.is_replaced:
        return Cure(
            "delete the pod: its owner creates another", (f"kubectl delete pod {name} -n {namespace}",)
        )
    file = quote_word(f"{pod.name}.yaml")
    save = f"kubectl get pod {name} -n {namespace} -o yaml > {file}"
    line = f"{save} && kubectl replace --force -f {file}"
    return Cure(f"create the pod again; {pod.name}.yaml keeps a copy", (line,))


def renewed_secret(facts: Facts, name: str, credential: Credential | None = None) -> tuple[Cure, ...]:
    """Return how to change the entry for the image's registry in the secret *name*, which is read and used.

    *credential* is the one of it that is refused; without one, the secret has no entry for the registry.
    """
    registry = registry_of(facts.answer.name)
    namespace, _, bare = name.rpartition("/")
    keys = _keys(facts, name)
    if len(keys) > 1:
        # A command that writes a secret with one entry would lose the others.
        what = (
            f"add an entry for {registry}" if credential is None else f"correct the entry {credential.key!r}"
        )
        text = f'{what} under "auths" of pull secret {name}, and keep its other entries'
        return (Cure(text, _edit_lines(bare, namespace)),)
    user = "" if credential is None else credential.username
    what = f"correct the password of {user!r}" if user else f"write a user and password of {registry} to it"
    text = f"{what}; {_saved_as(bare)} keeps the secret as it is now"
    return (Cure(text, (_rewrite_line(registry, namespace, bare, user),)),)


def used_secret(facts: Facts, unused: UnusedSecret) -> tuple[Cure, ...]:
    """Return how to let the kubelet use a secret that it does not use now; nothing without a pod."""
    return () if facts.pod is None else tuple(_USED[unused.reason](facts, facts.pod, unused))


def _create_absent(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    registry = registry_of(facts.answer.name)
    text = f"create it in {pod.namespace!r}; the kubelet's next attempt uses it"
    yield Cure(text, (_create_secret(registry, pod.namespace, unused.name),))


def _change_type(facts: Facts, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    retyped = None if unused.secret is None else as_pull_secret(unused.secret)
    if retyped is None:
        # An application may need it.
        text = f"remove {unused.name!r} from imagePullSecrets, and leave the secret as it is"
        yield Cure(f"{text}, since its data is not that of a pull secret")
        yield from new_secret(facts)
        return
    saved, changed = quote_word(_saved_as(unused.name)), quote_word(f"{unused.name}-typed.yaml")
    yield Cure(
        "a secret cannot change its type, so replace it by itself with the right one; "
        f"{_saved_as(unused.name)} keeps a copy, and the kubelet's next attempt uses it",
        (
            f"{_save(unused.name, pod.namespace)} && "
            f"sed 's|^type: .*|type: {retyped.type}|' {saved} > {changed} && kubectl replace --force -f {changed}",
        ),
    )


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
    return f"{name}-saved.yaml"


def _save(name: str, namespace: str) -> str:
    """Return the command that saves a secret for the user alone."""
    get = f"kubectl get secret {quote_word(name)} -n {quote_word(namespace)} -o yaml"
    return f"(umask 077; {get} > {quote_word(_saved_as(name))})"


def _edit_lines(name: str, namespace: str) -> tuple[str, ...]:
    """Return the commands that take the docker config out of a secret, and put it back after it was edited."""
    secret, file = f"{quote_word(name)} -n {quote_word(namespace)}", quote_word(f"{name}.json")
    path = quote_word("{.data.\\.dockerconfigjson}")
    create = f"kubectl create secret generic {secret} --type={next(iter(SECRET_KEYS))}"
    return (
        f"{_save(name, namespace)} && (umask 077; kubectl get secret {secret} -o jsonpath={path} | base64 -d > {file})",
        f'"${{EDITOR:-vi}}" {file} && {create} --from-file={_KEY}={file} {_APPLY}',
    )


def _rewrite_line(registry: str, namespace: str, name: str, username: str = "") -> str:
    create = _create_secret(registry, namespace, name, username)
    return f"{_save(name, namespace)} && {create} {_APPLY}"


def _create_secret(registry: str, namespace: str, name: str, username: str = "") -> str:
    user = quote_word(username) if username else _USER
    return (
        f"kubectl create secret docker-registry {quote_word(name)} -n {quote_word(namespace)} "
        f"--docker-server={quote_word(registry)} --docker-username={user} --docker-password={_PASSWORD}"
    )
