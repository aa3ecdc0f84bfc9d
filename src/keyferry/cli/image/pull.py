"""Pull images as the kubelet does, and write its pull records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing

from keyferry.cli.exits import Exit, WrongUsage, exit_code, most_severe
from keyferry.cli.frame.image_lookup import (
    add_lookup_arguments,
    failed_plugin_lines,
    gather_inputs,
    missing_lines,
    open_providers,
)
from keyferry.cli.frame.node_settings import environment_notes, node_policy, node_runtime
from keyferry.cli.frame.registry_arguments import route_for
from keyferry.cli.frame.sources import Sources
from keyferry.cli.hints import command_line
from keyferry.cli.image.pull_arguments import (
    add_pull_arguments,
    add_root_arguments,
    add_target_arguments,
)
from keyferry.cli.image.pull_output import kept_lines, outcome_table, outcomes_document
from keyferry.cli.image.pull_progress import ProgressReporter
from keyferry.cli.image.pull_threads import run_in_parallel
from keyferry.cli.options import add_output_argument
from keyferry.errors import Kind
from keyferry.images.node.discover import Discovery
from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.puller import Puller, open_target
from keyferry.pulls.records.records import Records, load_records
from keyferry.pulls.request import PullOptions, PullOutcome, PullTarget
from keyferry.show.documents import render_document
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Pull images as the kubelet does, into a container runtime (--cri) or into a folder in the OCI image
layout (--to). The credentials of the pod's secrets, the node's docker config and the credential providers
are tried in the kubelet's order until one works; without any credential, one anonymous attempt is made. If
a plugin's credential is refused, the plugin is run once more and its new credential is tried; --no-evict
turns this off.

With --root, pull records are written to that folder, as the kubelet writes them: an intent before each
pull, and a record of the credential that worked after it. An image that is already present is used only if
the records and the policy allow it for this pod; else it is pulled again to verify the access. Without
--root nothing is recorded or verified.

An interrupted pull into a folder keeps what it has fetched, and the same command goes on from there.

A running kubelet lets every pod use the images that it did not pull itself, and does not read records that
other programs write. So a pull with a credential into its runtime is refused unless --preload is given, and
its root is always refused: let a pod pull the image, or stop the kubelet first.

Exit code 0 means that every image is present, 1 that an image cannot be pulled, 5 that a registry refused
every credential, 4 that a plugin failed and there is no other credential, 3 that something of this machine is
unreachable or unusable, 6 that the registry is unreachable or its response says nothing about the image, 124 a
timeout. With several images, the exit code is 1 if any image has 1, else that of the first image that failed."""

EXAMPLES = """\
examples:
  sudo keyferry pull registry.example/team/app:v1
  sudo keyferry pull registry.example/team/pause:v1 --preload
  keyferry pull registry.example/team/app:v1 --to ./app -f pod.yaml --secret secret.yaml --root ./node
  keyferry pull registry.example/team/app:v1 --to ./app --platform linux/arm64
  keyferry pull app:v1 db:v2 --to ./images --parallel 2 -o json"""

# After other errors, such as a certificate that is not trusted or a full disk, an explanation does not help.
_ABOUT_CREDENTIALS = (Kind.REFUSED, Kind.NOT_FOUND)
FORMATS = ("table", "wide", "json", "yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry pull``."""
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="an image, as a pod names it")
    add_output_argument(parser, FORMATS)
    add_target_arguments(parser)
    add_pull_arguments(parser)
    add_root_arguments(
        parser,
        "the node's pull records",
        "write them to this root, which no running kubelet may use (default: no records are written)",
    )
    add_lookup_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Pull the images, print the result for each, and report failures on standard error."""
    images = tuple(map(parse_image, args.images))  # reports a wrong image name before anything is pulled
    if args.root is None and (args.policy or args.allow):
        raise WrongUsage("--policy and --allow require --root DIR, the folder of the records")
    if args.platform and args.to is None:
        raise WrongUsage("--platform requires --to DIR: a container runtime pulls for its own platform")
    root = "" if args.root is None else os.path.abspath(args.root)
    policy = node_policy(args.policy, args.allow, root, args.node)
    inputs = gather_inputs(args, args.images)
    sources = inputs.sources
    report(*inputs.notes, *missing_lines(sources.missing_secrets, args))
    report(*environment_notes(args, inputs.environment))
    _, providers = open_providers(args, inputs)
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
        _report(args, outcome, inputs.found)
    return most_severe(map(_code, outcomes))


def _open_target(args: argparse.Namespace) -> PullTarget:
    cri = node_runtime(args.cri, args.node) if args.to is None else args.cri
    return open_target(cri=cri, to=args.to, platform=args.platform, route=route_for(args))


def _recover(records: Records, target: PullTarget) -> None:
    """Turn the intents of pulls whose process died into records without credentials, as a starting kubelet does."""
    recovery = records.recover(target.list_images)
    died = "was being pulled by a process that died; each pod's access to it will be verified"
    report(*(f"{image!r} {died}" for image, _ in recovery.recovered), *recovery.problems)


def _pull_all(
    args: argparse.Namespace, images: Sequence[ImageName], puller: Puller, sources: Sources
) -> tuple[PullOutcome, ...]:
    at_once = min(args.parallel, len(images))
    reporter = ProgressReporter(is_quiet=args.quiet, is_alone=at_once == 1)

    def work(image: ImageName) -> PullOutcome:
        with reporter.reporting(image.text) as on_progress:
            return puller.ensure(
                image,
                PullOptions(
                    pull_policy=args.pull_policy,
                    pod=sources.pod,
                    pull_secrets=sources.pull_secrets,
                    timeout_seconds=args.pull_timeout,
                    on_progress=on_progress,
                ),
            )

    try:
        with reporter:
            if at_once == 1:
                # Not in a thread, so that an interrupt ends the pull itself.
                return tuple(map(work, images))
            return run_in_parallel(at_once, work, images, puller.close)
    except KeyboardInterrupt:
        report(*kept_lines(reporter.reached, puller.target.place))
        raise


def _print(args: argparse.Namespace, outcomes: Sequence[PullOutcome]) -> None:
    if args.output in ("json", "yaml"):
        document = outcomes_document(outcomes)
        print(render_document(document, args.output))
    else:
        print(outcome_table(outcomes, is_wide=args.output == "wide"))


def _report(args: argparse.Namespace, outcome: PullOutcome, found: Discovery) -> None:
    """Report failures, with the command to try next."""
    report(*outcome.failures)
    for attempt in outcome.attempts if outcome.error is None else ():
        if not attempt.worked:
            report(f"{outcome.image}: {attempt.who}: {attempt.said}")
    if outcome.record_problem is not None:
        report(f"{outcome.image} is pulled, but not recorded: {outcome.record_problem}")
    if outcome.decision is not None and outcome.decision.write_problem is not None:
        report(f"{outcome.image}: not recorded: {outcome.decision.write_problem}")
    if outcome.error is not None:
        report(str(outcome.error), *_hints(args, outcome, found))


def _hints(args: argparse.Namespace, outcome: PullOutcome, found: Discovery) -> list[str]:
    """Return the commands to try next: about plugins that failed, else about the credentials that were refused."""
    failed = [] if outcome.answer is None else failed_plugin_lines(outcome.answer, found)
    if failed or outcome.error is None or outcome.error.kind not in _ABOUT_CREDENTIALS:
        return failed
    return [f"try: {command_line(args, 'explain', outcome.image)}"]


def _code(outcome: PullOutcome) -> Exit:
    """Return 0 if the image is present, else the code of a plugin failure that left no credential, else the error's."""
    if outcome.error is None:
        return Exit.OK
    answer = outcome.answer
    if answer is not None and answer.failures and not answer.credentials and outcome.attempts:
        return exit_code(answer.failures[0].error)
    return exit_code(outcome.error)
