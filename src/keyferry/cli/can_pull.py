"""Whether an image can be pulled with the credentials that a kubelet finds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from keyferry._core.secrets import printable
from keyferry.cli.exits import Exit, WrongUsage, exit_code, most_severe
from keyferry.cli.image_arguments import (
    add_lookup_arguments,
    add_on_node_argument,
    add_question_arguments,
    add_registry_arguments,
    add_selection_arguments,
    choose_wait,
    failed_plugin_lines,
    name_target,
    node_access,
    question_request,
    registry_options,
    selection_fields,
)
from keyferry.cli.options import add_output_argument, parse_count
from keyferry.errors import EnvironmentProblem, ImageNameError, Kind
from keyferry.explain.document import failures_document
from keyferry.explain.evidence import AttemptKind, see
from keyferry.explain.explanation import PullVerdict, age_text
from keyferry.explain.registry import RegistryCheck, check_document, check_inputs, describe_attempt
from keyferry.images.answer import Answer, missing_documents
from keyferry.images.reference import is_image_name, parse_image
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

    from keyferry.explain.node_check import NodeChecks

DESCRIPTION = """\
Check whether an image can be pulled. The command finds the credentials that a kubelet would try and sends
the registry a HEAD request for the image's manifest with each of them. Nothing is downloaded. IMAGE may also be
a pod or workload of a cluster, such as pod/web or deploy/web: all of its images are checked.

Without IMAGE, all pods are checked that run or wait, of the context's namespace, of that of -n, or with -A of all:
can everything that runs now be pulled again when its node is gone? -l, --field-selector and --node select among
them. Deployments, StatefulSets, DaemonSets, Jobs and CronJobs that have no pod now count too. Pods and workloads
that need the same image with the same logins are one question, and every question is asked once: until a login
works, a few questions at a time, with the pauses that registries ask for (Retry-After, RateLimit-Reset). At most
--max-requests requests are sent; what was not asked is counted. Images that are never pulled are not asked.
What cannot be pulled is told by reason. An image that no pull secret has a login for, and that the registry does
not give to everybody, is one of which only its node knows: give a node's config with --config and --bin-dir, and
the plugins are run here.

With --on-node, the pod's node asks the registry, too, with the credentials of its own providers, which stay
there; the pod's secrets are tried from here. See 'keyferry explain --help' for how a node is asked.

Exit code 0 means yes, 1 no (there is no such image, or CRI-O blocks it), 5 that the registry refused every
credential, 4 that a plugin failed and there is no other credential, 124 a timeout. 6 means that the result is
unknown: the registry is unreachable, its response says nothing about the image, an input that may have another
credential is missing, such as the pod, or a mirror of the container runtime cannot be reached. It is also
unknown if the image can be pulled anonymously and such an input is missing: a kubelet that has a credential
makes no anonymous attempt. Of many pods, an image that can be pulled anonymously counts as yes; the code is 0 if
all can be pulled, 1 if one is gone or blocked, else that of the first image that cannot be pulled, most pods
first, and 6 if some are unknown only."""

EXAMPLES = """\
examples:
  keyferry can-pull 123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app:v1
  keyferry can-pull pod/web -n shop
  keyferry can-pull pod/web -n shop --on-node
  keyferry can-pull -A
  keyferry can-pull -n shop -l app=web --max-requests 100 -o junit > report.xml
  keyferry can-pull registry.example/app:v1 -f pod.yaml --secret secret.yaml
  keyferry can-pull registry.example/app:v1 --ca-file /etc/ssl/private-ca.pem -o json
  keyferry can-pull localhost:5000/app && echo yes"""

FORMATS = ("table", "wide", "json", "yaml", "junit")
_NOBODY = "(anonymous)"
_COLOURS = {PullVerdict.YES: "green", PullVerdict.NO: "red", PullVerdict.UNKNOWN: "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry can-pull``."""
    parser.add_argument(
        "image",
        metavar="IMAGE",
        nargs="?",
        help="the image, as a pod names it, or a pod or workload of a cluster, such as pod/web or deploy/web (default: "
        "the images of all pods)",
    )
    add_output_argument(parser, FORMATS)
    group = add_selection_arguments(parser)
    group.add_argument(
        "--max-requests",
        type=parse_count,
        metavar="N",
        help="send at most so many requests to registries and their token servers; the images of most pods are first",
    )
    add_registry_arguments(parser)
    add_lookup_arguments(parser, "the pods or the workload (default: the context's), and of ")
    add_on_node_argument(parser)
    add_question_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the result, and the registry's response to each credential."""
    request = question_request(
        args,
        **name_target(args.image),
        **selection_fields(args),
        registry=registry_options(args),
        node_access=node_access(args, is_asked=args.asks_node),
    )
    if not (request.image or request.target):
        from keyferry.cli.can_pull_many import print_pulls

        return print_pulls(args, request)
    if args.output == "junit" or args.max_requests is not None:
        raise WrongUsage("-o junit and --max-requests are for many pods: leave out the name")
    if request.node_access.is_dry_run:
        from keyferry.explain.node_check import check_question
        from keyferry.explain.node_question import debug_pod_document

        sources = read_sources(request, wait=choose_wait())
        print(render_document(debug_pod_document(request, sources, check_question), "yaml"))
        return Exit.OK
    if request.target:
        return _run_target(args, request)
    image = parse_image(args.image)  # reports a wrong image name before any file is read
    inputs = resolve_inputs(request)
    report(*inputs.sources.warnings)
    answer = inputs.lookup(image, wait=choose_wait())
    answer, check = _check(inputs, answer, _ask_node(inputs, (image.text,)))
    report(*_notes(inputs, answer, check))
    if check.other_way:
        report(check.other_way)
    if args.output in ("table", "wide"):
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
    checks = _ask_node(inputs, filter(is_image_name, pod.by_image))
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
        answer, check = _check(inputs, answer, checks)
        lines += (*_notes(inputs, answer, check), check.other_way, _last_failure(inputs, pod, image))
        checked.append((answer, check))
        codes.append(code_for_check(answer, check))
    # What is true of several images is told once.
    report(*filter(None, dict.fromkeys(lines)))
    if args.output in ("table", "wide"):
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


def _ask_node(inputs: Inputs, images: Iterable[str]) -> NodeChecks | None:
    if not inputs.request.node_access.is_asked:
        return None
    from keyferry.explain.node_check import ask_for_checks

    return ask_for_checks(inputs, images, report)


def _check(inputs: Inputs, answer: Answer, checks: NodeChecks | None) -> tuple[Answer, RegistryCheck]:
    if checks is None:
        return answer, check_inputs(inputs, answer, answer.credentials, wait=choose_wait())
    return checks.complete(inputs, answer, wait=choose_wait())


def _notes(inputs: Inputs, answer: Answer, check: RegistryCheck) -> Iterator[str]:
    """Yield the notes about the inputs; those on this machine only if its files count."""
    if check.half is not None:
        yield str(check.half)
    yield from (note for note in inputs.notes_on(answer) if check.half is None or note not in inputs.machine)


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
        node=None if check.half is None else check.half.document,
        provenance={"attempts": list(check.provenance)},
        failures=failures_document(answer.kubelet_failures),
        missing=missing_documents(answer.missing),
    )
