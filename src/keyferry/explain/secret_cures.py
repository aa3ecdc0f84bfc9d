"""Changes to pull secrets that give a pod a credential, with commands to paste."""

from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry._core.values import Value
from keyferry.explain.explanation import Explanation
from keyferry.images.credential import SourceKind
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import registry_of
from keyferry.show.paste import quote_word
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, as_pull_secret

__all__ = ["Cure", "new_secret", "renewed_secret", "rewritten_secret", "used_secret"]

_NEW_SECRET = "regcred"  # noqa: S105 - the name that the documentation of Kubernetes uses
# The values come from the shell that runs the command: no password is ever written here.
_USER, _PASSWORD = '"$REGISTRY_USERNAME"', '"$REGISTRY_PASSWORD"'
_APPLY = "--dry-run=client -o yaml | kubectl apply -f -"


class Cure(Value):
    """A change that helps, and the lines to paste for it: commands, or lines of a file."""

    text: str
    lines: tuple[str, ...] = ()


def new_secret(explanation: Explanation) -> tuple[Cure, ...]:
    """Return how to create a secret and let the pod use it; nothing without a pod."""
    pod = explanation.pod
    if pod is None:
        return ()
    names = explanation.secret_names
    name = next(each for each in _names() if each not in names)
    registry = registry_of(explanation.answer.name)
    create = Cure(
        f"create a pull secret in the pod's namespace; if it has a secret {name!r} that the pod does not list, "
        "choose another name here and below",
        (_create_secret(registry, pod.namespace, name),),
    )
    return (create, _listed_secret(pod, name, names))


def _listed_secret(pod: Pod, name: str, names: tuple[str, ...]) -> Cure:
    """Return how to let the pod use a secret, beside those that it lists."""
    account = pod.service_account_name or "default"
    if names:
        # The account's secrets are used only for a pod that lists none itself, and both look the same in the pod.
        where = f"imagePullSecrets of the pod, or of service account {account!r} if they are listed there"
        return Cure(f"then add this to {where}, and create the pod again", (f"- name: {name}",))
    patch = dumps({"imagePullSecrets": [{"name": name}]})
    line = (
        f"kubectl patch serviceaccount {quote_word(account)} -n {quote_word(pod.namespace)} "
        f"-p {quote_word(patch)}"
    )
    return Cure("then let its service account use it, and create the pod again", (line,))


def renewed_secret(explanation: Explanation, name: str, username: str) -> tuple[Cure, ...]:
    """Return how to change the entry for the image's registry in the secret *name*, which is read and used."""
    registry = registry_of(explanation.answer.name)
    if _has_other_keys(explanation, name):
        # The command would write a secret with one key, and the others would be lost.
        return (Cure(f"change the entry for {registry} in pull secret {name}, and keep its other entries"),)
    namespace, _, name = name.rpartition("/")
    text = f"replace secret {name!r} by one with a user and password of {registry}"
    return (Cure(text, (f"{_create_secret(registry, namespace, name, username)} {_APPLY}",)),)


def rewritten_secret(name: str, registry: str) -> Cure:
    """Return how to write the secret *name* again, whose content cannot be read."""
    namespace, _, name = name.rpartition("/")
    text = f"write secret {name!r} again, here with one entry, for {registry}"
    return Cure(text, (f"{_create_secret(registry, namespace, name)} {_APPLY}",))


def used_secret(explanation: Explanation, unused: UnusedSecret) -> tuple[Cure, ...]:
    """Return how to let the kubelet use a secret that it does not use now; nothing without a pod."""
    return (
        () if explanation.pod is None else tuple(_USED[unused.reason](explanation, explanation.pod, unused))
    )


def _create_absent(explanation: Explanation, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    registry = registry_of(explanation.answer.name)
    text = f"create it in {pod.namespace!r}, since a secret of another namespace is not used"
    yield Cure(
        f"{text}; the kubelet's next attempt uses it",
        (_create_secret(registry, pod.namespace, unused.name),),
    )


def _create_again(explanation: Explanation, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    if unused.secret is None or as_pull_secret(unused.secret) is None:
        # An application may need it.
        text = (
            f"remove {unused.name!r} from imagePullSecrets, and leave the secret as it is, since its data is"
        )
        yield Cure(f"{text} not that of a pull secret")
        yield from new_secret(explanation)
        return
    registry = registry_of(explanation.answer.name)
    yield Cure(
        "the type of a secret cannot be changed, so create it again; the kubelet's next attempt uses it",
        (
            f"kubectl delete secret {quote_word(unused.name)} -n {quote_word(pod.namespace)}",
            _create_secret(registry, pod.namespace, unused.name),
        ),
    )


def _rewrite(explanation: Explanation, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    yield rewritten_secret(f"{pod.namespace}/{unused.name}", registry_of(explanation.answer.name))


def _create_pod_again(explanation: Explanation, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:  # noqa: ARG001 - one signature for all
    line = f"kubectl get pod {quote_word(pod.name)} -n {quote_word(pod.namespace)} -o yaml"
    yield Cure("create the pod again", (f"{line} | kubectl replace --force -f -",))


def _list_it(explanation: Explanation, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    cure = _listed_secret(pod, unused.name, explanation.secret_names)
    yield Cure(cure.text.removeprefix("then "), cure.lines)


def _copy(explanation: Explanation, pod: Pod, unused: UnusedSecret) -> Iterator[Cure]:
    registry = registry_of(explanation.answer.name)
    yield Cure(
        f"create it in {pod.namespace!r} too; the kubelet's next attempt uses it",
        (_create_secret(registry, pod.namespace, unused.name),),
    )


_USED = {
    UnusedReason.ABSENT: _create_absent,
    UnusedReason.WRONG_TYPE: _create_again,
    UnusedReason.NO_DATA: _rewrite,
    UnusedReason.NO_ENTRIES: _rewrite,
    UnusedReason.UNREADABLE: _rewrite,
    UnusedReason.LATE: _create_pod_again,
    UnusedReason.NOT_LISTED: _list_it,
    UnusedReason.OTHER_NAMESPACE: _copy,
}


def _has_other_keys(explanation: Explanation, name: str) -> bool:
    keys = [
        credential.key
        for keyring in explanation.answer.keyrings
        for key in keyring.index()
        for credential in keyring.credentials(key)
        if credential.source.kind == SourceKind.PULL_SECRET and credential.source.name == name
    ]
    return len(keys) > 1


def _names() -> Iterator[str]:
    yield _NEW_SECRET
    at = 2
    while True:
        yield f"{_NEW_SECRET}-{at}"
        at += 1


def _create_secret(registry: str, namespace: str, name: str, username: str = "") -> str:
    user = quote_word(username) if username else _USER
    return (
        f"kubectl create secret docker-registry {quote_word(name)} -n {quote_word(namespace)} "
        f"--docker-server={quote_word(registry)} --docker-username={user} --docker-password={_PASSWORD}"
    )
