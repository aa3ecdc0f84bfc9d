"""Whether an image can be pulled: the pod's secrets are tried from here, and the node's credentials from the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from keyferry._core.secrets import MASK, redact
from keyferry._core.values import Value, field, replace
from keyferry.errors import EnvironmentProblem, KeyferryError, Kind, RegistryError
from keyferry.explain.node_question import (
    Announce,
    NodeAnswers,
    is_to_be_asked,
    node_question,
    read_halves,
)
from keyferry.explain.registry import RegistryCheck, check_inputs
from keyferry.images.answer import Answer
from keyferry.images.keyring import Credential, Source, SourceKind
from keyferry.images.reference import normalise, registry_of
from keyferry.pulls.trial import Attempt
from keyferry.workloads.inputs import Inputs
from keyferry.workloads.node_reply import NodeReply, ReplyPart
from keyferry.workloads.on_node import NodeQuestion, ask_node
from keyferry.workloads.request import Request, Wait

__all__ = ["NodeChecks", "ask_for_checks", "check_question"]

_KIND = "ImagePullCheck"
_MAX_ATTEMPTS = 100
_MAX_MESSAGE = 2048
# What a node can have credentials from; those of secrets are tried from here.
_NODE_SOURCES = (SourceKind.PROVIDER, SourceKind.NODE_DOCKER_CONFIG)


class NodeChecks(Value):
    """What a node told of each image, and the attempts that it made there."""

    told: NodeAnswers = NodeAnswers()
    attempts: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)

    def complete(
        self, inputs: Inputs, answer: Answer, *, wait: Wait | None = None
    ) -> tuple[Answer, RegistryCheck]:
        """Return the answer with the node's half, if there is one, and the registry's response to each credential."""
        own = answer.credentials
        answer, half = self.told.complete(answer)
        if half is None:
            return answer, check_inputs(inputs, answer, own, wait=wait)
        here: tuple[Attempt, ...] = check_inputs(inputs, answer, own, wait=wait).attempts if own else ()
        attempts = (*here, *_of_the_answer(self.attempts.get(answer.image, ()), answer))
        tried = {_login(each.credential) for each in attempts if each.credential is not None}
        check = RegistryCheck(
            image=answer.image,
            attempts=attempts,
            missing=answer.missing,
            half=half,
            own_attempts=len(here),
            is_untold=not attempts or not tried.issuperset(map(_login, answer.credentials)),
        )
        return answer, check


def _of_the_answer(there: tuple[Attempt, ...], answer: Answer) -> Iterator[Attempt]:
    """Yield a node's attempts with credentials that match the image, as it is decided here, or the anonymous ones.

    A kubelet that has a credential makes no anonymous attempt.
    """
    known = set(map(_login, answer.credentials))
    for each in there:
        is_known = not known if each.credential is None else _login(each.credential) in known
        if is_known:
            yield each


def _login(credential: Credential) -> tuple[str, ...]:
    """Return what a credential is known by from afar."""
    return credential.source.kind, credential.source.name, credential.key, credential.username


def ask_for_checks(inputs: Inputs, images: Iterable[str], announce: Announce) -> NodeChecks:
    """Let the node ask the registry for *images* with its own credentials, if the request says so."""
    asked = tuple(images)
    if not (asked and is_to_be_asked(inputs)):
        return NodeChecks()
    try:
        replies = ask_node(inputs.request.open_session(), check_question(inputs, asked), announce)
        checks = zip(asked, replies[: len(asked)], strict=True)
        attempts = {image: _read_attempts(image, reply) for image, reply in checks}
        halves = read_halves(asked, replies[len(asked) :])
    except KeyferryError as error:
        return NodeChecks(told=NodeAnswers(problem=f"{inputs.node.elsewhere}: {error}"))
    return NodeChecks(told=NodeAnswers(halves=halves, sources=inputs.sources), attempts=attempts)


def check_question(inputs: Inputs, images: tuple[str, ...]) -> NodeQuestion:
    """Return what the node is asked: for the registry's response, then for its half of each answer."""
    question = node_question(inputs, images)
    count, options = len(images), tuple(_registry_options(inputs.request))

    def with_checks(explaining: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        checks = tuple(("can-pull", *words[1:], *options) for words in explaining[:count])
        return (*checks, *explaining[:count])

    return replace(
        question,
        commands=with_checks(question.commands),
        debug_commands=with_checks(question.debug_commands),
    )


def _registry_options(request: Request) -> Iterator[str]:
    """Yield the options that mean the same on the node."""
    options, usual = request.registry, Request().registry
    if options.insecure:
        yield "--insecure"
    if options.timeout_seconds != usual.timeout_seconds:
        yield from ("--registry-timeout", f"{options.timeout_seconds:g}")


# The node's document.


def _read_attempts(image: str, reply: NodeReply) -> tuple[Attempt, ...]:
    if reply.problem:
        raise EnvironmentProblem(reply.problem)
    document = ReplyPart(reply.document, f"the answer of {reply.through.noun} {reply.pod}")
    document.check(document.text("kind") == _KIND, "kind", f"expected {_KIND}")
    name = normalise(image)
    document.check(document.text("name") == name, "name", "expected the image that was asked for")
    registry = registry_of(name)
    return tuple(_attempt(each, registry) for each in document.parts("attempts", _MAX_ATTEMPTS))


def _attempt(part: ReplyPart, registry: str) -> Attempt:
    word, status = part.text("cause"), int(part.number("status") or 0)
    error = None
    if not part.is_true("worked"):
        kind = Kind(word) if word in tuple(Kind) else Kind.ERROR
        error = RegistryError(registry, status, redact(part.text("message", _MAX_MESSAGE)), kind)
    return Attempt(
        credential=_credential(part.part("credential")) if part.has("credential") else None,
        error=error,
        digest=part.text("digest"),
        was_asked=part.is_true("asked"),
    )


def _credential(part: ReplyPart) -> Credential:
    source = part.part("source")
    kind = source.text("kind")
    source.check(kind in _NODE_SOURCES, "kind", "expected a source that a node has")
    return Credential(
        username=redact(part.text("username")),
        password=MASK,
        source=Source(kind=SourceKind(kind), name=source.text("name")),
        key=part.text("key"),
    )
