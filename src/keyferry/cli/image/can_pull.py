"""Whether an image can be pulled with the credentials that a kubelet finds."""

from __future__ import annotations

import time
from copy import copy

from keyferry._core.secrets import printable
from keyferry.cli.exits import Exit, most_severe
from keyferry.cli.frame.image_lookup import (
    ImageLookup,
    add_lookup_arguments,
    add_question_arguments,
    gather_inputs,
    look_up,
    look_up_image,
    open_providers,
    report_failed_plugins,
)
from keyferry.cli.frame.live_target import live_sources, read_target
from keyferry.cli.frame.registry_arguments import (
    add_registry_arguments,
    check_answer,
    code_for_check,
    image_mirrors,
)
from keyferry.cli.hints import command_line
from keyferry.cli.options import add_output_argument
from keyferry.clusters.api_calls import ApiProblem
from keyferry.errors import EnvironmentProblem, ImageNameError
from keyferry.explain.document import failures_document
from keyferry.explain.evidence import AttemptKind, see
from keyferry.explain.registry import PullVerdict, RegistryCheck, check_document, describe_attempt, verdict
from keyferry.explain.times import age_text
from keyferry.images.answer import Answer, missing_documents
from keyferry.images.reference import parse_image
from keyferry.pulls.trial import Attempt
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table, fold
from keyferry.show.writer import Lines, report, style
from keyferry.workloads.live import LiveWorkload
from keyferry.workloads.pods import WorkloadPod
from keyferry.workloads.targets import Target, parse_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Check whether an image can be pulled. The command finds the credentials that a kubelet would try and sends
the registry a HEAD request for the image's manifest with each of them. Nothing is downloaded. IMAGE may also be
a pod or workload of a cluster, such as pod/web or deploy/web: all of its images are checked.

Exit code 0 means yes, 1 no (there is no such image, or CRI-O blocks it), 5 that the registry refused every
credential, 4 that a plugin failed and there is no other credential, 124 a timeout. 6 means that the result is
unknown: the registry is unreachable, its response says nothing about the image, an input that may have another
credential is missing, such as the pod, or a mirror of the container runtime cannot be reached. It is also
unknown if the image can be pulled anonymously and such an input is missing: a kubelet that has a credential
makes no anonymous attempt."""

EXAMPLES = """\
examples:
  keyferry can-pull 123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app:v1
  keyferry can-pull pod/web -n shop
  keyferry can-pull registry.example/app:v1 -f pod.yaml --secret secret.yaml
  keyferry can-pull registry.example/app:v1 --ca-file /etc/ssl/private-ca.pem -o json
  keyferry can-pull localhost:5000/app && echo yes"""

FORMATS = ("table", "json", "yaml")
_NOBODY = "(anonymous)"
_COLOURS = {PullVerdict.YES: "green", PullVerdict.NO: "red", PullVerdict.UNKNOWN: "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry can-pull``."""
    parser.add_argument(
        "image",
        metavar="IMAGE",
        help="the image, as a pod names it, or a pod or workload of a cluster, such as pod/web or deploy/web",
    )
    add_output_argument(parser, FORMATS)
    add_registry_arguments(parser)
    add_lookup_arguments(parser, "the pod or workload, and of ")
    add_question_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the result, and the registry's response to each credential."""
    target = parse_target(args.image)
    if target is not None:
        return _run_target(args, target)
    lookup = look_up_image(args)
    lookup.report(args)
    check = _check(args, lookup)
    if check.other_way:
        report(check.other_way)
    if args.output == "table":
        print(_table(check))
    else:
        print(render_document(_document(lookup.answer, check), args.output))
    report_failed_plugins(lookup)
    return code_for_check(lookup.answer, check)


def _run_target(args: argparse.Namespace, target: Target) -> int:
    live = read_target(args, target)
    if isinstance(live, ApiProblem):
        report(str(live))
        return Exit.REFUSED
    inputs, providers = open_providers(args, gather_inputs(args, (), live_sources(args, live)))
    if not live.pod.containers:
        raise EnvironmentProblem(f"{live.pod} has no container with an image, so there is nothing to check")
    checked: list[tuple[Answer, RegistryCheck]] = []
    lines: list[str] = []
    codes: list[Exit] = []
    for image in live.pod.by_image:
        own = copy(args)
        own.image = image
        try:
            lookup = look_up(own, parse_image(image), inputs, providers)
        except ImageNameError as error:
            lines.append(f"InvalidImageName: {error}")
            codes.append(Exit.NO)
            continue
        check = _check(own, lookup)
        lines += (*lookup.lines(own), check.other_way, _last_failure(args, live, image))
        checked.append((lookup.answer, check))
        codes.append(code_for_check(lookup.answer, check))
    # What is true of several images is told once.
    report(*filter(None, dict.fromkeys(lines)))
    if args.output == "table":
        print(Lines("\n\n".join(_table(check) for _, check in checked)))
    else:
        print(render_document(_list_document(live.pod, checked), args.output))
    return most_severe(codes)


def _last_failure(args: argparse.Namespace, live: LiveWorkload, image: str) -> str:
    """Return that the kubelet's own last attempt failed, which says more than this check; empty if none did."""
    evidence = see(live.pod, live.pod.by_image[image], live.events, now=time.time())
    attempt = evidence.last_attempt
    if attempt.kind is not AttemptKind.FAILED:
        return ""
    when = "" if attempt.at is None else f", {age_text(attempt.at, evidence.now)}"
    command = command_line(args, "explain", args.image)
    return f"{image}: the kubelet's own last attempt failed{when}; to see why, try: {command}"


def _check(args: argparse.Namespace, lookup: ImageLookup) -> RegistryCheck:
    mirrors = image_mirrors(args, lookup.inputs.found, is_here=True)
    return check_answer(args, lookup.answer, mirrors)


def _list_document(pod: WorkloadPod, checked: list[tuple[Answer, RegistryCheck]]) -> dict[str, object]:
    return make_document(
        "ImagePullCheckList",
        namespace=pod.pod.namespace,
        pod=pod.pod.name,
        items=[_document(answer, check) for answer, check in checked],
    )


def _table(check: RegistryCheck) -> Lines:
    rows = fitting_table(("USERNAME", "KEY", "SOURCE", "REGISTRY RESPONSE"), list(map(_row, check.attempts)))
    head = (
        style(line, "bold", _COLOURS[check.verdict]) for line in fold(printable(verdict(check)), rest="  ")
    )
    return Lines("\n".join((*head, "", rows)))


def _row(attempt: Attempt) -> tuple[str, ...]:
    credential = attempt.credential
    if credential is None:
        return _NOBODY, "-", "-", describe_attempt(attempt)
    return credential.username, credential.key, str(credential.source), describe_attempt(attempt)


def _document(answer: Answer, check: RegistryCheck) -> dict[str, object]:
    return make_document(
        "ImagePullCheck",
        image=answer.image,
        name=answer.name,
        **check_document(check),
        failures=failures_document(answer.kubelet_failures),
        missing=missing_documents(answer.missing),
    )
