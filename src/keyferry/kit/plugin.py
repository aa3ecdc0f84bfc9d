"""The two kinds of credential plugins, and the plugin under test: a program, how it is run, and its images."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from enum import StrEnum

from keyferry._core.values import Value, field
from keyferry.api.clientauthentication import v1 as clientauthentication
from keyferry.api.credentialprovider import v1 as credentialprovider
from keyferry.errors import EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.api.clientauthentication.v1 import ClusterInfo
    from keyferry.api.kubeconfig.v1 import ExecConfig
    from keyferry.api.kubeletconfig.v1 import CredentialProvider

__all__ = [
    "KNOWN_VERSIONS",
    "PluginKind",
    "PluginUnderTest",
    "find_program",
    "full_api_version",
    "plugin_of_provider",
    "plugin_of_user",
]


class PluginKind(StrEnum):
    """The kind of a plugin: the kubelet's, for images, or client-go's, for clusters."""

    IMAGE = "image"
    CLUSTER = "cluster"


_GROUPS = {
    PluginKind.IMAGE: credentialprovider.API_VERSION.rpartition("/")[0],
    PluginKind.CLUSTER: clientauthentication.GROUP,
}
KNOWN_VERSIONS = {PluginKind.IMAGE: ("v1", "v1beta1", "v1alpha1"), PluginKind.CLUSTER: ("v1", "v1beta1")}


class PluginUnderTest(Value):
    """A plugin under test.

    *images* are images that it has credentials for. *api_versions* are full versions; most requests use the
    first, and the plugin must support the others too. *cache_type* is that of a config's tokenAttributes.
    """

    path: str
    kind: PluginKind = PluginKind.IMAGE
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    images: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cache_type: str = ""
    cluster: ClusterInfo | None = None
    timeout_seconds: float = 60.0

    @property
    def api_version(self) -> str:
        """The version of most requests."""
        return self.api_versions[0] if self.api_versions else full_api_version(self.kind, "v1")

    @property
    def name(self) -> str:
        """The program's name without its folder."""
        return os.path.basename(self.path)

    def other_versions(self) -> tuple[str, ...]:
        """Return all other versions of its protocol; those that it must support come first."""
        every = (full_api_version(self.kind, version) for version in KNOWN_VERSIONS[self.kind])
        ordered = dict.fromkeys((*self.api_versions, *every))
        return tuple(version for version in ordered if version != self.api_version)


def plugin_of_provider(provider: CredentialProvider) -> PluginUnderTest:
    """Return the plugin of a provider's config; its path is its name, and patterns without a star are its images."""
    attributes = provider.token_attributes
    patterns = [pattern for pattern in provider.match_images or () if "*" not in pattern]
    return PluginUnderTest(
        path=provider.name,
        args=provider.args or (),
        env=tuple((variable.name, variable.value) for variable in provider.env or ()),
        api_versions=(provider.api_version,) if provider.api_version else (),
        images=tuple(each if "/" in each else f"{each}/keyferry-kit/image" for each in patterns),
        cache_type=attributes.cache_type if attributes is not None else "",
    )


def plugin_of_user(user: ExecConfig, cluster: ClusterInfo | None) -> PluginUnderTest:
    """Return the plugin of a kubeconfig's user, which gets *cluster* if its config asks for that."""
    return PluginUnderTest(
        path=user.command,
        kind=PluginKind.CLUSTER,
        args=user.args or (),
        env=tuple((variable.name, variable.value) for variable in user.env),
        api_versions=(user.api_version,),
        cluster=cluster if user.provide_cluster_info else None,
    )


def full_api_version(kind: PluginKind, version: str) -> str:
    """Return *version* with its group; ``v1`` stands for the full version."""
    return version if "/" in version else f"{_GROUPS[kind]}/{version}"


def find_program(name: str) -> str:
    """Return the absolute path of a program, given by path or name; raise EnvironmentProblem if it cannot be run."""
    path = name if os.sep in name else shutil.which(name) or name
    path = os.path.abspath(path)
    if not os.path.exists(path):
        hint = "" if os.sep in name else " in the current directory or in PATH"
        raise EnvironmentProblem(f"plugin {name!r} does not exist{hint}; give the path of an executable")
    if os.path.isdir(path):
        raise EnvironmentProblem(f"plugin {name!r} is a directory; give the path of an executable")
    if not os.access(path, os.X_OK):
        raise EnvironmentProblem(f"plugin {name!r} is not executable; try 'chmod +x {name}'")
    return path
