"""The half of an answer that only the node has, as it told it from afar: its provider config and what its plugins gave.

The node prints an explanation of its own. Nothing of its verdict is taken over: its facts are read strictly, with
limits, and the caller decides by them as by its own, so that a node can lie about itself and about nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.clock import monotonic_ns
from keyferry._core.secrets import MASK, redact, stderr_tail
from keyferry._core.values import Value, field, replace
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.errors import (
    EnvironmentProblem,
    Kind,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    ServiceAccountError,
)
from keyferry.explain.evidence import NOT_SEEN, KubeletStart
from keyferry.explain.node_record import NodeImage
from keyferry.images.answer import (
    AgentNote,
    Answer,
    LookupInput,
    MissingInput,
    Provision,
    ProvisionOutcome,
)
from keyferry.images.keyring import Keyring, ServiceAccountRef, Source, SourceKind, lookup_all
from keyferry.images.match import matches
from keyferry.images.node.changes import ChangedFile, Newer
from keyferry.images.provider.accounts import NotApplicable, NotGivenError, identify
from keyferry.images.provider.provider import unrun_provision
from keyferry.workloads.inputs import Sources
from keyferry.workloads.node import PluginEnvironment
from keyferry.workloads.node_reply import NodeReply, ReplyPart, Through
from keyferry.workloads.objects import Change

__all__ = ["NodeHalf", "merge_answers", "read_node_half"]

_KIND = "ImageExplanation"
_MAX_PROVIDERS, _MAX_PATTERNS, _MAX_KEYS = 1000, 10_000, 1000
_MAX_TEXT = 2048
_MAX_STATUS = 255
# For each, the API server is asked whether the node may request the token.
_MAX_ACCOUNT_PROVIDERS = 10
_ACCOUNT_INPUTS = (LookupInput.SERVICE_ACCOUNT, LookupInput.SERVICE_ACCOUNT_TOKEN)
_SECOND_NS = 1_000_000_000
# What a node tells, in words for people.
_SEEN, _DOCKER_CONFIG = ("provider config", "plugins"), "docker config"
_IMAGE, _START, _ENVIRONMENT = "the image and its record", "the kubelet's start", "the kubelet's environment"
# A plugin's environment if it is not the kubelet's.
_OWN_PROCESS = PluginEnvironment().owner

Json = dict[str, object]


class NodeHalf(Value):
    """What a node told: its *providers* with the answers of those that match, and the keys of its docker config.

    *pod* is the pod that answered. *seen* and *unseen* say of what, in words for people. *logins* are the keys and the
    user names of the docker config that match the image, *image* is the image on the node, if that is seen. *start* is
    that of its kubelet, *changes* are those of what its credentials come from, *ignored_settings* those of the
    kubelet's config that no kubelet reads.
    """

    node: str
    through: Through
    pod: str
    config: str = ""
    config_from: str = ""
    bin_dir: str = ""
    bin_dir_from: str = ""
    environment: str = ""
    docker_config: str = ""
    providers: tuple[CredentialProvider, ...] = ()
    provisions: tuple[Provision, ...] = ()
    logins: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    seen: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    image: NodeImage | None = None
    start: KubeletStart = NOT_SEEN
    changes: tuple[Change, ...] = ()
    ignored_settings: tuple[str, ...] = ()

    def with_image(self, image: NodeImage | None) -> NodeHalf:
        """Return the half with the image on the node, if that could be seen."""
        if image is None:
            return replace(self, unseen=(*self.unseen, _IMAGE))
        return replace(self, image=image, seen=(*self.seen, _IMAGE))

    @property
    def document(self) -> Json:
        """Which node was asked, and through which pod."""
        return {
            "name": self.node,
            "through": str(self.through),
            "pod": self.pod,
            "seen": list(self.seen),
            "notSeen": list(self.unseen),
        }

    @property
    def config_document(self) -> Json:
        """The files of the node, with the fields that those of this machine have."""
        return {
            "path": self.config,
            "pathFrom": self.config_from,
            "binDir": self.bin_dir,
            "binDirFrom": self.bin_dir_from,
            "environmentFrom": self.environment,
            "dockerConfig": self.docker_config or None,
        }

    @property
    def lines(self) -> tuple[str, ...]:
        """The sources on the node, for people."""
        config = f"{self.config} ({self.config_from})" if self.config else "none is found"
        owner = self.through.noun if self.environment == _OWN_PROCESS else self.environment
        plugins = f"{self.bin_dir} ({self.bin_dir_from}), in the environment of {owner}"
        return (
            str(self),
            f"node {self.node}: docker config: {self.docker_config or 'none, or not seen'}",
            f"node {self.node}: providers: {config}",
            *((f"node {self.node}: plugins: {plugins}",) if self.config else ()),
        )

    def __str__(self) -> str:
        seen = (
            f"from node {self.node!r}, by {self.through.noun} {self.pod}: {', '.join(self.seen) or 'nothing'}"
        )
        return f"{seen}; not seen from there: {', '.join(self.unseen)}" if self.unseen else seen


def read_node_half(reply: NodeReply) -> NodeHalf:
    """Return what *reply* tells; raise EnvironmentProblem if it has no document, or one that is not understood."""
    if reply.problem:
        raise EnvironmentProblem(reply.problem)
    document = ReplyPart(reply.document, f"the answer of {reply.through.noun} {reply.pod}")
    document.check(document.text("kind") == _KIND, "kind", f"expected {_KIND}")
    for name in ("config", "reasons"):
        document.check(document.has(name), name, "expected what a node has")
    config, is_debug = document.part("config"), reply.through is Through.DEBUG_POD
    # The agent's pod has no kubelet.
    evidence = document.part("evidence") if is_debug else ReplyPart({}, "")
    start = _start(evidence)
    reasons = list(document.parts("reasons", _MAX_PATTERNS))
    missing = {each.text("input") for each in document.parts("missing", _MAX_KEYS)}
    has_files = LookupInput.NODE not in missing
    has_logins = is_debug and has_files and LookupInput.DOCKER_CONFIG not in missing
    found = (*(_SEEN if has_files else ()), *((_DOCKER_CONFIG,) if has_logins else ()))
    unseen = (each for each in (*_SEEN, _DOCKER_CONFIG) if each not in found)
    if start.at is not None:
        found = (*found, _START)
    return NodeHalf(
        node=reply.node,
        through=reply.through,
        pod=reply.pod,
        config=config.text("path"),
        config_from=config.text("pathFrom"),
        bin_dir=config.text("binDir"),
        bin_dir_from=config.text("binDirFrom"),
        environment=config.text("environmentFrom"),
        docker_config=config.text("dockerConfig") if has_logins else "",
        providers=tuple(_providers(reasons)),
        provisions=tuple(_provisions(document, reasons)),
        logins=tuple(_logins(document)) if has_logins else (),
        seen=found,
        unseen=(*unseen, *_unseen(config.text("environmentFrom"), start, is_debug=is_debug)),
        start=start,
        changes=tuple(_changes(evidence)),
        ignored_settings=config.texts("ignoredSettings", _MAX_KEYS) if is_debug else (),
    )


def _unseen(environment: str, start: KubeletStart, *, is_debug: bool) -> Iterator[str]:
    """Yield what is not seen from the pod that answered, beside files, and the image, which a debug pod tells apart."""
    if not is_debug:
        yield _IMAGE
    if start.at is None:
        yield _START
    if not is_debug or environment == _OWN_PROCESS:
        yield _ENVIRONMENT


def merge_answers(answer: Answer, half: NodeHalf, sources: Sources) -> Answer:
    """Return *answer*, which has the pod's own secrets, with what the node would add to it.

    Patterns and keys are compared here; a provider that matches and of which the node says nothing has no answer. What
    a provider gets of the service account is decided by *sources*, which the node does not have.
    """
    matching = tuple(_matching(half.providers, answer.name))
    provisions = tuple(_merged_provisions(half, [half.providers[index] for index, _ in matching], sources))
    docker_config = Keyring()
    source = Source(kind=SourceKind.NODE_DOCKER_CONFIG, name=half.docker_config)
    docker_config.add(source, [(key, user, MASK, "") for key, user in half.logins])
    keyrings = (*answer.keyrings, docker_config, *(each.keyring for each in provisions))
    given = tuple(each for each in answer.not_given if each.input is not LookupInput.NODE)
    if _DOCKER_CONFIG in half.unseen:
        unseen = LookupInput.DOCKER_CONFIG if _SEEN[0] in half.seen else LookupInput.NODE
        given = (*given, MissingInput(input=unseen, instead=f"not seen by {half.through.noun} {half.pod}"))
    return replace(
        answer,
        credentials=tuple(lookup_all(keyrings, answer.name)),
        provisions=provisions,
        matching=matching,
        providers=half.providers,
        keyrings=keyrings,
        not_given=given,
        answered_ns=monotonic_ns(),
    )


def _matching(providers: tuple[CredentialProvider, ...], name: str) -> Iterator[tuple[int, str]]:
    """Yield the place of each provider that matches, and its first pattern that does."""
    for index, provider in enumerate(providers):
        pattern = next((each for each in provider.match_images or () if matches(each, name)), None)
        if pattern is not None:
            yield index, pattern


def _merged_provisions(
    half: NodeHalf, matching: list[CredentialProvider], sources: Sources
) -> Iterator[Provision]:
    told = {each.provider: each for each in half.provisions}
    left = _MAX_ACCOUNT_PROVIDERS
    for provider in matching:
        provision = told.get(provider.name) or _untold(provider.name)
        if left and _waits_for_account(provision):
            left -= 1
            yield _decide_by_account(provider, provision, sources)
        else:
            yield provision


def _waits_for_account(provision: Provision) -> bool:
    is_waiting = any(each.input in _ACCOUNT_INPUTS for each in provision.missing)
    return is_waiting and provision.outcome is ProvisionOutcome.UNKNOWN


def _decide_by_account(provider: CredentialProvider, provision: Provision, sources: Sources) -> Provision:
    """Return the answer of a provider that the kubelet does not run for the account; else that its token is missing.

    No token is sent to the node, also if one was given.
    """
    attributes, pod = provider.token_attributes, sources.pod
    if attributes is None or pod is None:
        return provision
    missing: tuple[MissingInput, ...] = ()
    try:
        identify(attributes, sources.accounts, pod)
    except NotGivenError as not_given:
        missing = not_given.missing
    except (NotApplicable, ServiceAccountError) as why:
        return unrun_provision(provider.name, why, pod)
    others = tuple(each for each in missing if each.input is not LookupInput.SERVICE_ACCOUNT_TOKEN)
    why_not = next((each.instead for each in missing if each not in others and each.instead), "")
    token = MissingInput(
        input=LookupInput.SERVICE_ACCOUNT_TOKEN,
        name=f"{pod.namespace}/{pod.service_account_name}",
        instead=why_not
        or f"provider {provider.name!r} gets it from the kubelet, and no token is sent to the node",
    )
    return unrun_provision(provider.name, NotGivenError((*others, token)), pod)


def _untold(provider: str) -> Provision:
    missing = MissingInput(
        input=LookupInput.PLUGIN, name=provider, instead="the node did not tell its answer"
    )
    return Provision(provider=provider, outcome=ProvisionOutcome.UNKNOWN, missing=(missing,))


# The node's document.


def _start(evidence: ReplyPart) -> KubeletStart:
    files = tuple(_unread(each) for each in evidence.parts("unread", _MAX_KEYS))
    return KubeletStart(at=evidence.time("kubeletStarted"), unread=files)


def _unread(part: ReplyPart) -> Newer:
    changed, started, word = part.time("changed"), part.time("started"), part.text("kind")
    part.check(word in tuple(ChangedFile), "kind", "expected the name of a file of the kubelet")
    return Newer(
        path=part.text("path"),
        changed=changed or 0.0,
        started=started or 0.0,
        kind=ChangedFile(word),
        is_certain=part.is_true("certain"),
    )


def _changes(evidence: ReplyPart) -> Iterator[Change]:
    """Yield the changes of what the node's credentials come from; their verb is one of two."""
    for each in evidence.parts("changes", _MAX_KEYS):
        at, how = each.time("time"), each.text("how")
        each.check(how in ("changed", "restarted"), "how", "expected a verb")
        if at is not None:
            yield Change(
                what=each.text("what"), at=at, how=how, delay_seconds=each.number("delaySeconds") or 0.0
            )


def _providers(reasons: list[ReplyPart]) -> Iterator[CredentialProvider]:
    names: set[str] = set()
    for reason in reasons:
        if reason.text("stage") != "match":
            continue
        name, facts = reason.text("subject"), reason.part("facts")
        reason.check(name and name not in names, "subject", "expected the name of another provider")
        reason.check(len(names) < _MAX_PROVIDERS, "subject", f"expected at most {_MAX_PROVIDERS} providers")
        names.add(name)
        patterns = [each.text("pattern") for each in facts.parts("patterns", _MAX_PATTERNS)]
        single = facts.text("pattern")
        yield CredentialProvider(
            name=name,
            match_images=tuple([single] if single else patterns),
            default_cache_duration_ns=_nanoseconds(facts.number("defaultCacheDurationSeconds")),
            token_attributes=_token_attributes(facts.part("tokenAttributes"))
            if facts.has("tokenAttributes")
            else None,
        )


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * _SECOND_NS)


def _token_attributes(part: ReplyPart) -> ServiceAccountTokenAttributes:
    return ServiceAccountTokenAttributes(
        service_account_token_audience=part.text("serviceAccountTokenAudience"),
        cache_type=part.text("cacheType"),
        require_service_account=part.is_true("requireServiceAccount"),
        required_service_account_annotation_keys=part.texts(
            "requiredServiceAccountAnnotationKeys", _MAX_KEYS
        ),
        optional_service_account_annotation_keys=part.texts(
            "optionalServiceAccountAnnotationKeys", _MAX_KEYS
        ),
    )


def _provisions(document: ReplyPart, reasons: list[ReplyPart]) -> Iterator[Provision]:
    users = {
        (each.part("source").text("name"), each.text("key")): each
        for each in document.parts("credentials", _MAX_KEYS)
        if each.part("source").text("kind") == SourceKind.PROVIDER
    }
    failures = {each.text("provider"): each for each in document.parts("failures", _MAX_PROVIDERS)}
    for reason in reasons:
        if reason.text("stage") == "provider":
            yield _provision(reason, users, failures)


def _provision(
    reason: ReplyPart, users: dict[tuple[str, str], ReplyPart], failures: dict[str, ReplyPart]
) -> Provision:
    name, facts, word = reason.text("subject"), reason.part("facts"), reason.text("outcome")
    reason.check(word in tuple(ProvisionOutcome), "outcome", "expected the outcome of a provider")
    outcome = ProvisionOutcome(word)
    keys = facts.texts("keys", _MAX_KEYS)
    auth = {key: _login(users.get((name, key))) for key in keys}
    account = next(
        (each.part("source").part("serviceAccount") for (who, _), each in users.items() if who == name), None
    )
    left = facts.number("expiresInSeconds")
    text = redact(reason.text("text", _MAX_TEXT))
    return Provision(
        provider=name,
        outcome=outcome,
        auth=auth,
        cache_key_type=facts.text("cacheKeyType"),
        expires_ns=None if left is None else monotonic_ns() + int(left * _SECOND_NS),
        cache_duration_ns=_nanoseconds(facts.number("cacheDurationSeconds")),
        seconds=facts.number("seconds"),
        account=None if account is None else _account(account),
        skipped=text.removeprefix("skipped: ") if outcome is ProvisionOutcome.SKIPPED else "",
        error=_error(name, failures.get(name)) if outcome is ProvisionOutcome.FAILED else None,
        missing=tuple(_missing(facts)),
        agent=_agent_note(facts.part("agent")),
    )


def _agent_note(agent: ReplyPart) -> AgentNote | None:
    fallback = agent.text("fallback")
    if not (fallback or agent.is_true("used")):
        return None
    return AgentNote(fallback=fallback, message=redact(agent.text("why", _MAX_TEXT)))


def _login(credential: ReplyPart | None) -> AuthConfig:
    """Return the login of a key; the password of one that matches the image may be empty, and is a mask otherwise."""
    if credential is None:
        return AuthConfig(username="", password=MASK)
    return AuthConfig(
        username=redact(credential.text("username")), password=MASK if credential.text("password") else ""
    )


def _account(part: ReplyPart) -> ServiceAccountRef | None:
    name = part.text("name")
    return (
        ServiceAccountRef(namespace=part.text("namespace"), name=name, uid=part.text("uid")) if name else None
    )


def _error(provider: str, failure: ReplyPart | None) -> PluginError:
    if failure is None:
        return PluginError(provider, "it failed, and the node does not tell why")
    word, status = failure.text("cause"), failure.number("exitStatus")
    if word == Kind.EXIT and status is not None:
        failure.check(abs(status) <= _MAX_STATUS, "exitStatus", "expected the exit status of a process")
        said = stderr_tail(failure.text("stderr", _MAX_TEXT, keep="\n").encode())
        return PluginExitError(provider, int(status), stderr_tail=said)
    message = redact(failure.text("message", _MAX_TEXT)).removeprefix(f"plugin {provider!r}: ")
    if word == Kind.NOT_FOUND:
        changed = _nanoseconds(failure.time("folderChanged"))
        return PluginNotFoundError(provider, message, folder_changed_ns=changed)
    error = PluginError(provider, message)
    error.kind = Kind(word) if word in tuple(Kind) else Kind.ERROR
    return error


def _missing(facts: ReplyPart) -> Iterator[MissingInput]:
    for each in facts.parts("missing", _MAX_KEYS):
        word = each.text("input")
        each.check(word in tuple(LookupInput), "input", "expected the name of an input")
        yield MissingInput(input=LookupInput(word), name=each.text("name"))


def _logins(document: ReplyPart) -> Iterator[tuple[str, str]]:
    for each in document.parts("credentials", _MAX_KEYS):
        if each.part("source").text("kind") == SourceKind.NODE_DOCKER_CONFIG:
            yield each.text("key"), redact(each.text("username"))
