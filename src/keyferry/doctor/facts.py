"""The facts about a node that the checks look at: values only, gathered once."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.values import Value, field
from keyferry.images.node.changes import Newer
from keyferry.images.node.discover import Discovery
from keyferry.images.node.kubelet import Kubelet, Kubelets, RuntimeProcess
from keyferry.images.node.settings import KubeletSettings
from keyferry.lint.report import LintReport
from keyferry.pulls.cri import RuntimeInfo
from keyferry.pulls.mirrors.endpoints import Mirrors, RuntimeKind

__all__ = [
    "SOCKS",
    "AgentFacts",
    "AgentProblem",
    "ConfigFacts",
    "DiskFacts",
    "KubeletFacts",
    "MirrorFacts",
    "NodeFacts",
    "PluginFile",
    "ProbeRoute",
    "ProviderFacts",
    "RecordsFacts",
    "RegistryProbe",
    "RuntimeFacts",
    "ShimFacts",
]

# Proxies that Go's programs can use and keyferry cannot.
SOCKS = ("socks5://", "socks5h://")


class KubeletFacts(Value):
    """The kubelets of this machine, and the settings and the environment of the first trusted one.

    *version* is its version of Kubernetes, if it was given. *newer* are its files that changed after it started.
    """

    kubelets: Kubelets
    settings: KubeletSettings | None = None
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    version: str = ""
    newer: tuple[Newer, ...] = ()

    @property
    def kubelet(self) -> Kubelet | None:
        """The first trusted kubelet."""
        return next(iter(self.kubelets.trusted), None)


class PluginFile(Value):
    """The file of a plugin: its owner's user id and its mode."""

    path: str
    user_id: int
    mode: int


class ShimFacts(Value):
    """A shim of the node agent in a plugin's place: the agent's *socket*, and the plugin that is run without an agent.

    *plugin* is None if there is none, as for a shim with a provider of its own; *is_broken* tells that it is missed.
    """

    socket: str
    plugin: PluginFile | None = None
    is_broken: bool = False


class ProviderFacts(Value):
    """A provider of the config; *place* is its file and its path in it, *plugin* None if there is no such file.

    *shim* is None if the file is the plugin itself.
    """

    name: str
    patterns: tuple[str, ...]
    place: tuple[str, str]
    plugin: PluginFile | None = None
    shim: ShimFacts | None = None


class AgentProblem(Value):
    """Something that is not well with the agent, in its own words: what, and why.

    *is_bad* tells that pulls get no credential now. A command that an agent names is not taken from it here.
    """

    is_bad: bool
    text: str
    reason: str = ""


class AgentFacts(Value):
    """A node agent: its socket, and who names it; what it tells is asked for only online.

    *problem* tells why it gave no answer. *is_closed* tells that it answers, and that this user may not see its status.
    """

    socket: str
    named_by: str
    is_there: bool = False
    problem: str = ""
    is_closed: bool = False
    version: str = ""
    config: str = ""
    has_same_config: bool = True
    verdict: str = ""
    problems: tuple[AgentProblem, ...] = ()


class ConfigFacts(Value):
    """The provider config: where it is, its providers, and the result of its lint."""

    found: Discovery
    report: LintReport
    providers: tuple[ProviderFacts, ...] = ()


class RuntimeFacts(Value):
    """The container runtime: its socket, where that is named, and its process.

    *socket* is empty if it is not known; *is_socket* is None if there is no such file. *version* is asked for only
    online, and *version_problem* tells why it is not known then.
    """

    socket: str = ""
    named_by: str = ""
    is_socket: bool | None = None
    kind: RuntimeKind | None = None
    process: RuntimeProcess | None = None
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    version: RuntimeInfo | None = None
    version_problem: str = ""


class MirrorFacts(Value):
    """Where the runtime goes for the images below *name*, a registry or the start of an image name."""

    name: str
    mirrors: Mirrors


class RecordsFacts(Value):
    """The pull records of the kubelet's *root*: *report* is None if there are none.

    *policy_problem* tells why the kubelet does not accept its policy; *unreadable* why the folder cannot be read.
    """

    root: str
    policy: str
    policy_from: str
    policy_problem: str = ""
    is_off: bool = False
    report: LintReport | None = None
    count: int = 0
    unreadable: str = ""


class DiskFacts(Value):
    """The file system of a folder, in bytes."""

    path: str
    free: int
    total: int


class ProbeRoute(Value):
    """How a registry is asked: *owner* is the process whose environment names the proxies, empty for keyferry itself.

    *proxy* is its URL without a user name and password, empty for none; *has_login* tells that it has them. With
    *is_socks*, it is one of a kind that the runtime can use and keyferry cannot.
    """

    owner: str = ""
    proxy: str = ""
    has_login: bool = False
    is_socks: bool = False


class RegistryProbe(Value):
    """A registry's response to a request without a credential; *problem* if there is none.

    *skew_seconds* is the registry's clock minus this machine's, None if the response has no date.
    """

    registry: str
    status: int = 0
    problem: str = ""
    skew_seconds: float | None = None
    route: ProbeRoute = ProbeRoute()


class NodeFacts(Value):
    """Everything that was found; what does not apply to this machine is None or empty."""

    kubelet: KubeletFacts
    config: ConfigFacts | None = None
    runtime: RuntimeFacts | None = None
    mirrors: tuple[MirrorFacts, ...] = ()
    # Files of k3s and RKE2 that were changed after the folder that is written from them.
    stale_sources: tuple[tuple[str, str], ...] = ()
    records: RecordsFacts | None = None
    disk: DiskFacts | None = None
    registries: tuple[str, ...] = ()
    probes: tuple[RegistryProbe, ...] = ()
    is_online: bool = False
    is_root: bool = True
    agents: tuple[AgentFacts, ...] = ()

    @property
    def is_node(self) -> bool:
        """Whether there is a kubelet or a config."""
        return bool(self.kubelet.kubelets.found) or self.config is not None
