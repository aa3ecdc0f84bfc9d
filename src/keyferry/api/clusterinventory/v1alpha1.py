"""``multicluster.x-k8s.io/v1alpha1`` ClusterProfiles, and the file that says which plugin serves which of them."""

from __future__ import annotations

from keyferry.api.kubeconfig.v1 import Cluster, ExecConfig, note_repeated_extensions
from keyferry.api.wire import Reader, WireValue, list_of, object_of, text, wire

__all__ = [
    "API_VERSION",
    "KIND",
    "AccessProvider",
    "ClusterProfile",
    "PluginProvider",
    "PluginProviders",
    "read_cluster_profile",
]

API_VERSION = "multicluster.x-k8s.io/v1alpha1"
KIND = "ClusterProfile"


class AccessProvider(WireValue):
    """One way to reach the cluster of a profile: the name of a provider, and the cluster as in a kubeconfig."""

    name: str = wire("name", text, default="")
    cluster: Cluster = wire("cluster", object_of(Cluster), default=Cluster())


class _Metadata(WireValue):
    name: str = wire("name", text, default="")
    namespace: str = wire("namespace", text, default="")


class _Status(WireValue):
    access_providers: tuple[AccessProvider, ...] = wire(
        "accessProviders", list_of(object_of(AccessProvider)), default=()
    )
    credential_providers: tuple[AccessProvider, ...] = wire(
        "credentialProviders", list_of(object_of(AccessProvider)), default=()
    )


class ClusterProfile(WireValue):
    """A cluster of an inventory, and how it can be reached."""

    metadata: _Metadata = wire("metadata", object_of(_Metadata), default=_Metadata())
    status: _Status = wire("status", object_of(_Status), default=_Status())


def read_cluster_profile(document: object, reader: Reader) -> ClusterProfile:
    """Return the profile in *document*; *reader* collects the problems, among them extensions with equal names."""
    profile = ClusterProfile.from_document(document, reader)
    status = document.get("status") if isinstance(document, dict) else None
    for name in ("accessProviders", "credentialProviders"):
        listed = status.get(name) if isinstance(status, dict) else None
        for index, each in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(each, dict):
                note_repeated_extensions(each.get("cluster"), ("status", name, index, "cluster"), reader)
    return profile


class PluginProvider(WireValue):
    """The plugin for the clusters of one provider, and what their profiles may add to its arguments and variables."""

    name: str = wire("name", text, default="")
    exec_config: ExecConfig | None = wire("execConfig", object_of(ExecConfig), default=None)
    args_policy: str = wire("profileSourcedCLIArgsPolicy", text, default="")
    env_policy: str = wire("profileSourcedEnvVarsPolicy", text, default="")


class PluginProviders(WireValue):
    """The content of a provider file."""

    providers: tuple[PluginProvider, ...] = wire("providers", list_of(object_of(PluginProvider)), default=())
