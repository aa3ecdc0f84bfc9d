"""What the page shows, as values: texts as they were found (the templates escape them), instants in seconds since 1970.

Nothing secret is in here: no credential, no token, no value of an environment variable, and no hash of any of these.
Of what a plugin that failed printed on its standard error there is one line, with secrets masked; those who may see the
page may see the agent's status, which tells the same.
"""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value
from keyferry.images.provider.state import ProviderState


class StepState(StrEnum):
    """What one step of an explanation did for the pull."""

    USED = "used"
    PASSED = "passed"  # looked at, without effect
    BROKEN = "broken"
    UNKNOWN = "unknown"  # cannot be told here


class ProblemLevel(StrEnum):
    """What is at stake: bad if pulls get no credential now, a warning if they still do."""

    BAD = "bad"
    WARNING = "warning"


class HealthProblem(Value):
    """Something that is not well: what, why, the command to type, and the path on the page that shows it.

    *reason* is shown to those who may see the agent's status, as everything on the page; it may be empty.
    """

    level: ProblemLevel
    text: str
    cure: str
    link: str
    since: float
    reason: str = ""


class Health(Value):
    """Whether all is well, in one line, since when, and what is not, the worst first.

    *is_idle* tells that there is nothing to judge: an agent without providers is neither well nor not.
    """

    headline: str
    since: float
    problems: tuple[HealthProblem, ...] = ()
    is_idle: bool = False

    @property
    def level(self) -> str:
        """The worst of it in a word: well, warning, bad, or none if there is nothing to judge."""
        if self.problems:
            is_bad = any(each.level is ProblemLevel.BAD for each in self.problems)
            return ProblemLevel.BAD if is_bad else ProblemLevel.WARNING
        return "none" if self.is_idle else "well"


class LatencyBucket(Value):
    """How many runs took up to so many seconds, and longer than the bucket before; the last one has no limit."""

    up_to_seconds: float | None
    runs: int


class RunMark(Value):
    """One of the last runs of a plugin."""

    at: float
    seconds: float
    has_failed: bool


class PluginFacts(Value):
    """What a plugin is given, and how long its answers are kept if it does not say so itself.

    Secrets in arguments are masked, and of variables there are only the names. *audience* and *cache_type* are of the
    service account's token, if it gets one.
    """

    path: str
    arguments: tuple[str, ...]
    variables: tuple[str, ...]
    cache_duration: str
    audience: str
    cache_type: str
    is_for_accounts: bool


class LastError(Value):
    """The last run that failed: how it ended, what the plugin said first, and why not more of that is shown."""

    text: str
    said: str
    hidden: str
    at: float
    image: str


class ProviderCard(Value):
    """One provider: its state, what it serves, and how its plugin does.

    *recent* are its last runs, the newest last. *streak_since* is the first of the runs that ended as the last one did:
    since then it fails, or works. *trouble* is why it fails, and *cure* the command to type, while it does.
    """

    name: str
    state: ProviderState
    patterns: tuple[str, ...]
    plugin: PluginFacts
    cached: int
    hits: int
    runs: int
    failures: int
    recent: tuple[RunMark, ...]
    latency: tuple[LatencyBucket, ...]
    last_run: float | None
    streak_since: float | None
    next_refresh: float | None
    trouble: str = ""
    unstable: str = ""
    last_error: LastError | None = None
    cure: str = ""


class Life(Value):
    """One cached answer: for whom, when it was got, from when to when it may be renewed, when it will be, its end.

    *identifier* names it on this page only; it is a number that counts up. *account* is `namespace/name`, empty if
    the answer is for everybody.
    """

    identifier: int
    provider: str
    scope: str  # the image, registry or "every image" that it is for
    account: str
    got: float
    expires: float
    refresh_from: float | None
    refresh_until: float | None
    refresh_at: float | None
    failures: int
    credentials: int


class AccessRow(Value):
    """One access rule: its place in the agent's config, whom it names, and what these may do."""

    name: str
    who: str
    registries: tuple[str, ...]
    may_manage: bool = False


class Advice(Value):
    """What can be done: in words, and what to type or paste for it, which may be nothing."""

    text: str
    lines: tuple[str, ...] = ()


class RefusalRule(Value):
    """Why the rules do not allow a request: those that name the caller and are not enough, and what to add."""

    rules: tuple[str, ...]
    advice: Advice


class DecisionRow(Value):
    """One request and how it was answered."""

    identifier: int
    at: float
    uid: int
    program: str  # empty if it cannot be told
    image: str
    account: str
    providers: tuple[str, ...]  # those that answered or failed, or the one that was asked for
    outcome: str  # a word: answered, no-credential, no-match, failed, refused, evicted
    source: str  # a word: cache, run, shared; empty if none
    reason: str  # in words, for people
    milliseconds: float
    failures: tuple[str, ...] = ()  # in short: the provider, and how it failed
    refusal: RefusalRule | None = None


class ReloadRow(Value):
    """One load of the configs, and what came of it."""

    at: float
    is_applied: bool
    problems: tuple[str, ...]
    notes: tuple[str, ...]


class CallerRow(Value):
    """One user who asked: how often, how often in vain, the last time, and for what."""

    uid: int
    name: str
    program: str
    requests: int
    refused: int
    last_at: float
    last_image: str


class ExplainedStep(Value):
    """One step on the way to a pull: secrets, node config, providers, keys, order, verdict."""

    name: str
    title: str
    state: StepState
    lines: tuple[str, ...]


class ExplainedPull(Value):
    """An explanation of one image, from what is cached; no plugin was run for it."""

    image: str
    account: str
    verdict: str
    steps: tuple[ExplainedStep, ...]
    cures: tuple[Advice, ...]
    in_full: tuple[Advice, ...]  # the commands that explain the same, with what the agent does not know


class PageModel(Value):
    """Everything that the page shows at one instant.

    The lists are bounded by whoever makes them; the totals say how many there are.
    """

    version: str
    node: str
    now: float
    started: float
    socket: str
    health: Health
    providers: tuple[ProviderCard, ...]
    lives: tuple[Life, ...]
    lives_total: int
    decisions: tuple[DecisionRow, ...]  # the newest first
    decisions_total: int
    reloads: tuple[ReloadRow, ...]  # the newest first
    callers: tuple[CallerRow, ...]
    accounts: tuple[str, ...]  # `namespace/name`, those seen so far
    settings: tuple[tuple[str, str, str], ...]  # name, value, where it comes from
    access: tuple[AccessRow, ...]
    lookups: int  # of providers, since they were loaded
    from_cache: int  # of these, answered from the cache
    failed_lately: int  # runs in the last hour
    place_options: str = ""  # options with which a command has the agent's config and bin dir, after a space
    socket_options: str = ""  # those with which a command reaches the agent
