"""Which pull secrets the kubelet uses for a pod, and why it does not use the others."""

import binascii

from keyferry._core.values import Value
from keyferry._core.word_enum import WordEnum
from keyferry.errors import EnvironmentProblem, PullSecretError
from keyferry.images.dockerconfig import SECRET_KEYS, PullSecret, read_pull_secret
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.workloads.objects import KubernetesObject
from keyferry.workloads.pods import DEFAULT_NAMESPACE, WorkloadPod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "PodSecrets",
    "UnusedReason",
    "UnusedSecret",
    "choose_secrets",
    "find_late_secrets",
    "listed_by_account",
    "read_secret",
    "secret_names",
]

_UNREADABLE = "the kubelet then fails the whole lookup and pulls no image of the pod"


class UnusedReason(WordEnum):
    """Why the kubelet does not use a pull secret."""

    ABSENT = "absent"  # the pod lists it, and it does not exist in the pod's namespace
    LATE = "late"  # the service account lists it, and did not when the pod was created
    UNLISTED = "unlisted"
    OTHER_NAMESPACE = "other-namespace"
    TYPE = "type"
    EMPTY = "empty"


class UnusedSecret(Value):
    """A pull secret that the kubelet does not use for a pod; *namespace* is its own."""

    reason: UnusedReason
    name: str
    namespace: str
    text: str

    def __str__(self) -> str:
        return self.text


class PodSecrets(Value):
    """The pull secrets of a pod in trial order, those that are meant to be used and are not, and those not known."""

    used: tuple[PullSecret, ...] = ()
    unused: tuple[UnusedSecret, ...] = ()
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
    unused = (
        *(_absent(name, namespace) for name, why in (refused or {}).items() if not why and name not in own),
        *(found for each in given if (found := _find_unread(each, names, namespace))),
        *(found for each in used if (found := _find_ignored(each))),
    )
    return PodSecrets(used, unused, tuple(_missing(own, names, refused or {})))


def find_late_secrets(pod: WorkloadPod | None, account: KubernetesObject | None) -> "Iterator[UnusedSecret]":
    """Yield the first of the account's secrets if the pod has none of them, since it was created before."""
    if pod is None or account is None or not pod.is_created or pod.listed_secrets:
        return
    listed = listed_by_account(account)
    if listed:
        text = (
            f"the service account {account.name!r} lists the pull secret{'s' if listed[1:] else ''} "
            f"{', '.join(map(repr, listed))}, but the pod does not: a pod gets its account's secrets when it is "
            "created, so create it again"
        )
        yield UnusedSecret(UnusedReason.LATE, listed[0], pod.pod.namespace, text)


def _missing(
    own: "Mapping[str, PullSecret]", names: tuple[str, ...] | None, refused: "Mapping[str, str]"
) -> "Iterator[MissingInput]":
    for name in names or ():
        if name not in own and refused.get(name, "not read"):
            yield MissingInput(LookupInput.PULL_SECRET, name, refused.get(name, ""))


def _absent(name: str, namespace: str) -> UnusedSecret:
    text = (
        f"secret {name!r}, which the pod lists, does not exist in {namespace!r}: the kubelet pulls without it"
    )
    return UnusedSecret(UnusedReason.ABSENT, name, namespace, text)


def _find_unread(secret: PullSecret, names: tuple[str, ...] | None, namespace: str) -> UnusedSecret | None:
    if names is not None and secret.name not in names:
        reason, why = UnusedReason.UNLISTED, "the pod does not list it"
    elif namespace and secret.namespace != namespace:
        reason = UnusedReason.OTHER_NAMESPACE
        why = f"its namespace is {secret.namespace!r} and the pod's is {namespace!r}"
    else:
        return None
    text = f"secret {secret.name!r} is given, but {why}: the kubelet does not read it"
    return UnusedSecret(reason, secret.name, secret.namespace, text)


def _find_ignored(secret: PullSecret) -> UnusedSecret | None:
    """Return a secret without content that the kubelet reads; raise PullSecretError for bad content."""
    problem: PullSecretError
    try:
        if read_pull_secret(secret) is not None:
            return None
    except PullSecretError as error:
        problem = error
    else:
        return _ignored(secret)
    raise PullSecretError(f"{problem.message}; {_UNREADABLE}", problem.kubernetes_text, problem.secret)


def _ignored(secret: PullSecret) -> UnusedSecret:
    key = SECRET_KEYS.get(secret.type)
    reason, why = UnusedReason.EMPTY, f"it has no data under {key!r}"
    if key is None:
        reason, why = UnusedReason.TYPE, f"its type is {secret.type!r}, expected {' or '.join(SECRET_KEYS)}"
    text = f"the kubelet ignores secret {secret.name!r}: {why}"
    return UnusedSecret(reason, secret.name, secret.namespace, text)


def _decode(value: object, item: KubernetesObject, key: str) -> bytes:
    try:
        from base64 import b64decode

        return b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        pass
    raise EnvironmentProblem(f"{item.origin}: data[{key!r}] of secret {item.name!r} is not base64")
