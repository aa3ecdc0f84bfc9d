"""Explain every container of a pod or workload, from a cluster or from files."""

from collections.abc import Iterator
from copy import copy

from keyferry._core.secrets import printable
from keyferry._core.user_info import hide_in_url, hide_user_info
from keyferry._core.values import Value, replace
from keyferry.cli.frame.cluster_arguments import open_session
from keyferry.cli.frame.commands import Exit, WrongUsage, most_severe
from keyferry.cli.frame.image_lookup import (
    ImageLookup,
    Inputs,
    gather_inputs,
    look_up,
    open_providers,
)
from keyferry.cli.frame.source_files import live_sources, sources_of
from keyferry.cli.frame.sources import Sources
from keyferry.cli.frame.waiting import Waiting
from keyferry.cli.image.explanation_output import banner_blocks, explanation_code
from keyferry.clusters.api_call import ApiProblem
from keyferry.errors import EnvironmentProblem, ImageNameError, Kind
from keyferry.explain.cures import LikelyCause, find_cause
from keyferry.explain.explanation import Explanation
from keyferry.explain.explanation_document import explanation_document
from keyferry.explain.registry import PullVerdict
from keyferry.explain.text import render, summary
from keyferry.explain.verdict import find_verdict
from keyferry.images.reference import parse_image
from keyferry.show.documents import make_document, render_document
from keyferry.show.marks import Mark, mark
from keyferry.show.report import report
from keyferry.show.text import fold, sections
from keyferry.show.writer import Lines, style
from keyferry.workloads.events import PullEvent
from keyferry.workloads.live import fetch_workload
from keyferry.workloads.pods import PodContainer, WorkloadPod
from keyferry.workloads.targets import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from keyferry.workloads.objects import KubernetesObject

    Explainer = Callable[
        [argparse.Namespace, ImageLookup, tuple[str, ...], Sequence[PodContainer]], Explanation
    ]

_DEFAULT_NAMESPACE = "default"


class ExplainedContainers(Value):
    """The containers of one image, and its explanation, or the *problem* that there is none for."""

    containers: tuple[PodContainer, ...]
    image: str
    explanation: Explanation | None = None
    problem: str = ""

    @property
    def title(self) -> str:
        """The heading: all containers, and their image."""
        return f"{', '.join(map(str, self.containers))}: {self.image}"

    @property
    def code(self) -> Exit:
        """The exit code; an image that has no explanation is not pulled."""
        return Exit.NO if self.explanation is None else explanation_code(self.explanation)


class ExplainedPod(Value):
    """A pod with the explanation of each of its images."""

    pod: WorkloadPod
    images: tuple[ExplainedContainers, ...] = ()
    inputs: Inputs | None = None
    events: tuple[PullEvent, ...] = ()
    problem: str = ""


def explain_target(args: "argparse.Namespace", target: Target, explain: "Explainer") -> int:
    """Explain a pod or workload of the cluster."""
    if args.filename or args.pod:
        raise WrongUsage(f"{target} is an object of a cluster, and -f is for files: give one of them")
    session = open_session(args)
    namespace = args.namespace or session.namespace or _DEFAULT_NAMESPACE
    reading = _reading(args.image, target, namespace)
    with Waiting(
        f"reading {target} of namespace {namespace} from {hide_in_url(session.server)}", args.timeout
    ):
        live = fetch_workload(session, target, namespace, timeout_seconds=args.timeout)
    if isinstance(live, ApiProblem) and live.kind is Kind.NOT_FOUND:
        # As for a file that does not exist: there is nothing to give an answer about.
        raise EnvironmentProblem(
            f"there is no {target.kind.lower()} {target.name!r} in namespace {namespace!r}; for the image of that "
            f"name, write docker.io/{args.image}"
        )
    if isinstance(live, ApiProblem):
        report(reading, str(live))
        return Exit.REFUSED
    args.is_live = True
    pod = _explain_pod(args, live.pod, live_sources(args, live), explain)
    return _print(args, (replace(pod, events=live.events),), reading)


def explain_files(
    args: "argparse.Namespace",
    objects: "Sequence[KubernetesObject]",
    pods: "Sequence[WorkloadPod]",
    explain: "Explainer",
) -> int:
    """Explain *pods* of the file, or of each only the containers of the image if one is given."""
    if args.image:
        pods = [replace(each, containers=each.using(args.image), without_image=()) for each in pods]
    return _print(args, [_explain_pod(args, each, sources_of(args, objects, each), explain) for each in pods])


def _reading(word: str, target: Target, namespace: str) -> str:
    """Return how the word is read, since it is also the name of an image of Docker Hub."""
    what = f"the {target.kind.lower()} {target.name!r} of namespace {namespace!r}"
    return f"{word} is read as {what}; for the image of that name, write docker.io/{word}"


def _explain_pod(
    args: "argparse.Namespace", pod: WorkloadPod, sources: Sources, explain: "Explainer"
) -> ExplainedPod:
    own = copy(args)
    if not pod.containers:
        return ExplainedPod(pod, problem="it has no container with an image, so there is nothing to explain")
    inputs, providers = open_providers(own, gather_inputs(own, (), sources))
    # The command line to repeat names the workload, not the image.
    words = (args.image,) if args.image else ()

    def explain_containers(containers: tuple[PodContainer, ...]) -> ExplainedContainers:
        each = copy(own)
        each.image = containers[0].image
        try:
            image = parse_image(each.image)
        except ImageNameError as error:
            return ExplainedContainers(
                containers, hide_user_info(each.image), problem=f"InvalidImageName: {error}"
            )
        explanation = explain(each, look_up(each, image, inputs, providers), words, containers)
        return ExplainedContainers(containers, each.image, explanation)

    return ExplainedPod(pod, tuple(map(explain_containers, _groups(pod))), inputs)


def _groups(pod: WorkloadPod) -> "Iterator[tuple[PodContainer, ...]]":
    """Yield the containers of each image, those that never pull it apart from the others."""
    for containers in pod.by_image.values():
        for is_never in (False, True):
            found = tuple(each for each in containers if each.is_never_pulled is is_never)
            if found:
                yield found


def _print(args: "argparse.Namespace", pods: "Sequence[ExplainedPod]", first: str = "") -> int:
    if args.output in ("json", "yaml"):
        print(render_document(_document(pods, first), args.output))
    else:
        is_wide = args.all_patterns or args.output == "wide"
        print(Lines("\n\n".join(_blocks(pods, first, is_wide=is_wide))))
    empty = [Exit.ENVIRONMENT for pod in pods if pod.problem]
    return most_severe((*empty, *(each.code for pod in pods for each in pod.images)))


def _blocks(pods: "Sequence[ExplainedPod]", first: str, *, is_wide: bool) -> Iterator[str]:
    if first:
        yield "\n".join(fold(printable(first), "", "  "))
    summaries = [_summary(each) for pod in pods for each in pod.images]
    if summaries:
        yield "\n".join(line for each in summaries for line in fold(each, "", "    "))
    for pod in pods:
        yield sections((("pod", map(printable, _about(pod))),))
        yield from () if pod.inputs is None else banner_blocks(pod.inputs)
        yield from _image_blocks(pod, is_wide=is_wide)
        # Last, since whoever asks has seen them.
        if pod.events:
            yield sections((("events about pulls, newest last", map(printable, map(str, pod.events))),))


def _summary(each: ExplainedContainers) -> str:
    if each.explanation is None:
        return f"{mark(Mark.NO)} {printable(each.title)}: {style('InvalidImageName', 'red')}"
    return summary(each.explanation, each.title)


def _image_blocks(pod: ExplainedPod, *, is_wide: bool) -> Iterator[str]:
    """Yield the heading and the explanation of each image; what several have in common is shown once."""
    told: dict[LikelyCause, str] = {}
    notes: tuple[str, ...] = ()
    for each in pod.images:
        yield "\n".join(style(line, "bold", "cyan") for line in fold(printable(each.title), "", "  "))
        if each.explanation is None:
            yield printable(each.problem)
            continue
        finding = find_cause(each.explanation)
        same_as = told.get(finding, "") if finding.cures else ""
        told.setdefault(finding, each.title)
        new = tuple(note for note in each.explanation.notes if note not in notes)
        notes += new
        yield render(replace(each.explanation, notes=new), is_wide=is_wide, same_as=same_as)


def _about(pod: ExplainedPod) -> Iterator[str]:
    node = f"on node {pod.pod.node_name}" if pod.pod.node_name else "on no node"
    yield f"{pod.pod}, {node}, service account {pod.pod.pod.service_account_name}"
    if pod.problem:
        yield pod.problem
    yield from _notes(pod.pod)


def _notes(pod: WorkloadPod) -> Iterator[str]:
    """Yield a note for each container that names no image."""
    yield from (f"{each} has no image, so it is not explained" for each in pod.without_image)


def _verdict_document(each: ExplainedContainers) -> dict[str, object]:
    if each.explanation is None:
        return {"outcome": str(PullVerdict.NO), "text": each.problem}
    verdict = find_verdict(each.explanation)
    return {"outcome": str(verdict.outcome), "text": verdict.text}


def _document(pods: "Sequence[ExplainedPod]", first: str) -> dict[str, object]:
    notes = [first] if first else []
    notes += [f"{each.pod}: {note}" for each in pods for note in _notes(each.pod)]
    return make_document("WorkloadExplanation", notes=notes, pods=list(map(_pod_document, pods)))


def _pod_document(pod: ExplainedPod) -> dict[str, object]:
    named = pod.pod
    return {
        "workload": {"kind": str(named.workload.kind), "name": named.workload.name},
        "namespace": named.pod.namespace,
        "pod": named.pod.name,
        "node": named.node_name,
        "serviceAccount": named.pod.service_account_name,
        "problem": "" if pod.problem is None else str(pod.problem),
        "events": [
            {"time": e.time, "type": e.type, "reason": e.reason, "message": e.message, "count": e.count}
            for e in pod.events
        ],
        "images": [
            {
                "image": each.image,
                "containers": [{"name": c.name, "role": str(c.role)} for c in each.containers],
                "problem": each.problem,
                "verdict": _verdict_document(each),
                "explanation": None if each.explanation is None else explanation_document(each.explanation),
            }
            for each in pod.images
        ],
    }
