"""What ``get``, ``can-pull`` and ``explain`` share: from options to an answer, and what is said about it."""

from keyferry._core.values import Value, replace
from keyferry.cli.frame.arguments import add_config_arguments, add_output_argument, add_run_arguments
from keyferry.cli.frame.commands import Exit, exit_code
from keyferry.cli.frame.node_settings import environment_notes, plugin_environment
from keyferry.cli.frame.sources import OPTIONS, Sources, add_source_arguments, read_sources
from keyferry.images.answer import Answer
from keyferry.images.config.validate import GATE
from keyferry.images.load import load_providers
from keyferry.images.lookup import Providers
from keyferry.images.missing import Missing
from keyferry.images.node.discover import Discovery, discover
from keyferry.images.reference import normalise
from keyferry.show.report import report

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse


class Asked(Value):
    """The answer about an image, where its providers were found, what else was given.

    *environment* says whose environment plugins got, where that is not the kubelet's.
    """

    answer: Answer
    found: Discovery
    sources: Sources
    environment: tuple[str, ...] = ()

    def report(self) -> None:
        """Say what is odd about the sources, which option would tell what is missing, and which providers failed."""
        answer = self.answer
        notes = (*self.sources.notes, *self.environment, *missing_lines(answer.missing))
        report(*notes, *answer.kubelet_failures)


def add_question_arguments(parser: "argparse.ArgumentParser", formats: tuple[str, ...]) -> None:
    """Which image, and how the answer is written."""
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it")
    add_output_argument(parser, formats)


def add_lookup_arguments(parser: "argparse.ArgumentParser") -> None:
    """Where credentials come from, and how plugins are run."""
    add_config_arguments(parser)
    add_source_arguments(parser)
    add_run_arguments(parser)


def ask(args: "argparse.Namespace") -> Asked:
    """Look up the image of the command line with all its sources."""
    normalise(args.image)  # a wrong image name is said before anything is read
    sources = read_sources(args)
    found = discover(args.config, args.bin_dir, node=args.node)
    sources = replace(sources, notes=(*sources.notes, *found.notes))
    providers = open_providers(args, found, sources)
    answer = providers.lookup(args.image, pod=sources.pod, pull_secrets=sources.pull_secrets)
    environment = tuple(environment_notes(args, found)) if answer.provisions else ()
    return Asked(replace(answer, untold=sources.missing), found, sources, environment)


def open_providers(args: "argparse.Namespace", found: Discovery, sources: Sources) -> Providers:
    """The providers of a node, as the command line says; raises ConfigError."""
    return load_providers(
        found.config,
        found.bin_dir,
        service_accounts=sources.accounts,
        docker_config=sources.docker_config,
        timeout_seconds=args.timeout,
        withhold_env=args.withhold_env,
        environ=plugin_environment(args, found),
        service_account_tokens=_takes_tokens(args, found),
    )


def _takes_tokens(args: "argparse.Namespace", found: Discovery) -> bool:
    """The gate of the kubelet whose config it is; on if nobody says."""
    if found.kubelet is None:
        return True
    return bool(args.node.settings_of(found.kubelet).gates.get(GATE, True))


def missing_lines(missing: tuple[Missing, ...]) -> list[str]:
    """What was not given, and the option that gives it."""
    return [f"{each}; {OPTIONS[each.input]} tells" for each in missing]


def code_for(answer: Answer) -> Exit:
    """0 with credentials; else the failure's code; else 6 if something is missing, and 1 for an anonymous pull."""
    if answer.credentials:
        return Exit.OK
    if answer.kubelet_failures:
        return exit_code(answer.kubelet_failures[0].error)
    return Exit.UNKNOWN if answer.missing else Exit.NO
