"""A provider file with a plugin, and ClusterProfiles for it."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import keyferry
from keyferry.clusters.request import request
from keyferry.invoke.policy import PluginPolicy

from .api_server import ApiServer, Seen
from .certificates import Authority
from .kube import TOKEN, credential
from .plugins import write_executable

ARGS = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
ENVS = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
CONFIG = "client.authentication.k8s.io/exec"
PLUGIN = """\
#!/bin/sh
cd {here} || exit 1
for word; do echo "$word"; done > args
env > env
printf %s "$KUBERNETES_EXEC_INFO" > info
cat answer
"""


class ProfileWorld:
    """A provider file with one plugin that notes what it gets, and profiles of a server."""

    def __init__(self, folder: Path, server: ApiServer, authority: Authority) -> None:
        self.folder = folder
        self.file = folder / "providers.json"
        self.server = server
        self.ca = base64.b64encode(authority.pem.encode()).decode()
        self.plugin = write_executable(folder / "plugin", PLUGIN.format(here=shlex.quote(str(folder))))
        (folder / "answer").write_text(credential(TOKEN))
        self.write()

    def write(self, *others: Mapping[str, object], **fields: object) -> None:
        """Write the provider file: *others* first, then the plugin's provider with more *fields*."""
        config = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(self.plugin),
            "args": ["token"],
            "env": [{"name": "REGION", "value": "file"}],
            "provideClusterInfo": True,
        }
        provider = {"name": "cloud", "execConfig": config, **fields}
        self.file.write_text(json.dumps({"providers": [*others, provider]}))

    def profile(
        self, extensions: Mapping[str, object] | None = None, cluster: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Return a profile that has one access provider; *cluster* are more fields of its cluster."""
        listed = [{"name": key, "extension": value} for key, value in (extensions or {}).items()]
        described = {
            "server": self.server.url,
            "certificate-authority-data": self.ca,
            "extensions": listed,
            **(cluster or {}),
        }
        return {
            "apiVersion": "multicluster.x-k8s.io/v1alpha1",
            "kind": "ClusterProfile",
            "metadata": {"name": "fleet-1", "namespace": "inventory"},
            "spec": {"displayName": "fleet-1"},
            "status": {"accessProviders": [{"name": "cloud", "cluster": described}]},
        }

    def load(
        self, profile: Mapping[str, object] | Path, *, allow_loader_variables: bool = False
    ) -> keyferry.ClusterSession:
        """Return a session for *profile*, as a controller gets it."""
        return keyferry.load_cluster_profile(
            profile,
            providers=self.file,
            policy=PluginPolicy(),
            allow_loader_variables=allow_loader_variables,
        )

    def ask(self, profile: Mapping[str, object] | Path, *, allow_loader_variables: bool = False) -> int:
        """Send one request to the profile's cluster and return the status."""
        session = self.load(profile, allow_loader_variables=allow_loader_variables)
        with request(session, "/version") as reply:
            reply.read()
            return reply.status

    def args(self) -> list[str]:
        """Return the arguments of the last run."""
        return (self.folder / "args").read_text().splitlines()

    def variable(self, name: str) -> str | None:
        """Return a variable of the last run."""
        found = [
            line for line in (self.folder / "env").read_text().splitlines() if line.startswith(f"{name}=")
        ]
        return found[0].partition("=")[2] if found else None


class Hub(ApiServer):
    """The cluster that has the inventory; *profiles* are its ClusterProfiles, by namespace and name."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(authority)
        self.profiles: dict[str, Mapping[str, object]] = {}

    def respond(self, seen: Seen) -> tuple[int, bytes] | None:
        """Return a profile, or what an API server says of one that does not exist or may not be read."""
        namespaces = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/"
        if not seen.path.startswith(namespaces) or seen.method != "GET":
            return None
        if not self.lets_in(seen):
            return 401, b'{"kind": "Status", "message": "Unauthorized"}'
        namespace, _, name = seen.path.removeprefix(namespaces).partition("/clusterprofiles/")
        if namespace == "forbidden":
            user = 'clusterprofiles.multicluster.x-k8s.io "x" is forbidden: User "jane" cannot get resource'
            return 403, json.dumps({"kind": "Status", "message": user}).encode()
        found = self.profiles.get(f"{namespace}/{name}")
        if found is None:
            said = f'clusterprofiles.multicluster.x-k8s.io "{name}" not found'
            return 404, json.dumps({"kind": "Status", "message": said}).encode()
        return 200, json.dumps(found).encode()
