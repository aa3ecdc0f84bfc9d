"""The files of the demo: a provider config, plugins, pods, pull secrets and a kubeconfig."""

from __future__ import annotations

import os

import keyferry
from keyferry.cli.demo.registry import PASSWORD, USERNAME
from keyferry.kit.install import this_python

__all__ = ["write_files"]

_CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: harbour
  matchImages:
  - "*.harbour.example"
  - "harbour.example:5000/team/"
  - "{host}"
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
- name: pier
  matchImages:
  - "pier.example"
  defaultCacheDuration: 5m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
- name: wharf
  matchImages:
  - "*.wharf.example"
  defaultCacheDuration: 5m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
"""

_MISTAKEN = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: harbour
  matchImages:
  - "harbour.example/*"
  - "index.docker.io"
  defaultCacheDuration: 1d
  apiVersion: credentialprovider.kubelet.k8s.io/v1
"""

_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: prod
clusters:
- name: prod
  cluster: {server: "https://127.0.0.1:1"}
contexts:
- name: prod
  context: {cluster: prod, user: pilot, namespace: team}
users:
- name: pilot
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./bin/pilot
      env: [{name: PILOT_ROLE, value: deployer}]
      interactiveMode: Never
      provideClusterInfo: true
"""

_APP = """\
apiVersion: v1
kind: Pod
metadata: {name: app, namespace: team, uid: 6f1c0b1e-0c1d-4c38-9d0e-2f4c6d9a1b11}
spec:
  serviceAccountName: default
  containers: [{name: app, image: "eu.harbour.example/team/app:v1"}]
"""

# The pod of the pull secrets, which are "regcred" of its own namespace and of another one.
_WEB = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: 2b7a4f0e-5f0a-4b57-8a5e-9d1f3c6b7e22}
spec:
  serviceAccountName: default
  imagePullSecrets: [{name: regcred}]
  containers: [{name: web, image: "dock.example/shop/web:v1"}]
"""

_REGCRED = """\
apiVersion: v1
kind: Secret
type: kubernetes.io/dockerconfigjson
metadata: {{name: regcred, namespace: {namespace}, uid: {uid}}}
stringData:
  .dockerconfigjson: '{{"auths": {{"{registry}": {{"username": "{username}", "password": "{password}"}}}}}}'
"""

_PILOT = """\
from time import time
from keyferry.sdk import ExecResponse, serve_cluster
serve_cluster(lambda request: ExecResponse(token="a-token-nobody-sees", expires_at=time() - 3600))
"""

_HARBOUR = """\
from keyferry.sdk import ProvideError, Response, serve

OURS = ("harbour.example", "127.0.0.1")

def provide(request):
    if not request.registry.partition(":")[0].endswith(OURS):
        raise ProvideError(f"{request.registry} is not one of our registries")
    return Response.for_registry(request, "ferry", "correct horse battery staple", cache_seconds=3600)

serve(provide)
"""

_WHARF = """\
import json, sys
json.load(sys.stdin)
login = {"username": "ferry", "password": "correct horse battery staple"}
json.dump({
    "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
    "kind": "CredentialProviderResponse",
    "cacheKeyType": "Registry",
    "auth": {"wharf.example": login},
}, sys.stdout)
"""

_PIER = """\
import sys
sys.exit("login at pier.example failed for token=eyJhbGciOiJIUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl")
"""


def write_files(folder: str, host: str) -> None:
    """Write all files to *folder*; *host* is the registry of the demo."""
    documents = {
        "providers.yaml": _CONFIG.format(host=host),
        "mistaken.yaml": _MISTAKEN,
        "app.yaml": _APP,
        "web.yaml": _WEB,
        "secret.yaml": _secret("shop", host, "c0ffee00-0c1d-4c38-9d0e-2f4c6d9a1b11"),
        "copy.yaml": _secret("build", "dock.example", "c0ffee00-0c1d-4c38-9d0e-2f4c6d9a1b22"),
        "kubeconfig.yaml": _KUBECONFIG,
    }
    for name, text in documents.items():
        # Others may not read logins, and kubectl complains about a kubeconfig that they may read.
        _write(os.path.join(folder, name), text, 0o600)
    bin_dir = os.path.join(folder, "bin")
    os.makedirs(bin_dir, exist_ok=True)
    os.chmod(bin_dir, 0o755)  # noqa: S103 - as on a node, whatever the umask is
    plugins = {"harbour": _HARBOUR, "pier": _PIER, "wharf": _WHARF, "pilot": _PILOT}
    for name, body in plugins.items():
        _write(os.path.join(bin_dir, name), f"#!{this_python()} -I\n{_path_line()}{body}", 0o755)


def _path_line() -> str:
    """Return what a plugin needs to import the SDK: nothing if keyferry is installed, its file if it is a zipapp."""
    home = os.path.dirname(os.path.dirname(keyferry.__file__))
    return "" if os.path.isdir(home) else f"import sys\nsys.path.append({home!r})\n"


def _secret(namespace: str, registry: str, uid: str) -> str:
    return _REGCRED.format(
        namespace=namespace, registry=registry, uid=uid, username=USERNAME, password=PASSWORD
    )


def _write(path: str, text: str, mode: int) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, mode)
