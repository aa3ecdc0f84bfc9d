"""Sources of credentials that are given as files: a pod, its pull secrets, its service account and token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keyferry.cli.exits import WrongUsage
from keyferry.cli.frame.sources import FILES, Sources
from keyferry.errors import EnvironmentProblem
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.provider.accounts import Pod, ServiceAccount, StaticAccount
from keyferry.show.writer import report
from keyferry.workloads.objects import Change, KubernetesObject, ObjectKind, read_file, read_objects
from keyferry.workloads.pods import WorkloadPod, read_pod
from keyferry.workloads.secrets import (
    PodSecrets,
    choose_secrets,
    find_late_secrets,
    listed_by_account,
    read_secret,
    secret_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.images.dockerconfig import PullSecret
    from keyferry.images.provider.accounts import ServiceAccounts

__all__ = [
    "accounts_of",
    "changes_of",
    "choose_for_pod",
    "note_pod_names",
    "pods_of",
    "read_given_objects",
    "read_secret_file",
    "read_source_files",
    "sources_of",
]


def read_given_objects(args: argparse.Namespace) -> list[KubernetesObject]:
    """Return the objects of all files that the options name; raise EnvironmentProblem or WrongUsage."""
    if args.filename and args.pod:
        raise WrongUsage("--pod is the same as -f: give one of them")
    path = args.filename or args.pod
    main = list(read_objects(path)) if path else []
    if path and not any(each.kind.is_workload for each in main):
        raise EnvironmentProblem(
            f"{main[0].origin}: found no Pod and no workload; expected one, and secrets with --secret"
        )
    return [*main, *(item for each in args.secret for item in read_secret_file(each))]


def read_secret_file(path: str) -> list[KubernetesObject]:
    """Return the secrets and accounts of a file; raise EnvironmentProblem if it has no secret."""
    found = list(read_objects(path))
    kinds = dict.fromkeys(each.kind for each in found)
    if ObjectKind.SECRET not in kinds:
        named = " and ".join(f"a {kind}" for kind in kinds)
        raise EnvironmentProblem(f"{found[0].origin}: found {named}, expected a Secret (--secret)")
    return [each for each in found if not each.kind.is_workload]


def read_source_files(args: argparse.Namespace, images: Sequence[str]) -> Sources:
    """Read the files that the options name, for images; raise EnvironmentProblem, PullSecretError or WrongUsage."""
    objects = read_given_objects(args)
    pods = pods_of(args, objects, images)
    if len(pods) > 1:
        names = ", ".join(map(str, pods))
        raise EnvironmentProblem(f"{pods[0].workload.origin}: {names} use this image; expected one of them")
    note_pod_names(args, pods, images)
    sources = sources_of(args, objects, pods[0] if pods else None, images)
    if sources.unreadable is not None and sources.unreadable.error is not None:
        raise sources.unreadable.error
    return sources


def pods_of(
    args: argparse.Namespace, objects: Sequence[KubernetesObject], images: Sequence[str]
) -> list[WorkloadPod]:
    """Return the pods of *objects* that use any of *images*, or the only pod; raise EnvironmentProblem if none does.

    Without images, return all.
    """
    pods = [read_pod(each, args.namespace or "") for each in objects if each.kind.is_workload]
    using = [pod for pod in pods if any(map(pod.using, images))]
    # A single pod may be asked about an image that it does not have yet.
    if len(pods) < 2 or using or not images:
        return using or pods
    names, wanted = ", ".join(map(str, pods)), " or ".join(map(repr, images))
    raise EnvironmentProblem(f"{pods[0].workload.origin}: no pod uses {wanted}: found {names}")


def note_pod_names(args: argparse.Namespace, pods: Sequence[WorkloadPod], images: Sequence[str]) -> None:
    """Report *images* that are the names of *pods*, and so hardly meant as images."""
    for pod in pods:
        if pod.workload.name in images and not pod.using(pod.workload.name):
            from keyferry.cli.hints import command_line

            report(
                f"{pod.workload.name!r} is the name of {pod} in {pod.workload.origin}, and is looked up as an image; "
                f"to explain the images of the file, try: {command_line(args, 'explain')}"
            )


def sources_of(
    args: argparse.Namespace,
    objects: Sequence[KubernetesObject],
    workload: WorkloadPod | None,
    images: Sequence[str] = (),
) -> Sources:
    """Return the sources for one pod out of *objects*; raise EnvironmentProblem or WrongUsage.

    A pod that uses none of *images* has a note.
    """
    pod = _pod(workload, args)
    namespace = "" if pod is None else pod.namespace
    given = [
        read_secret(item, namespace or args.namespace or "")
        for item in objects
        if item.kind is ObjectKind.SECRET
    ]
    account = None if pod is None else _account_object(objects, pod)
    if workload is None:
        chosen = choose_secrets(given, None, namespace)
    else:
        chosen = choose_for_pod(given, workload, account, owner=pod or workload.pod)
    unknown = (MissingInput(input=LookupInput.POD),) if workload is None and not chosen.used else ()
    return Sources(
        pod=pod,
        pull_secrets=chosen.used,
        accounts=accounts_of(account, pod, args),
        notes=tuple(_other_images(workload, images)),
        unused=(*find_late_secrets(workload, account), *chosen.unused),
        missing=(*unknown, *chosen.missing),
        node_name=None if workload is None else workload.node_name,
        token_audiences=() if workload is None else workload.token_audiences,
        account_secrets=None if account is None else listed_by_account(account),
        changes=tuple(changes_of(objects, chosen)),
        account_changed_at=None if account is None else account.changed_at,
    )


def changes_of(objects: Sequence[KubernetesObject], chosen: PodSecrets) -> Iterator[Change]:
    """Yield the last change of each pull secret that is used."""
    used = {(each.namespace, each.name) for each in chosen.used}
    for item in objects:
        namespace = item.text("metadata", "namespace")
        at = item.changed_at
        if item.kind is ObjectKind.SECRET and (namespace, item.name) in used and at is not None:
            yield Change(what=f"pull secret {namespace}/{item.name}", at=at)


def choose_for_pod(
    given: Sequence[PullSecret],
    workload: WorkloadPod,
    account: KubernetesObject | None,
    *,
    owner: Pod,
    problem: str = "",
    refused: Mapping[str, str] | None = None,
) -> PodSecrets:
    """Return the secrets that the kubelet uses for the pod; its account's list is missing if it decides."""
    names, unknown = secret_names(workload, account), None
    if names is None:
        name = f"{owner.namespace}/{owner.service_account_name}"
        unknown = MissingInput(input=LookupInput.ACCOUNT_SECRETS, name=name, instead=problem)
    return choose_secrets(given, names or (), owner.namespace, refused, unknown)


def _other_images(workload: WorkloadPod | None, images: Sequence[str]) -> Iterator[str]:
    """Yield a note for a pod that has other images than the one that is asked about."""
    if workload is None or not workload.containers:
        return
    for image in images:
        if not workload.using(image):
            yield f"the spec of {workload} does not name {image}; this answer assumes that it does"


def _pod(workload: WorkloadPod | None, args: argparse.Namespace) -> Pod | None:
    namespace, _, name = (args.service_account or "").rpartition("/")
    if args.service_account and not (namespace and name):
        raise WrongUsage(f"--service-account {args.service_account!r}: expected NAMESPACE/NAME")
    if workload is None:
        return Pod(namespace=namespace, name="", uid="", service_account_name=name) if name else None
    pod = workload.pod
    return Pod(namespace=namespace, name=pod.name, uid=pod.uid, service_account_name=name) if name else pod


def _account_object(objects: Sequence[KubernetesObject], pod: Pod) -> KubernetesObject | None:
    accounts = (each for each in objects if each.kind is ObjectKind.SERVICE_ACCOUNT)
    return next((each for each in accounts if _is_account_of(each, pod)), None)


def accounts_of(
    item: KubernetesObject | None, pod: Pod | None, args: argparse.Namespace
) -> ServiceAccounts | None:
    """Return the service accounts for a pod: its own, with the token of the command line; None without a pod."""
    path = args.service_account_token
    if pod is None:
        if path is not None:
            raise WrongUsage(
                f"--service-account-token requires the token's account: add --service-account or {FILES}"
            )
        return None
    account = (
        ServiceAccount(uid="", annotations=None)
        if item is None
        else ServiceAccount(uid=item.uid, annotations=item.annotations)
    )
    return StaticAccount(account=account, token_text=None if path is None else _read_token(path))


def _read_token(path: str) -> str:
    """Return the token in a file; raise EnvironmentProblem if it holds anything that no token contains."""
    token = read_file(path).decode("utf-8", "replace").strip()
    if token and all("!" <= each <= "~" for each in token):
        return token
    wrong = "is not a token" if token else "is empty"
    raise EnvironmentProblem(f"{path}: {wrong}; expected one line, as printed by 'kubectl create token'")


def _is_account_of(item: KubernetesObject, pod: Pod) -> bool:
    place = item.text("metadata", "namespace") or pod.namespace
    return (place, item.name) == (pod.namespace, pod.service_account_name)
