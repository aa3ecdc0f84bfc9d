"""Pull images as the kubelet does, and write its pull records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from keyferry._core.values import replace
from keyferry.cli.exits import Exit, WrongUsage, exit_code, most_severe
from keyferry.cli.image_arguments import (
    add_lookup_arguments,
    add_root_arguments,
    failed_plugin_lines,
    lookup_request,
    record_options,
)
from keyferry.cli.node_options import add_no_kubelet_argument, node_policy, node_runtime
from keyferry.cli.options import add_output_argument, parse_seconds
from keyferry.cli.pull_progress import ProgressReporter, amount_text, run_in_parallel, size_text
from keyferry.errors import EnvironmentProblem, ImageNameError, ImagePullError, KeyferryError, Kind
from keyferry.explain.document import decision_document, failures_document, source_document
from keyferry.images.keyring import Credential
from keyferry.images.node.settings import Node
from keyferry.images.reference import ImageName, parse_image, trim
from keyferry.pulls.manifest import parse_platform
from keyferry.pulls.puller import Puller, open_target
from keyferry.pulls.records.access import entry_document
from keyferry.pulls.records.decide import describe_entry
from keyferry.pulls.records.format import short_reference
from keyferry.pulls.records.records import Records, load_records
from keyferry.pulls.registry.transport import RegistryRoute
from keyferry.pulls.request import (
    ALWAYS,
    PULL_POLICIES,
    Progress,
    PullAction,
    PullOptions,
    PullOutcome,
    PullTarget,
)
from keyferry.pulls.trial import Attempt, kind_of, most_telling
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report
from keyferry.workloads.inputs import Inputs, resolve_inputs
from keyferry.workloads.request import RegistryOptions, missing_lines

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
_MAX_PARALLEL = 64
_DEFAULT_PULL_SECONDS = 900.0

Json = dict[str, object]
_HEADER = ("IMAGE", "RESULT", "ID", "CREDENTIAL", "WHY")
_WIDE = ("DIGEST", "SIZE", "TIME", "ATTEMPTS", "MAY USE IT NOW")
_NOTHING = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry pull``."""
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="an image, as a pod names it")
    add_output_argument(parser, FORMATS)
    _add_target_arguments(parser)
    _add_pull_arguments(parser)
    add_root_arguments(
        parser,
        "the node's pull records",
        "write them to this root, which no running kubelet may use (default: no records are written)",
    )
    add_lookup_arguments(parser)


def _add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the target of the images and the options for writing to it."""
    group = parser.add_argument_group("target")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--cri",
        metavar="SOCKET",
        default="",
        help="a container runtime, such as unix:///run/containerd/containerd.sock "
        "(default: the running kubelet's, else the one found on this node)",
    )
    where.add_argument(
        "--to", metavar="DIR", help="a folder in the OCI image layout; created if it does not exist"
    )
    group.add_argument(
        "--platform",
        type=_parse_platform,
        metavar="OS/ARCH",
        default="",
        help="with --to: the platform to pull for, such as linux/arm64 (default: this machine's)",
    )
    group.add_argument(
        "--ca-file",
        metavar="FILE",
        default="",
        help="with --to: PEM file of certificates to trust in addition to the system's",
    )
    group.add_argument(
        "--insecure",
        action="store_true",
        help="with --to: accept any certificate, and plain HTTP from any host",
    )


def _add_pull_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare when and how images are pulled."""
    group = parser.add_argument_group("pulling images")
    group.add_argument(
        "--pull-policy",
        choices=PULL_POLICIES,
        default="",
        metavar="POLICY",
        help=f"one of {', '.join(PULL_POLICIES)} (default: Always for the tag 'latest', else IfNotPresent)",
    )
    group.add_argument(
        "--parallel",
        type=_parse_parallel,
        default=1,
        metavar="N",
        help="number of pulls that run at once (default: 1, as in the kubelet)",
    )
    group.add_argument(
        "--pull-timeout",
        type=parse_seconds,
        default=_DEFAULT_PULL_SECONDS,
        metavar="SECONDS",
        help=f"time limit of one attempt (default: {_DEFAULT_PULL_SECONDS:.0f})",
    )
    group.add_argument(
        "--no-evict",
        action="store_true",
        help="do not run a plugin again when its credential is refused; Kubernetes does not either",
    )
    group.add_argument(
        "--preload",
        action="store_true",
        help="let every pod of this node use the images: pull with a credential although a kubelet uses the runtime",
    )
    add_no_kubelet_argument(group)
    group.add_argument("-q", "--quiet", action="store_true", help="show no progress, only results and errors")


def _parse_platform(text: str) -> str:
    try:
        if text:
            parse_platform(text)
    except EnvironmentProblem as error:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(str(error)) from None
    return text


def _parse_parallel(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < number <= _MAX_PARALLEL:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not a number from 1 to {_MAX_PARALLEL}")
    return number


def run(args: argparse.Namespace) -> int:
    """Pull the images, print the result for each, and report failures on standard error."""
    images = tuple(map(parse_image, args.images))  # reports a wrong image name before anything is pulled
    if args.root is None and (args.policy or args.allow):
        raise WrongUsage("--policy and --allow require --root DIR, the folder of the records")
    if args.platform and args.to is None:
        raise WrongUsage("--platform requires --to DIR: a container runtime pulls for its own platform")
    root = "" if args.root is None else os.path.abspath(args.root)
    node = Node()
    policy = node_policy(args.policy, args.allow, root, node)
    request = lookup_request(
        args,
        image=args.images[0],
        more_images=tuple(args.images[1:]),
        node=node,
        here=True,
        is_start=True,
        is_pull=True,
        registry=RegistryOptions(ca_file=args.ca_file, insecure=args.insecure),
        records=record_options(args),
    )
    inputs = resolve_inputs(request)
    report(*inputs.sources.warnings, *inputs.notes)
    report(*missing_lines(inputs.sources.missing_secrets, request), *inputs.environment.notes)
    with closing(_open_target(args, node)) as target:
        records = None
        if root:
            records = load_records(
                root,
                policy=policy,
                max_parallel_pulls=args.parallel,
                no_kubelet=args.no_kubelet,
                find_node=lambda: node,
            )
            _recover(records, target)
        puller = Puller(
            target,
            providers=inputs.providers,
            records=records,
            max_parallel=args.parallel,
            evict=not args.no_evict,
            preload=args.preload,
            no_kubelet=args.no_kubelet,
            find_node=lambda: node,
        )
        outcomes = _pull_all(args, images, puller, inputs)
    if args.output in ("json", "yaml"):
        print(render_document(outcomes_document(outcomes), args.output))
    else:
        print(outcome_table(outcomes, is_wide=args.output == "wide"))
    for outcome in outcomes:
        _report(outcome, inputs)
    return most_severe(map(_code, outcomes))


def _open_target(args: argparse.Namespace, node: Node) -> PullTarget:
    cri = node_runtime(args.cri, node) if args.to is None else args.cri
    route = RegistryRoute(ca_file=args.ca_file, is_insecure=args.insecure)
    return open_target(cri=cri, to=args.to, platform=args.platform, route=route)


def _recover(records: Records, target: PullTarget) -> None:
    """Turn the intents of pulls whose process died into records without credentials, as a starting kubelet does."""
    recovery = records.recover(target.list_images)
    died = "was being pulled by a process that died; each pod's access to it will be verified"
    report(*(f"{image!r} {died}" for image, _ in recovery.recovered), *recovery.problems)


def _pull_all(
    args: argparse.Namespace, images: Sequence[ImageName], puller: Puller, inputs: Inputs
) -> tuple[PullOutcome, ...]:
    at_once = min(args.parallel, len(images))
    reporter = ProgressReporter(is_quiet=args.quiet, is_alone=at_once == 1)

    def work(image: ImageName) -> PullOutcome:
        with reporter.reporting(image.text) as on_progress:
            return puller.ensure(
                image,
                PullOptions(
                    pull_policy=args.pull_policy,
                    pod=inputs.sources.pod,
                    pull_secrets=inputs.sources.pull_secrets,
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


def _report(outcome: PullOutcome, inputs: Inputs) -> None:
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
        report(str(outcome.error), *_hints(outcome, inputs))


def _hints(outcome: PullOutcome, inputs: Inputs) -> list[str]:
    """Return the commands to try next: about plugins that failed, else about the credentials that were refused."""
    failed = [] if outcome.answer is None else failed_plugin_lines(outcome.answer, inputs)
    if failed or outcome.error is None or outcome.error.kind not in _ABOUT_CREDENTIALS:
        return failed
    return [f"try: {replace(inputs.request, image=outcome.image).explain_command()}"]


def _code(outcome: PullOutcome) -> Exit:
    """Return 0 if the image is present, else the code of a plugin failure that left no credential, else the error's."""
    if outcome.error is None:
        return Exit.OK
    answer = outcome.answer
    if answer is not None and answer.failures and not answer.credentials and outcome.attempts:
        return exit_code(answer.failures[0].error)
    return exit_code(outcome.error)


# The results as tables and as documents, without secrets.


def outcome_table(outcomes: Sequence[PullOutcome], *, is_wide: bool = False) -> str:
    """Return a table with one row for each image; on a narrow terminal, a paragraph for each."""
    header = (*_HEADER, *_WIDE) if is_wide else _HEADER
    return fitting_table(header, [_row(each) + (_more(each) if is_wide else ()) for each in outcomes])


def _row(outcome: PullOutcome) -> tuple[str, ...]:
    return (
        outcome.image,
        outcome.action,
        short_reference(outcome.image_ref) or _NOTHING,
        _who(outcome),
        why(outcome),
    )


def _who(outcome: PullOutcome) -> str:
    if outcome.action is PullAction.FAILED or not outcome.attempts:
        return _NOTHING
    return "(anonymous)" if outcome.used is None else f"{outcome.used.username} of {outcome.used.source}"


def _more(outcome: PullOutcome) -> tuple[str, ...]:
    recorded = _NOTHING if outcome.recorded is None else describe_entry(outcome.recorded)
    return (
        short_reference(outcome.digest) or _NOTHING,
        size_text(outcome.size) if outcome.size else _NOTHING,
        f"{outcome.seconds:.1f} s",
        str(len(outcome.attempts)),
        recorded,
    )


def why(outcome: PullOutcome) -> str:
    """Return in a few words why the image was pulled, was used, or could not be pulled."""
    if outcome.error is not None:
        return _failure(outcome, outcome.error)
    decision = outcome.decision
    if decision is not None and decision.situation.image_ref:
        return decision.summary
    if outcome.action is PullAction.PRESENT:
        return "it was present, and no records restrict who may use it"
    return "the pull policy is Always" if outcome.pull_policy == ALWAYS else "it was not present"


def _failure(outcome: PullOutcome, error: KeyferryError) -> str:
    """Return the kubelet's word for the failure, and the cause that best explains it."""
    reason = _kubelet_reason(error)
    failed = [attempt for attempt in outcome.attempts if not attempt.worked]
    if not reason or not failed:
        return reason or "see below"
    return f"{reason}: {most_telling(failed).said}"


def kept_lines(reached: Mapping[str, Progress], place: str) -> Iterator[str]:
    """Yield what an interrupted command has fetched, for each image, and that it goes on from there."""
    kept = {image: progress for image, progress in reached.items() if progress.done}
    for image, progress in kept.items():
        yield f"{image}: {amount_text(progress.done, progress.total, ' of ')} are kept in {place}"
    if kept:
        yield "the same command goes on from there"


def outcomes_document(outcomes: Sequence[PullOutcome]) -> Json:
    """Return the results as a document with stable fields."""
    return make_document("ImagePullList", items=list(map(_document, outcomes)))


def _document(outcome: PullOutcome) -> Json:
    problem = outcome.record_problem
    return {
        "image": outcome.image,
        "target": outcome.place,
        "pullPolicy": outcome.pull_policy,
        "result": str(outcome.action),
        "imageRef": outcome.image_ref,
        "digest": outcome.digest,
        "sizeBytes": outcome.size,
        "seconds": round(outcome.seconds, 3),
        "why": why(outcome),
        "credential": _credential(outcome.used),
        "attempts": list(map(_attempt, outcome.attempts)),
        "decision": None if outcome.decision is None else decision_document(outcome.decision),
        "recorded": _recorded(outcome),
        "recordProblem": "" if problem is None else str(problem),
        "failures": [] if outcome.answer is None else failures_document(outcome.answer.failures),
        "error": _error(outcome.error),
    }


def _credential(credential: Credential | None) -> Json | None:
    if credential is None:
        return None
    return {
        "username": credential.username,
        "key": credential.key,
        "source": source_document(credential.source),
    }


def _attempt(attempt: Attempt) -> Json:
    return {
        "credential": _credential(attempt.credential),
        "worked": attempt.worked,
        "renewed": attempt.is_renewed,
        "asked": attempt.was_asked,
        "cause": str(attempt.kind or ""),
        "message": attempt.said,
    }


def _recorded(outcome: PullOutcome) -> Json | None:
    if outcome.recorded is None:
        return None
    try:
        name = trim(outcome.image)
    except ImageNameError:
        name = outcome.image
    return {"imageRef": outcome.image_ref, "name": name, **entry_document(outcome.recorded)}


def _error(error: KeyferryError | None) -> Json | None:
    if error is None:
        return None
    return {"reason": _kubelet_reason(error), "cause": str(kind_of(error)), "message": str(error)}


def _kubelet_reason(error: KeyferryError) -> str:
    return str(error.kubelet_reason) if isinstance(error, ImagePullError) else ""
