"""A cluster whose pods use images of registries that a test changes: what was pulled once may be gone."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .certificates import Authority as Signer
from .commands import run_in_process
from .fake_cloud import Authority, ConnectProxy, FakeServer, Received, Reply, serving
from .kube import TOKEN, Kube
from .kube_commands import Done
from .kubernetes_api import Json, KubernetesApi, account, pod, pull_secret
from .pull_reports import aged
from .registry import digest as digest_of

HOST, OTHER, ECR = "registry.example", "other.example", "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
PASSWORD = "kf-marked-password"
LOGIN = f"alice:{PASSWORD}"
EVERYTHING = "pods secrets serviceaccounts deployments statefulsets daemonsets jobs cronjobs"
_MESSAGES = {"UNAUTHORIZED": "authentication required", "MANIFEST_UNKNOWN": "manifest unknown"}
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def image(name: str = "team/app:v1", host: str = HOST) -> str:
    """Return the full name of an image."""
    return f"{host}/{name}"


@dataclass
class PullsWorld:
    """``images`` are those of the registries, with the logins that may pull each; None is for everybody.

    ``instead`` answers a request in place of the registry, unless it returns None.
    """

    folder: Path
    api: KubernetesApi
    env: dict[str, str]
    server: FakeServer
    images: dict[str, set[str] | None] = field(default_factory=dict)
    instead: Callable[[Received], Reply | None] = lambda _: None

    def answer(self, received: Received) -> Reply:
        """Answer a request to any registry."""
        special = self.instead(received)
        if special is not None:
            return special
        path, _, reference = received.path.removeprefix("/v2/").rpartition("/manifests/")
        mark = "@" if ":" in reference else ":"
        name = f"{received.headers['host']}/{path}{mark}{reference}"
        logins = self.images.get(name, set())
        scheme, _, proof = received.headers.get("authorization", "").partition(" ")
        login = base64.b64decode(proof).decode() if scheme == "Basic" else ""
        if logins is not None and not login:
            return Reply(401, _error("UNAUTHORIZED"), headers={"WWW-Authenticate": 'Basic realm="r"'})
        if name not in self.images:
            return Reply(404, _error("MANIFEST_UNKNOWN"))
        if logins is not None and login not in logins:
            return Reply(401, _error("UNAUTHORIZED"), headers={"WWW-Authenticate": 'Basic realm="r"'})
        headers = {"Content-Type": _MANIFEST, "Docker-Content-Digest": digest_of(name.encode())}
        return Reply(headers=headers, body=b"" if received.method == "HEAD" else b"{}")

    def add_pods(
        self,
        number: int,
        name: str,
        *,
        namespace: str = "shop",
        secrets: tuple[str, ...] = (),
        **spec: object,
    ) -> None:
        """Add pods with one image, whose namespace has the default account."""
        if ("", "serviceaccounts", namespace, "default") not in self.api.objects:
            self.api.add(account(namespace=namespace))
        for _ in range(number):
            at = sum(place[1] == "pods" for place in self.api.objects) + 1
            listed = [{"name": each} for each in secrets]
            made = aged(pod(f"web-{at:03d}", namespace, (name,), imagePullSecrets=listed, **spec))
            made["status"] = {
                "phase": "Running",
                "containerStatuses": [{"name": "app", "imageID": "", "state": {"running": {}}}],
            }
            self.api.add(made)

    def add_secret(
        self, name: str = "regcred", namespace: str = "shop", login: str = LOGIN, host: str = HOST
    ) -> None:
        """Add a pull secret."""
        self.api.add(pull_secret(name, namespace, host, login))

    def add_workload(self, kind: str, name: str, image_name: str, **status: object) -> None:
        """Add a workload of namespace ``shop`` with a template."""
        template: Json = {"spec": {"containers": [{"name": "app", "image": image_name}]}}
        spec: Json = {"template": template}
        if kind == "CronJob":
            spec = {"jobTemplate": {"spec": spec}}
        self.api.add(
            {"kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": status}
        )

    def run(self, *words: str, columns: int = 80) -> Done:
        """Run ``keyferry can-pull`` on a machine without a kubelet; no password is ever in its output."""
        done = run_in_process("can-pull", *words, cwd=None, COLUMNS=str(columns), **self.env)
        assert "kf-marked" not in done.stdout + done.stderr
        assert not self.server.problems
        return done

    def asked(self, *methods: str) -> list[str]:
        """Return the images of the requests with a credential, in order."""
        return [
            f"{each.headers['host']}{each.path}"
            for each in self.server.received
            if "authorization" in each.headers and (not methods or each.method in methods)
        ]


def _error(code: str) -> Json:
    return {"errors": [{"code": code, "message": _MESSAGES[code]}]}


@contextmanager
def pulls_world(folder: Path) -> Iterator[PullsWorld]:
    """Yield a cluster on which bob may read everything, and its registries."""
    signer, authority = Signer(), Authority(folder)
    with ExitStack() as stack:
        api = stack.enter_context(KubernetesApi(signer))
        api.add_user(TOKEN, "bob")
        api.permit(TOKEN, "get list", EVERYTHING)
        kube = Kube(folder)
        kube.write(api.url, ca=signer.pem, user={"token": TOKEN})

        def answer(received: Received) -> Reply:
            return world.answer(received)

        server = stack.enter_context(serving(answer, authority.context(HOST, OTHER, ECR)))
        proxy = stack.enter_context(ConnectProxy(dict.fromkeys((HOST, OTHER, ECR), server.port)))
        env = {
            "HOME": str(folder),
            "KEYFERRY_PROC": str(folder),
            "KUBECONFIG": str(kube.path),
            "KUBERC": "",
            "HTTPS_PROXY": proxy.url,
            "NO_PROXY": "127.0.0.1",
            "SSL_CERT_FILE": str(authority.bundle),
            "PYTHONIOENCODING": "utf-8",
        }
        world = PullsWorld(folder, api, env, server)
        yield world
