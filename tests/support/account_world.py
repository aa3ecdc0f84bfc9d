"""A cluster with a service account, a node with a provider for its tokens, and a registry: a chain to try."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

from .certificates import Authority as Signer
from .commands import run_in_process
from .fake_cloud import Authority, ConnectProxy, FakeServer, Received, Reply, serving
from .kube import TOKEN, Kube
from .kubernetes_api import KubernetesApi, account, pod
from .plugins import provider_entry, write_config, write_executable

AUDIENCE = "registry.audience.example"
HOST = "registry.example"
IMAGE = f"{HOST}/team/app:v1"
LOGIN = ("robot", "kf-marked-password")
# Answers with the login under the registry's host, and keeps the request.
PLUGIN = """\
#!/bin/sh
cat >"{seen}"
printf '%s' '{response}'
"""


class AudienceApi(KubernetesApi):
    """A server that permits kubelets the audience of the world."""

    def __init__(self, authority: Signer) -> None:
        super().__init__(authority)
        self.node_audiences = {AUDIENCE}


@dataclass
class AccountWorld:
    """The parts of the chain; ``fields`` are those of the provider, and ``accepts`` the registry's logins."""

    folder: Path
    api: AudienceApi
    kube: Kube
    proxy: ConnectProxy
    registry: FakeServer
    bundle: Path
    host: str
    accepts: list[tuple[str, str]]
    fields: dict[str, object] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)

    @property
    def bin_dir(self) -> Path:
        """The folder of the plugins."""
        made = self.folder / "bin"
        made.mkdir(exist_ok=True)
        return made

    def plugin(self, body: str, name: str = "provider") -> None:
        """Write the plugin."""
        write_executable(self.bin_dir / name, body)

    def answer(self, auth: Mapping[str, tuple[str, str]]) -> None:
        """Let the plugin answer with these logins."""
        entries = {key: {"username": user, "password": password} for key, (user, password) in auth.items()}
        response = {
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Registry",
            "cacheDuration": "1m",
            "auth": entries,
        }
        self.plugin(PLUGIN.format(seen=self.folder / "request", response=json.dumps(response)))

    def request(self) -> dict[str, object]:
        """Return the request that the plugin received."""
        loaded = json.loads((self.folder / "request").read_text())
        assert isinstance(loaded, dict)
        return loaded

    def run(self, image: str, *words: str, name: str = "shop/puller", **env: str) -> CompletedProcess[str]:
        """Run ``keyferry plugin try`` for the account."""
        attributes = {
            "serviceAccountTokenAudience": AUDIENCE,
            "cacheType": "ServiceAccount",
            "requireServiceAccount": True,
            **self.attributes,
        }
        fields = {
            "name": "provider",
            "matchImages": [self.host],
            "tokenAttributes": attributes,
            **self.fields,
        }
        fields = {key: value for key, value in fields.items() if value is not None}
        config = write_config(self.folder / "providers.json", [provider_entry(**fields)])  # type: ignore[arg-type] # by name
        options = [
            "--config",
            str(config),
            "--bin-dir",
            str(self.bin_dir),
            "--kubeconfig",
            str(self.kube.path),
        ]
        options += ["--ca-file", str(self.bundle), "--service-account", name]
        told = {"HTTPS_PROXY": self.proxy.url, **env}
        return run_in_process("plugin", "try", image, *options, *words, cwd=self.folder, **told)


@contextmanager
def account_world(
    folder: Path, host: str = HOST, *, annotations: Mapping[str, str] | None = None
) -> Iterator[AccountWorld]:
    """Yield a chain in which every link is in order."""
    signer, authority = Signer(), Authority(folder)
    accepts = [LOGIN]
    with ExitStack() as stack:
        api = stack.enter_context(AudienceApi(signer))
        registry = stack.enter_context(serving(registry_of(accepts), authority.context(host)))
        proxy = stack.enter_context(ConnectProxy({f"{host}:443": registry.port}))
        api.add_user(TOKEN, "bob")
        api.permit(TOKEN, "get", "serviceaccounts pods", "shop")
        api.permit(TOKEN, "create", "serviceaccounts/token", "shop")
        api.add(pod(serviceAccountName="puller"), account("puller", **(annotations or {})))
        kube = Kube(folder)
        kube.write(api.url, ca=signer.pem, user={"token": TOKEN})
        world = AccountWorld(folder, api, kube, proxy, registry, authority.bundle, host, accepts)
        world.answer({host: LOGIN})
        yield world


def registry_of(accepts: list[tuple[str, str]]) -> Callable[[Received], Reply]:
    """Return a registry that has every image, for the logins in *accepts*."""

    def answer(received: Received) -> Reply:
        logins = {base64.b64encode(f"{user}:{password}".encode()).decode() for user, password in accepts}
        if received.headers.get("authorization", "").removeprefix("Basic ") not in logins:
            return Reply(401, {"errors": []}, headers={"WWW-Authenticate": 'Basic realm="test"'})
        return Reply(
            headers={
                "Docker-Content-Digest": f"sha256:{'0' * 64}",
                "Content-Type": "application/vnd.oci.image.manifest.v1+json",
            }
        )

    return answer
