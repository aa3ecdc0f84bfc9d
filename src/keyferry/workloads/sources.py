"""The pods that are asked about, from files or from a cluster, each with its pull secrets, account and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.user_info import hide_in_url
from keyferry._core.values import replace
from keyferry.errors import ClusterAuthError, EnvironmentProblem, Kind
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.provider.accounts import Pod, ServiceAccount, ServiceAccounts, StaticAccount
from keyferry.workloads.events import events_about
from keyferry.workloads.inputs import Sources
from keyferry.workloads.objects import (
    Change,
    KubernetesObject,
    ObjectKind,
    parse_target,
    read_file,
    read_objects,
)
from keyferry.workloads.pods import DEFAULT_NAMESPACE, WorkloadPod, read_pod
from keyferry.workloads.request import Request, Wait, wait_for
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
    from keyferry.workloads.live import LiveWorkload

__all__ = ["cluster_sources", "read_pods", "read_secret_files", "sources_of"]


def read_pods(request: Request, wait: Wait | None = None) -> tuple[Sources, ...]:
    """Return the sources of each pod that *request* is about, or one without a pod; see ``read_sources``."""
    if request.target:
        return (_read_target(request, wait),)
    objects = _read_files(request)
    return tuple(sources_of(request, objects, pod) for pod in _pods_of(request, objects) or (None,))


# From files.


def _read_files(request: Request) -> list[KubernetesObject]:
    """Return the objects of all files that *request* names."""
    main = list(read_objects(request.filename)) if request.filename else []
    if main and not any(each.kind.is_workload for each in main):
        raise EnvironmentProblem(
            f"{main[0].origin}: found no Pod and no workload; expected one, and secrets with --secret"
        )
    return [*main, *read_secret_files(request)]


def read_secret_files(request: Request) -> tuple[KubernetesObject, ...]:
    """Return the objects of the files with secrets that *request* names, or those that it has already."""
    if request.secret_objects is not None:
        return request.secret_objects
    return tuple(item for each in request.secrets for item in _read_secret_file(each))


def _read_secret_file(path: str) -> list[KubernetesObject]:
    """Return the secrets and accounts of a file; raise EnvironmentProblem if it has no secret."""
    found = list(read_objects(path))
    kinds = dict.fromkeys(each.kind for each in found)
    if ObjectKind.SECRET not in kinds:
        named = " and ".join(f"a {kind}" for kind in kinds)
        raise EnvironmentProblem(f"{found[0].origin}: found {named}, expected a Secret (--secret)")
    return [each for each in found if not each.kind.is_workload]


def _pods_of(request: Request, objects: Sequence[KubernetesObject]) -> list[WorkloadPod]:
    """Return the pods of *objects* that use the images, or the only pod; without images, all pods."""
    images = request.images
    pods = [read_pod(each, request.namespace) for each in objects if each.kind.is_workload]
    using = [pod for pod in pods if any(map(pod.using, images))]
    # A single pod may be asked about an image that it does not have yet.
    if len(pods) < 2 or using or not images:
        return using or pods
    names, wanted = ", ".join(map(str, pods)), " or ".join(map(repr, images))
    raise EnvironmentProblem(f"{pods[0].workload.origin}: no pod uses {wanted}: found {names}")


def sources_of(
    request: Request, objects: Sequence[KubernetesObject], workload: WorkloadPod | None
) -> Sources:
    """Return the sources for one pod out of *objects*; a pod that uses none of the images has a note."""
    pod = _pod(request, workload)
    namespace = "" if pod is None else pod.namespace
    given = [
        read_secret(item, namespace or request.namespace)
        for item in objects
        if item.kind is ObjectKind.SECRET
    ]
    account = None if pod is None else _account_object(objects, pod)
    if workload is None:
        chosen = choose_secrets(given, None, namespace)
    else:
        chosen = _choose_for_pod(given, workload, account, owner=pod or workload.pod)
    unknown = (MissingInput(input=LookupInput.POD),) if workload is None and not chosen.used else ()
    return Sources(
        workload=workload,
        pod=pod,
        events=() if workload is None else events_about(workload.workload, objects),
        pull_secrets=chosen.used,
        accounts=_accounts_of(request, account, pod),
        notes=tuple(_other_images(request, workload)),
        warnings=tuple(_names_taken_for_images(request, workload)),
        unused=(*find_late_secrets(workload, account), *chosen.unused),
        missing=(*unknown, *chosen.missing),
        account_secrets=None if account is None else listed_by_account(account),
        changes=tuple(_changes_of(objects, chosen)),
        account_changed_at=None if account is None else account.changed_at,
    )


def _pod(request: Request, workload: WorkloadPod | None) -> Pod | None:
    namespace, _, name = request.service_account.rpartition("/")
    if workload is None:
        return Pod(namespace=namespace, name="", uid="", service_account_name=name) if name else None
    pod = workload.pod
    return Pod(namespace=namespace, name=pod.name, uid=pod.uid, service_account_name=name) if name else pod


def _account_object(objects: Sequence[KubernetesObject], pod: Pod) -> KubernetesObject | None:
    for item in objects:
        place = item.text("metadata", "namespace") or pod.namespace
        is_own = (place, item.name) == (pod.namespace, pod.service_account_name)
        if item.kind is ObjectKind.SERVICE_ACCOUNT and is_own:
            return item
    return None


def _other_images(request: Request, workload: WorkloadPod | None) -> Iterator[str]:
    """Yield a note for a pod that has other images than the one that is asked about."""
    for image in request.images if workload is not None and workload.containers else ():
        if workload is not None and not workload.using(image):
            yield f"the spec of {workload} does not name {image}; this answer assumes that it does"


def _names_taken_for_images(request: Request, workload: WorkloadPod | None) -> Iterator[str]:
    """Yield a warning for an image that is the name of the pod, and so hardly meant as an image."""
    name = "" if workload is None else workload.workload.name
    if workload is not None and name in request.images and not workload.using(name):
        command = replace(request, image="").explain_command()
        yield (
            f"{name!r} is the name of {workload} in {workload.workload.origin}, and is looked up as an image; "
            f"to explain the images of the file, try: {command}"
        )


# From a cluster.


def _read_target(request: Request, wait: Wait | None) -> Sources:
    """Return the sources for a pod of a cluster, with the secrets of files for those that cannot be read."""
    from keyferry.clusters.api_calls import ApiProblem
    from keyferry.workloads.live import fetch_workload

    target = parse_target(request.target)
    if target is None:
        raise EnvironmentProblem(f"{request.target!r} is not a pod or workload such as 'pod/web'")
    session = request.open_session()
    namespace = request.namespace or session.namespace or DEFAULT_NAMESPACE
    label = f"reading {target} of namespace {namespace} from {hide_in_url(session.server)}"
    with wait_for(wait, label, request.timeout_seconds):
        live = fetch_workload(session, target, namespace, timeout_seconds=request.timeout_seconds)
    if isinstance(live, ApiProblem):
        if live.kind is not Kind.NOT_FOUND:
            raise ClusterAuthError("", str(live))
        # As for a file that does not exist: there is nothing to give an answer about.
        raise EnvironmentProblem(
            f"there is no {target.kind.lower()} {target.name!r} in namespace {namespace!r}; for the image of that "
            f"name, write docker.io/{request.target}"
        )
    return cluster_sources(request, live)


def cluster_sources(request: Request, live: LiveWorkload, *, is_of_many: bool = False) -> Sources:
    """Return the sources of a pod that was read from a cluster, with the secrets of the request's files.

    A file is meant for the pod, unless it *is_of_many*: then only those of its secrets count that the pod lists.
    """
    pod, account = live.pod.pod, live.account
    files = [each for each in read_secret_files(request) if each.kind is ObjectKind.SECRET]
    if is_of_many:
        listed = secret_names(live.pod, account) or ()
        places = ("", pod.namespace)
        files = [
            each for each in files if each.name in listed and each.text("metadata", "namespace") in places
        ]
    found = [*live.secrets, *files]
    given = [read_secret(item, pod.namespace) for item in found]
    chosen = _choose_for_pod(
        given, live.pod, account, owner=pod, problem=live.account_problem, refused=live.refused
    )
    return Sources(
        workload=live.pod,
        pod=pod,
        events=live.events,
        pull_secrets=chosen.used,
        accounts=_accounts_of(request, account, pod),
        notes=live.notes,
        unused=(*find_late_secrets(live.pod, account), *chosen.unused),
        missing=chosen.missing,
        account_secrets=None if account is None else listed_by_account(account),
        changes=tuple(_changes_of(found, chosen)),
        account_changed_at=None if account is None else account.changed_at,
    )


# From both.


def _choose_for_pod(
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


def _changes_of(objects: Sequence[KubernetesObject], chosen: PodSecrets) -> Iterator[Change]:
    """Yield the last change of each pull secret that is used."""
    used = {(each.namespace, each.name) for each in chosen.used}
    for item in objects:
        namespace = item.text("metadata", "namespace")
        at = item.changed_at
        if item.kind is ObjectKind.SECRET and (namespace, item.name) in used and at is not None:
            yield Change(what=f"pull secret {namespace}/{item.name}", at=at)


def _accounts_of(request: Request, item: KubernetesObject | None, pod: Pod | None) -> ServiceAccounts | None:
    """Return the service accounts for a pod: its own, with the token of the request; None without a pod."""
    if pod is None:
        return None
    account = ServiceAccount(uid="", annotations=None)
    if item is not None:
        account = ServiceAccount(uid=item.uid, annotations=item.annotations)
    path = request.service_account_token
    return StaticAccount(account=account, token_text=None if path is None else _read_token(path))


def _read_token(path: str) -> str:
    """Return the token in a file; raise EnvironmentProblem if it holds anything that no token contains."""
    token = read_file(path).decode("utf-8", "replace").strip()
    if token and all("!" <= each <= "~" for each in token):
        return token
    wrong = "is not a token" if token else "is empty"
    raise EnvironmentProblem(f"{path}: {wrong}; expected one line, as printed by 'kubectl create token'")
