"""A cluster in which 200 pods wait for images, for a dozen of causes, among a thousand that run."""

from __future__ import annotations

import base64
from itertools import count

from .kubernetes_api import Json, KubernetesApi, account, pod, pull_secret
from .pod_world import pod_status
from .pull_reports import (
    Report,
    aged,
    failed,
    never_pulled,
    no_such_host,
    not_found,
    running,
    stamp,
    unauthorized,
    unreachable,
    unreadable_secret,
    untrusted,
    waiting,
)

REGISTRY = "registry.example"
RUNNING, WAITING = 1004, 200
PASSWORD = "kf-marked-password"
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


def app(image: str = "app:v1", registry: str = REGISTRY) -> str:
    """Return the full name of an image."""
    return f"{registry}/team/{image}"


class WaitingWorld:
    """Adds pods that wait to a server; ``place`` gives the namespaces and nodes in turn."""

    def __init__(self, api: KubernetesApi) -> None:
        self.api = api
        self._numbers = count(1)

    def add(
        self,
        number: int,
        namespace: str,
        report: Report,
        image: str,
        *,
        secrets: tuple[str, ...] = (),
        ago: float = 600,
        node: str = "",
        **spec: object,
    ) -> None:
        """Add pods of one namespace that wait for the same, on six nodes in turn unless one is given."""
        if ("", "serviceaccounts", namespace, "default") not in self.api.objects:
            self.api.add(aged(account(namespace=namespace)))
        for _ in range(number):
            at = next(self._numbers)
            listed = [{"name": each} for each in secrets]
            made = aged(
                pod(
                    f"web-{at:03d}",
                    namespace,
                    (image,),
                    nodeName=node or f"node-{at % 6 + 1}",
                    imagePullSecrets=listed,
                    **spec,
                )
            )
            made["status"] = {
                **pod_status(made, [report]),
                "conditions": [
                    {"type": "Ready", "status": "False", "lastTransitionTime": stamp(ago + at)},
                ],
            }
            self.api.add(made)
            self.api.add(*report.event_documents(made))

    def add_secret(self, name: str, namespace: str, login: str, host: str = REGISTRY, **more: object) -> None:
        """Add a pull secret."""
        self.api.add(aged(pull_secret(name, namespace, host, login, **more)))


def running_pod(at: int) -> Json:
    """Return a pod that runs; they come after all that wait."""
    made = aged(pod(f"zz-{at:05d}", f"zz-{at // 100:03d}", (app(),)))
    made["status"] = pod_status(made, [running(app())])
    return made


def _refused(image: str, status: str) -> Report:
    host, _, path = image.partition("/")
    name, _, tag = path.partition(":")
    url = f"https://{host}/v2/{name}/manifests/{tag}"
    resolved = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}"'
    return failed(image, f"{resolved}: unexpected status from HEAD request to {url}: {status}")


def make_waiting_world(api: KubernetesApi) -> WaitingWorld:
    """Add the pods: 200 that wait, and those that run, which are made when they are listed."""
    world = WaitingWorld(api)
    add, image = world.add, app()
    # A secret that does not exist, in three namespaces.
    for namespace in ("cart", "checkout", "shop"):
        add(10, namespace, failed(image, unauthorized(image)), image, secrets=("regcred",))
    # A wrong password.
    world.add_secret("billing-login", "billing", f"alice:{PASSWORD}")
    add(25, "billing", failed(image, unauthorized(image)), image, secrets=("billing-login",), ago=9_000)
    # A token that has expired.
    ecr = app("orders:2024-11", ECR)
    world.add_secret("ecr-token", "orders", f"AWS:{PASSWORD}", ECR)
    expired = "denied: Your authorization token has expired. Reauthenticate and try again."
    add(18, "orders", failed(ecr, f'failed to pull image "{ecr}": {expired}'), ecr, secrets=("ecr-token",))
    # A user without access.
    world.add_secret("ci-login", "ci", f"ci-bot:{PASSWORD}")
    private = app("private:v3")
    add(12, "ci", _refused(private, "403 Forbidden"), private, secrets=("ci-login",))
    # Tags that do not exist.
    for at in range(14):
        gone = app(f"service-{at:02d}:v9")
        add(1, "release", failed(gone, not_found(gone)), gone)
    # A name that is none.
    bad = f"{REGISTRY}/Team/App:v1"
    why = f'Failed to apply default image tag "{bad}": couldn\'t parse image name "{bad}": invalid reference format'
    add(3, "tools", Report(waiting("InvalidImageName", why)), bad)
    # Docker Hub's limit.
    hub = "docker.io/library/redis:7"
    add(21, "cache", _refused(hub, "429 Too Many Requests"), hub)
    # A node without DNS, a registry that is down, an unknown authority.
    add(17, "batch", failed(image, no_such_host(image)), image, node="node-7")
    down = app("report:v2", "registry.internal:5000")
    add(16, "reports", failed(down, unreachable(down)), down)
    own = app("web:v4", "harbor.corp.example")
    add(11, "portal", failed(own, untrusted(own)), own)
    # Images that may not be pulled.
    local = "localhost/agent:dev"
    add(6, "edge", never_pulled(local), local)
    # A secret that cannot be read.
    content = base64.b64encode(b'{"auths": {"registry.example": {"auth": "?' + PASSWORD.encode() + b'"}}}')
    world.add_secret("typo", "legacy", "", data={".dockerconfigjson": content.decode()})
    report = unreadable_secret("illegal base64 data at input byte 0")
    add(7, "legacy", report, image, secrets=("typo",))
    # A volume that is an image.
    model = app("model:v5")
    volume = {"name": "model", "image": {"reference": model}}
    add(8, "ml", failed(model, not_found(model)), image, volumes=[volume])
    # No secret at all: whether the node has a provider is not known from afar.
    add(12, "search", failed(ecr, unauthorized(ecr)), ecr)
    api.lists.made = (RUNNING, running_pod)
    return world


def make_page_world(api: KubernetesApi) -> None:
    """Add the pods of the page: four causes, one of which cannot be told from afar."""
    world, image, ecr = WaitingWorld(api), app(), app("orders:v7", ECR)
    for namespace in ("cart", "checkout", "shop"):
        world.add(10, namespace, failed(image, unauthorized(image)), image, secrets=("regcred",), ago=1_200)
    world.add_secret("registry-login", "billing", f"alice:{PASSWORD}")
    world.add(5, "billing", failed(image, unauthorized(image)), image, secrets=("registry-login",), ago=9_000)
    world.add(17, "batch", failed(image, no_such_host(image)), image, node="node-7", ago=200)
    world.add(2, "orders", failed(ecr, unauthorized(ecr)), ecr, ago=4_000)
    api.lists.made = (RUNNING, running_pod)
