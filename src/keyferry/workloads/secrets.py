"""Which pull secrets the kubelet uses for a pod, and why it does not use the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from keyferry._core.values import Value, replace
from keyferry.errors import EnvironmentProblem, PullSecretError
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.dockerconfig import SECRET_KEYS, PullSecret, read_pull_secret
from keyferry.workloads.objects import KubernetesObject
from keyferry.workloads.pods import DEFAULT_NAMESPACE, WorkloadPod

__all__ = [
    "PodSecrets",
    "UnusedReason",
    "UnusedSecret",
    "as_pull_secret",
    "choose_secrets",
    "find_late_secrets",
    "listed_by_account",
    "read_secret",
    "secret_names",
]

_UNREADABLE = "the kubelet then fails the whole lookup and pulls no image of the pod"


class UnusedReason(StrEnum):
    """Why the kubelet takes no login from a secret."""

    NOT_LISTED = "not-listed"
    LATE = "late"  # the service account lists it, and did not when the pod was created
    OTHER_NAMESPACE = "other-namespace"
    ABSENT = "absent"
    WRONG_TYPE = "wrong-type"
    NO_DATA = "no-data"
    NO_ENTRIES = "no-entries"
    UNREADABLE = "unreadable"


class UnusedSecret(Value):
    """A secret that the kubelet takes no login from, and why; *secret* is its content, if it exists.

    *error* is the problem of a secret that cannot be read, which fails the kubelet's whole lookup.
    """

    name: str
    namespace: str
    reason: UnusedReason
    text: str
    secret: PullSecret | None = None
    error: PullSecretError | None = None

    @property
    def is_absent(self) -> bool:
        """Whether the pod lists it and it does not exist."""
        return self.reason is UnusedReason.ABSENT

    def __str__(self) -> str:
        return self.text


class PodSecrets(Value):
    """The pull secrets of a pod in trial order, those that are of no use, and those that are not known."""

    used: tuple[PullSecret, ...] = ()
    unused: tuple[UnusedSecret, ...] = ()
    missing: tuple[MissingInput, ...] = ()


def read_secret(item: KubernetesObject, namespace: str) -> PullSecret:
    """Return the secret; if it has no namespace, as in a manifest, it is in *namespace*."""
    try:
        return PullSecret.from_object(item.value, namespace=namespace or DEFAULT_NAMESPACE)
    except PullSecretError as error:
        problem = f"{item.origin}: {error}"
    raise EnvironmentProblem(problem)


def as_pull_secret(secret: PullSecret) -> PullSecret | None:
    """Return the secret with the type that its data is for; None if it has any other data, or none."""
    for type_, key in SECRET_KEYS.items():
        if set(secret.data) == {key}:
            return replace(secret, type=type_)
    return None


def secret_names(pod: WorkloadPod, account: KubernetesObject | None) -> tuple[str, ...] | None:
    """Return the names of the pod's pull secrets: its own list, else its account's, which admission adds.

    Return None if the account's list decides and is not known.
    """
    if pod.listed_secrets or pod.is_created:
        return pod.listed_secrets
    return None if account is None else listed_by_account(account)


def listed_by_account(account: KubernetesObject) -> tuple[str, ...]:
    """Return the names of the pull secrets that a service account lists."""
    return account.names("imagePullSecrets")


def choose_secrets(
    given: Sequence[PullSecret],
    names: tuple[str, ...] | None,
    namespace: str,
    refused: Mapping[str, str] | None = None,
    unknown_list: MissingInput | None = None,
) -> PodSecrets:
    """Return the secrets of *given* that the kubelet reads: those in *names* of the pod's *namespace*.

    Without *names* the pod's list is not known, and all secrets of the namespace are used; without a namespace, all.
    *refused* has the names that are known to be of no use, with the reason, or an empty one for a secret that does not
    exist. *unknown_list* says that more names may be listed.
    """
    own = {each.name: each for each in given if not namespace or each.namespace == namespace}
    used = tuple(own.values()) if names is None else tuple(own[name] for name in names if name in own)
    unread = (_unread(each, names, namespace, is_final=unknown_list is None) for each in given)
    absent = (name for name in names or () if name not in own and not (refused or {}).get(name, "not read"))
    unused = (*unread, *map(_ignored, used), *(_absent(name, namespace) for name in absent))
    missing = _missing(own, names, refused or {})
    return PodSecrets(
        used=used,
        unused=tuple(each for each in unused if each is not None),
        missing=(*(() if unknown_list is None else (unknown_list,)), *missing),
    )


def find_late_secrets(pod: WorkloadPod | None, account: KubernetesObject | None) -> Iterator[UnusedSecret]:
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
        yield UnusedSecret(name=listed[0], namespace=pod.pod.namespace, reason=UnusedReason.LATE, text=text)


def _missing(
    own: Mapping[str, PullSecret], names: tuple[str, ...] | None, refused: Mapping[str, str]
) -> Iterator[MissingInput]:
    for name in names or ():
        if name not in own and refused.get(name, "not read"):
            yield MissingInput(input=LookupInput.PULL_SECRET, name=name, instead=refused.get(name, ""))


def _unread(
    secret: PullSecret, names: tuple[str, ...] | None, namespace: str, *, is_final: bool
) -> UnusedSecret | None:
    """Return why the kubelet does not read a secret that is given; None if it does."""
    given = f"secret {secret.name!r} is given, but"
    if namespace and secret.namespace != namespace:
        why = f"its namespace is {secret.namespace!r} and the pod's is {namespace!r}"
        reason = UnusedReason.OTHER_NAMESPACE
        text = f"{given} {why}: the kubelet does not read it"
    elif names is None or secret.name in names:
        return None
    else:
        reason = UnusedReason.NOT_LISTED
        text = f"{given} the pod does not list it: the kubelet does not read it"
        if not is_final:
            text = f"{given} the pod does not list it, and whether its service account does is not known"
    return UnusedSecret(name=secret.name, namespace=secret.namespace, reason=reason, text=text, secret=secret)


def _absent(name: str, namespace: str) -> UnusedSecret:
    text = (
        f"secret {name!r}, which the pod lists, does not exist in {namespace!r}: the kubelet pulls without it"
    )
    return UnusedSecret(name=name, namespace=namespace, reason=UnusedReason.ABSENT, text=text)


def _ignored(secret: PullSecret) -> UnusedSecret | None:
    """Return why the kubelet finds no login in a secret, None if it does."""
    try:
        entries = read_pull_secret(secret)
    except PullSecretError as error:
        problem = PullSecretError(f"{error.message}; {_UNREADABLE}", error.kubernetes_text, error.secret)
        reason = UnusedReason.UNREADABLE
        return UnusedSecret(
            name=secret.name,
            namespace=secret.namespace,
            reason=reason,
            text=problem.message,
            secret=secret,
            error=problem,
        )
    if entries:
        return None
    key = SECRET_KEYS.get(secret.type)
    ignored = f"the kubelet ignores secret {secret.name!r}"
    if key is None:
        reason = UnusedReason.WRONG_TYPE
        text = f"{ignored}: its type is {secret.type!r}, expected {' or '.join(SECRET_KEYS)}"
    elif entries is None:
        reason, text = UnusedReason.NO_DATA, f"{ignored}: it has no data under {key!r}"
    else:
        reason = UnusedReason.NO_ENTRIES
        where = " under 'auths'" if key == ".dockerconfigjson" else ""
        text = f"the kubelet finds no login in secret {secret.name!r}: its {key!r} has no entry{where}"
    return UnusedSecret(name=secret.name, namespace=secret.namespace, reason=reason, text=text, secret=secret)
