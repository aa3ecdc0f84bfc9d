"""Made-up nodes for the agent's page: a usual one, one that has just started, and a crowded one.

Only what goes in is made up: configs, answers of plugins, requests and reloads, on a stepped clock. What the page shows
of it is the product's own work, and the same at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from random import Random

from keyferry._core.values import field, replace
from keyferry.agent.access import AccessPolicy, Caller
from keyferry.agent.journal import (
    CallerUsage,
    DecisionResult,
    JournalEntry,
    RequestDecision,
    result_of_answer,
    result_of_refusal,
)
from keyferry.agent.page.explanation import explain_cached
from keyferry.agent.page.model import ModelBuilder, PageSnapshot
from keyferry.agent.providers import AgentProviders
from keyferry.agent.refresh import PlannedRefresh, refresh_at_ns
from keyferry.agent.settings import DEFAULTS, AgentSettings
from keyferry.agent.state import AgentState, ReloadOutcome
from keyferry.api.agentconfig.v1alpha1 import AgentConfig
from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.errors import PluginExitError, PluginTimeoutError
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.node.kubelet import Kubelet
from keyferry.images.provider.accounts import Relayed
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.images.provider.provider import Provider
from keyferry.page.model import ExplainedPull, PageModel
from support.scripted import SECOND, V1, Clock, attributes, configured

__all__ = [
    "ACR",
    "ECR",
    "NOW",
    "crowded_model",
    "empty_model",
    "explanation",
    "long_names",
    "troubled_model",
    "usual_model",
]

NOW = 1_790_000_000.0
_HOUR = 3600.0
_FIRST_LIFE = 101
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
ACR = "acr-credential-provider"
_BIN_DIR = "/opt/kubelet/plugins"
# What plugins print when they fail, as it is kept: with secrets masked.
_SAID = {
    "harbor-credential-provider": "robot$node: 401 Unauthorized: password=******** has expired\nexit 1",
    "quay-credential-provider": 'Get "https://quay.example/v2/auth": dial tcp 10.0.9.4:443: i/o timeout',
}
_KUBELET, _SKOPEO, _DOCKER = "/usr/bin/kubelet", "/usr/bin/skopeo", "/usr/bin/docker-credential-keyferry"


class MadeUpPlugin(ExecPlugin):
    """A plugin whose answers live for *life_seconds*, for a registry or an image; it fails while it is in *broken*."""

    life_seconds: float = 12 * _HOUR
    key_type: str = "Registry"
    broken: set[str] = field(default_factory=set)

    def __call__(
        self, request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        """Answer without a run, or fail."""
        del timeout_seconds
        if self.name in self.broken:
            raise _failure(self.name)
        key = request.image.partition("/")[0]
        if request.image == _NOT_SET_UP:
            return CredentialProviderResponse(cache_key_type="Image", cache_duration_ns=0, auth={}), 0.09
        duration = 0 if key == _NOT_CACHED else int(self.life_seconds * SECOND)
        auth = {key: AuthConfig(username="user", password="word")}
        return CredentialProviderResponse(
            cache_key_type=self.key_type, cache_duration_ns=duration, auth=auth
        ), 0.31


def _failure(name: str) -> PluginTimeoutError | PluginExitError:
    """How a plugin fails here: the cloud's at a timeout, the others at once, and some say why."""
    said = _SAID.get(name, "")
    error = PluginTimeoutError(name, 60) if name == ACR else PluginExitError(name, 1, stderr_tail=said)
    error.seconds = 60.0 if name == ACR else 0.02
    return error


class World:
    """A node: its clock, its providers, and what they were asked for."""

    def __init__(self) -> None:
        self.clock = Clock(int(NOW * SECOND))
        self.made: list[Provider] = []
        self.entries: list[JournalEntry] = []
        self.broken: set[str] = set()
        self._planned: list[tuple[float, Callable[..., object], tuple[object, ...]]] = []

    def add(
        self,
        name: str,
        patterns: tuple[str, ...],
        life_seconds: float,
        key_type: str = "Registry",
        *,
        is_for_accounts: bool = False,
    ) -> Provider:
        """Configure a provider."""
        plugin = MadeUpPlugin(
            name=name,
            path=f"{_BIN_DIR}/{name}",
            api_version=V1,
            life_seconds=life_seconds,
            key_type=key_type,
            broken=self.broken,
        )
        config = configured(
            name, match_images=patterns, token_attributes=attributes() if is_for_accounts else None
        )
        self.made.append(Provider(config, plugin, clock=self.clock))
        return self.made[-1]

    def later(self, seconds_ago: float, action: Callable[..., object], *arguments: object) -> None:
        """Plan what happened so long ago."""
        self._planned.append((seconds_ago, action, arguments))

    def play(self) -> None:
        """Let everything happen in its order."""
        for seconds_ago, action, arguments in sorted(self._planned, key=lambda each: -each[0]):
            self.clock.now = int((NOW - seconds_ago) * SECOND)
            action(*arguments)
        self.clock.now = int(NOW * SECOND)

    def note(self, caller: Caller, image: str, account: str, result: DecisionResult, seconds: float) -> None:
        """Write an entry into the journal."""
        decision = RequestDecision(image=image, account=account, provider="", result=result)
        self.entries.append(
            JournalEntry(
                number=0, at=self.clock.now / SECOND, caller=caller, decision=decision, seconds=seconds
            )
        )

    def ask(
        self, providers: AgentProviders, image: str, account: str, caller: Caller, seconds: float
    ) -> None:
        """Look an image up, for an account if there is one, as the agent does."""
        namespace, _, name = account.partition("/")
        ref = ServiceAccountRef(namespace=namespace, name=name, uid="u")
        until_ns = self.clock.now + int(_HOUR * SECOND)
        pod = Relayed(token=account, key=account.encode(), until_ns=until_ns, ref=ref) if account else None
        self.note(caller, image, account, result_of_answer(providers.lookup(image, pod=pod)), seconds)

    def plan(self, random: Random) -> Iterator[tuple[int, PlannedRefresh, int]]:
        """Yield when each answer for everybody is renewed; those that failed last, after a pause."""
        for provider in self.made:
            is_failing = provider.counters.read().has_last_failed
            for at, held in enumerate(each for each in provider.answers() if each.is_shared):
                got_ns = held.provision.got_ns or 0
                failures = 5 if is_failing and at == 0 else 0
                planned_ns = 0 if failures else refresh_at_ns(got_ns, held.expires_ns, random.random)
                soonest_ns = self.clock.now + int(random.uniform(60, 400) * SECOND)
                refresh = PlannedRefresh(provider=provider.name, base=held.base, image=held.image)
                yield max(planned_ns, soonest_ns), refresh, failures


def _spread(provider: Provider, runs: int, middle: float, random: Random) -> None:
    """Count earlier runs, most of which took about *middle* seconds."""
    for _ in range(runs):
        seconds = middle * random.lognormvariate(0, 0.7)
        provider.counters.ran(seconds, None, int((NOW - 20 * _HOUR) * SECOND))


def _settings() -> AgentSettings:
    process = Kubelet(pid=812, program="kubelet", process="/proc/812", users=frozenset(), flags={})
    kubelet = f"flags of {process}"
    given: dict[str, tuple[str, str]] = {
        "socket": ("/run/keyferry/agent.sock", "default"),
        "providerConfig": ("/etc/kubernetes/credential-providers.yaml", kubelet),
        "binDir": (_BIN_DIR, kubelet),
        "page": ("127.0.0.1:7475", "flag --page"),
    }
    values = DEFAULTS | {name: value for name, (value, _) in given.items()}
    origins = dict.fromkeys(DEFAULTS, "default") | {name: origin for name, (_, origin) in given.items()}
    return AgentSettings(values=values, origins=origins, config=AgentConfig())


def _take(world: World, node: str, reloads: tuple[ReloadOutcome, ...], entries_total: int) -> PageSnapshot:
    """Return what the page gets of a node."""
    entries = tuple(replace(each, number=entries_total - at) for at, each in enumerate(world.entries[::-1]))
    upcoming = sorted(world.plan(Random(5)))  # noqa: S311 - made-up instants
    accounts = {each.decision.account for each in entries if each.decision.account}
    return PageSnapshot(
        state=AgentState(
            settings=_settings(),
            providers=AgentProviders(world.made, clock=world.clock),
            policy=AccessPolicy(own_uid=0),
            loaded_at=NOW,
        ),
        node=node,
        now=NOW,
        now_ns=world.clock.now,
        started=reloads[0].at,
        socket="/run/keyferry/agent.sock",
        taken_over_at=None,
        is_refreshing=True,
        upcoming=lambda: upcoming,
        reloads=reloads,
        users=_users(entries),
        entries=entries,
        entries_total=entries_total,
        last_of_user={each.caller.uid: each for each in entries[::-1]},
        accounts=tuple(sorted(accounts)),
    )


def _users(entries: tuple[JournalEntry, ...]) -> dict[int, CallerUsage]:
    """Count what each user asked for, a thousand times for each entry that is kept."""
    found: dict[int, CallerUsage] = {}
    for entry in entries[::-1]:
        uid, outcome = entry.caller.uid, entry.decision.result.outcome
        before = found.get(uid, CallerUsage(requests=0, refused=0, last_at=0.0))
        refused = before.refused + (13 if outcome == "refused" else 0)
        more = 13 if outcome == "refused" else 2417
        found[uid] = CallerUsage(requests=before.requests + more, refused=refused, last_at=entry.at)
    return found


def _build(snapshot: PageSnapshot) -> PageModel:
    """Return what is shown of it; answers have the same numbers at every call."""
    model = ModelBuilder().build(snapshot)
    lives = tuple(replace(each, identifier=_FIRST_LIFE + at) for at, each in enumerate(model.lives))
    return replace(model, lives=lives)


# How many hours ago, what was asked for, for which account, by whom (user and program), and in how many seconds.
_ROOT, _CI, _BUILD, _NOBODY = (
    Caller(uid=0, gids=frozenset(), pid=812, program=_KUBELET),
    Caller(uid=10_001, gids=frozenset(), pid=3121, program=_SKOPEO),
    Caller(uid=10_002, gids=frozenset(), pid=4007, program=_DOCKER),
    Caller(uid=65_534, gids=frozenset(), pid=0, program=""),
)
_EAST, _ETL = "123456789012.dkr.ecr.us-east-1.amazonaws.com", "210987654321.dkr.ecr.eu-west-1.amazonaws.com"
# An image for which the plugin answers without a credential, and a registry whose answers it does not let be cached.
_NOT_SET_UP, _NOT_CACHED = "registry.shop.example/cart", "new.azurecr.io"
_USUAL_LOOKUPS = (
    (8.2, f"{ECR}/shop/checkout:2026.11.1", "", _ROOT, 0.41),
    (6.0, f"{_EAST}/shop/search:12", "", _ROOT, 0.38),
    (3.4, "public.ecr.aws/docker/library/redis:8", "", _ROOT, 0.52),
    (2.14, "team.azurecr.io/build/base:11", "", _CI, 1.21),
    (1.1, f"{_ETL}/etl:4", "", _ROOT, 0.412),
    (0.8, "registry.shop.example/search:31", "shop/search", _ROOT, 0.09),
    (0.6, "registry.payments.example/ledger:7", "payments/ledger", _ROOT, 0.11),
    (0.4, "shared.azurecr.io/tools/lint:3", "", _CI, 1.04),
    (0.34, "ghcr.io/acme/tools:v3", "", _BUILD, 0.0002),
    (0.3, "registry.payments.example/settlement:18", "payments/settlement", _ROOT, 0.12),
    (0.25, f"{_NOT_SET_UP}:3", "shop/cart", _ROOT, 0.09),
    (0.1, "registry.shop.example/checkout:2026.11.2", "shop/checkout", _ROOT, 0.118),
    (0.026, "team.azurecr.io/build/base:12", "", _CI, 0.0003),
    (0.001, f"{ECR}/shop/checkout:2026.11.2", "", _ROOT, 0.0001),
)
_LAST_ENTRY = 48_213
_REFUSED_CONFIG = (
    "/etc/kubernetes/credential-providers.yaml:31:5: "
    "providers[3].matchImages[0]: port '99999' is not in 1-65535"
)


def _used_before(
    world: World, earlier: tuple[tuple[Provider, int, float, int], ...], random: Random
) -> AgentProviders:
    """Return the providers after the usual lookups; of each of *earlier*: its runs, their middle and its hits."""
    for provider, runs, middle, hits in earlier:
        _spread(provider, runs, middle, random)
        for _ in range(hits):
            provider.counters.hit()
    providers = AgentProviders(world.made, clock=world.clock)
    for hours, image, account, caller, seconds in _USUAL_LOOKUPS:
        world.later(hours * _HOUR, world.ask, providers, image, account, caller, seconds)
    return providers


def usual_snapshot() -> PageSnapshot:
    """A node with four providers, one of which cannot renew what it has since nine minutes."""
    world, random = World(), Random(3)  # noqa: S311 - made-up durations
    ecr = world.add("ecr-credential-provider", _ECR_PATTERNS, 12 * _HOUR)
    acr = world.add(ACR, ("*.azurecr.io",), 3 * _HOUR)
    own = world.add(
        "keyferry-federate",
        ("registry.payments.example", "registry.shop.example"),
        _HOUR,
        "Image",
        is_for_accounts=True,
    )
    world.add("gcr-credential-provider", ("gcr.io", "*.gcr.io", "*.pkg.dev"), _HOUR)
    earlier = ((ecr, 67, 0.3, 39_104), (acr, 27, 0.9, 6_418), (own, 208, 0.09, 2_691))
    providers = _used_before(world, earlier, random)
    world.later(600, world.broken.add, ACR)
    for seconds in (540, 470, 380, 240, 62):
        world.later(seconds, acr.refresh, "team.azurecr.io/build/base")
    refusal = result_of_refusal(65_534, "may not ask for images of registry.payments.example", "access")
    world.later(7_260, world.note, _NOBODY, "registry.payments.example/ledger:7", "", refusal, 0.0001)
    # A pull that failed once, and went well when it was tried again.
    world.later(701, world.broken.add, ACR)
    world.later(700, world.ask, providers, f"{_NOT_CACHED}/app:1", "", _CI, 60.02)
    world.later(699, world.broken.discard, ACR)
    world.later(690, acr.provide, f"{_NOT_CACHED}/app")
    world.play()
    reloads = (
        ReloadOutcome(at=NOW - 31 * _HOUR, is_applied=True, since=NOW - 31 * _HOUR),
        ReloadOutcome(at=NOW - 5_520, is_applied=False, since=NOW - 5_520, problems=(_REFUSED_CONFIG,)),
        ReloadOutcome(at=NOW - 5_400, is_applied=True, since=NOW - 5_400),
    )
    return _take(world, "ip-10-0-3-17.eu-west-1.compute.internal", reloads, _LAST_ENTRY)


_ECR_PATTERNS = (
    *("*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"),
    *("public.ecr.aws", "*.dkr-ecr.*.on.aws"),
)


@cache
def usual_model() -> PageModel:
    """What the page shows of that node."""
    return _build(usual_snapshot())


def troubled_snapshot() -> PageSnapshot:
    """A node with six providers: one fails, one cannot renew what it has, one is unstable, and three are well."""
    world, random = World(), Random(4)  # noqa: S311 - made-up durations
    ecr = world.add("ecr-credential-provider", _ECR_PATTERNS, 12 * _HOUR)
    acr = world.add(ACR, ("*.azurecr.io",), 3 * _HOUR)
    harbor = world.add("harbor-credential-provider", ("harbor.corp.example",), 0.1 * _HOUR)
    quay = world.add("quay-credential-provider", ("quay.example", "*.quay.example"), 0)
    world.add("gcr-credential-provider", ("gcr.io", "*.gcr.io", "*.pkg.dev"), _HOUR)
    own = world.add("keyferry-federate", ("registry.shop.example",), _HOUR, "Image", is_for_accounts=True)
    earlier = ((ecr, 67, 0.3, 39_104), (acr, 27, 0.9, 6_418), (own, 9, 0.09, 2_691))
    providers = _used_before(world, earlier, random)
    for at in range(12):
        world.later((12 - at) * 300 + 1, world.broken.add if at % 3 == 1 else world.broken.discard, quay.name)
        world.later((12 - at) * 300, world.ask, providers, f"quay.example/tools/lint:{at}", "", _CI, 0.2)
    world.later(_HOUR, world.ask, providers, "harbor.corp.example/base/os:12", "", _ROOT, 0.3)
    world.later(1500, world.broken.add, harbor.name)
    for seconds in (1400, 900, 65):
        world.later(seconds, world.ask, providers, "harbor.corp.example/base/os:13", "", _ROOT, 0.02)
    world.later(600, world.broken.add, ACR)
    for seconds in (540, 240, 62):
        world.later(seconds, acr.refresh, "team.azurecr.io/build/base")
    world.play()
    reloads = (ReloadOutcome(at=NOW - 31 * _HOUR, is_applied=True, since=NOW - 31 * _HOUR),)
    return _take(world, "node-1", reloads, _LAST_ENTRY)


@cache
def troubled_model() -> PageModel:
    """What the page shows of that node."""
    return _build(troubled_snapshot())


@cache
def explanation(
    image: str = f"{ECR}/shop/checkout:2026.11.2", account: str = "shop/checkout"
) -> ExplainedPull:
    """What the page says of an image on that node."""
    return explain_cached(usual_snapshot(), image, account)


@cache
def empty_model() -> PageModel:
    """An agent that has just started, without providers."""
    world = World()
    world.play()
    reloads = (ReloadOutcome(at=NOW - 3, is_applied=True, since=NOW - 3),)
    return _build(_take(world, "ip-10-0-3-17.eu-west-1.compute.internal", reloads, 0))


def long_names() -> tuple[str, ...]:
    """Names of 250 characters: without a break, from right to left, of words, and of emoji."""
    return (
        "x" * 250,
        ("مزود-الاعتماد" * 20)[:250],
        ("very-long-but-ordinary-provider-name-" * 7)[:250],
        "\N{ROCKET}\N{PACKAGE}" * 125,
    )


@cache
def crowded_model(providers: int = 200, lives: int = 10_000) -> PageModel:
    """A node with so many providers and answers, some with names of 250 characters.

    Of each four providers, one is well, one is not used, one fails, and one cannot renew what it has.
    """
    world, random = World(), Random(7)  # noqa: S311 - made-up ages
    odd = dict(enumerate(long_names()))
    for at in range(providers):
        _crowd(world, at, odd.get(at, f"provider-{at:03}"), 2 * lives // providers, random)
    asked = AgentProviders(world.made, clock=world.clock)
    for at in range(0, 2 * providers, 4):
        image = f"registry-{at % providers}.example/team-{at % 53}/{'x' * 200 if at == 0 else f'app-{at}'}:v1"
        caller = Caller(uid=at // 4, gids=frozenset(), pid=1, program=odd.get(at // 4, "/usr/bin/crane"))
        world.later(at * 1.7, world.ask, asked, image, odd.get(at // 4, ""), caller, 0.0002)
    world.play()
    reloads = tuple(
        ReloadOutcome(
            at=NOW - at * 600,
            is_applied=at % 3 > 0,
            since=NOW - at * 600,
            problems=(odd[at % 4],) if at % 3 == 0 else (),
        )
        for at in range(49, -1, -1)
    )
    model = _build(_take(world, odd[2], reloads, 1_204_822))
    # The names of users are those of this machine.
    callers = tuple(replace(each, name=odd.get(each.uid, f"user{each.uid}")) for each in model.callers)
    return replace(model, callers=callers)


def _crowd(world: World, at: int, name: str, lives: int, random: Random) -> None:
    """Add the provider with this number, and what happened to it."""
    patterns = (
        f"registry-{at}.example",
        *(f"{name[:200]}.registry-{each}.example" for each in range(at % 9)),
    )
    provider = world.add(name, patterns, random.choice((12, 12, 24)) * _HOUR, "Image")
    if at % 4 in (0, 3):
        _spread(provider, 20 + at, 0.2, random)
        for number in range(lives):
            folder = "deep/" * 45 if number % 97 == 0 else ""
            image = f"registry-{at}.example/{folder}team-{number % 53}/app-{number}"
            world.later(random.uniform(0.2, 10) * _HOUR, provider.provide, image)
    if at % 4 in (2, 3):
        world.later(0.1 * _HOUR, world.broken.add, name)
        world.later(0.05 * _HOUR, provider.refresh, f"registry-{at}.example/team-1/app-1")
