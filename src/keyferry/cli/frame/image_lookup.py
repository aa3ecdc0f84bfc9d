"""Code that ``get``, ``can-pull`` and ``explain`` share: read the options, look up the image, report notes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from keyferry._core.values import Value, replace
from keyferry.cli.exits import Exit, WrongUsage, exit_code
from keyferry.cli.frame.machine import (
    add_here_argument,
    add_node_files,
    choose_node,
    machine_notes,
    missing_node,
)
from keyferry.cli.frame.node_settings import PluginEnvironment, environment_notes, plugin_environment
from keyferry.cli.frame.sources import (
    Sources,
    add_namespace_argument,
    add_source_arguments,
    advice,
    deprecation_notes,
)
from keyferry.cli.frame.waiting import Waiting
from keyferry.cli.options import (
    add_agent_argument,
    add_config_arguments,
    add_kubeconfig_argument,
    add_output_argument,
    add_run_arguments,
    open_session,
)
from keyferry.errors import ConfigError, EnvironmentProblem
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.node.discover import Discovery, discover
from keyferry.images.provider.agent import AgentUse, choose_agent
from keyferry.images.reference import parse_image
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.errors import Problem
    from keyferry.images.answer import Answer
    from keyferry.images.load import ProviderSettings
    from keyferry.images.lookup import Providers
    from keyferry.images.reference import ImageName


class Inputs(Value):
    """The inputs of image lookups: sources, the node's config, the environment of plugins, the providers.

    *found* has no config if none is required and none is found; then there are no providers. *banner* has the problems
    of a config that would stop a kubelet, if it is used all the same. *restart_notes* has those of executables, which
    would stop a kubelet that starts again and not the one that runs.
    """

    sources: Sources
    found: Discovery
    environment: PluginEnvironment
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


class ImageLookup(Value):
    """The answer about an image, and the inputs of the lookup.

    *environment* has notes about the environment of plugins if that is not the kubelet's.
    """

    answer: Answer
    inputs: Inputs
    environment: tuple[str, ...] = ()

    def report(self, args: argparse.Namespace) -> None:
        """Report the lines about the inputs and the providers that failed."""
        report(*self.lines(args))

    def lines(self, args: argparse.Namespace) -> tuple[str, ...]:
        """Return notes about the inputs, the options that give missing inputs, and the providers that failed."""
        answer = self.answer
        notes = (*self.inputs.notes, *self.environment, *missing_lines(answer.missing, args))
        return (*notes, *map(str, answer.kubelet_failures))


def add_image_and_output_arguments(parser: argparse.ArgumentParser, formats: tuple[str, ...]) -> None:
    """Declare the image and the output format."""
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it")
    add_output_argument(parser, formats)


def add_lookup_arguments(parser: argparse.ArgumentParser, namespace_of: str = "") -> None:
    """Declare the options for sources of credentials and for running plugins, on this machine as the node.

    *namespace_of* says what has the namespace of ``-n`` beside objects in files.
    """
    parser.set_defaults(here=True, is_question=False, is_start=True, no_run=False, request_token=False)
    add_config_arguments(parser)
    add_namespace_argument(parser, namespace_of)
    add_source_arguments(parser)
    add_run_arguments(parser)
    add_agent_argument(parser)


def add_question_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of commands that ask about a node, which need not be this machine, and about a cluster.

    They ask about a kubelet that runs, and not about one that starts now.
    """
    parser.set_defaults(is_question=True, is_start=False)
    add_here_argument(parser)
    # The context's own cluster and user; a kubeconfig that another user could have written is not used.
    parser.set_defaults(cluster=None, user=None, trust=False)
    group = add_kubeconfig_argument(parser)
    group.add_argument("--context", metavar="NAME", help="the context (default: the current one)")
    group.add_argument(
        "--request-token",
        action="store_true",
        default=False,
        help="request the service account's token from the API server (TokenRequest), as the kubelet does, if "
        "the server says that the pod's node may request it (SubjectAccessReview)",
    )


def gather_inputs(args: argparse.Namespace, images: Sequence[str], sources: Sources | None = None) -> Inputs:
    """Read the sources of the command line unless they are given, and find the node's config, each once.

    *images* are those that the command line asks about.
    ``args.node`` becomes the pod's node, which may be elsewhere. Raise EnvironmentProblem.
    """
    sources = _read_sources(args, images) if sources is None else sources
    args.node = choose_node(args, sources.node_name)
    sources = _with_requested_token(args, add_node_files(args, sources))
    # Without a config no plugin is run, and the other sources may suffice; --bin-dir alone requires a config.
    needs_config = bool(args.bin_dir)
    needs_plugins = not (args.no_run or args.node.elsewhere)
    found = discover(
        args.config, args.bin_dir, node=args.node, needs_config=needs_config, needs_bin_dir=needs_plugins
    )
    environment = plugin_environment(args, found) if found.config else PluginEnvironment(owner="this process")
    machine = (
        *deprecation_notes(args),
        *(_image_notes(images) if args.is_start else ()),
        *machine_notes(args, found, sources.node_name),
    )
    missing = (*sources.missing, *missing_node(args, found))
    return Inputs(
        sources=replace(sources, missing=missing), found=found, environment=environment, machine=machine
    )


def _read_sources(args: argparse.Namespace, images: Sequence[str]) -> Sources:
    """Read the files that the options name, for images; raise EnvironmentProblem, PullSecretError or WrongUsage."""
    options = (args.filename, args.pod, args.secret, args.service_account, args.service_account_token)
    if not any(each is not None and each != [] for each in options):
        return Sources(missing=(MissingInput(input=LookupInput.POD),))
    from keyferry.cli.frame.source_files import read_source_files

    return read_source_files(args, images)


def _with_requested_token(args: argparse.Namespace, sources: Sources) -> Sources:
    """Return *sources* with tokens that are requested from the API server, if the command line asks for it.

    For a pod of a cluster, the server is asked in any case whether the node may request them.
    """
    is_reviewed = args.is_live and args.service_account_token is None
    if not (args.request_token or is_reviewed) or sources.pod is None or sources.accounts is None:
        return sources
    from keyferry.workloads.tokens import NodeTokens, RequestedTokens

    pod = sources.pod
    account = sources.accounts.get(pod.namespace, pod.service_account_name)
    node = NodeTokens(name=sources.node_name or "", volume_audiences=sources.token_audiences)
    tokens = RequestedTokens(
        session=open_session(args),
        account=account,
        node=node,
        timeout_seconds=args.timeout,
        is_requested=bool(args.request_token),
    )
    return replace(sources, accounts=tokens)


def _image_notes(images: Sequence[str]) -> Iterator[str]:
    """Yield a note for each image that is also the name of an object of a cluster, which only ``explain`` reads."""
    for image in images:
        _, _, name = image.partition("/")
        if not name or any(each in name for each in "/:@"):
            continue
        from keyferry.workloads.targets import parse_target

        target = parse_target(image)
        if target is not None:
            kind = target.kind.lower()
            yield (
                f"{image} is read as the image docker.io/{image}; for the {kind} of a cluster, use "
                f"keyferry explain {image}"
            )


def look_up_image(args: argparse.Namespace, sources: Sources | None = None) -> ImageLookup:
    """Look up the image of the command line in all its sources, which are read unless they are given."""
    image = parse_image(args.image)  # reports a wrong image name before any file is read
    inputs = gather_inputs(args, (args.image,), sources)
    return look_up(args, image, *open_providers(args, inputs))


def look_up(args: argparse.Namespace, image: ImageName, inputs: Inputs, providers: Providers) -> ImageLookup:
    """Look up one image; with a pull secret that cannot be read, no other source is asked, as in the kubelet."""
    sources = inputs.sources
    if sources.unreadable is not None:
        from keyferry.images.lookup import Providers

        return ImageLookup(answer=Providers(()).lookup(image), inputs=inputs)
    with Waiting(_programs(providers, image.repository), args.timeout):
        answer = providers.lookup(image, pod=sources.pod, pull_secrets=sources.pull_secrets)
    is_run_here = not all(provision.is_from_agent for provision in answer.provisions)
    environment = environment_notes(args, inputs.environment) if is_run_here else ()
    return ImageLookup(
        answer=replace(answer, not_given=sources.missing), inputs=inputs, environment=environment
    )


def _programs(providers: Providers, name: str) -> str:
    """Return the plugins that are run for an image as text for a terminal, empty if there are none."""
    if not sys.stderr.isatty():
        return ""
    from keyferry.images.match import matches

    matching = (
        config.name
        for config in providers.configs
        if any(matches(pattern, name) for pattern in config.match_images or ())
    )
    names = ", ".join(matching)
    return f"running {names}" if names else ""


def open_providers(args: argparse.Namespace, inputs: Inputs) -> tuple[Inputs, Providers]:
    """Return the node's providers, set up by the command line, and the inputs with what is wrong with them.

    Raise ConfigError for a config that would stop a kubelet, unless plugins are not run; for a question about a
    kubelet that runs, not for an executable that is missing.
    """
    from keyferry.images.load import ProviderSettings, make_unrun_providers
    from keyferry.images.lookup import Providers

    found, sources = inputs.found, inputs.sources
    if not found.config:
        return inputs, Providers((), docker_config=sources.docker_config)
    settings = ProviderSettings(
        service_accounts=sources.accounts,
        docker_config=sources.docker_config,
        timeout_seconds=args.timeout,
        withhold_env=frozenset(args.withhold_env),
        environ=inputs.environment.variables,
        service_account_tokens=_takes_tokens(args, found),
        agent=agent_of(args),
    )
    if not args.no_run and found.bin_dir:
        providers, problems = _make_providers(found, settings, is_start=args.is_start)
        return replace(inputs, restart_notes=_restart_notes(problems)), providers
    providers, problems = make_unrun_providers(found.config, found.bin_dir or None, settings)
    return replace(inputs, banner=_banner(problems)), providers


def agent_of(args: argparse.Namespace) -> AgentUse | None:
    """Return the agent to ask; none is asked if the command line says what the environment of plugins is.

    Raise WrongUsage if KEYFERRY_AGENT names none, as for the option.
    """
    option = "--env-from" if args.env_from else "--withhold-env" if args.withhold_env else ""
    why_not = f"{option} is given, and the plugins of the agent have its own environment" if option else ""
    try:
        return choose_agent(args.agent, why_not=why_not)
    except EnvironmentProblem as problem:
        raise WrongUsage(str(problem)) from None


def _make_providers(
    found: Discovery, settings: ProviderSettings, *, is_start: bool
) -> tuple[Providers, tuple[Problem, ...]]:
    from keyferry.images.load import make_providers, make_running_providers

    try:
        if is_start:
            return make_providers(found.config, found.bin_dir, settings), ()
        return make_running_providers(found.config, found.bin_dir, settings)
    except ConfigError as error:
        # For the hint: the command line need not have the folder.
        error.bin_dir = found.bin_dir
        raise


def _restart_notes(problems: tuple[Problem, ...]) -> tuple[str, ...]:
    return tuple(f"a restart of the kubelet would fail with this config: {problem}" for problem in problems)


def _banner(problems: tuple[Problem, ...]) -> tuple[str, ...]:
    if not problems:
        return ()
    return ("a kubelet does not start with this config, and pulls nothing", *map(str, problems))


def _takes_tokens(args: argparse.Namespace, found: Discovery) -> bool:
    """Return the service account token gate of the kubelet whose config is used; True if it is not set."""
    if found.kubelet is None:
        return True
    from keyferry.images.config.validate import GATE

    return bool(args.node.settings_of(found.kubelet).gates.get(GATE, True))


def report_failed_plugins(lookup: ImageLookup) -> None:
    """Report the commands that show more about the plugins that failed."""
    report(*failed_plugin_lines(lookup.answer, lookup.inputs.found))


def failed_plugin_lines(answer: Answer, found: Discovery) -> list[str]:
    """Return a line with the command to try for each provider that failed, if there is one."""
    if not answer.kubelet_failures:
        return []
    from keyferry.explain.plugin_hint import plugin_command

    commands = (
        plugin_command(failure.error, failure.provider, answer.name, found.config, found.bin_dir)
        for failure in answer.kubelet_failures
    )
    return [f"try: {command}" for command in dict.fromkeys(commands) if command]


def missing_lines(missing: tuple[MissingInput, ...], args: argparse.Namespace) -> list[str]:
    """Return one line for each missing input, with the option that gives it and that *args* do not have yet."""
    return [f"{each}; {advice(each.input, args)}" for each in missing]


def code_for(answer: Answer) -> Exit:
    """Return 0 with credentials, else a failure's code, else 6 if an input is missing and 1 if none is."""
    if answer.credentials:
        return Exit.OK
    if answer.kubelet_failures:
        return exit_code(answer.kubelet_failures[0].error)
    return Exit.UNKNOWN if answer.missing else Exit.NO
