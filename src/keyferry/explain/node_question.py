"""The question to a node about images, for what only it has, and what it told of each image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from keyferry._core.values import Value, field, replace
from keyferry.errors import EnvironmentProblem, KeyferryError
from keyferry.explain.node_half import NodeHalf, merge_answers, read_node_half
from keyferry.explain.node_record import read_node_image
from keyferry.images.answer import Answer, LookupInput
from keyferry.workloads.inputs import Inputs, Sources, resolve
from keyferry.workloads.node_reply import NodeReply
from keyferry.workloads.on_node import NodeQuestion, ask_node, plan_debug_pod
from keyferry.workloads.request import Request

__all__ = [
    "NodeAnswers",
    "ask_for_halves",
    "debug_pod_document",
    "is_to_be_asked",
    "node_question",
    "read_halves",
]

Json = dict[str, object]
Announce = Callable[[str], None]


class NodeAnswers(Value):
    """What a node told of each image, or the *problem* that it was not asked; nothing if it was not to be asked.

    *sources* are the caller's own.
    """

    halves: Mapping[str, NodeHalf] = field(default_factory=dict)
    sources: Sources = Sources()
    problem: str = ""

    def complete(self, answer: Answer) -> tuple[Answer, NodeHalf | None]:
        """Return *answer* with the node's half, and that half; without one, with the problem as the missing input."""
        half = self.halves.get(answer.image)
        if half is not None:
            return merge_answers(answer, half, self.sources), half
        if not self.problem:
            return answer, None
        given = tuple(
            replace(each, instead=self.problem) if each.input is LookupInput.NODE else each
            for each in answer.not_given
        )
        return replace(answer, not_given=given), None


def ask_for_halves(inputs: Inputs, images: Iterable[str], announce: Announce) -> NodeAnswers:
    """Ask the node about *images*, if it is to be asked; *announce* is told of a pod that is made for that."""
    asked = tuple(images)
    if not (asked and is_to_be_asked(inputs)):
        return NodeAnswers()
    try:
        replies = ask_node(inputs.request.open_session(), node_question(inputs, asked), announce)
        return NodeAnswers(halves=read_halves(asked, replies), sources=inputs.sources)
    except KeyferryError as error:
        return NodeAnswers(problem=f"{inputs.node.elsewhere}: {error}")


def read_halves(images: tuple[str, ...], replies: tuple[NodeReply, ...]) -> dict[str, NodeHalf]:
    """Return the half of each image from the replies to ``node_question``; see ``read_node_half``."""
    count = len(images)
    halves = dict(zip(images, map(read_node_half, replies[:count]), strict=True))
    for image, access, records in zip(images, replies[count::2], replies[count + 1 :: 2], strict=False):
        halves[image] = halves[image].with_image(read_node_image(access, records))
    return halves


def is_to_be_asked(inputs: Inputs) -> bool:
    """Return whether the request says so.

    For a pod with a pull secret that cannot be read it is not: its kubelet looks no further.
    """
    return inputs.request.node_access.is_asked and inputs.sources.unreadable is None


def debug_pod_document(
    request: Request,
    sources: Sequence[Sources],
    make_question: Callable[[Inputs, tuple[str, ...]], NodeQuestion],
) -> Json:
    """Return the debug pod that would be made for a question about one pod or image."""
    if len(sources) != 1:
        raise EnvironmentProblem(f"expected one pod to ask the node of, found {len(sources)}")
    inputs, pod = resolve(request, sources[0]), sources[0].workload
    images = (request.image,) if request.image else tuple(() if pod is None else pod.by_image)
    return plan_debug_pod(request.open_session(), make_question(inputs, images)).document()


def node_question(inputs: Inputs, images: tuple[str, ...]) -> NodeQuestion:
    """Return what the node is asked about *images*; of the pod it is told the name of its service account."""
    pod, request = inputs.sources.pod, inputs.request
    account = () if pod is None else ("--service-account", f"{pod.namespace}/{pod.service_account_name}")
    limit = (
        ()
        if request.timeout_seconds == Request().timeout_seconds
        else ("--timeout", f"{request.timeout_seconds:g}")
    )
    commands = tuple(("explain", image, *account, *limit, "-o", "json") for image in images)
    return NodeQuestion(
        node=request.on_node or inputs.sources.node_name or "",
        commands=commands,
        debug_commands=(*(_as_the_kubelet(words) for words in commands), *_about_the_image(images)),
        request=request,
    )


def _as_the_kubelet(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command that runs plugins and finds the docker config as the kubelet does."""
    return (*words, "--agent", "off", "--docker-config", "auto")


def _about_the_image(images: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the commands that tell whether an image is on the node, and its record."""
    for image in images:
        yield "explain", image, "--no-run", "--cri", "auto", "-o", "json"
        yield "records", "show", image, "-o", "json"
