"""The facts about one image, what is said of it, and the phrases that causes share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum

from keyferry._core.reasons import Reason
from keyferry._core.secrets import redact
from keyferry._core.values import Value, field
from keyferry.explain.evidence import AttemptKind, Evidence
from keyferry.images.keyring import Credential, SourceKind
from keyferry.images.reasons.traps import is_empty_login
from keyferry.images.reference import registry_of
from keyferry.pulls.failure_text import FailureKind
from keyferry.show.text import duration_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.explain.node_half import NodeHalf
    from keyferry.explain.registry import RegistryCheck
    from keyferry.images.answer import Answer
    from keyferry.images.dockerconfig import PullSecret
    from keyferry.images.provider.accounts import Pod
    from keyferry.images.reasons.nearness import Miss
    from keyferry.pulls.mirrors.endpoints import Mirrors
    from keyferry.pulls.records.decide import Decision
    from keyferry.workloads.pods import PodContainer
    from keyferry.workloads.secrets import UnusedSecret

_ABOUT_CREDENTIALS = (FailureKind.REFUSED, FailureKind.EXPIRED, FailureKind.HIDDEN)


class PullVerdict(StrEnum):
    """Whether an image can be pulled."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """All that can be said of an image; each has its exit code."""

    RUNS = "runs"  # it was pulled, or is on the node and may be used
    FOUND = "found"  # a kubelet that reads these files now would have a credential, or can pull
    OTHER_REASON = "other-reason"  # fails, for a reason that is no credential
    NO_CREDENTIAL = "no-credential"  # fails, and no credential is found
    PLUGIN_FAILED = "plugin-failed"  # the same, since a plugin failed
    REFUSED = "refused"  # fails: the registry refuses what is found
    NOT_KNOWN_YET = "not-known-yet"  # fails: the kubelet does not know yet what is found
    CHANGED = "changed"  # failed, and something has changed since
    UNEXPLAINED = "unexplained"  # fails, and what is known does not explain it
    NOT_TRIED = "not-tried"
    UNKNOWN = "unknown"

    @property
    def verdict(self) -> PullVerdict:
        """The outcome as yes, no or unknown."""
        return _VERDICTS.get(self, PullVerdict.NO)


_VERDICTS = {
    Outcome.RUNS: PullVerdict.YES,
    Outcome.FOUND: PullVerdict.YES,
    Outcome.CHANGED: PullVerdict.UNKNOWN,
    Outcome.NOT_TRIED: PullVerdict.UNKNOWN,
    Outcome.UNKNOWN: PullVerdict.UNKNOWN,
}


class Subject(StrEnum):
    """The question that a verdict answers: has the kubelet a credential, can the image be pulled, or can it be used."""

    CREDENTIAL = "credential"
    PULL = "pull"
    USE = "use"


class MirrorTrap(StrEnum):
    """The kinds of traps in the way of a container runtime to an image."""

    MIRROR = "mirror"
    MIRROR_BLOCKED = "mirror-blocked"
    MIRROR_FILE = "mirror-file"
    MIRROR_INSECURE = "mirror-insecure"
    MIRROR_PATTERN = "mirror-pattern"


class Cure(Value):
    """A change that helps, and the lines to paste for it: commands, or lines of a file.

    *short* is the text for a place without the lines and about many pods, if that is another one.
    """

    text: str
    lines: tuple[str, ...] = ()
    short: str = ""

    @property
    def brief(self) -> Cure:
        """The cure without the lines, and without what is said of them."""
        return Cure(text=self.short or self.text)


class Cause(Value):
    """Why a pull fails or no credential is found, and what cures it; *miss* is the near miss that it is about.

    If *is_certain*, it alone explains that, whatever else is not known.
    """

    cause: str
    cures: tuple[Cure, ...] = ()
    miss: Miss | None = None
    is_certain: bool = True


class Facts(Value):
    """The answer of a lookup for one image, what was seen of the image, and the facts beside them.

    *check* has the registry's responses, if it was asked; *mirrors* tells where the container runtime goes for the
    image, if a file says so; *decision* whether the image on the node may be used, if that is known. *containers* are
    those of the pod that use the image. *config* describes the config and the sources
    for programs, *where* for people. *notes* are about inputs that the kubelet does not use, *unused* are the secrets
    that it takes no login from. *traps* are added to those of the answer. *hints* name the options that supply missing
    inputs. *pod* is the pod, if it is known, *node_name* its node, *secret_names* are the pull secrets that it lists,
    and *account_secrets* those of its service account, None if they are not known. *is_replaced* tells that another
    object replaces the pod when it is deleted, and *is_static* that a kubelet runs it from a file of its node.
    *pull_secrets* are those that the kubelet reads. *ignored_settings* are those of the kubelet's config that no
    kubelet reads. *half* is what the pod's node told from afar. *command* is the command line that asked, to which
    options can be added; *node_cure* asks the node, or more of it, *node_check* lets it ask the registry, and
    *try_command* tries the way of a token that is refused. *account_lines* add the service account to the file with the
    pod. *warnings* are about the question, and stand apart from the explanation.
    """

    answer: Answer
    evidence: Evidence = Evidence()
    check: RegistryCheck | None = None
    mirrors: Mirrors | None = None
    decision: Decision | None = None
    containers: tuple[PodContainer, ...] = ()
    config: dict[str, object] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    traps: tuple[Reason, ...] = ()
    hints: tuple[str, ...] = ()
    pod: Pod | None = None
    node_name: str = ""
    secret_names: tuple[str, ...] = ()
    account_secrets: tuple[str, ...] | None = None
    is_replaced: bool = False
    is_static: bool = False
    pull_secrets: tuple[PullSecret, ...] = ()
    unused: tuple[UnusedSecret, ...] = ()
    ignored_settings: tuple[str, ...] = ()
    half: NodeHalf | None = None
    command: str = ""
    node_cure: Cure | None = None
    node_check: str = ""
    try_command: str = ""
    account_lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """The credentials that are found, each once; the kubelet tries those of a secret that is listed twice twice."""
        return tuple(dict.fromkeys(self.answer.credentials))

    @property
    def registry(self) -> str:
        """The registry of the image."""
        return registry_of(self.answer.name)

    @property
    def may_use(self) -> bool | None:
        """Whether the pod may use the image on the node without a pull; None if it is not there, or not known."""
        if self.decision is None or not self.decision.situation.image_ref:
            return None
        from keyferry.pulls.records.access import UseOutcome, judge_use

        use = judge_use(self.decision, self.answer.missing)
        return None if use is UseOutcome.UNKNOWN else use is UseOutcome.USE

    @property
    def has_credentials(self) -> bool:
        """Whether a login is found that is not empty."""
        return not all(map(is_empty_login, self.answer.credentials))

    @property
    def is_unsure(self) -> bool:
        """Whether every credential is of a provider that lacked an input, so that the kubelet may get others."""
        unsure = {provision.provider for provision in self.answer.provisions if provision.missing}
        return all(
            each.source.kind == SourceKind.PROVIDER and each.source.name in unsure
            for each in self.answer.credentials
        )

    @property
    def is_refusal(self) -> bool:
        """Whether the registry refused the last attempt."""
        failure = self.evidence.last_attempt.failure
        return failure is not None and failure.kind in _ABOUT_CREDENTIALS

    @property
    def unreadable(self) -> UnusedSecret | None:
        """The first pull secret whose content cannot be read; the kubelet then pulls no image of the pod."""
        return next((each for each in self.unused if each.error is not None), None)

    @property
    def is_never_pulled(self) -> bool:
        """Whether the pod permits no pull of the image."""
        return bool(self.containers) and all(each.is_never_pulled for each in self.containers)

    @property
    def is_always_pulled(self) -> bool:
        """Whether the image is pulled even if it is on the node."""
        return any(each.is_always_pulled for each in self.containers)

    def is_mirror(self, host: str) -> bool:
        """Return whether the container runtime asks *host* in the place of the image's registry."""
        return self.mirrors is not None and any(each.host == host for each in self.mirrors.others)

    @property
    def config_path(self) -> str:
        """The path of the provider config, empty if there is none."""
        return str(self.config.get("path") or "")

    @property
    def bin_dir(self) -> str:
        """The folder of the plugins, empty if it is not known."""
        return str(self.config.get("binDir") or "")


class Explanation(Value):
    """What is said of an image: the *text* of the verdict has the *cause* in it, if there is one.

    *notes* are facts that matter beside it, the most important first.
    """

    facts: Facts
    outcome: Outcome
    text: str
    cause: str = ""
    cures: tuple[Cure, ...] = ()
    notes: tuple[str, ...] = ()
    miss: Miss | None = None
    about: Subject = Subject.PULL

    @property
    def verdict(self) -> PullVerdict:
        """The outcome as yes, no or unknown."""
        return self.outcome.verdict

    @property
    def evidence(self) -> Evidence:
        """What happened to the image, as the pod's status, its events and its node show it."""
        return self.facts.evidence

    @property
    def told(self) -> tuple[object, ...]:
        """What people are told of it; images for which it is the same are one block."""
        # Without a cause the text has it; with one, the text may also tell when.
        return self.outcome, self.cause or self.text, self.cures


# Instants and ages as text, in this machine's time zone.

_DAY_SECONDS = 86_400
# Clocks of one cluster differ by less.
_SKEW_SECONDS = 60


def age_text(at: float, now: float) -> str:
    """Return how long ago an instant was, a second at least: ``12 s ago``; an instant to come shows another clock."""
    if at > now + _SKEW_SECONDS:
        return f"{duration_text(at - now)} ahead of this machine's clock"
    return f"{duration_text(max(1.0, now - at))} ago"


def clock_text(at: float, now: float) -> str:
    """Return the time of day of an instant, with its date if it is not within a day of *now*."""
    is_near = abs(now - at) < _DAY_SECONDS and time.localtime(at).tm_yday == time.localtime(now).tm_yday
    return time.strftime("%H:%M:%S" if is_near else "%Y-%m-%d %H:%M:%S", time.localtime(at))


# Questions and phrases that several causes share: what was seen of an image, and what is found for it.


def who(credential: Credential) -> str:
    """Return the user name and the source of a credential, as text for a message."""
    # A token may stand in the place of the user name.
    user = f"user {redact(credential.username)!r}" if credential.username else "no user name"
    if is_empty_login(credential):
        user = "an empty login"
    return f"{user} of {credential.source}"


def all_of(credentials: Sequence[Credential]) -> str:
    """Return one or several credentials that have the same fate, as text for a message."""
    first = who(credentials[0])
    return first if len(credentials) == 1 else f"all {len(credentials)} credentials, first {first}"


def why_pulled(facts: Facts) -> str:
    """Return why an image that is on the node is pulled, to stand before what came of the pull; empty if it is not."""
    decision = facts.decision
    if decision is None or facts.is_always_pulled or facts.may_use is not False:
        return ""
    policy = decision.policy.name
    return f"the image is on the node, but by policy {policy} this pod may not use it without a pull, which fails: "


def seen_text(facts: Facts) -> str:
    """Return what the registry said in the last attempt and how long ago, in brackets; empty if none failed."""
    attempt = facts.evidence.last_attempt
    if attempt.kind is not AttemptKind.FAILED:
        return ""
    said = attempt.failure.detail if attempt.failure is not None and facts.is_refusal else ""
    age = "" if attempt.at is None else age_text(attempt.at, facts.evidence.now)
    parts = ", ".join(filter(None, (said, age)))
    return f" ({parts})" if parts else ""


def failed_text(facts: Facts) -> str:
    """Return that the registry refused the last attempt, or that it failed, and when."""
    what = "the registry refused the kubelet" if facts.is_refusal else "the last attempt failed"
    return f"{what}{seen_text(facts)}"


def found_text(facts: Facts) -> str:
    """Return which credentials are found."""
    first, *others = facts.credentials
    if not others:
        return f"a credential is found: {who(first)}"
    return f"{len(others) + 1} credentials are found; the first is {who(first)}"


def next_check(facts: Facts) -> tuple[Cure, ...]:
    """Return how to ask the registry, unless it was asked."""
    if facts.check is not None or not facts.command:
        return ()
    text = f"to check whether {facts.registry} accepts it"
    if facts.node_check:
        return (Cure(text=f"{text}, from the node", lines=(facts.node_check,)),)
    return (Cure(text=text, lines=(f"{facts.command} --check-registry",)),)


def retry_text(facts: Facts) -> str:
    """Return that the kubelet tries again, and by when."""
    at, now = facts.evidence.retried_by, facts.evidence.now
    when = "within five minutes" if at is None or at <= now else f"by {clock_text(at, now)}"
    return f"the kubelet tries again {when}"


def wait_cure(facts: Facts) -> Cure:
    """Return that there is only to wait."""
    return Cure(text=f"wait: {retry_text(facts)}", short="wait: the kubelet tries again within five minutes")
