"""Explain every container of a pod or workload, from a cluster or from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

from keyferry._core.secrets import printable
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, replace
from keyferry.cli.exits import Exit, most_severe
from keyferry.cli.frame.image_lookup import Inputs, gather_inputs, look_up, open_providers
from keyferry.cli.frame.live_target import live_sources, read_target
from keyferry.cli.frame.source_files import sources_of
from keyferry.cli.frame.sources import Sources
from keyferry.cli.image.explained import Seen, banner_blocks, exit_code_of, explain_image, find_unread
from keyferry.clusters.api_calls import ApiProblem
from keyferry.errors import ImageNameError
from keyferry.explain.explanation import Explanation
from keyferry.explain.explanation_document import event_document, explanation_document
from keyferry.explain.registry import PullVerdict
from keyferry.explain.text import render
from keyferry.images.reference import parse_image
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import Mark, fold, mark
from keyferry.show.writer import Lines, report, style
from keyferry.workloads.events import PullEvent, events_about
from keyferry.workloads.objects import KubernetesObject
from keyferry.workloads.pods import PodContainer, WorkloadPod
from keyferry.workloads.targets import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


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
        return Exit.NO if self.explanation is None else exit_code_of(self.explanation)

    @property
    def told(self) -> tuple[object, ...]:
        """What people are told of it."""
        return (self.problem,) if self.explanation is None else self.explanation.told


class ExplainedPod(Value):
    """A pod with the explanation of each of its images."""

    pod: WorkloadPod
    images: tuple[ExplainedContainers, ...] = ()
    inputs: Inputs | None = None
    events: tuple[PullEvent, ...] = ()
    problem: str = ""


def explain_target(args: argparse.Namespace, target: Target) -> int:
    """Explain a pod or workload of the cluster."""
    live = read_target(args, target)
    if isinstance(live, ApiProblem):
        report(str(live))
        return Exit.REFUSED
    return _print(args, (_explain_pod(args, live.pod, live_sources(args, live), live.events),))


def explain_files(
    args: argparse.Namespace,
    objects: Sequence[KubernetesObject],
    pods: Sequence[WorkloadPod],
) -> int:
    """Explain *pods* of the file, or of each only the containers of the image if one is given."""
    if args.image:
        pods = [replace(each, containers=each.using(args.image), without_image=()) for each in pods]
    explained = (
        _explain_pod(args, each, sources_of(args, objects, each), events_about(each.workload, objects))
        for each in pods
    )
    return _print(args, tuple(explained))


def _explain_pod(
    args: argparse.Namespace, pod: WorkloadPod, sources: Sources, events: tuple[PullEvent, ...]
) -> ExplainedPod:
    own = copy(args)
    if not pod.containers:
        return ExplainedPod(
            pod=pod, problem="it has no container with an image, so there is nothing to explain"
        )
    inputs, providers = open_providers(own, gather_inputs(own, (), sources))
    unread = find_unread(own, inputs)
    # The command line to repeat names the workload, not the image.
    words = (args.image,) if args.image else ()

    def explain_containers(containers: tuple[PodContainer, ...]) -> ExplainedContainers:
        each = copy(own)
        each.image = containers[0].image
        try:
            image = parse_image(each.image)
        except ImageNameError as error:
            return ExplainedContainers(
                containers=containers, image=hide_user_info(each.image), problem=f"InvalidImageName: {error}"
            )
        lookup = look_up(each, image, inputs, providers)
        explanation = explain_image(
            each, lookup, words, Seen(pod=pod, containers=containers, events=events, unread=unread)
        )
        return ExplainedContainers(containers=containers, image=each.image, explanation=explanation)

    return ExplainedPod(
        pod=pod, images=tuple(map(explain_containers, _groups(pod))), inputs=inputs, events=events
    )


def _groups(pod: WorkloadPod) -> Iterator[tuple[PodContainer, ...]]:
    """Yield the containers of each image, apart from those with another policy or another state."""
    states = {(each.role, each.name): each for each in pod.states}
    groups: dict[tuple[object, ...], list[PodContainer]] = {}
    for each in pod.containers:
        state = states.get((each.role, each.name))
        seen = None if state is None else (state.waits_for_image, state.has_image)
        groups.setdefault((each.image, each.pull_policy, seen), []).append(each)
    yield from map(tuple, groups.values())


def _print(args: argparse.Namespace, pods: Sequence[ExplainedPod]) -> int:
    if args.output in ("json", "yaml"):
        print(render_document(_document(pods), args.output))
    else:
        is_wide = args.all_patterns or args.output == "wide"
        print(Lines("\n\n".join(_blocks(pods, is_wide=is_wide))))
    empty = [Exit.ENVIRONMENT for pod in pods if pod.problem]
    return most_severe((*empty, *(each.code for pod in pods for each in pod.images)))


def _blocks(pods: Sequence[ExplainedPod], *, is_wide: bool) -> Iterator[str]:
    for pod in pods:
        yield from () if pod.inputs is None else banner_blocks(pod.inputs)
        yield from _image_blocks(pod, is_wide=is_wide)
        about = [*([f"{pod.pod}: {pod.problem}"] if pod.problem else []), *_notes(pod.pod)]
        if about:
            yield "\n".join(
                line for each in about for line in fold(f"{mark(Mark.WARNING)} {printable(each)}", "", "  ")
            )


def _image_blocks(pod: ExplainedPod, *, is_wide: bool) -> Iterator[str]:
    """Yield the explanation of each image, those that fail first; images of which the same is told are one block."""
    groups: dict[tuple[object, ...], list[ExplainedContainers]] = {}
    for each in sorted(pod.images, key=_rank):
        # The wide form shows the stages of each image.
        groups.setdefault((*each.told, each.image if is_wide else ""), []).append(each)
    notes: tuple[str, ...] = ()
    for number, group in enumerate(groups.values(), 1):
        subject = f"{pod.pod}{_place(pod.pod)}, {'; '.join(each.title for each in group)}"
        explanation = group[0].explanation
        if explanation is None:
            yield "\n".join(_problem_lines(group[0].problem, subject))
            continue
        # What is noted of one image is not noted again of the next.
        new = tuple(note for note in explanation.notes if note not in notes)
        notes += new
        is_last = number == len(groups)
        yield render(replace(explanation, notes=new), is_wide=is_wide, subject=subject, is_last=is_last)


def _rank(each: ExplainedContainers) -> int:
    verdict = PullVerdict.NO if each.explanation is None else each.explanation.verdict
    return (PullVerdict.NO, PullVerdict.UNKNOWN, PullVerdict.YES).index(verdict)


def _problem_lines(problem: str, subject: str) -> Iterator[str]:
    for number, line in enumerate(fold(printable(problem), "  ", "  ")):
        yield f"{' ' if number else mark(Mark.NO)} {style(line.lstrip(), 'red', 'bold')}"
    yield from fold(style(printable(subject), "dim"), "  ", "  ")


def _place(pod: WorkloadPod) -> str:
    return f" on node {pod.node_name}" if pod.node_name else " on no node"


def _notes(pod: WorkloadPod) -> Iterator[str]:
    """Yield a note for each container that names no image."""
    yield from (f"{each} has no image, so it is not explained" for each in pod.without_image)


def _verdict_document(each: ExplainedContainers) -> dict[str, object]:
    if each.explanation is None:
        return {"outcome": str(PullVerdict.NO), "text": each.problem}
    return {"outcome": str(each.explanation.verdict), "text": each.explanation.text}


def _document(pods: Sequence[ExplainedPod]) -> dict[str, object]:
    notes = [f"{each.pod}: {note}" for each in pods for note in _notes(each.pod)]
    return make_document("WorkloadExplanation", notes=notes, pods=list(map(_pod_document, pods)))


def _pod_document(pod: ExplainedPod) -> dict[str, object]:
    named = pod.pod
    return {
        "workload": {"kind": str(named.workload.kind), "name": named.workload.name},
        "namespace": named.pod.namespace,
        "pod": named.pod.name,
        "node": named.node_name,
        "serviceAccount": named.pod.service_account_name,
        "problem": pod.problem,
        "events": [event_document(event) for event in pod.events],
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
