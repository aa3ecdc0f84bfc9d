"""Which pull secrets the kubelet uses for a pod, and why it does not use the others."""

import binascii

from keyferry._core.values import Value
from keyferry.errors import EnvironmentProblem, PullSecretError
from keyferry.images.dockerconfig import SECRET_KEYS, PullSecret, read_pull_secret
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.workloads.objects import KubernetesObject
from keyferry.workloads.pods import DEFAULT_NAMESPACE, WorkloadPod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["PodSecrets", "choose_secrets", "listed_by_account", "read_secret", "secret_names"]

_UNREADABLE = "the kubelet then fails the whole lookup and pulls no image of the pod"


class PodSecrets(Value):
    """The pull secrets of a pod in trial order, notes on those that are not used, and those that are not known."""

    used: tuple[PullSecret, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[MissingInput, ...] = ()


def read_secret(item: KubernetesObject, namespace: str) -> PullSecret:
    """Return the secret; if it has no namespace, as in a manifest, it is in *namespace*."""
    data: dict[str, bytes] = {}
    encoded = item.field("data")
    for key, value in encoded.items() if isinstance(encoded, dict) else ():
        data[str(key)] = _decode(value, item, str(key))
    literal = item.field("stringData")
    for key, value in literal.items() if isinstance(literal, dict) else ():
        data[str(key)] = str(value).encode()
    return PullSecret(
        item.text("metadata", "namespace") or namespace or DEFAULT_NAMESPACE,
        item.name,
        item.text("type"),
        data,
        item.uid,
    )


def secret_names(pod: WorkloadPod, account: KubernetesObject | None) -> tuple[str, ...]:
    """Return the names of the pod's pull secrets: its own list, else its account's, which admission adds."""
    if pod.listed_secrets or account is None or pod.is_created:
        return pod.listed_secrets
    return listed_by_account(account)


def listed_by_account(account: KubernetesObject) -> tuple[str, ...]:
    """Return the names of the pull secrets that a service account lists."""
    return tuple(str(each.get("name", "")) for each in account.items("imagePullSecrets"))


def choose_secrets(
    given: "Sequence[PullSecret]",
    names: tuple[str, ...] | None,
    namespace: str,
    refused: "Mapping[str, str] | None" = None,
) -> PodSecrets:
    """Return the secrets of *given* that the kubelet reads: those in *names* of the pod's *namespace*.

    Without *names* the pod's list is not known, and all secrets of the namespace are used; without a namespace, all.
    *refused* has the names that are known to be of no use, with the reason, or an empty one for a secret that does not
    exist. Raise PullSecretError for a secret whose content cannot be read, which fails the kubelet's whole lookup.
    """
    own = {each.name: each for each in given if not namespace or each.namespace == namespace}
    used = tuple(own.values()) if names is None else tuple(own[name] for name in names if name in own)
    notes = [
        f"secret {each.name!r} is given, but {why}: the kubelet does not read it"
        for each in given
        if (why := _why_unread(each, names, namespace))
    ]
    notes += [note for each in used if (note := _why_ignored(each))]
    return PodSecrets(used, tuple(notes), tuple(_missing(own, names, refused or {})))


def _missing(
    own: "Mapping[str, PullSecret]", names: tuple[str, ...] | None, refused: "Mapping[str, str]"
) -> "Iterator[MissingInput]":
    for name in names or ():
        if name not in own and refused.get(name, "not read"):
            yield MissingInput(LookupInput.PULL_SECRET, name, refused.get(name, ""))


def _why_unread(secret: PullSecret, names: tuple[str, ...] | None, namespace: str) -> str:
    if names is not None and secret.name not in names:
        return "the pod does not list it"
    if namespace and secret.namespace != namespace:
        return f"its namespace is {secret.namespace!r} and the pod's is {namespace!r}"
    return ""


def _why_ignored(secret: PullSecret) -> str:
    """Return a note on a secret without content that the kubelet reads; raise PullSecretError for bad content."""
    problem: PullSecretError
    try:
        if read_pull_secret(secret) is not None:
            return ""
    except PullSecretError as error:
        problem = error
    else:
        key = SECRET_KEYS.get(secret.type)
        if key is None:
            expected = " or ".join(SECRET_KEYS)
            return f"the kubelet ignores secret {secret.name!r}: its type is {secret.type!r}, expected {expected}"
        return f"the kubelet ignores secret {secret.name!r}: it has no data under {key!r}"
    raise PullSecretError(f"{problem.message}; {_UNREADABLE}", problem.kubernetes_text)


def _decode(value: object, item: KubernetesObject, key: str) -> bytes:
    try:
        from base64 import b64decode

        return b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        pass
    raise EnvironmentProblem(f"{item.origin}: data[{key!r}] of secret {item.name!r} is not base64")
