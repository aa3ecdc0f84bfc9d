"""Pods from files, with their images and their credentials."""

from argparse import Namespace
from collections.abc import Iterator, Sequence

from keyferry.api.kubeletconfig.records import ImagePullServiceAccount
from keyferry.cli.frame.sources import KubernetesObject, ObjectKind, Sources, read_objects, read_sources
from keyferry.errors import EnvironmentProblem, PullSecretError
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.keyring import lookup_all
from keyferry.images.lookup import pull_secrets_keyring
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import normalise
from keyferry.pulls.records.access import ImageUse
from keyferry.pulls.records.decide import pod_credentials
from keyferry.pulls.records.decision import PodCredentials

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def read_uses(pods: Sequence[str], secrets: Sequence[str]) -> tuple[ImageUse, ...]:
    """Return every image of every pod in the files, with the pod's own secrets and account."""
    return tuple(use for path in pods for use in _read_pod(path, secrets))


def _read_pod(path: str, secrets: Sequence[str]) -> Iterator[ImageUse]:
    args = Namespace(
        pod=path, secret=list(secrets), docker_config="", service_account=None, service_account_token=None
    )
    sources = read_sources(args)
    found = [each for each in read_objects(path) if each.kind is ObjectKind.POD]
    if len(found) != 1 or sources.pod is None:
        raise EnvironmentProblem(f"{path}: found {len(found)} pods, expected one in each file")
    pod = sources.pod
    account = _account(sources, pod)
    unknown = MissingInput(LookupInput.SERVICE_ACCOUNT, f"{pod.namespace}/{pod.service_account_name}")
    missing = (*sources.missing_secrets, *(() if account else (unknown,)))
    for image in dict.fromkeys(_images(found[0])):
        yield ImageUse(
            f"{pod.namespace}/{pod.name}", image, _credentials(sources.pull_secrets, account, image), missing
        )


def _images(pod: KubernetesObject) -> Iterator[str]:
    for section in _CONTAINERS:
        containers = pod.field("spec", section)
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict) and isinstance(container.get("image"), str):
                yield container["image"]


def _account(sources: Sources, pod: Pod) -> ImagePullServiceAccount | None:
    if sources.accounts is None or sources.accounts.account.annotations is None:
        return None
    return ImagePullServiceAccount(sources.accounts.account.uid, pod.namespace, pod.service_account_name)


def _credentials(
    secrets: Sequence[PullSecret], account: ImagePullServiceAccount | None, image: str
) -> PodCredentials:
    try:
        keyrings = pull_secrets_keyring(secrets)
    except PullSecretError as error:
        raise EnvironmentProblem(str(error)) from None
    shown = pod_credentials(lookup_all(keyrings, normalise(image)))
    return PodCredentials(shown.secrets, account)
