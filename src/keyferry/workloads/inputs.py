"""What a question about images needs: the pod with its sources of credentials, its node's files, and the providers.

A question goes one way: ``Request``, ``resolve_inputs``, ``Inputs``, ``Inputs.lookup``, ``Answer``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyferry._core.host_root import host_root
from keyferry._core.values import Value, replace
from keyferry.errors import ConfigError, EnvironmentProblem
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.node.discover import Discovery, discover
from keyferry.images.node.settings import Node
from keyferry.workloads.node import (
    NodeDockerConfig,
    PluginEnvironment,
    choose_node,
    find_docker_config,
    machine_notes,
    missing_node,
    plugin_environment,
)
from keyferry.workloads.request import Request, Wait, missing_lines, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.errors import Problem
    from keyferry.images.answer import Answer
    from keyferry.images.dockerconfig import PullSecret
    from keyferry.images.load import ProviderSettings
    from keyferry.images.lookup import Providers
    from keyferry.images.provider.accounts import Pod, ServiceAccounts
    from keyferry.images.reference import ImageName
    from keyferry.workloads.events import PullEvent
    from keyferry.workloads.objects import Change
    from keyferry.workloads.pods import WorkloadPod
    from keyferry.workloads.secrets import UnusedSecret

__all__ = ["Inputs", "Sources", "read_sources", "resolve", "resolve_inputs"]

_SECRET_INPUTS = (LookupInput.PULL_SECRET, LookupInput.ACCOUNT_SECRETS)


class Sources(Value):
    """A pod with its own sources of credentials, and the inputs that are missing.

    *workload* is None if no pod is given; *pod* may then still name a service account. *events* are those about pulls.
    *unused* are secrets that the kubelet takes no login from. *account_secrets* are the pull secrets that the service
    account lists, None if they are not known. *changes* are the last changes of the pod's secrets, and
    *account_changed_at* is that of its account. *notes* are about the answer, *warnings* about the question.
    """

    workload: WorkloadPod | None = None
    pod: Pod | None = None
    events: tuple[PullEvent, ...] = ()
    pull_secrets: tuple[PullSecret, ...] = ()
    accounts: ServiceAccounts | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unused: tuple[UnusedSecret, ...] = ()
    missing: tuple[MissingInput, ...] = ()
    account_secrets: tuple[str, ...] | None = None
    changes: tuple[Change, ...] = ()
    account_changed_at: float | None = None

    @property
    def node_name(self) -> str | None:
        """The node of the pod, empty for a pod that is on no node, and None without a pod."""
        return None if self.workload is None else self.workload.node_name

    @property
    def unreadable(self) -> UnusedSecret | None:
        """The first pull secret whose content cannot be read; the kubelet's whole lookup fails then."""
        return next((each for each in self.unused if each.error is not None), None)

    @property
    def missing_secrets(self) -> tuple[MissingInput, ...]:
        """The pull secrets that are not given, and the account's list of them if it decides and is not known."""
        return tuple(each for each in self.missing if each.input in _SECRET_INPUTS)


class Inputs(Value):
    """The inputs of lookups: the request, the pod's sources, its node with config and docker config, the providers.

    *found* has no config if none is required and none is found; then there are no providers. *machine* are notes on
    whose files are used. *banner* has the problems of a config that would stop a kubelet, if it is used all the same.
    *restart_notes* has those of executables, which would stop a kubelet that starts again and not the one that runs.
    """

    request: Request
    sources: Sources
    node: Node
    found: Discovery
    docker_config: NodeDockerConfig
    environment: PluginEnvironment
    providers: Providers
    machine: tuple[str, ...] = ()
    banner: tuple[str, ...] = ()
    restart_notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the inputs, for the user."""
        sources = self.sources
        return (
            *self.banner,
            *self.restart_notes,
            *self.machine,
            *sources.notes,
            *map(str, sources.unused),
            *self.found.notes,
        )

    def notes_on(self, answer: Answer) -> tuple[str, ...]:
        """Return notes about the inputs, the options that give missing inputs, and the providers that failed."""
        is_run_here = self.sources.unreadable is None and not all(
            provision.is_from_agent for provision in answer.provisions
        )
        return (
            *self.notes,
            *(self.environment.notes if is_run_here else ()),
            *missing_lines(answer.missing, self.request),
            *map(str, answer.kubelet_failures),
        )

    def lookup(self, image: str | ImageName, *, wait: Wait | None = None) -> Answer:
        """Look up one image; with a pull secret that cannot be read, no other source is asked, as in the kubelet.

        Raise ImageNameError for an image that does not parse.
        """
        sources = self.sources
        if sources.unreadable is not None:
            from keyferry.images.lookup import Providers

            return Providers(()).lookup(image)
        label = "" if wait is None else _running(self.providers, image)
        with wait_for(wait, label, self.request.timeout_seconds):
            answer = self.providers.lookup(image, pod=sources.pod, pull_secrets=sources.pull_secrets)
        return replace(answer, not_given=sources.missing)


def _running(providers: Providers, image: str | ImageName) -> str:
    """Return the plugins that are run for an image as text, empty if there are none."""
    from keyferry.images.match import matches
    from keyferry.images.reference import parse_image

    name = parse_image(image).repository
    matching = (
        config.name
        for config in providers.configs
        if any(matches(pattern, name) for pattern in config.match_images or ())
    )
    names = ", ".join(matching)
    return f"running {names}" if names else ""


def resolve_inputs(request: Request) -> Inputs:
    """Find all that lookups for *request* need: the pod, its secrets and account, and what its node has.

    They come from the files or the cluster that the request names, and from this machine if it is the pod's node. Raise
    EnvironmentProblem if something does not exist, cannot be used or does not go together, PullSecretError for a pull
    secret that cannot be read, ConfigError for a provider config that would stop a kubelet, and ClusterAuthError.
    """
    found = read_sources(request)
    if len(found) > 1:
        pods = [each.workload for each in found if each.workload is not None]
        names = ", ".join(map(str, pods))
        use = " use this image" if request.image else ""
        raise EnvironmentProblem(f"{pods[0].workload.origin}: {names}{use}; expected one of them")
    if found[0].unreadable is not None and found[0].unreadable.error is not None:
        raise found[0].unreadable.error
    return resolve(request, found[0])


def read_sources(request: Request, *, wait: Wait | None = None) -> tuple[Sources, ...]:
    """Return the sources of each pod that *request* is about; without a pod, one that has none.

    Raise EnvironmentProblem if a file or object does not exist or cannot be used, and ClusterAuthError if the server
    cannot be reached or refuses to show the target.
    """
    if request.contradiction:
        raise EnvironmentProblem(request.contradiction)
    is_file_given = request.filename or request.secrets or request.service_account_token is not None
    if not (request.target or is_file_given or request.service_account):
        return (Sources(missing=(MissingInput(input=LookupInput.POD),)),)
    from keyferry.workloads.sources import read_pods

    return read_pods(request, wait)


def resolve(request: Request, sources: Sources) -> Inputs:
    """Return the inputs for one pod, whose sources were read; see ``resolve_inputs``."""
    node = choose_node(request, sources.node_name)
    docker_config = find_docker_config(request, node, sources.node_name)
    sources = _with_requested_token(request, sources, node)
    # Without a config no plugin is run, and the other sources may suffice; --bin-dir alone requires a config.
    found = discover(
        request.config,
        request.bin_dir,
        node=node,
        needs_config=bool(request.bin_dir),
        needs_bin_dir=not (request.no_run or node.elsewhere),
    )
    environment = plugin_environment(request, node, found) if found.config else PluginEnvironment()
    machine = (
        *(_image_notes(request.images) if request.is_start else ()),
        *machine_notes(request, node, found, sources.node_name),
    )
    missing = (*sources.missing, *docker_config.missing, *missing_node(request, node, found))
    sources = replace(sources, missing=missing)
    providers, problems = _open_providers(
        request, sources, node, found, docker_config=docker_config.path, environ=environment.variables
    )
    is_run = not request.no_run and bool(found.bin_dir)
    return Inputs(
        request=request,
        sources=sources,
        node=node,
        found=found,
        docker_config=docker_config,
        environment=environment,
        providers=providers,
        machine=machine,
        banner=() if is_run else _banner(problems),
        restart_notes=_restart_notes(problems) if is_run else (),
    )


def _with_requested_token(request: Request, sources: Sources, node: Node) -> Sources:
    """Return *sources* with tokens that are requested from the API server, if the request says so.

    For a pod of a cluster, the server is asked in any case whether the node may request them. A node elsewhere that is
    asked names the audiences itself, so no token is requested for them.
    """
    is_reviewed = bool(request.target) and request.service_account_token is None
    if not (request.request_token or is_reviewed) or sources.pod is None or sources.accounts is None:
        return sources
    from keyferry.workloads.tokens import NodeTokens, RequestedTokens

    pod, workload = sources.pod, sources.workload
    audiences = () if workload is None else workload.token_audiences
    tokens = RequestedTokens(
        session=request.open_session(),
        account=sources.accounts.get(pod.namespace, pod.service_account_name),
        node=NodeTokens(name=sources.node_name or "", volume_audiences=audiences),
        timeout_seconds=request.timeout_seconds,
        is_requested=request.request_token and not (request.node_access.is_asked and node.elsewhere),
    )
    return replace(sources, accounts=tokens)


def _image_notes(images: tuple[str, ...]) -> Iterator[str]:
    """Yield a note for each image that is also the name of an object of a cluster, which only ``explain`` reads."""
    for image in images:
        _, _, name = image.partition("/")
        if not name or any(each in name for each in "/:@"):
            continue
        from keyferry.workloads.objects import parse_target

        target = parse_target(image)
        if target is not None:
            kind = target.kind.lower()
            yield (
                f"{image} is read as the image docker.io/{image}; for the {kind} of a cluster, use "
                f"keyferry explain {image}"
            )


# The providers.


def _open_providers(
    request: Request,
    sources: Sources,
    node: Node,
    found: Discovery,
    *,
    docker_config: str | None,
    environ: Mapping[str, str] | None,
) -> tuple[Providers, tuple[Problem, ...]]:
    """Return the node's providers, set up by the request, and what is wrong with them.

    Raise ConfigError for a config that would stop a kubelet, unless plugins are not run; for a question about a
    kubelet that runs, not for an executable that is missing.
    """
    from keyferry.images.lookup import Providers

    if not found.config:
        return Providers((), docker_config=docker_config), ()
    from keyferry.images.load import ProviderSettings, make_unrun_providers
    from keyferry.images.provider.agent import choose_agent

    option = "--env-from" if request.env_from else "--withhold-env" if request.withhold_env else ""
    why_not = f"{option} is given, and the plugins of the agent have its own environment" if option else ""
    settings = ProviderSettings(
        service_accounts=sources.accounts,
        docker_config=docker_config,
        timeout_seconds=request.timeout_seconds,
        withhold_env=frozenset(request.withhold_env),
        environ=environ,
        service_account_tokens=_takes_tokens(node, found),
        agent=choose_agent(_named_agent(request), why_not=why_not),
    )
    if request.no_run or not found.bin_dir:
        return make_unrun_providers(found.config, found.bin_dir or None, settings)
    return _make_providers(found, settings, is_start=request.is_start)


def _named_agent(request: Request) -> str | None:
    """Return the agent that the request names; below a host root, the usual one is not the node's."""
    from keyferry._net.agent import AUTO, OFF

    return OFF if host_root() and request.agent in (None, AUTO) else request.agent


def _make_providers(
    found: Discovery, settings: ProviderSettings, *, is_start: bool
) -> tuple[Providers, tuple[Problem, ...]]:
    from keyferry.images.load import make_providers, make_running_providers

    try:
        if is_start:
            return make_providers(found.config, found.bin_dir, settings), ()
        return make_running_providers(found.config, found.bin_dir, settings)
    except ConfigError as error:
        # For the hint: the request need not have the folder.
        error.bin_dir = found.bin_dir
        raise


def _takes_tokens(node: Node, found: Discovery) -> bool:
    """Return the service account token gate of the kubelet whose config is used; True if it is not set."""
    if found.kubelet is None:
        return True
    from keyferry.images.config.validate import GATE

    return bool(node.settings_of(found.kubelet).gates.get(GATE, True))


def _restart_notes(problems: tuple[Problem, ...]) -> tuple[str, ...]:
    return tuple(f"a restart of the kubelet would fail with this config: {problem}" for problem in problems)


def _banner(problems: tuple[Problem, ...]) -> tuple[str, ...]:
    if not problems:
        return ()
    return ("a kubelet does not start with this config, and pulls nothing", *map(str, problems))
