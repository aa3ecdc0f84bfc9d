"""Explain every container of a pod or workload, from a cluster or from files."""

from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from functools import partial

from keyferry._core.secrets import printable
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, replace
from keyferry.cli.frame.commands import Exit, WrongUsage, exit_code, most_severe
from keyferry.cli.frame.image_lookup import (
    ImageLookup,
    Inputs,
    gather_inputs,
    look_up,
    open_providers,
    open_session,
)
from keyferry.cli.frame.sources import Sources, live_sources, read_given_objects, sources_of
from keyferry.cli.image.explanation_output import banner_blocks, explanation_code
from keyferry.clusters.api_call import ApiProblem
from keyferry.errors import ImageNameError, Kind, PullSecretError
from keyferry.explain.cures import LikelyCause
from keyferry.explain.explanation import Explanation
from keyferry.explain.explanation_document import explanation_document
from keyferry.explain.registry import PullVerdict
from keyferry.explain.secret_cures import rewritten_secret
from keyferry.explain.text import render, render_finding
from keyferry.explain.verdict import Subject, Verdict
from keyferry.images.reference import parse_image, registry_of
from keyferry.show.documents import make_document, render_document
from keyferry.show.report import report
from keyferry.show.text import fold, sections
from keyferry.show.writer import Lines, style
from keyferry.workloads.events import PullEvent
from keyferry.workloads.live import fetch_workload
from keyferry.workloads.pods import PodContainer, WorkloadPod, read_pod
from keyferry.workloads.targets import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    Explainer = Callable[[argparse.Namespace, ImageLookup, tuple[str, ...]], Explanation]

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
    problem: PullSecretError | None = None


def explain_target(args: "argparse.Namespace", target: Target, explain: "Explainer") -> int:
    """Explain a pod or workload of the cluster."""
    if args.filename or args.pod:
        raise WrongUsage(f"{target} is an object of a cluster, and -f is for files: give one of them")
    session = open_session(args)
    namespace = args.namespace or session.namespace or _DEFAULT_NAMESPACE
    reading = _reading(args.image, target, namespace)
    live = fetch_workload(session, target, namespace, timeout_seconds=args.timeout)
    if isinstance(live, ApiProblem):
        report(reading, str(live))
        return Exit.NO if live.kind is Kind.NOT_FOUND else Exit.REFUSED
    pod = _explain_pod(args, live.pod, lambda: live_sources(args, live), explain)
    return _print(args, (replace(pod, events=live.events),), reading)


def explain_files(args: "argparse.Namespace", explain: "Explainer") -> int:
    """Explain every pod and workload of the file."""
    objects = read_given_objects(args)
    found = [read_pod(each, args.namespace or "") for each in objects if each.kind.is_workload]
    pods = [_explain_pod(args, each, partial(sources_of, args, objects, each), explain) for each in found]
    return _print(args, pods)


def _reading(word: str, target: Target, namespace: str) -> str:
    """Return how the word is read, since it is also the name of an image of Docker Hub."""
    what = f"the {target.kind.lower()} {target.name!r} of namespace {namespace!r}"
    return f"{word} is read as {what}; for the image of that name, write docker.io/{word}"


def _explain_pod(
    args: "argparse.Namespace", pod: WorkloadPod, find_sources: "Callable[[], Sources]", explain: "Explainer"
) -> ExplainedPod:
    own = copy(args)
    try:
        sources = find_sources()
    except PullSecretError as error:
        # The kubelet's lookup fails for every container, so there is no answer to explain.
        return ExplainedPod(pod, problem=error)
    inputs, providers = open_providers(own, gather_inputs(own, sources))
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
        explanation = explain(each, look_up(each, image, inputs, providers), words)
        return ExplainedContainers(containers, each.image, explanation)

    return ExplainedPod(pod, tuple(map(explain_containers, pod.by_image.values())), inputs)


def _print(args: "argparse.Namespace", pods: "Sequence[ExplainedPod]", first: str = "") -> int:
    if args.output in ("json", "yaml"):
        print(render_document(_document(pods, first), args.output))
    else:
        is_wide = args.all_patterns or args.output == "wide"
        print(Lines("\n\n".join(_blocks(pods, first, is_wide=is_wide))))
    broken = [exit_code(pod.problem) for pod in pods if pod.problem is not None]
    return most_severe((*broken, *(each.code for pod in pods for each in pod.images)))


def _blocks(pods: "Sequence[ExplainedPod]", first: str, *, is_wide: bool) -> Iterator[str]:
    if first:
        yield "\n".join(fold(printable(first), "", "  "))
    for pod in pods:
        yield sections((("pod", map(printable, _about(pod))),))
        yield from () if pod.inputs is None else banner_blocks(pod.inputs)
        yield from () if pod.problem is None else (_problem(pod.pod, pod.problem),)
        for each in pod.images:
            yield "\n".join(style(line, "bold", "cyan") for line in fold(printable(each.title), "", "  "))
            if each.explanation is None:
                yield printable(each.problem)
            else:
                yield render(each.explanation, is_wide=is_wide)
        # Last, since whoever asks has seen them.
        if pod.events:
            yield sections((("events about pulls, newest last", map(printable, map(str, pod.events))),))


def _problem(pod: WorkloadPod, error: PullSecretError) -> str:
    """Return the problem with a pull secret that fails the lookup for every container, and its cure."""
    text = f"no image of the pod is pulled: pull secret {error.secret} cannot be read"
    cures = tuple(rewritten_secret(error.secret, name) for name in _registries(pod)[:1])
    return render_finding(Verdict(Subject.CREDENTIAL, PullVerdict.NO, text), LikelyCause(str(error), cures))


def _registries(pod: WorkloadPod) -> list[str]:
    names = []
    for image in pod.by_image:
        with suppress(ImageNameError):
            names.append(registry_of(parse_image(image).repository))
    return names


def _about(pod: ExplainedPod) -> Iterator[str]:
    node = f"on node {pod.pod.node_name}" if pod.pod.node_name else "on no node"
    yield f"{pod.pod}, {node}, service account {pod.pod.pod.service_account_name}"
    if not pod.pod.containers:
        yield "it has no container with an image"


def _document(pods: "Sequence[ExplainedPod]", first: str) -> dict[str, object]:
    notes = [first] if first else []
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
                "explanation": None if each.explanation is None else explanation_document(each.explanation),
            }
            for each in pod.images
        ],
    }
