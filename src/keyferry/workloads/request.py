"""A question about images as plain data: what is asked about, whose files count, and how plugins are run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from keyferry import __version__
from keyferry._core.host_root import host_root
from keyferry._core.values import Value, field
from keyferry.clusters.options import ClusterOptions
from keyferry.images.answer import ACCOUNT_INPUTS, LookupInput, MissingInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.clusters.session import ClusterSession
    from keyferry.images.node.settings import Node
    from keyferry.workloads.objects import KubernetesObject

__all__ = [
    "DEBUG_IMAGE",
    "FILES",
    "NodeAccess",
    "RecordOptions",
    "RegistryOptions",
    "Request",
    "Wait",
    "missing_lines",
    "wait_for",
]

FILES = "-f FILE"
# What stands for the image that is built of this version, and pushed to a registry.
DEBUG_IMAGE = f"REGISTRY/keyferry:{__version__}"
# What can be read only once, so that no command that is printed names it.
_READ_ONCE = ("/dev/fd/", "/dev/stdin", "/proc/")

# Shows what is waited for, and for how many seconds at most, for the length of a block.
Wait = Callable[[str, float], AbstractContextManager[None]]


def wait_for(wait: Wait | None, label: str, seconds: float) -> AbstractContextManager[None]:
    """Return a block in which *wait*, if there is one, shows *label*."""
    return nullcontext() if wait is None or not label else wait(label, seconds)


class RegistryOptions(Value):
    """How a registry is asked, and the files of the container runtime that list its mirrors.

    *ca_file* has authorities to trust beside the system's; *insecure* accepts any certificate, and plain HTTP.
    """

    ca_file: str = ""
    insecure: bool = False
    timeout_seconds: float = 60.0
    hosts_dir: str = ""
    registries_conf: str = ""


class RecordOptions(Value):
    """The kubelet's pull records and its policy for them, and the image that is on the node.

    *cri* is the socket of the container runtime that is asked for the image, *image_id* its id there.
    """

    root: str | None = None
    policy: str | None = None
    allow: tuple[str, ...] = ()
    cri: str = ""
    image_id: str = ""

    @property
    def is_given(self) -> bool:
        """Whether anything is given."""
        return self != RecordOptions()


class NodeAccess(Value):
    """How the pod's node is asked, if it is: through the pod of its node agent, or else through a debug pod.

    *agent_namespace* is the namespace of the agents, by default any; a request whose *agent* is ``off`` does not ask
    them. *debug_image* is the image of the debug pod, which
    is made only if it is given, in *debug_namespace*, by default that of the context. *is_privileged* gives it what
    kubectl's profile ``sysadmin`` does. *is_dry_run* only shows it.
    """

    is_asked: bool = False
    agent_namespace: str = ""
    debug_image: str = ""
    debug_namespace: str = ""
    is_privileged: bool = False
    is_dry_run: bool = False


class Request(Value):
    """A question about an image, or about the images of pods, with the options of the command line.

    *target* is a pod or workload of a cluster, as in ``pod/web``; else *filename* is a file with pods, their secrets
    and their accounts. Without an *image*, all images of the pods are meant; *more_images* are pulled with it.
    *namespace* is that of objects without one. *secrets* and *service_account_token* are files, *service_account* is
    ``NAMESPACE/NAME``. *docker_config* is the node's, or ``auto`` to search it as the kubelet does. *secret_objects*
    are what the files *secrets* have, if they have been read.

    If *here*, this machine is the pod's node; else it counts as the node only if its kubelet has that name. *node* is
    this machine, by default as it is found. *env_from* is ``kubelet`` or ``self``, *agent* is ``auto``, ``off`` or a
    socket. If *is_start*, the config is judged as by a kubelet that starts now, which a missing executable stops; if
    *is_pull*, images are pulled here, and a docker config is only searched for a pod and a kubelet that runs.

    With *check_registry*, the registry is asked with each credential.

    A question about many pods has no *image*, *target* or *filename*: it is about the pods of *namespace*, by default
    the context's, or with *all_namespaces* of the whole cluster, that the selectors select. *on_node* is their node.

    *node_access* tells whether the pod's node, or else *on_node*, is asked for what only it has, and how.
    """

    image: str = ""
    more_images: tuple[str, ...] = ()
    target: str = ""
    namespace: str = ""
    all_namespaces: bool = False
    label_selector: str = ""
    field_selector: str = ""
    on_node: str = ""
    filename: str = ""
    secrets: tuple[str, ...] = ()
    secret_objects: tuple[KubernetesObject, ...] | None = field(default=None, repr=False)
    service_account: str = ""
    service_account_token: str | None = None
    docker_config: str | None = None
    config: str | None = None
    bin_dir: str | None = None
    here: bool = False
    node: Node | None = field(default=None, repr=False)
    no_run: bool = False
    timeout_seconds: float = 60.0
    withhold_env: tuple[str, ...] = ()
    env_from: str = ""
    agent: str | None = None
    request_token: bool = False
    check_registry: bool = False
    is_start: bool = False
    is_pull: bool = False
    cluster: ClusterOptions = ClusterOptions()
    registry: RegistryOptions = RegistryOptions()
    records: RecordOptions = RecordOptions()
    node_access: NodeAccess = NodeAccess()

    @property
    def images(self) -> tuple[str, ...]:
        """The images that are asked about; none if all images of the pods are meant."""
        return (self.image, *self.more_images) if self.image else ()

    @property
    def has_node_files(self) -> bool:
        """Whether config and plugins are both given, so that nothing of this machine is searched for them."""
        return bool(self.config and self.bin_dir)

    @property
    def selects_pods(self) -> bool:
        """Whether pods are selected by anything but a namespace."""
        node = "" if self.node_access.is_asked else self.on_node
        return bool(self.all_namespaces or self.label_selector or self.field_selector or node)

    @property
    def _node_contradiction(self) -> str:
        """What does not go together with a node that is asked."""
        if not self.node_access.is_asked:
            return ""
        if self.here or self.config or self.bin_dir or self.no_run:
            return "--on-node asks the node's own plugins: leave out --here, --config, --bin-dir and --no-run"
        files = self.registry.hosts_dir or self.registry.registries_conf or self.registry.ca_file
        if host_root() or files or self.env_from or self.withhold_env or self.records.cri:
            return (
                "--on-node asks the node, with its own files, container runtime and environment of plugins: leave out "
                "--host-root, --hosts-dir, --registries-conf, --ca-file, --env-from, --withhold-env and --cri"
            )
        if self.check_registry:
            return "--check-registry asks from here, and the node's credentials stay there: use can-pull --on-node"
        if not (self.target or self.image or self.filename):
            return "--on-node asks one node: name a pod, or an image and its node with --node NAME"
        return ""

    @property
    def contradiction(self) -> str:
        """What does not go together, or has a wrong form; empty if nothing."""
        namespace, _, name = self.service_account.rpartition("/")
        if self.service_account and not (namespace and name):
            return f"--service-account {self.service_account!r}: expected NAMESPACE/NAME"
        if self.target and self.filename:
            return f"{self.target} is an object of a cluster, and -f is for files: give one of them"
        named = self.target or self.image or (self.filename and FILES)
        if self.selects_pods and named:
            asks = "; with --on-node, --node names the node to ask" if self.on_node else ""
            return f"-A, -l, --field-selector and --node select pods of a cluster: leave them out, or {named}{asks}"
        if self.all_namespaces and self.namespace:
            return f"-A means all namespaces, and -n {self.namespace} one of them: give one of them"
        has_pod = self.target or self.filename or self.service_account
        if self.service_account_token is not None and not has_pod:
            return f"--service-account-token requires the token's account: add --service-account or {FILES}"
        return self._node_contradiction

    def open_session(self) -> ClusterSession:
        """Return a session for the cluster; raise ConfigError, PolicyError or ClusterAuthError."""
        from keyferry.clusters.session import open_cluster

        return open_cluster(self.cluster, timeout_seconds=self.timeout_seconds)

    def explain_command(self) -> str:
        """Return the command line of keyferry that explains what is asked about, with the same options."""
        words = filter(None, (self.target or self.image,))
        options = (*_spell(self, _EXPLAIN_OPTIONS), *self.cluster.flags(), *_spell_root())
        return shlex.join(("keyferry", "explain", *words, *options))

    def can_pull_command(self) -> str:
        """Return the command line that checks with the registry what is asked about, with the same options."""
        words = filter(None, (self.target or self.image,))
        options = (*_spell(self, _CAN_PULL_OPTIONS), *self.cluster.flags(), *_spell_root())
        return shlex.join(("keyferry", "can-pull", *words, *options))

    def try_command(self, image: str, service_account: str) -> str:
        """Return the command line that tries each step from a service account to an image, with the same options."""
        account = ("--service-account", service_account)
        options = (*_spell(self, _TRY_OPTIONS), *self.cluster.flags(), *_spell_root())
        return shlex.join(("keyferry", "plugin", "try", image, *account, *options))


# The fields that options give, in the order of the help.
_NODE_OPTIONS = {"--config": "config", "--bin-dir": "bin_dir"}
_RUN_OPTIONS = {"--timeout": "timeout_seconds", "--withhold-env": "withhold_env", "--env-from": "env_from"}
_REGISTRY_OPTIONS = {
    "--ca-file": "registry.ca_file",
    "--insecure": "registry.insecure",
    "--registry-timeout": "registry.timeout_seconds",
    "--hosts-dir": "registry.hosts_dir",
    "--registries-conf": "registry.registries_conf",
}
_CAN_PULL_OPTIONS = {
    **_NODE_OPTIONS,
    "-A": "all_namespaces",
    "-n": "namespace",
    "-l": "label_selector",
    "--field-selector": "field_selector",
    "--node": "on_node",
    "-f": "filename",
    "--secret": "secrets",
    "--docker-config": "docker_config",
    "--service-account": "service_account",
    "--service-account-token": "service_account_token",
    **_RUN_OPTIONS,
    **_REGISTRY_OPTIONS,
    "--here": "here",
    "--request-token": "request_token",
    "--on-node": "node_access.is_asked",
    "--agent": "agent",
    "--agent-namespace": "node_access.agent_namespace",
    "--debug-image": "node_access.debug_image",
    "--debug-namespace": "node_access.debug_namespace",
    "--privileged": "node_access.is_privileged",
}
_EXPLAIN_OPTIONS = {
    "--no-run": "no_run",
    **_CAN_PULL_OPTIONS,
    "--check-registry": "check_registry",
    "--root": "records.root",
    "--policy": "records.policy",
    "--allow": "records.allow",
    "--cri": "records.cri",
    "--image-id": "records.image_id",
}
_TRY_OPTIONS = {**_NODE_OPTIONS, **_RUN_OPTIONS, **_REGISTRY_OPTIONS}


def _spell(request: Request, options: dict[str, str]) -> Iterator[str]:
    """Yield the options of *request* whose values are not the default."""
    default = Request()
    for option, path in options.items():
        value, usual = _field(request, path), _field(default, path)
        if value == usual:
            continue
        if value is True:
            yield option
            continue
        for each in value if isinstance(value, tuple) else (value,):
            text = f"{each:g}" if isinstance(each, float) else str(each)
            # A pasted command would wait for input that is gone.
            is_input = option in ("-f", "--secret") and (text == "-" or text.startswith(_READ_ONCE))
            yield from (option, "FILE" if is_input else text)


def _spell_root() -> tuple[str, ...]:
    return ("--host-root", host_root()) if host_root() else ()


def _field(request: Request, path: str) -> object:
    found: object = request
    for name in path.split("."):
        found = getattr(found, name)
    return found


# The option that gives each input.
_GIVEN_BY = {
    LookupInput.POD: "-f FILE with the pod, or explain pod/NAME",
    LookupInput.PULL_SECRET: "--secret FILE",
    LookupInput.ACCOUNT_SECRETS: "-f FILE with the ServiceAccount after the Pod",
    LookupInput.DOCKER_CONFIG: "--docker-config FILE",
    LookupInput.SERVICE_ACCOUNT: "-f FILE with the ServiceAccount after the Pod",
    LookupInput.SERVICE_ACCOUNT_TOKEN: "--request-token, or --service-account-token FILE",
    LookupInput.IMAGES: "--images FILE or --cri SOCKET",
    LookupInput.NODE: "--config FILE and --bin-dir DIR of the node, or --here if this machine is the node",
    LookupInput.PLUGIN: "--bin-dir DIR with the plugin",
}


def missing_lines(missing: tuple[MissingInput, ...], request: Request) -> list[str]:
    """Return one line for each missing input, with the option that gives it and that *request* does not have yet."""
    return [f"{each}; {_advice(each, request)}" for each in missing]


def _advice(found: MissingInput, request: Request) -> str:
    missing = found.input
    is_refused = missing is LookupInput.PULL_SECRET and bool(found.instead)
    if request.target and (is_refused or missing in ACCOUNT_INPUTS):
        kind, file = ("secrets", ", or add --secret FILE") if is_refused else ("serviceaccounts", "")
        return f"use a context whose user may get {kind} there{file}"
    if missing is LookupInput.SERVICE_ACCOUNT_TOKEN and request.node_access.is_asked:
        return "on the node itself, --request-token in place of --on-node tells"
    if missing is LookupInput.SERVICE_ACCOUNT_TOKEN and request.request_token:
        return "add --service-account-token FILE"
    if missing is LookupInput.PLUGIN and request.no_run:
        return (
            "leave out --no-run" if request.bin_dir else "add --bin-dir DIR with the plugin, without --no-run"
        )
    if missing is LookupInput.POD and request.image.replace("-", "").isalnum():
        # The name of a pod is an image of Docker Hub, too.
        where = ("-n", request.namespace) if request.namespace else ()
        command = shlex.join(("keyferry", "explain", f"pod/{request.image}", *where))
        return f"add -f FILE with the pod; if {request.image!r} is a pod, try: {command}"
    return f"add {_GIVEN_BY[missing]}"
