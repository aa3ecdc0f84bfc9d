"""Whether an image can be pulled with the credentials that a kubelet finds."""

from __future__ import annotations

import time

from keyferry._core.secrets import printable
from keyferry.cli.exits import Exit, exit_code, most_severe
from keyferry.cli.image_arguments import (
    add_lookup_arguments,
    add_question_arguments,
    add_registry_arguments,
    choose_wait,
    failed_plugin_lines,
    name_target,
    question_request,
    registry_options,
)
from keyferry.cli.options import add_output_argument
from keyferry.errors import EnvironmentProblem, ImageNameError, Kind
from keyferry.explain.document import failures_document
from keyferry.explain.evidence import AttemptKind, see
from keyferry.explain.explanation import PullVerdict, age_text
from keyferry.explain.registry import (
    RegistryCheck,
    check_document,
    check_image,
    describe_attempt,
    image_mirrors,
)
from keyferry.images.answer import Answer, missing_documents
from keyferry.images.reference import parse_image
from keyferry.pulls.trial import Attempt
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table, fold
from keyferry.show.writer import Lines, report, style
from keyferry.workloads.inputs import Inputs, read_sources, resolve, resolve_inputs
from keyferry.workloads.pods import WorkloadPod
from keyferry.workloads.request import Request

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
    request = question_request(args, **name_target(args.image), registry=registry_options(args))
    if request.target:
        return _run_target(args, request)
    image = parse_image(args.image)  # reports a wrong image name before any file is read
    inputs = resolve_inputs(request)
    report(*inputs.sources.warnings)
    answer = inputs.lookup(image, wait=choose_wait())
    report(*inputs.notes_on(answer))
    check = _check(inputs, answer)
    if check.other_way:
        report(check.other_way)
    if args.output == "table":
        print(_table(check))
    else:
        print(render_document(_document(answer, check), args.output))
    report(*failed_plugin_lines(answer, inputs))
    return code_for_check(answer, check)


def _run_target(args: argparse.Namespace, request: Request) -> int:
    (sources,) = read_sources(request, wait=choose_wait())
    inputs, pod = resolve(request, sources), sources.workload
    assert pod is not None  # noqa: S101 - a target is a pod
    if not pod.containers:
        raise EnvironmentProblem(f"{pod} has no container with an image, so there is nothing to check")
    checked: list[tuple[Answer, RegistryCheck]] = []
    lines: list[str] = []
    codes: list[Exit] = []
    for image in pod.by_image:
        try:
            answer = inputs.lookup(parse_image(image), wait=choose_wait())
        except ImageNameError as error:
            lines.append(f"InvalidImageName: {error}")
            codes.append(Exit.NO)
            continue
        check = _check(inputs, answer)
        lines += (*inputs.notes_on(answer), check.other_way, _last_failure(inputs, pod, image))
        checked.append((answer, check))
        codes.append(code_for_check(answer, check))
    # What is true of several images is told once.
    report(*filter(None, dict.fromkeys(lines)))
    if args.output == "table":
        print(Lines("\n\n".join(_table(check) for _, check in checked)))
    else:
        print(render_document(_list_document(pod, checked), args.output))
    return most_severe(codes)


def _last_failure(inputs: Inputs, pod: WorkloadPod, image: str) -> str:
    """Return that the kubelet's own last attempt failed, which says more than this check; empty if none did."""
    evidence = see(pod, pod.by_image[image], inputs.sources.events, now=time.time())
    attempt = evidence.last_attempt
    if attempt.kind is not AttemptKind.FAILED:
        return ""
    when = "" if attempt.at is None else f", {age_text(attempt.at, evidence.now)}"
    command = inputs.request.explain_command()
    return f"{image}: the kubelet's own last attempt failed{when}; to see why, try: {command}"


def _check(inputs: Inputs, answer: Answer) -> RegistryCheck:
    options = inputs.request.registry
    mirrors = image_mirrors(answer.image, options, inputs.node, inputs.found, is_here=True)
    return check_image(
        answer.image, answer.credentials, options, mirrors, missing=answer.missing, wait=choose_wait()
    )


def code_for_check(answer: Answer, check: RegistryCheck) -> Exit:
    """Return 1 if the runtime blocks the image, else 0 if it can be pulled.

    Else return the code of the plugin failure that left no credential. Else return 6, or 124 after a timeout, if the
    registry's response does not decide the matter, and the registry error's code if it does.
    """
    if check.is_blocked:
        return Exit.NO
    if check.verdict is PullVerdict.YES:
        return Exit.OK
    if check.error is not None and answer.kubelet_failures and not answer.credentials:
        return exit_code(answer.kubelet_failures[0].error)
    if check.verdict is PullVerdict.UNKNOWN or check.error is None:
        return Exit.TIMEOUT if check.kind is Kind.TIMEOUT else Exit.UNKNOWN
    return exit_code(check.error)


def _list_document(pod: WorkloadPod, checked: list[tuple[Answer, RegistryCheck]]) -> dict[str, object]:
    return make_document(
        "ImagePullCheckList",
        namespace=pod.pod.namespace,
        pod=pod.pod.name,
        items=[_document(answer, check) for answer, check in checked],
    )


def _table(check: RegistryCheck) -> Lines:
    rows = fitting_table(("USERNAME", "KEY", "SOURCE", "REGISTRY RESPONSE"), list(map(_row, check.attempts)))
    head = (style(line, "bold", _COLOURS[check.verdict]) for line in fold(printable(check.text), rest="  "))
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
