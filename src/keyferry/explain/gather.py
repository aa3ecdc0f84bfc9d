"""Explain an image, or all images of pods: gather what is known about each from its inputs, then find the cause.

A question goes one way: ``Request``, ``Inputs``, ``Answer`` beside ``Evidence``, ``Facts``, ``Explanation``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from keyferry._core.log import log_debug
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, replace
from keyferry._net.agent import OFF
from keyferry.errors import EnvironmentProblem, ImageNameError, KeyferryError
from keyferry.explain.causes import explain
from keyferry.explain.evidence import NOT_SEEN, KubeletStart, find_start, see_image
from keyferry.explain.explanation import Cure, Explanation, Facts, PullVerdict
from keyferry.images.answer import ACCOUNT_INPUTS, Answer, LookupInput
from keyferry.images.reference import is_image_name, parse_image
from keyferry.workloads.inputs import Inputs, Sources, read_sources, resolve
from keyferry.workloads.node import PluginEnvironment, no_config_note
from keyferry.workloads.node_reply import Through
from keyferry.workloads.request import DEBUG_IMAGE, Request, Wait, missing_lines, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.reasons import Reason
    from keyferry.explain.node_half import NodeHalf
    from keyferry.explain.node_question import Announce, NodeAnswers
    from keyferry.explain.registry import RegistryCheck
    from keyferry.pulls.mirrors.endpoints import Mirrors
    from keyferry.pulls.records.decide import Decision
    from keyferry.pulls.records.records import Records
    from keyferry.workloads.events import PullEvent
    from keyferry.workloads.objects import Change
    from keyferry.workloads.pods import PodContainer, WorkloadPod

# The time limit of a question that nobody asked for.
_RUNTIME_SECONDS = 5.0


class ExplainedImage(Value):
    """The containers of one image, and its explanation, or the *problem* that there is none for."""

    containers: tuple[PodContainer, ...]
    image: str
    explanation: Explanation | None = None
    problem: str = ""

    @property
    def verdict(self) -> PullVerdict:
        """Whether it can be pulled; an image that has no explanation cannot."""
        return PullVerdict.NO if self.explanation is None else self.explanation.verdict

    @property
    def told(self) -> tuple[object, ...]:
        """What people are told of it; images for which it is the same are one block."""
        return (self.problem,) if self.explanation is None else self.explanation.told


class ExplainedPod(Value):
    """A pod with the explanation of each of its images; *problem* is why it has none."""

    pod: WorkloadPod
    images: tuple[ExplainedImage, ...] = ()
    inputs: Inputs | None = None
    problem: str = ""

    @property
    def events(self) -> tuple[PullEvent, ...]:
        """The events of the pod about pulls."""
        return () if self.inputs is None else self.inputs.sources.events

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for each container that names no image."""
        return tuple(f"{each} has no image, so it is not explained" for each in self.pod.without_image)


def explain_image(request: Request) -> Explanation:
    """Explain why an image is pulled or not, or which credentials a kubelet has for it; nothing is printed.

    The image is that of *request*, or the only one of its pod. Raise what ``resolve_inputs`` raises, but for a pull
    secret that cannot be read, which is explained.
    """
    sources = read_sources(request)
    pods = [each.workload for each in sources if each.workload is not None]
    images = [request.image] if request.image else [image for pod in pods for image in pod.by_image]
    if len(sources) > 1 or len(images) != 1:
        found = f"{', '.join(map(str, pods)) or 'no pod'} with {', '.join(images) or 'no image'}"
        raise EnvironmentProblem(f"expected one image of one pod, found {found}; see explain_pods")
    return explain_inputs(resolve(request, sources[0]), images[0])


def explain_pods(request: Request) -> tuple[ExplainedPod, ...]:
    """Explain the images of every pod that *request* is about, or of each only the image that it names.

    Raise what ``resolve_inputs`` raises, but for a pull secret that cannot be read, which is explained.
    """
    found = [each for each in read_sources(request) if each.workload is not None]
    if not found:
        raise EnvironmentProblem(
            "expected a pod: a target such as 'pod/web', or a file with pods; found none"
        )
    return tuple(explain_pod(request, each) for each in found)


def explain_inputs(
    inputs: Inputs, image: str, *, wait: Wait | None = None, announce: Announce = lambda _: None
) -> Explanation:
    """Explain one image whose inputs were found; *announce* is told of a pod that is made to ask the node."""
    workload = inputs.sources.workload
    answer = inputs.lookup(image, wait=wait)
    answer, half = _complete(_ask_node(inputs, (image,), announce, wait), answer)
    containers = () if workload is None else workload.using(image)
    return explain(gather_facts(inputs, answer, containers, find_start(inputs), half=half, wait=wait))


def _ask_node(
    inputs: Inputs, images: Iterable[str], announce: Announce, wait: Wait | None
) -> NodeAnswers | None:
    """Return what the node told of *images*; None if it is not to be asked."""
    if not inputs.request.node_access.is_asked:
        return None
    from keyferry.explain.node_question import ask_for_halves

    with wait_for(wait, "asking the node", inputs.request.timeout_seconds):
        return ask_for_halves(inputs, images, announce)


def _complete(told: NodeAnswers | None, answer: Answer) -> tuple[Answer, NodeHalf | None]:
    return (answer, None) if told is None else told.complete(answer)


def explain_pod(
    request: Request,
    sources: Sources,
    *,
    wait: Wait | None = None,
    announce: Announce = lambda _: None,
) -> ExplainedPod:
    """Explain the images of one pod, whose sources were read; *announce* is as for ``explain_inputs``."""
    pod = sources.workload
    assert pod is not None  # noqa: S101 - the caller has checked it
    if request.image:
        pod = replace(pod, containers=pod.using(request.image), without_image=())
    if not pod.containers:
        return ExplainedPod(
            pod=pod, problem="it has no container with an image, so there is nothing to explain"
        )
    inputs = resolve(request, sources)
    start = find_start(inputs)
    told = _ask_node(inputs, filter(is_image_name, pod.by_image), announce, wait)

    def explain_containers(containers: tuple[PodContainer, ...]) -> ExplainedImage:
        image = containers[0].image
        try:
            answer = inputs.lookup(parse_image(image), wait=wait)
        except ImageNameError as error:
            return ExplainedImage(
                containers=containers, image=hide_user_info(image), problem=f"InvalidImageName: {error}"
            )
        answer, half = _complete(told, answer)
        explanation = explain(gather_facts(inputs, answer, containers, start, half=half, wait=wait))
        return ExplainedImage(containers=containers, image=image, explanation=explanation)

    return ExplainedPod(pod=pod, images=tuple(map(explain_containers, _groups(pod))), inputs=inputs)


def _groups(pod: WorkloadPod) -> Iterator[tuple[PodContainer, ...]]:
    """Yield the containers of each image, apart from those with another policy or another state."""
    states = {(each.role, each.name): each for each in pod.states}
    groups: dict[tuple[object, ...], list[PodContainer]] = {}
    for each in pod.containers:
        state = states.get((each.role, each.name))
        seen = None if state is None else (state.waits_for_image, state.has_image)
        groups.setdefault((each.image, each.pull_policy, seen), []).append(each)
    yield from map(tuple, groups.values())


def gather_facts(
    inputs: Inputs,
    answer: Answer,
    containers: tuple[PodContainer, ...] = (),
    start: KubeletStart = NOT_SEEN,
    *,
    half: NodeHalf | None = None,
    wait: Wait | None = None,
) -> Facts:
    """Return what is known about the image of *answer*, with the registry and the node's records if they are asked.

    *containers* are those of the pod that use it, *start* is that of the pod's kubelet. *half* is what the node told,
    and is part of *answer*.
    """
    request, sources = inputs.request, inputs.sources
    # The agent's plugins have its environment, not the one that was found for plugins that are run here.
    if answer.provisions and all(provision.is_from_agent for provision in answer.provisions):
        inputs = replace(inputs, environment=PluginEnvironment(owner="the node agent"))
    mirrors, check, traps = _ask_registry(inputs, answer, wait)
    decision, warnings = _decide_access(inputs, answer, is_pod=bool(containers))
    if half is not None and half.image is not None and containers:
        from keyferry.explain.node_record import decide_use

        decision = decide_use(half.image, answer)
    workload = sources.workload
    # With a config, no setting is missed, and the search for a kubelet among all processes is skipped.
    settings = None if inputs.found.config else inputs.node.settings
    ignored: tuple[str, ...] = () if settings is None else settings.ignored
    changes_there: tuple[Change, ...] = ()
    if half is not None:
        start, changes_there, ignored = half.start, half.changes, half.ignored_settings
    return Facts(
        answer=answer,
        evidence=see_image(
            inputs, answer, containers, mirrors=mirrors, start=start, changes_there=changes_there
        ),
        check=check,
        mirrors=mirrors,
        decision=decision,
        containers=containers,
        config={**_config(inputs, half), "ignoredSettings": list(ignored)},
        where=_where(inputs, half),
        notes=tuple(_notes(inputs, half)),
        traps=(*inputs.environment.traps, *traps),
        hints=tuple(missing_lines(answer.missing, request)),
        pod=sources.pod,
        node_name=sources.node_name or "",
        secret_names=_secret_names(sources),
        account_secrets=sources.account_secrets,
        is_replaced=workload is not None and workload.is_controlled,
        is_static=workload is not None and workload.is_static,
        pull_secrets=sources.pull_secrets,
        unused=sources.unused,
        ignored_settings=ignored,
        half=half,
        command=request.explain_command(),
        node_cure=_node_cure(inputs, half),
        node_check="" if half is None else request.can_pull_command(),
        try_command=_try_command(request, answer),
        account_lines=tuple(_account_lines(request, answer)),
        warnings=(*sources.warnings, *warnings),
    )


# The registry and the container runtime.


def _ask_registry(
    inputs: Inputs, answer: Answer, wait: Wait | None
) -> tuple[Mirrors | None, RegistryCheck | None, tuple[Reason, ...]]:
    """Return where the runtime goes for the image, the registry's responses if it is asked, and the mirrors' traps."""
    request, options = inputs.request, inputs.request.registry
    is_named = options.hosts_dir or options.registries_conf
    if not (request.check_registry or is_named or inputs.found.kubelet is not None):
        return None, None, ()
    from keyferry.explain.registry import check_image, image_mirrors, mirror_traps

    mirrors = image_mirrors(answer.image, options, inputs.node, inputs.found, is_here=request.check_registry)
    check = None
    if request.check_registry and inputs.sources.unreadable is None:
        check = check_image(
            answer.image, answer.credentials, options, mirrors, missing=answer.missing, wait=wait
        )
    return mirrors, check, mirror_traps(answer, mirrors)


def _decide_access(
    inputs: Inputs, answer: Answer, *, is_pod: bool
) -> tuple[Decision | None, tuple[str, ...]]:
    """Return whether the image on the node may be used, without writing records, and what to report about it.

    It is None if the image on the node is not known. If the request says nothing of records, the runtime and the
    records of the running kubelet are asked for a pod on this node (*is_pod*).
    """
    options, node = inputs.request.records, inputs.node
    if not options.is_given:
        is_asked = is_pod and not node.elsewhere
        return (_decide_here(inputs, answer) if is_asked else None), ()
    if node.elsewhere and not options.root:
        where = "the records of the node are given with --root, those of this machine with --here"
        return None, (f"{node.elsewhere}: {where}",)
    from keyferry.pulls.node_settings import find_policy, find_root, settings_of_root
    from keyferry.pulls.records.records import inspect_records

    root = find_root(options.root, node)
    found = find_policy(options.policy, options.allow, root.path, node)
    records = inspect_records(root.path, policy=found.policy)
    reference, warnings = _find_reference(inputs, answer.image, records)
    warnings = (*root.notes, *found.notes, *warnings)
    if reference is None:
        unnamed = f"no record names {answer.image!r}; look it up with --cri SOCKET or give --image-id ID"
        return None, (*warnings, unnamed)
    if not options.policy and settings_of_root(root.path, node) is None:
        unknown = f"the node's policy is unknown, so the kubelet's default {found.policy.name} is used"
        warnings = (*warnings, f"{unknown}; set it with --policy")
    return records.decide(answer.image, reference, answer.credentials), warnings


def _find_reference(inputs: Inputs, image: str, records: Records) -> tuple[str | None, tuple[str, ...]]:
    """Return the runtime's id of the image, and warnings.

    It is empty if the runtime does not have it, None if it is not known.
    """
    options = inputs.request.records
    if options.image_id:
        return options.image_id, ()
    if options.cri:
        from keyferry.pulls.cri import connect_runtime
        from keyferry.pulls.node_settings import find_runtime

        socket = find_runtime(options.cri, inputs.node)
        with connect_runtime(socket.path) as runtime:
            found = runtime.find_image(parse_image(image).with_default_tag().text)
        return "" if found is None else found.id, socket.notes
    from keyferry.pulls.records.access import NodeImages

    listing = records.list()
    return NodeImages(listing.believed).find(image) or None, tuple(map(str, listing.problems))


def _decide_here(inputs: Inputs, answer: Answer) -> Decision | None:
    """Return the decision of the running kubelet; None if its runtime or its records cannot be asked."""
    settings = inputs.node.settings
    if settings is None:
        return None
    from keyferry.pulls.node_settings import policy_of, runtime_socket

    socket = runtime_socket(settings)
    if socket is None:
        return None
    from keyferry.pulls.cri import connect_runtime
    from keyferry.pulls.records.records import observe_records

    root = settings.kubelet.inside(settings.root_dir.value)
    try:
        with connect_runtime(socket, timeout_seconds=_RUNTIME_SECONDS) as runtime:
            found = runtime.find_image(parse_image(answer.image).with_default_tag().text)
        records = observe_records(root, policy_of(settings)[0])
        return records.decide(answer.image, "" if found is None else found.id, answer.credentials)
    except KeyferryError as error:
        log_debug("explain", "the image on the node is not known: %s", error)
        return None


# The commands to type next.


def _try_command(request: Request, answer: Answer) -> str:
    """Return ``plugin try`` for the account whose token is refused; empty if none is."""
    for missing in answer.missing:
        if missing.input is LookupInput.SERVICE_ACCOUNT_TOKEN and missing.instead:
            return request.try_command(answer.image, missing.name)
    return ""


def _account_lines(request: Request, answer: Answer) -> Iterator[str]:
    """Yield the command that adds the missing service account to a copy of the file with the pod, and asks again."""
    missing = next((each for each in answer.missing if each.input in ACCOUNT_INPUTS), None)
    if missing is None or request.target or not request.filename:
        return
    namespace, _, name = missing.name.partition("/")
    again = replace(request, filename="").explain_command()
    file = "FILE" if request.filename == "-" else shlex.quote(request.filename)
    new_file = shlex.quote(f"with-{missing.name.replace('/', '-')}.XXXXXX")
    account = f"kubectl get serviceaccount {shlex.quote(name)} -n {shlex.quote(namespace)} -o yaml"
    both = f"(cat {file} && echo && echo --- && {account})"
    yield f'with=$(mktemp {new_file}) && {both} > "$with" && {again} -f "$with"'


def _node_cure(inputs: Inputs, half: NodeHalf | None) -> Cure | None:
    """Return the command that would ask the node, or ask it for more; None if no other command would."""
    request, access = inputs.request, inputs.request.node_access
    if access.is_asked:
        is_complete = half is not None and not half.unseen
        was_made = bool(access.debug_image) and (half is None or half.through is Through.DEBUG_POD)
        if is_complete or was_made:
            return None
        # The agent's pod would be asked first again.
        more = replace(
            request, agent=OFF, node_access=replace(access, debug_image=access.debug_image or DEBUG_IMAGE)
        )
        return Cure(text="ask it in a debug pod", lines=(more.explain_command(),))
    is_given = request.config or request.bin_dir or request.no_run or request.check_registry
    is_elsewhere = request.target and inputs.sources.node_name and inputs.node.elsewhere
    if is_given or not is_elsewhere:
        return None
    return Cure(text="ask the node itself", lines=(f"{request.explain_command()} --on-node",))


# The inputs, for people and programs.


def _secret_names(sources: Sources) -> tuple[str, ...]:
    """Return the names of the pull secrets that the pod lists, given or not."""
    given = (secret.name for secret in sources.pull_secrets)
    absent = (each.name for each in sources.unused if each.is_absent)
    missing = (each.name for each in sources.missing if each.input is LookupInput.PULL_SECRET)
    return (*given, *absent, *missing)


def _secret_words(sources: Sources) -> Iterator[str]:
    """Yield each pull secret that the pod lists, with what is wrong with it."""
    yield from (f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets)
    for unused in sources.unused:
        if unused.is_absent:
            yield f"{unused.namespace}/{unused.name} (does not exist)"
    for missing in sources.missing:
        if missing.input is LookupInput.PULL_SECRET:
            yield f"{missing.name} (not known)"


def _config(inputs: Inputs, half: NodeHalf | None) -> dict[str, object]:
    found, sources = inputs.found, inputs.sources
    if half is not None:
        secrets = [f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets]
        notes = [note for note in inputs.notes if note not in inputs.machine]
        return {**half.config_document, "pullSecrets": secrets, "notes": notes}
    return {
        "path": found.config,
        "pathFrom": found.config_from,
        "binDir": found.bin_dir,
        "binDirFrom": found.bin_dir_from,
        "environmentFrom": inputs.environment.owner,
        "dockerConfig": inputs.docker_config.path,
        "pullSecrets": [f"{secret.namespace}/{secret.name}" for secret in sources.pull_secrets],
        "notes": list(inputs.notes),
    }


def _notes(inputs: Inputs, half: NodeHalf | None) -> Iterator[str]:
    """Yield the notes about inputs, but for what is shown above them or among the sources; those on machines last."""
    shown = (*inputs.banner, *inputs.machine)
    yield from (note for note in inputs.notes if note not in shown)
    if half is not None:
        return  # this machine's files do not matter
    yield from (note for note in inputs.machine if note != no_config_note(inputs.node))


def _where(inputs: Inputs, half: NodeHalf | None) -> tuple[str, ...]:
    found, docker_config = inputs.found, inputs.docker_config
    missing = {each.input for each in inputs.sources.missing}
    secrets = "the pod lists none"
    if LookupInput.POD in missing:
        secrets = "not given (-f, --secret)"
    elif LookupInput.ACCOUNT_SECRETS in missing:
        secrets = "not known; the pod lists none, and its service account may"
    login = docker_config.path or "none given (--docker-config)"
    if docker_config.origin != "given":
        login = f"{docker_config.path or 'none'} ({docker_config.origin})"
    plugins = f"{found.bin_dir} ({found.bin_dir_from}), in the environment of {inputs.environment.owner}"
    own = f"pull secrets: {', '.join(_secret_words(inputs.sources)) or secrets}"
    if half is not None:
        return own, *half.lines
    return (
        own,
        f"node docker config: {login}",
        f"providers: {found.config} ({found.config_from})" if found.config else no_config_note(inputs.node),
        *((f"plugins: {plugins}",) if found.config and found.bin_dir else ()),
    )
