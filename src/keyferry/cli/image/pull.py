"""Pull images exactly as the kubelet would, and keep the records of it."""

import os
from collections.abc import Sequence
from contextlib import closing

from keyferry.cli.frame.arguments import add_output_argument
from keyferry.cli.frame.commands import Exit, WrongUsage, exit_code, most_severe
from keyferry.cli.frame.image_lookup import add_lookup_arguments, gather_inputs, missing_lines, open_providers
from keyferry.cli.frame.node_settings import environment_notes, node_policy, node_runtime
from keyferry.cli.frame.registry_arguments import route_for
from keyferry.cli.frame.sources import Sources
from keyferry.cli.image.pull_arguments import (
    add_pull_arguments,
    add_root_arguments,
    add_target_arguments,
)
from keyferry.cli.image.pull_output import outcome_table, outcomes_document
from keyferry.cli.image.pull_progress import ProgressReporter
from keyferry.cli.image.pull_threads import run_in_parallel
from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.puller.outcome import PullOutcome
from keyferry.pulls.puller.puller import Puller, open_target
from keyferry.pulls.puller.target import PullTarget
from keyferry.pulls.records.load import load_records
from keyferry.pulls.records.records import Records
from keyferry.show.documents import render_document
from keyferry.show.report import report

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Pull images exactly as the kubelet would, into a container runtime (--cri) or into a folder in the OCI
image layout (--to). The pod's secrets, the node's docker config and the credential providers are tried
in the kubelet's order until one works; without any credential the one attempt is anonymous. If a plugin's
credential is refused, the plugin is run once more and what it gives then is tried, unless --no-evict.

With --root pull records are kept there, as the kubelet keeps them: an intent before each pull, a record of
whose credential worked after it; and an image that is there already is used only if the records and the
policy let this pod, else it is pulled to verify. Without --root nothing is recorded or verified.

A kubelet that runs lets every pod use what it has not pulled itself, and does not see what others write to
its records. So a pull with a credential into its runtime is refused unless you say --preload, and its
root always: let a pod pull the image, or stop the kubelet first.

Exit code 0 says that every image is there; 1 that one is not to be had, 5 that a registry refused every
credential, 4 that a plugin failed and left none, 3 that something cannot be reached or used, 124 that
it took too long. With several images it is 1 if any is not to be had, else that of the first that failed."""

EXAMPLES = """\
examples:
  sudo keyferry pull registry.example/team/app:v1
  sudo keyferry pull registry.example/team/pause:v1 --preload
  keyferry pull registry.example/team/app:v1 --to ./app --pod pod.yaml --secret secret.yaml --root ./node
  keyferry pull registry.example/team/app:v1 --to ./app --platform linux/arm64
  keyferry pull app:v1 db:v2 --to ./images --parallel 2 -o json"""

FORMATS = ("table", "wide", "json", "yaml")


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The options of ``keyferry pull``."""
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="an image, as a pod names it")
    add_output_argument(parser, FORMATS)
    add_target_arguments(parser)
    add_pull_arguments(parser)
    add_root_arguments(
        parser,
        "the node's pull records",
        "keep them in this root, which no running kubelet may use (default: none are kept)",
    )
    add_lookup_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Pull, print what became of each image, and say on standard error what failed."""
    images = tuple(map(parse_image, args.images))  # a wrong image name is said before anything is pulled
    if args.root is None and (args.policy or args.allow):
        raise WrongUsage("--policy and --allow are about records; say where they are: --root DIR")
    if args.platform and args.to is None:
        raise WrongUsage("--platform goes with --to DIR: a container runtime pulls for its own platform")
    root = "" if args.root is None else os.path.abspath(args.root)
    policy = node_policy(args.policy, args.allow, root, args.node)
    # Without a config there is no plugin to ask, and the other sources may do; a folder of plugins wants one.
    inputs = gather_inputs(args, needs_config=bool(args.bin_dir))
    sources = inputs.sources
    report(*inputs.notes, *missing_lines(sources.missing_secrets))
    report(*environment_notes(args, inputs.environment))
    if not inputs.found.config:
        report("no provider config is found, so no plugin is asked; --config names one")
    providers = open_providers(args, inputs)
    with closing(_open_target(args)) as target:
        records = None
        if root:
            records = load_records(
                root,
                policy=policy,
                max_parallel_pulls=args.parallel,
                no_kubelet=args.no_kubelet,
                find_node=lambda: args.node,
            )
            _recover(records, target)
        puller = Puller(
            target,
            providers=providers,
            records=records,
            max_parallel=args.parallel,
            evict=not args.no_evict,
            preload=args.preload,
            no_kubelet=args.no_kubelet,
            find_node=lambda: args.node,
        )
        outcomes = _pull_all(args, images, puller, sources)
    _print(args, outcomes)
    for outcome in outcomes:
        _report(outcome)
    return most_severe(map(_code, outcomes))


def _open_target(args: "argparse.Namespace") -> PullTarget:
    cri = node_runtime(args.cri, args.node) if args.to is None else args.cri
    return open_target(cri=cri, to=args.to, platform=args.platform, route=route_for(args))


def _recover(records: Records, target: PullTarget) -> None:
    """What a kubelet does when it starts: pulls that died with their process become records of nobody."""
    recovery = records.recover(target.list_images)
    died = "was being pulled by a process that died; its use will be verified"
    report(*(f"{image!r} {died}" for image, _ in recovery.recovered), *recovery.problems)


def _pull_all(
    args: "argparse.Namespace", images: Sequence[ImageName], puller: Puller, sources: Sources
) -> tuple[PullOutcome, ...]:
    at_once = min(args.parallel, len(images))
    reporter = ProgressReporter(is_quiet=args.quiet, has_bytes=args.to is not None, is_alone=at_once == 1)

    def work(image: ImageName) -> PullOutcome:
        with reporter.reporting(image.text) as on_progress:
            return puller.ensure(
                image,
                pull_policy=args.pull_policy,
                pod=sources.pod,
                pull_secrets=sources.pull_secrets,
                timeout_seconds=args.pull_timeout,
                on_progress=on_progress,
            )

    if at_once == 1:
        # Not in a thread: an interrupt then ends the pull itself.
        return tuple(map(work, images))
    return run_in_parallel(at_once, work, images, puller.close)


def _print(args: "argparse.Namespace", outcomes: Sequence[PullOutcome]) -> None:
    if args.output in ("json", "yaml"):
        document = outcomes_document(outcomes)
        print(render_document(document, args.output))
    else:
        print(outcome_table(outcomes, is_wide=args.output == "wide"))


def _report(outcome: PullOutcome) -> None:
    """Say what went wrong, and what to try."""
    report(*outcome.failures)
    for attempt in outcome.attempts if outcome.error is None else ():
        if not attempt.worked:
            report(f"{outcome.image}: {attempt.who}: {attempt.said}")
    if outcome.record_problem is not None:
        report(f"{outcome.image} is there, but not recorded: {outcome.record_problem}")
    if outcome.decision is not None and outcome.decision.write_problem is not None:
        report(f"{outcome.image}: not recorded: {outcome.decision.write_problem}")
    if outcome.error is not None:
        report(str(outcome.error), f"try 'keyferry explain {outcome.image}'")


def _code(outcome: PullOutcome) -> Exit:
    """0 if the image is there; else the code of a plugin that failed and left us without; else the error's."""
    if outcome.error is None:
        return Exit.OK
    answer = outcome.answer
    if answer is not None and answer.failures and not answer.credentials and outcome.attempts:
        return exit_code(answer.failures[0].error)
    return exit_code(outcome.error)
