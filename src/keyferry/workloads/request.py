"""A question about images as plain data: what is asked about, whose files count, and how plugins are run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from keyferry._core.values import Value, field
from keyferry.images.answer import ACCOUNT_INPUTS, LookupInput, MissingInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.clusters.session import ClusterSession
    from keyferry.images.node.settings import Node

__all__ = [
    "FILES",
    "ClusterOptions",
    "RecordOptions",
    "RegistryOptions",
    "Request",
    "Wait",
    "missing_lines",
    "wait_for",
]

FILES = "-f FILE"
_STANDARD_INPUT = "-"

# Shows what is waited for, and for how many seconds at most, for the length of a block.
Wait = Callable[[str, float], AbstractContextManager[None]]


def wait_for(wait: Wait | None, label: str, seconds: float) -> AbstractContextManager[None]:
    """Return a block in which *wait*, if there is one, shows *label*."""
    return nullcontext() if wait is None or not label else wait(label, seconds)


class ClusterOptions(Value):
    """The cluster to ask, with the meaning of ``load_cluster``."""

    context: str | None = None
    kubeconfig: str | None = None
    cluster: str | None = None
    user: str | None = None
    proxy_url: str | None = field(default=None, repr=False)
    trust: bool = False

    def open_session(self, timeout_seconds: float) -> ClusterSession:
        """Return a session for the context; raise ConfigError, PolicyError or ClusterAuthError."""
        from keyferry.clusters.session import load_cluster

        return load_cluster(
            self.context,
            kubeconfig=self.kubeconfig,
            cluster=self.cluster,
            user=self.user,
            proxy_url=self.proxy_url,
            trust=self.trust,
            timeout_seconds=timeout_seconds,
        )


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


class Request(Value):
    """A question about an image, or about the images of pods, with the options of the command line.

    *target* is a pod or workload of a cluster, as in ``pod/web``; else *filename* is a file with pods, their secrets
    and their accounts. Without an *image*, all images of the pods are meant; *more_images* are pulled with it.
    *namespace* is that of objects without one. *secrets* and *service_account_token* are files, *service_account* is
    ``NAMESPACE/NAME``. *docker_config* is the node's, or ``auto`` to search it as the kubelet does.

    If *here*, this machine is the pod's node; else it counts as the node only if its kubelet has that name. *node* is
    this machine, by default as it is found. *env_from* is ``kubelet`` or ``self``, *agent* is ``auto``, ``off`` or a
    socket. If *is_start*, the config is judged as by a kubelet that starts now, which a missing executable stops; if
    *is_pull*, images are pulled here, and a docker config is only searched for a pod and a kubelet that runs.

    With *check_registry*, the registry is asked with each credential.
    """

    image: str = ""
    more_images: tuple[str, ...] = ()
    target: str = ""
    namespace: str = ""
    filename: str = ""
    secrets: tuple[str, ...] = ()
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

    @property
    def images(self) -> tuple[str, ...]:
        """The images that are asked about; none if all images of the pods are meant."""
        return (self.image, *self.more_images) if self.image else ()

    @property
    def has_node_files(self) -> bool:
        """Whether config and plugins are both given, so that nothing of this machine is searched for them."""
        return bool(self.config and self.bin_dir)

    @property
    def contradiction(self) -> str:
        """What does not go together, or has a wrong form; empty if nothing."""
        namespace, _, name = self.service_account.rpartition("/")
        if self.service_account and not (namespace and name):
            return f"--service-account {self.service_account!r}: expected NAMESPACE/NAME"
        if self.target and self.filename:
            return f"{self.target} is an object of a cluster, and -f is for files: give one of them"
        has_pod = self.target or self.filename or self.service_account
        if self.service_account_token is not None and not has_pod:
            return f"--service-account-token requires the token's account: add --service-account or {FILES}"
        return ""

    def open_session(self) -> ClusterSession:
        """Return a session for the cluster; raise ConfigError, PolicyError or ClusterAuthError."""
        return self.cluster.open_session(self.timeout_seconds)

    def explain_command(self) -> str:
        """Return the command line of keyferry that explains what is asked about, with the same options."""
        words = filter(None, (self.target or self.image,))
        return shlex.join(("keyferry", "explain", *words, *_spell(self, _EXPLAIN_OPTIONS)))

    def try_command(self, image: str, service_account: str) -> str:
        """Return the command line that tries each step from a service account to an image, with the same options."""
        account = ("--service-account", service_account)
        return shlex.join(("keyferry", "plugin", "try", image, *account, *_spell(self, _TRY_OPTIONS)))


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
_CLUSTER_OPTIONS = {"--kubeconfig": "cluster.kubeconfig", "--context": "cluster.context"}
_EXPLAIN_OPTIONS = {
    "--no-run": "no_run",
    **_NODE_OPTIONS,
    "-n": "namespace",
    "-f": "filename",
    "--secret": "secrets",
    "--docker-config": "docker_config",
    "--service-account": "service_account",
    "--service-account-token": "service_account_token",
    **_RUN_OPTIONS,
    "--agent": "agent",
    "--check-registry": "check_registry",
    **_REGISTRY_OPTIONS,
    "--root": "records.root",
    "--policy": "records.policy",
    "--allow": "records.allow",
    "--cri": "records.cri",
    "--image-id": "records.image_id",
    "--here": "here",
    **_CLUSTER_OPTIONS,
    "--request-token": "request_token",
}
_TRY_OPTIONS = {**_NODE_OPTIONS, **_RUN_OPTIONS, **_CLUSTER_OPTIONS, **_REGISTRY_OPTIONS}


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
            # A pasted command would wait for input that is gone.
            is_input = option == "-f" and each == _STANDARD_INPUT
            yield from (option, "FILE" if is_input else f"{each:g}" if isinstance(each, float) else str(each))


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
    return [f"{each}; {_advice(each.input, request)}" for each in missing]


def _advice(missing: LookupInput, request: Request) -> str:
    if missing in ACCOUNT_INPUTS and request.target:
        return "use a context whose user may get serviceaccounts there"
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
