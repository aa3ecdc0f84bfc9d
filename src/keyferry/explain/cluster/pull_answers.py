"""What registries said to the pods of a cluster: what can be pulled again, what cannot, and what is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from keyferry._core.values import Value, replace
from keyferry.errors import Kind, RegistryError
from keyferry.explain.cluster.counts import Counts
from keyferry.explain.cluster.questions import MAX_NAMES
from keyferry.explain.cluster.uses import MAX_DIGESTS, ImageUse, Key
from keyferry.explain.cures import CORRECT_NAME
from keyferry.explain.evidence import Evidence
from keyferry.explain.explanation import Cure, PullVerdict
from keyferry.explain.gather import gather_facts
from keyferry.explain.lookup_causes import foresee
from keyferry.explain.registry import RegistryCheck
from keyferry.images.answer import Answer, LookupInput, MissingInput
from keyferry.images.reasons.nearness import is_cloud_registry
from keyferry.images.reference import ImageName
from keyferry.pulls.mirrors.endpoints import Mirrors
from keyferry.pulls.registry.many import RegistryAnswer
from keyferry.workloads.inputs import Inputs
from keyferry.workloads.listing import PodSelection
from keyferry.workloads.objects import ObjectKind
from keyferry.workloads.request import RegistryOptions, Request
from keyferry.workloads.secrets import UnusedReason

__all__ = [
    "CheckedImage",
    "ClusterPulls",
    "JudgedUse",
    "PullDoubt",
    "PullGroup",
    "checked_images",
    "judge",
    "node_notes",
    "pull_groups",
]

_NODE_INPUTS = (LookupInput.NODE, LookupInput.DOCKER_CONFIG)
# So many reasons are explained in full, with cures; of the others there is what the registry says.
MAX_EXPLAINED = 300
_SURE = (Kind.REFUSED, Kind.NOT_FOUND)
# A secret that a pod lists and that gives no login, whichever registry is asked.
_BROKEN = (UnusedReason.ABSENT, UnusedReason.NO_DATA, UnusedReason.NO_ENTRIES, UnusedReason.WRONG_TYPE)


class PullDoubt(StrEnum):
    """Why it is unknown whether an image can be pulled."""

    NODE = "node"  # only its node has the provider or the login that it takes
    INPUT = "input"  # a secret, an account or a token that could not be read
    REGISTRY = "registry"  # it does not respond, or not about the image
    NOT_ASKED = "not-asked"


class CheckedImage(Value):
    """An image with what its registry said to those who need it: *pods* and *workloads*, of some *namespaces*.

    *message* is empty for an image that can be pulled, *sources* name the credentials that were tried. *is_public*
    tells that it can be pulled without a credential. *digest* is that of the registry, and *running* are those of the
    containers; both are empty where they are not known.
    """

    image: str
    registry: str
    verdict: PullVerdict
    doubt: PullDoubt | None = None
    message: str = ""
    cause: str = ""
    status: int = 0
    sources: tuple[str, ...] = ()
    is_public: bool = False
    pods: int = 0
    workloads: int = 0
    namespaces: tuple[str, ...] = ()
    example: str = ""
    digest: str = ""
    running: tuple[str, ...] = ()

    @property
    def is_moved(self) -> bool:
        """Whether the tag may name another image now than the one that runs."""
        return bool(self.digest and self.running) and self.digest not in self.running


class PullGroup(Value):
    """Images that cannot be pulled, or of which that is unknown, for one reason: *text*, with the *cures* of one.

    *example* names a pod or workload, *command* explains it; *answer* and *check* are those of it. *secrets* are those
    that it lacks, and that others do not list.
    """

    verdict: PullVerdict
    text: str
    registry: str
    images: tuple[str, ...]
    pods: int
    workloads: int
    namespaces: tuple[str, ...]
    example: str
    command: str
    doubt: PullDoubt | None = None
    cures: tuple[Cure, ...] = ()
    secrets: tuple[str, ...] = ()
    answer: Answer | None = None
    check: RegistryCheck | None = None


class ClusterPulls(Value):
    """Which images of the pods and workloads of a *selection* can be pulled again.

    *pods* and *workloads* are those that were looked at, *never* the pods with an image that their policy forbids to
    pull. *groups* have what cannot be pulled, and then what is unknown, the most frequent first. *failing_pods* and
    *failing_workloads* need an image that cannot be pulled. *requests* were sent to registries and their token
    servers. *unseen* tells what was not looked at, which the *notes* do, too. *now* is when, in seconds since 1970.
    """

    selection: PodSelection
    server: str
    now: float
    pods: int = 0
    workloads: int = 0
    never: int = 0
    requests: int = 0
    failing_pods: int = 0
    failing_workloads: int = 0
    images: tuple[CheckedImage, ...] = ()
    groups: tuple[PullGroup, ...] = ()
    notes: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all that was selected was looked at."""
        return not self.unseen

    def names(self, verdict: PullVerdict, *doubts: PullDoubt) -> set[str]:
        """Return the images of a verdict: that of those who need it, of which one that cannot pull it decides."""
        order = (PullVerdict.NO, PullVerdict.UNKNOWN, PullVerdict.YES)
        worst: dict[str, PullVerdict] = {}
        for each in self.images:
            worst[each.image] = min(worst.get(each.image, each.verdict), each.verdict, key=order.index)
        doubtful = {each.image for each in self.images if each.doubt in doubts}
        return {
            name for name, found in worst.items() if found is verdict and (not doubts or name in doubtful)
        }

    @property
    def verdict(self) -> PullVerdict:
        """Whether all images can be pulled again."""
        if any(each.verdict is PullVerdict.NO for each in self.images):
            return PullVerdict.NO
        is_sure = self.is_complete and all(each.verdict is PullVerdict.YES for each in self.images)
        return PullVerdict.YES if is_sure else PullVerdict.UNKNOWN


class JudgedUse(Value):
    """A use with the verdict on it; *check* is None for one that no registry is asked about."""

    key: Key
    use: ImageUse
    verdict: PullVerdict
    doubt: PullDoubt | None = None
    check: RegistryCheck | None = None
    missing: tuple[MissingInput, ...] = ()

    @property
    def registry(self) -> str:
        """The registry of the image; empty for a name that cannot be parsed."""
        return "" if self.use.name is None else self.use.name.registry

    @property
    def error(self) -> RegistryError | None:
        """What the registry said, if no attempt worked."""
        error = None if self.check is None else self.check.error
        return error if isinstance(error, RegistryError) else None

    @property
    def message(self) -> str:
        """Why it cannot be pulled, or why that is unknown; empty if it can be."""
        if self.verdict is PullVerdict.YES:
            return ""
        unreadable = None if self.use.inputs is None else self.use.inputs.sources.unreadable
        if self.use.problem or unreadable is not None:
            return self.use.problem or str(unreadable)
        if self.check is not None and self.check.is_blocked:
            return self.check.text
        message = "" if self.error is None else _said_by(self.registry, self.error.message)
        if self.verdict is PullVerdict.UNKNOWN and self.missing:
            return "; ".join(filter(None, (message, *map(str, self.missing))))
        return message or ("" if self.check is None else self.check.text)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the credentials, each once."""
        found = () if self.use.answer is None else self.use.answer.credentials
        return tuple(dict.fromkeys(str(each.source) for each in found))

    @property
    def reason(self) -> tuple[object, ...]:
        """What is the same for images of one reason, whichever their names and namespaces."""
        error, use = self.error, self.use
        said = "" if error is None or use.name is None else _without_names(error.message, use.name)
        sources = () if use.inputs is None else use.inputs.sources.unused
        return (
            self.verdict,
            self.doubt,
            "" if self.doubt is PullDoubt.INPUT else self.registry,
            None if error is None else (error.kind, error.status),
            said,
            tuple(dict.fromkeys(_bare(each) for each in self.sources)),
            tuple(dict.fromkeys(map(_identify_missing, self.missing))),
            tuple((each.reason, each.name) for each in sources),
            use.problem if use.answer is None else "",
        )


def _said_by(registry: str, message: str) -> str:
    """Return a message after the registry, unless it begins with the address that it is about."""
    return message if "://" in message.partition(" ")[0] else f"{registry} {message}"


def _without_names(text: str, image: ImageName) -> str:
    """Return what a registry says without the names of the image, which it often repeats."""
    return text.replace(image.path, "*").replace(image.reference, "*")


def _identify_missing(missing: MissingInput) -> tuple[object, ...]:
    """Return the identity of an input; of secrets that may not be read, nothing is known that tells them apart."""
    is_refused = missing.input is LookupInput.PULL_SECRET and bool(missing.instead)
    return missing.input, is_refused, "" if is_refused else _bare(missing.name)


def _bare(name: str) -> str:
    """Return a name without its namespace, since what is in many namespaces is often a copy."""
    kind, _, place = name.rpartition(" ")
    return f"{kind} {place.rpartition('/')[2]}"


def judge(key: Key, use: ImageUse, answer: RegistryAnswer | None, mirrors: Mirrors | None) -> JudgedUse:
    """Return the verdict on a use by the registry's *answer*, None if there was nothing to ask."""
    if answer is None or use.answer is None:
        # A name that no kubelet accepts, a secret or a field that cannot be read.
        is_known = use.name is None or use.answer is not None
        verdict = PullVerdict.NO if is_known else PullVerdict.UNKNOWN
        return JudgedUse(key=key, use=use, verdict=verdict, doubt=None if is_known else PullDoubt.INPUT)
    missing = tuple(_missing(use, answer))
    check = RegistryCheck(
        image=use.image,
        attempts=answer.attempts,
        missing=missing,
        mirrors=mirrors,
        without_file=answer.without_file,
    )
    doubt = _doubt(check, answer) if check.verdict is PullVerdict.UNKNOWN else None
    return JudgedUse(key=key, use=use, verdict=check.verdict, doubt=doubt, check=check, missing=missing)


def _missing(use: ImageUse, answer: RegistryAnswer) -> Iterator[MissingInput]:
    """Yield the inputs that may change the answer to a use.

    What only the node knows counts where the registry refuses and nothing else gave a credential. It does not count for
    an image that anybody may pull, nor where the pod lists a secret that gives no login, unless the registry is of a
    cloud, for which nodes have providers.
    """
    if use.answer is None or use.inputs is None or any(each.worked for each in answer.attempts):
        return
    is_broken = any(each.reason in _BROKEN for each in use.inputs.sources.unused)
    is_cloud = use.name is not None and is_cloud_registry(use.name.registry)
    is_sure = all(each.kind in _SURE for each in answer.attempts)
    counts_node = is_sure and not use.answer.credentials and (is_cloud or not is_broken)
    for each in use.answer.missing:
        if counts_node or each.input not in _NODE_INPUTS:
            yield each


def node_notes(judged: list[JudgedUse]) -> Iterator[str]:
    """Yield that the nodes' own credentials do not count, if an image cannot be pulled without them."""
    for each in judged:
        answer = each.use.answer
        if each.verdict is PullVerdict.NO and answer is not None and each.error is not None:
            if any(missing.input in _NODE_INPUTS for missing in answer.missing):
                yield (
                    "what cannot be pulled is judged by pull secrets: a node whose provider or docker config also has "
                    "a login for it can pull it; they count with --config FILE, --bin-dir DIR and --docker-config FILE"
                )
                return


def _doubt(check: RegistryCheck, answer: RegistryAnswer) -> PullDoubt:
    if answer.not_asked is not None:
        return PullDoubt.NOT_ASKED
    if check.kind not in _SURE or not check.missing:
        return PullDoubt.REGISTRY
    return PullDoubt.NODE if all(each.input in _NODE_INPUTS for each in check.missing) else PullDoubt.INPUT


def checked_images(judged: list[JudgedUse]) -> Iterator[CheckedImage]:
    """Yield each image once for each reason, in the order of their names."""
    for same in _grouped(judged, lambda each: (each.use.image, *each.reason)):
        first = same[0]
        attempts = () if first.check is None else first.check.attempts
        worked = next((each for each in attempts if each.worked), None)
        yield CheckedImage(
            image=first.use.image,
            registry=first.registry,
            verdict=first.verdict,
            doubt=first.doubt,
            message=first.message,
            cause="" if first.error is None else str(first.error.kind),
            status=0 if first.error is None else first.error.status,
            sources=first.sources,
            is_public=worked is not None and (worked.credential is None or not worked.was_asked),
            pods=sum(each.use.pods for each in same),
            workloads=sum(each.use.workloads for each in same),
            namespaces=_namespaces(same),
            example=_example(first.use),
            digest="" if worked is None else worked.digest,
            running=tuple(dict.fromkeys(digest for each in same for digest in each.use.digests))[
                :MAX_DIGESTS
            ],
        )


def _example(use: ImageUse) -> str:
    return f"{use.namespace}/{use.example}"


def _grouped(
    judged: list[JudgedUse], key: Callable[[JudgedUse], tuple[object, ...]]
) -> list[list[JudgedUse]]:
    groups: dict[tuple[object, ...], list[JudgedUse]] = {}
    for each in judged:
        groups.setdefault(key(each), []).append(each)
    return sorted(groups.values(), key=lambda same: same[0].use.image)


def _namespaces(same: list[JudgedUse]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.use.namespace for each in same))[:MAX_NAMES]


def pull_groups(judged: list[JudgedUse], pods: Counts, workloads: Counts) -> Iterator[PullGroup]:
    """Yield what cannot be pulled, and then what is unknown, by reason; what most pods need first."""
    failing = [each for each in judged if each.verdict is not PullVerdict.YES]
    groups = _grouped(failing, lambda each: each.reason)
    order = (PullVerdict.NO, PullVerdict.UNKNOWN)
    groups.sort(key=lambda same: (order.index(same[0].verdict), -sum(each.use.pods for each in same)))
    for number, same in enumerate(groups):
        text, cures = _told(same[0]) if number < MAX_EXPLAINED else (same[0].message, ())
        yield _group(same, text, cures, pods, workloads)


def _group(
    same: list[JudgedUse], text: str, cures: tuple[Cure, ...], pods: Counts, workloads: Counts
) -> PullGroup:
    first = same[0]
    keys = {each.key for each in same}
    return PullGroup(
        verdict=first.verdict,
        text=text,
        registry=first.registry if len({each.registry for each in same}) == 1 else "",
        images=tuple(dict.fromkeys(each.use.image for each in same))[:MAX_NAMES],
        pods=pods.count(keys),
        workloads=workloads.count(keys),
        namespaces=_namespaces(same),
        example=_example(first.use),
        command=_command(first.use),
        doubt=first.doubt,
        cures=cures,
        secrets=tuple(name for name in _lacking(first) if any(name not in _lacking(each) for each in same)),
        answer=first.use.answer,
        check=first.check,
    )


def _lacking(judged: JudgedUse) -> list[str]:
    return [each.name for each in judged.missing if each.input is LookupInput.PULL_SECRET]


def _inputs_of(use: ImageUse) -> Inputs | None:
    """Return the inputs of a use for its own example: those that it has may be of another pod of the same place."""
    inputs = use.inputs
    if inputs is None or inputs.sources.pod is None:
        return None
    kind, _, name = use.example.partition("/")
    own = name if kind == ObjectKind.POD.lower() else ""
    pod = replace(inputs.sources.pod, name=own, uid="")
    request = replace(inputs.request, target=use.example, registry=RegistryOptions())
    return replace(inputs, request=request, sources=replace(inputs.sources, pod=pod))


def _command(use: ImageUse) -> str:
    """Return the command that explains one pod or workload, with the options of the question."""
    request = Request() if use.inputs is None else use.inputs.request
    one = replace(request, target=use.example, namespace=use.namespace, check_registry=True)
    return one.explain_command()


def _told(judged: JudgedUse) -> tuple[str, tuple[Cure, ...]]:
    """Return what is said of one of the images of a reason, as ``keyferry explain --check-registry`` says it."""
    use, inputs = judged.use, _inputs_of(judged.use)
    if judged.doubt is PullDoubt.REGISTRY and judged.check is not None:
        return judged.check.text, ()
    if use.answer is None or inputs is None or judged.doubt in (PullDoubt.NODE, PullDoubt.NOT_ASKED):
        return judged.message, (CORRECT_NAME,) if use.name is None else ()
    # The node's inputs are left out where they do not count.
    answer = replace(
        use.answer, not_given=tuple(each for each in use.answer.not_given if each in judged.missing)
    )
    facts = replace(gather_facts(inputs, answer), evidence=Evidence(), check=judged.check)
    explanation = foresee(facts)
    text = explanation.cause if judged.verdict is PullVerdict.NO and explanation.cause else explanation.text
    return text, explanation.cures
