"""What the page shows, as values: texts as they were found (the templates escape them), instants in seconds since 1970.

Nothing secret is in here: no credential, no token, no value of an environment variable, no output of a plugin and no
hash of any of these.
"""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value


class ProviderState(StrEnum):
    """How a provider does: unused until its plugin has run once; failing since its last run failed."""

    UNUSED = "unused"
    WELL = "well"
    RENEWAL_FAILS = "renewal-fails"  # what it answered is still valid, and served
    FAILING = "failing"
    NO_CREDENTIAL = "no-credential"  # its last answer has nothing for the image that it was asked for


class StepState(StrEnum):
    """What one step of an explanation did for the pull."""

    USED = "used"
    PASSED = "passed"  # looked at, without effect
    BROKEN = "broken"
    UNKNOWN = "unknown"  # cannot be told here


class HealthProblem(Value):
    """Something that is not well: what, the command to type, and the path on the page that shows it."""

    text: str
    cure: str
    link: str


class Health(Value):
    """Whether all is well, in one line, since when, and what is not; an agent without providers is neither."""

    is_well: bool
    headline: str
    since: float
    problems: tuple[HealthProblem, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to judge."""
        return not self.is_well and not self.problems


class LatencyBucket(Value):
    """How many runs took up to so many seconds, and longer than the bucket before; the last one has no limit."""

    up_to_seconds: float | None
    runs: int


class ProviderCard(Value):
    """One provider: its state, what it serves, and how its plugin does.

    *streak_since* is the first of the runs that ended as the last one did: since then it fails, or works.
    """

    name: str
    state: ProviderState
    patterns: tuple[str, ...]
    plugin_path: str
    is_for_accounts: bool
    cached: int
    hits: int
    runs: int
    failures: int
    latency: tuple[LatencyBucket, ...]
    last_run: float | None
    streak_since: float | None
    next_refresh: float | None
    last_error: str = ""
    last_error_at: float | None = None
    last_error_image: str = ""
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


class Advice(Value):
    """What can be done: in words, and what to type or paste for it, which may be nothing."""

    text: str
    lines: tuple[str, ...] = ()


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
    place_options: str = ""  # options with which a command has the agent's config and bin dir, after a space
    socket_options: str = ""  # those with which a command reaches the agent
