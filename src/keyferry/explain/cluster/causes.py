"""Every pod of a cluster that waits for an image, by cause: each question is explained once, and so is each cause."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value
from keyferry.errors import EnvironmentProblem, PullSecretError
from keyferry.explain.cluster.examples import mark_examples
from keyferry.explain.cluster.prepare import alone, prepare
from keyferry.explain.cluster.questions import (
    MAX_EXAMPLES,
    MAX_NAMES,
    MAX_QUESTIONS,
    Key,
    Question,
    Questions,
    registry_in,
)
from keyferry.explain.cures import CORRECT_NAME
from keyferry.explain.explanation import Cure, Outcome, PullVerdict
from keyferry.explain.gather import ExplainedImage, explain_pod
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.reference import is_image_name
from keyferry.pulls.failure_text import FailureKind
from keyferry.workloads.listing import PodSelection, list_pods, select_pods
from keyferry.workloads.live import fetch_pod
from keyferry.workloads.node import choose_node
from keyferry.workloads.reader import ClusterReader
from keyferry.workloads.request import Request, Wait, wait_for
from keyferry.workloads.sources import cluster_sources

__all__ = ["CommonCause", "WaitingPods", "explain_cluster"]

# With these outcomes it is not known why the image cannot be had, or whether that is still so.
_UNSURE = (Outcome.CHANGED, Outcome.NOT_TRIED, Outcome.UNEXPLAINED, Outcome.UNKNOWN)
# Failures of the pod or of its node: the registry has no part in them.
_WITHOUT_REGISTRY = (FailureKind.DISK, FailureKind.NAME, FailureKind.NEVER, FailureKind.RUNTIME)
_ID_LENGTH = 12
# How long ago something was, with its brackets if nothing else is in them; see duration_text.
_AGE = re.compile(r" \((?:\d+ \w+ ){1,2}ago\)|,? (?:\d+ \w+ ){1,2}ago\b")


class CommonCause(Value):
    """Why several pods wait for images: *text* and *cures* are those of the pod *example*, as if it was asked alone.

    *summary* is the text without times, and *command* explains the example alone. *varying* are the names of the
    example that are not those of all pods: in the summary they are told as an example's. *id* stays the same as long as
    the cause does. *pods* is the number of pods; *images*, *namespaces* and *nodes* are their names, at most 1,000 of
    each, and *examples* the first pods. *since* is when the first of them was last ready or was created, in seconds
    since 1970. *registry* is empty if the images are of several. *said* is what the kubelet and its runtime say of the
    example.
    """

    id: str
    text: str
    summary: str
    outcome: Outcome
    pods: int
    example: str
    command: str
    cause: str = ""
    cures: tuple[Cure, ...] = ()
    registry: str = ""
    images: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    since: float | None = None
    said: str = ""
    varying: tuple[str, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether it is known why the pods wait, and that it is still so."""
        return self.outcome not in _UNSURE


class WaitingPods(Value):
    """The pods of a *selection* that wait for an image, by cause, the most frequent first.

    *total* is the number of pods that were looked at, without those that have ended, and *waiting* that of those that
    wait. *now* is when, in seconds since 1970.
    """

    selection: PodSelection
    server: str
    now: float
    total: int = 0
    waiting: int = 0
    causes: tuple[CommonCause, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> PullVerdict:
        """Whether all pods have their images; unknown if some wait and of no cause it is known that it is one."""
        if not self.waiting:
            return PullVerdict.YES
        return PullVerdict.NO if any(each.is_sure for each in self.causes) else PullVerdict.UNKNOWN


def explain_cluster(request: Request, *, wait: Wait | None = None) -> WaitingPods:
    """Explain every pod that waits for an image, of those that *request* selects; pods with one cause are told as one.

    Raise EnvironmentProblem if the request does not go together, ConfigError, PolicyError, and ClusterAuthError if the
    server cannot be reached or does not let this user list pods. What else may not be read is part of the answer.
    """
    if request.image or request.target or request.filename:
        raise EnvironmentProblem("expected a question about many pods, without image, target and filename")
    request = prepare(request)
    session = request.open_session()
    selection = select_pods(request, session)
    questions = Questions(lambda name: not choose_node(request, name).elsewhere)
    with wait_for(wait, f"listing the pods of {hide_in_url(session.server)}", 0.0):
        for item in list_pods(session, selection, timeout_seconds=request.timeout_seconds):
            questions.add(item)
    reader = ClusterReader(session, request.timeout_seconds)
    with wait_for(wait, f"explaining why {questions.waiting} pods wait", 0.0):
        causes = _find_causes(request, reader, questions)
    return WaitingPods(
        selection=selection,
        server=hide_in_url(session.server),
        now=time.time(),
        total=questions.total,
        waiting=questions.waiting,
        causes=causes,
        notes=tuple(_notes(questions)),
    )


class _Group(Value):
    """The questions with one cause, by their keys; the first of them has the explanation."""

    explained: ExplainedImage | None
    command: str
    questions: dict[Key, Question]


def _find_causes(request: Request, reader: ClusterReader, questions: Questions) -> tuple[CommonCause, ...]:
    groups: dict[str, _Group] = {}
    for key, question in questions:
        place = question.first.pod.pod
        one = alone(request, f"pod/{place.name}", place.namespace, question.first.image)
        explained = _explain(one, reader, question) if question.is_explained else None
        group = _Group(explained=explained, command=one.explain_command(), questions={})
        groups.setdefault(_identify(question, explained), group).questions[key] = question
    causes = (_common_cause(id_, group, questions) for id_, group in groups.items())
    return tuple(sorted(causes, key=lambda each: -each.pods))


def _explain(request: Request, reader: ClusterReader, question: Question) -> ExplainedImage:
    """Return the explanation of the question's pod and image, as ``keyferry explain`` of that pod has it."""
    waiting, image = question.first, question.first.image
    try:
        explained = explain_pod(
            request, cluster_sources(request, fetch_pod(reader, waiting.pod), is_of_many=True)
        )
    except (EnvironmentProblem, PullSecretError) as error:
        return ExplainedImage(containers=waiting.pod.using(image), image=image, problem=str(error))
    # Containers of one image may be in several states: those that fail come first.
    order = (PullVerdict.NO, PullVerdict.UNKNOWN, PullVerdict.YES)
    problem = ExplainedImage(containers=(), image=image, problem=explained.problem or waiting.said)
    return min(explained.images, key=lambda each: order.index(each.verdict), default=problem)


def _identify(question: Question, explained: ExplainedImage | None) -> str:
    """Return the identity of a question's cause: the same for pods that differ in nothing but names."""
    failure = question.first.failure
    parts: list[object] = [registry_in(question.first.image)]
    if failure is not None:
        parts = [] if failure.kind in _WITHOUT_REGISTRY else parts
        parts += [failure.kind, failure.status, failure.host]
    explanation = None if explained is None else explained.explanation
    if explanation is not None:
        missing = tuple(
            dict.fromkeys(_identify_missing(each, question) for each in explanation.facts.answer.missing)
        )
        text = explanation.cause or (failure.text if failure is not None else "")
        parts += [
            explanation.outcome,
            _without_names(text, question),
            missing if not explanation.cause else (),
        ]
    elif explained is not None:
        parts.append(_without_names(explained.problem, question))
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_ID_LENGTH]


def _identify_missing(missing: MissingInput, question: Question) -> tuple[object, ...]:
    """Return the identity of an input; of secrets that may not be read, nothing is known that tells them apart."""
    if missing.input is LookupInput.PULL_SECRET and missing.instead:
        return missing.input, _without_names(missing.instead, question, missing.name)
    return missing.input, _without_names(missing.name, question)


def _without_names(text: str, question: Question, *others: str) -> str:
    """Return *text* without *others* and the names of the question's pod, its namespace, account, node and image."""
    pod, image = question.first.pod, question.first.image
    path = image.partition("/")[2].partition("@")[0].partition(":")[0]
    account = pod.pod.service_account_name
    names = {image, path, pod.pod.name, pod.pod.namespace, account, pod.node_name, *others}

    def hide(word: re.Match[str]) -> str:
        if word[0].strip(".:") in names:
            return "*"
        return "/".join("*" if part in names else part for part in word[0].split("/"))

    return re.sub(r"[\w./:@-]+", hide, text)


def _common_cause(id_: str, group: _Group, questions: Questions) -> CommonCause:
    explained, asked = group.explained, tuple(group.questions.values())
    first, since = asked[0], [each.since for each in asked if each.since is not None]
    explanation = None if explained is None else explained.explanation
    registries = {registry_in(each.first.image) for each in asked}
    varying = tuple(_varying(asked))
    return CommonCause(
        id=id_,
        text=_text(first, explained),
        summary=mark_examples(_summary(first, explained), varying),
        outcome=_outcome(explained),
        cause="" if explanation is None else explanation.cause,
        cures=_cures(explained),
        pods=questions.count_pods(set(group.questions)),
        example=next(iter(first.examples)),
        command=group.command,
        registry=registries.pop() if len(registries) == 1 else "",
        images=_union(each.images for each in asked),
        namespaces=_union(each.namespaces for each in asked),
        nodes=tuple(sorted(_union(each.nodes for each in asked))),
        examples=_union(each.examples for each in asked)[:MAX_EXAMPLES],
        since=min(since, default=None),
        said=first.first.said,
        varying=varying,
    )


def _varying(asked: Sequence[Question]) -> Iterator[str]:
    """Yield the names of the first pod that are not those of all."""
    first = asked[0].first
    pod, parts = first.pod, first.image.partition("/")
    names = {
        first.image: [each.images for each in asked],
        parts[2].partition("@")[0].partition(":")[0]: [each.images for each in asked],
        pod.pod.name: [each.examples for each in asked],
        pod.pod.namespace: [each.namespaces for each in asked],
        pod.node_name: [each.nodes for each in asked],
    }
    yield from (name for name, groups in names.items() if name and len(_union(groups)) > 1)
    lists = [each.first.pod.listed_secrets for each in asked]
    yield from (name for name in pod.listed_secrets if any(name not in each for each in lists))


def _cures(explained: ExplainedImage | None) -> tuple[Cure, ...]:
    if explained is None:
        return ()
    if explained.explanation is not None:
        return explained.explanation.cures
    return () if is_image_name(explained.image) else (CORRECT_NAME,)


def _text(question: Question, explained: ExplainedImage | None) -> str:
    if explained is None:
        return f"not looked at, since there are more than {MAX_QUESTIONS:,} different questions: {question.first.said}"
    return explained.problem if explained.explanation is None else explained.explanation.text


def _summary(question: Question, explained: ExplainedImage | None) -> str:
    """Return the cause, with what the registry said if it refused; without a cause, the text without ages."""
    explanation = None if explained is None else explained.explanation
    if explanation is None or not explanation.cause:
        return _AGE.sub("", _text(question, explained))
    failure = explanation.evidence.last_attempt.failure
    is_said = explanation.facts.is_refusal and failure is not None and failure.detail
    return f"{explanation.cause} ({failure.detail})" if is_said and failure is not None else explanation.cause


def _outcome(explained: ExplainedImage | None) -> Outcome:
    if explained is None:
        return Outcome.UNEXPLAINED
    if explained.explanation is not None:
        return explained.explanation.outcome
    # Without an explanation there is a name that no kubelet accepts, or an object that cannot be read.
    return Outcome.UNKNOWN if is_image_name(explained.image) else Outcome.OTHER_REASON


def _union(names: Iterable[dict[str, None]]) -> tuple[str, ...]:
    """Return all names once, in their order."""
    return tuple(islice(dict.fromkeys(name for each in names for name in each), MAX_NAMES))


def _notes(questions: Questions) -> Iterator[str]:
    if questions.unread:
        yield f"pods that cannot be read: {questions.unread}; the first: {questions.first_problem}"
    left = {key for key, question in questions if not question.is_explained}
    if left:
        yield (
            f"only {MAX_QUESTIONS:,} different questions are explained: the other "
            f"{questions.count_pods(left)} pods are told by what their kubelets say; select fewer with -n or -l"
        )
