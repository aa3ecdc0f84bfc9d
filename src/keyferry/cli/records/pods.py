"""Pods from files, with their images and their credentials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keyferry.api.kubeletconfig.records import ImagePullServiceAccount
from keyferry.errors import EnvironmentProblem, PullSecretError
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.keyring import lookup_all
from keyferry.images.lookup import pull_secrets_keyring
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import normalise
from keyferry.pulls.records.access import ImageUse
from keyferry.pulls.records.decide import PodCredentials, pod_credentials
from keyferry.workloads.inputs import Sources
from keyferry.workloads.objects import KubernetesObject, ObjectKind, read_objects
from keyferry.workloads.pods import WorkloadPod, read_pod
from keyferry.workloads.request import Request
from keyferry.workloads.sources import sources_of


def read_uses(pods: Sequence[str], secrets: Sequence[str]) -> tuple[ImageUse, ...]:
    """Return every image of every pod in the files, with the pod's own secrets and account."""
    return tuple(use for path in pods for use in _read_file(path, secrets))


def _read_file(path: str, secrets: Sequence[str]) -> Iterator[ImageUse]:
    own = list(read_objects(path))
    objects = [*own, *(each for file in secrets for each in read_objects(file))]
    pods = [each for each in own if each.kind is ObjectKind.POD]
    if not pods:
        raise EnvironmentProblem(f"{path}: found no pod, expected at least one in each file")
    for pod in pods:
        yield from _uses_of(read_pod(pod), objects)


def _uses_of(workload: WorkloadPod, objects: Sequence[KubernetesObject]) -> Iterator[ImageUse]:
    """Yield every image of a pod, with its secrets and its account out of *objects*."""
    sources = sources_of(Request(), objects, workload)
    pod = workload.pod
    account = _account(sources, pod)
    unknown = MissingInput(
        input=LookupInput.SERVICE_ACCOUNT, name=f"{pod.namespace}/{pod.service_account_name}"
    )
    missing = (*sources.missing_secrets, *(() if account else (unknown,)))
    for image in workload.by_image:
        yield ImageUse(
            pod=f"{pod.namespace}/{pod.name}",
            image=image,
            credentials=_credentials(sources.pull_secrets, account, image),
            missing=missing,
        )


def _account(sources: Sources, pod: Pod) -> ImagePullServiceAccount | None:
    if sources.accounts is None:
        return None
    account = sources.accounts.get(pod.namespace, pod.service_account_name)
    if account.annotations is None:
        return None
    return ImagePullServiceAccount(uid=account.uid, namespace=pod.namespace, name=pod.service_account_name)


def _credentials(
    secrets: Sequence[PullSecret], account: ImagePullServiceAccount | None, image: str
) -> PodCredentials:
    try:
        keyrings = pull_secrets_keyring(secrets)
    except PullSecretError as error:
        raise EnvironmentProblem(str(error)) from None
    shown = pod_credentials(lookup_all(keyrings, normalise(image)))
    return PodCredentials(secrets=shown.secrets, service_account=account)
