"""One provider: its cache, its current runs, and its answer for an image."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf
from threading import Lock
from time import monotonic

from keyferry._core.clock import monotonic_ns
from keyferry._core.log import log_debug
from keyferry._core.values import replace
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import (
    KeyferryError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.provider.accounts import (
    NOBODY,
    Identity,
    NotApplicable,
    NotGivenError,
    Pod,
    Relayed,
    ServiceAccounts,
    identify,
)
from keyferry.images.provider.agent import AgentSource
from keyferry.images.provider.cache import (
    DEFAULT_LIMITS,
    NO_OTHER_INPUTS,
    Cache,
    CacheEntry,
    CacheLimits,
    CacheUse,
    account_cache_key,
    hash_token,
    other_inputs,
    run_key,
    shares_cache_key,
)
from keyferry.images.provider.counters import Counters
from keyferry.images.provider.plugin import Plugin
from keyferry.images.provider.runs import (
    FAILED_RUN,
    LastAnswer,
    LastFailure,
    OpenFailure,
    OpenFailures,
    Runs,
)
from keyferry.images.reference import registry_of
from keyferry.invoke.sharing import SharedRun, SharedRuns

_EVICTION_PAUSE_NS = 30 * 1_000_000_000
_TIMEOUT_SECONDS = 60.0
# A shorter delay before a run is not subtracted from the run's timeout.
_BEGINNING_SECONDS = 0.05


# A run for all lookups that wait for it: the image that the plugin was run for, and the answer.
_Run = tuple[str, Provision]


class _TimeBudget:
    """The time that a caller has to wait for other lookups' runs and to run the plugin itself."""

    __slots__ = ("_asked_seconds", "_until", "seconds")

    def __init__(
        self, asked_seconds: float | None, default_seconds: float, waited_seconds: float = 0.0
    ) -> None:
        self._asked_seconds = asked_seconds
        self.seconds = default_seconds if asked_seconds is None else asked_seconds
        self._until = monotonic() + self.seconds - waited_seconds

    def seconds_left(self) -> float:
        """Return how long to wait for another lookup's run."""
        return self._until - monotonic()

    def seconds_to_run(self) -> float | None:
        """Return the timeout of a run: the caller's, less the time spent waiting, or None if the caller gave none."""
        if self._asked_seconds is None:
            return None
        left = self.seconds_left()
        return self._asked_seconds if self._asked_seconds - left < _BEGINNING_SECONDS else left

    def is_over(self) -> bool:
        """Return whether waiting for other lookups has used up the caller's timeout."""
        seconds = self.seconds_to_run()
        return seconds is not None and seconds <= 0 and seconds != self._asked_seconds


class Provider:
    """A configured plugin with its cache; thread-safe."""

    def __init__(
        self,
        config: CredentialProvider,
        plugin: Plugin,
        *,
        accounts: ServiceAccounts | None = None,
        clock: Callable[[], int] = monotonic_ns,
        coalesce: bool = True,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        cache_limits: CacheLimits = DEFAULT_LIMITS,
        on_cached: Callable[[Provider, CacheEntry], None] | None = None,
        agent: AgentSource | None = None,
    ) -> None:
        self.config = config
        self._runs = Runs(config, plugin, agent, clock)
        self._on_cached = on_cached
        self._accounts = accounts
        self._clock = clock
        self._coalesce = coalesce
        self._timeout_seconds = timeout_seconds
        self._last_type = ""
        # All answers but those of relayed tokens, which are apart, so that many tokens do not push out the others.
        self._unrelayed_cache = Cache(clock(), cache_limits)
        self._relayed_cache = Cache(clock(), cache_limits)
        self._shared_runs: SharedRuns[_Run] = SharedRuns()
        self._open_failures = OpenFailures()
        self._lock = Lock()
        self._evicted: dict[bytes, int] = {}

    @property
    def name(self) -> str:
        """The name of the provider, which is the file name of its executable."""
        return self.config.name

    @property
    def plugin(self) -> Plugin:
        """The plugin that is run."""
        return self._runs.plugin

    @property
    def counters(self) -> Counters:
        """The counters of lookups and runs."""
        return self._runs.counters

    @property
    def last_failure(self) -> LastFailure | None:
        """The last run that failed, if one has."""
        return self._runs.last_failure

    @property
    def last_answer(self) -> LastAnswer | None:
        """The last answer of the plugin, if it has answered."""
        return self._runs.last_answer

    def failed_in_the_last_hour(self) -> int:
        """Return how many runs failed in the last hour."""
        return self.counters.failed_in_the_last_hour(self._clock())

    def soonest_expiry_seconds(self) -> float | None:
        """Return the seconds until the first cached answer expires, or None; those of relayed tokens do not count."""
        with self._lock:
            now = self._clock()
            soonest = self._unrelayed_cache.soonest_expiry_ns(now)
        return None if soonest is None else (soonest - now) / 1e9

    def provide(
        self,
        image: str,
        pod: Pod | None = None,
        timeout_seconds: float | None = None,
        *,
        waited_seconds: float = 0.0,
    ) -> Provision:
        """Return the credentials for a matched image, from the cache, a run, or another lookup's run.

        *timeout_seconds* bounds the whole call, and *waited_seconds* are subtracted from it. By default the timeout
        of the plugin applies to a run, and to waiting for another lookup's run.
        """
        budget = None
        if timeout_seconds is not None or waited_seconds:
            budget = _TimeBudget(timeout_seconds, self._timeout_seconds, waited_seconds)
        attributes = self.config.token_attributes
        try:
            if attributes is None:
                return self._provide(image, NOBODY, b"", NO_OTHER_INPUTS, budget)
            # Before the cache and without caching, as in the kubelet.
            identity = identify(attributes, self._accounts, pod)
            others = other_inputs(hash_token(identity.token), identity.annotations or {})
            provision = self._provide(image, identity, self._account_key(identity), others, budget)
        except (NotApplicable, ServiceAccountError) as why:
            if not isinstance(why, (NotApplicable, NotGivenError)):
                self.counters.failed(why.kind)
            return unrun_provision(self.name, why, pod)
        return provision.with_missing(identity.missing)

    def recall(self, image: str, pod: Pod | None = None) -> Provision | None:
        """Return what `provide` returns from the cache alone, or None if it needs a run; do not count it.

        Service accounts are not fetched, so it is None for a pod if the provider has ``tokenAttributes``.
        """
        attributes = self.config.token_attributes
        if pod is not None and attributes is not None and not isinstance(pod, Relayed):
            return None
        try:
            identity = NOBODY if attributes is None else identify(attributes, None, pod)
            with self._lock:
                kept = self._cache_of(identity).find(image, identity.key, self._clock())
        except NotGivenError as not_given:
            return _unknown(self.name, not_given, None)
        except (NotApplicable, ServiceAccountError):
            return None
        return kept.with_missing(identity.missing) if kept and identity.missing else kept

    def refresh(self, image: str) -> Provision:
        """Run the plugin for an image whose answer may be cached, for no service account; cache its response.

        A failure leaves the cached answer as it is. A lookup that needs a run meanwhile shares this one.
        """
        keys = (run_key(image, NO_OTHER_INPUTS), self._wide_key(image, b"", NO_OTHER_INPUTS))
        with self._lock:
            under_way = self._shared_runs.find(keys[0])
            own = self._shared_runs.start(keys) if under_way is None else None
        if own is not None:
            self.counters.renewed()
            return self._run_and_share(own, keys, image, NOBODY, b"", None)
        assert under_way is not None  # noqa: S101 - there is one of the two
        run = under_way.wait(self._timeout_seconds)
        assert run is not None  # noqa: S101 - a run that raised an unexpected error has ended this thread
        return run[1]

    def answers(self) -> tuple[CacheEntry, ...]:
        """Return all cached answers that have not expired; those of relayed tokens are last."""
        with self._lock:
            now = self._clock()
            return (*self._unrelayed_cache.answers(now), *self._relayed_cache.answers(now))

    def has_answers(self) -> bool:
        """Return whether an answer is cached that has not expired."""
        with self._lock:
            now = self._clock()
            return self._unrelayed_cache.has_answers(now) or self._relayed_cache.has_answers(now)

    def unserved_failures(self) -> tuple[OpenFailure, ...]:
        """Return the failures for which nothing is cached, so that pulls get nothing now; the newest is last.

        Old ones, since which the plugin has answered for other images, are left out.
        """
        with self._lock:
            now = self._clock()
            return tuple(
                [
                    each
                    for each in self._open_failures.at(now)
                    if not self._has_answer(each.failure.image, each.account_key, now)
                ]
            )

    def cache_uses(self) -> tuple[CacheUse, CacheUse]:
        """Return how full the cache of all answers but those of relayed tokens is, and then that of those."""
        with self._lock:
            now = self._clock()
            return self._unrelayed_cache.use(now), self._relayed_cache.use(now)

    def runs_under_way(self) -> int:
        """Return the number of plugin runs under way."""
        with self._lock:
            return len(self._shared_runs)

    def restore(self, image: str, provision: Provision) -> None:
        """Cache an answer that another process had cached, unless there is one."""
        entry: CacheEntry | None = None
        with self._lock:
            if self._unrelayed_cache.find(image, b"", self._clock()) is None:
                entry = self._unrelayed_cache.store(image, b"", provision)
        self._tell_cached(entry)

    def evict(self, image: str, username: str, password: str) -> bool:
        """Remove a credential that a registry refused; return False if it is not cached or was just evicted.

        Each cache key is evicted at most once in 30 seconds, so that a registry
        that refuses all credentials does not make plugins run in a loop.
        """
        now = self._clock()
        with self._lock:
            self._evicted = {k: at for k, at in self._evicted.items() if now - at < _EVICTION_PAUSE_NS}
            keys = [
                key
                for cache in (self._unrelayed_cache, self._relayed_cache)
                for key in cache.evict(image, username, password, keep=self._evicted.keys())
            ]
            self._evicted.update(dict.fromkeys(keys, now))
        if not keys and self._runs.agent is not None:
            return self._runs.agent.evict(self.name, image, username, password)
        return bool(keys)

    def reset_after_fork(self) -> None:
        """Replace locks and runs that belong to threads of the parent process; keep the cache."""
        self._lock = Lock()
        self._shared_runs = SharedRuns()
        self.counters._lock = Lock()  # noqa: SLF001 - a thread of the parent may hold this lock too

    def _has_answer(self, image: str, account_key: bytes, now_ns: int) -> bool:
        caches = (self._unrelayed_cache, self._relayed_cache)
        return any(each.find(image, account_key, now_ns) is not None for each in caches)

    def _cache_of(self, identity: Identity) -> Cache:
        return self._relayed_cache if identity.key else self._unrelayed_cache

    def _account_key(self, identity: Identity) -> bytes:
        if identity.key:
            return identity.key
        if identity.ref is None or self.config.token_attributes is None:
            return b""
        return account_cache_key(
            namespace=identity.ref.namespace,
            name=identity.ref.name,
            uid=identity.ref.uid,
            annotations=identity.annotations or {},
            token_hash=hash_token(identity.token),
            cache_type=self.config.token_attributes.cache_type,
        )

    def _provide(
        self, image: str, identity: Identity, account_key: bytes, others: bytes, budget: _TimeBudget | None
    ) -> Provision:
        cache = self._cache_of(identity)
        wait_for_registry = self._coalesce
        while True:
            with self._lock:
                kept = cache.find(image, account_key, self._clock())
                if kept is not None:
                    self.counters.hit()
                    log_debug("images", "%s: from the cache of provider %s", image, self.name)
                    return kept
                own_key, wide_key = run_key(image, others), self._wide_key(image, account_key, others)
                under_way = self._shared_runs.find(own_key)
                if under_way is None and wait_for_registry and self._last_type != "Image":
                    under_way = self._shared_runs.find(wide_key)
                if under_way is None and (budget is None or not budget.is_over()):
                    keys = (own_key, wide_key)
                    own = self._shared_runs.start(keys)
                    break
            if budget is None:
                budget = _TimeBudget(None, self._timeout_seconds)
            try:
                shared = self._share(under_way, image, identity, budget)
            except TimeoutError:
                return self._late(budget.seconds)
            if shared is not None:
                return shared
            # The other run failed, or its answer is not for this image: run the plugin for this image.
            wait_for_registry = False
        seconds = None if budget is None else budget.seconds_to_run()
        return self._run_and_share(own, keys, image, identity, account_key, seconds)

    def _wide_key(self, image: str, account_key: bytes, others: bytes) -> Hashable:
        """Return a key that is equal for runs whose answers may be for the same images, by the last response's type."""
        return "" if self._last_type == "Global" else registry_of(image), account_key, others

    def _share(
        self, under_way: SharedRun[_Run] | None, image: str, identity: Identity, budget: _TimeBudget
    ) -> Provision | None:
        """Return the answer of another run if it is for *image*, else None; raise TimeoutError if time is up."""
        if under_way is None:
            raise TimeoutError
        run = under_way.wait(budget.seconds_left())
        # The timeout of a run with a shorter limit does not apply to a caller with more time.
        if run is None or _seconds_given(run[1].error) < budget.seconds:
            return None
        asked, provision = run
        # The agent may have given only what this user may have for that image.
        if asked != image and (
            provision.error is not None
            or provision.is_from_agent
            or not shares_cache_key(provision.cache_key_type, asked, image)
        ):
            return None
        self.counters.shared()
        log_debug("images", "%s: from a run of plugin %s for another lookup", image, self.name)
        is_own = provision.error is None and not provision.is_from_agent
        outcome = ProvisionOutcome.SHARED if is_own else provision.outcome
        return replace(provision, outcome=outcome, account=identity.ref)

    def _late(self, seconds: float) -> Provision:
        """Return the failure of a lookup that timed out while waiting for another lookup's run, which continues."""
        self.counters.failed(PluginTimeoutError.kind)
        text = FAILED_RUN + "context deadline exceeded"
        error = PluginTimeoutError(self.name, seconds, text, was_killed=False)
        return Provision(
            provider=self.name, outcome=ProvisionOutcome.FAILED, error=error, kubernetes_text=text
        )

    def _run_and_share(  # noqa: PLR0917 - the data of one run
        self,
        under_way: SharedRun[_Run],
        keys: tuple[Hashable, ...],
        image: str,
        identity: Identity,
        account_key: bytes,
        timeout_seconds: float | None,
    ) -> Provision:
        """Run the plugin, cache its response, and pass the result to all lookups that wait for it."""
        ran: Provision | None = None
        entry: CacheEntry | None = None
        try:
            request = CredentialProviderRequest(
                image=image,
                service_account_token=identity.token,
                service_account_annotations=identity.annotations,
            )
            ran = self._runs.ask(request, identity, timeout_seconds)
        finally:
            with self._lock:
                if ran is not None and ran.error is not None:
                    failure = LastFailure(image=image, error=ran.error, at_ns=self._clock())
                    self._open_failures.add(failure, account_key)
                elif ran is not None:
                    self._last_type = ran.cache_key_type
                    self._open_failures.end(image, account_key, ran.cache_key_type, self._clock())
                    entry = self._store(image, ran, identity, account_key)
                self._shared_runs.remove(keys, under_way)
            under_way.finish(None if ran is None else (image, ran))
        self._tell_cached(entry)
        return ran

    def _store(self, image: str, ran: Provision, identity: Identity, account_key: bytes) -> CacheEntry | None:
        cached = replace(ran, outcome=ProvisionOutcome.CACHED, seconds=None, agent=None, got_ns=self._clock())
        return self._cache_of(identity).store(image, account_key, cached)

    def _tell_cached(self, entry: CacheEntry | None) -> None:
        """Tell who renews answers ahead of a new one; only answers for everybody are renewed."""
        if self._on_cached is not None and entry is not None and entry.is_shared:
            self._on_cached(self, entry)


def unrun_provision(name: str, why: NotApplicable | ServiceAccountError, pod: Pod | None) -> Provision:
    """Return the answer of a provider that is not run, for which ``identify`` has raised *why*."""
    if isinstance(why, NotApplicable):
        return Provision(
            provider=name, outcome=ProvisionOutcome.SKIPPED, skipped=str(why), lacking=why.lacking
        )
    if isinstance(why, NotGivenError):
        return _unknown(name, why, pod)
    return Provision(
        provider=name, outcome=ProvisionOutcome.FAILED, error=why, kubernetes_text=why.kubernetes_text
    )


def _unknown(name: str, not_given: NotGivenError, pod: Pod | None) -> Provision:
    """Return a provision of unknown outcome; with a pod it has an error, since the kubelet could not continue."""
    if pod is None:
        return Provision(provider=name, outcome=ProvisionOutcome.UNKNOWN, missing=not_given.missing)
    text = not_given.kubernetes_text
    return Provision(
        provider=name,
        outcome=ProvisionOutcome.UNKNOWN,
        error=not_given,
        kubernetes_text=text,
        missing=not_given.missing,
    )


def _seconds_given(error: KeyferryError | None) -> float:
    """Return the timeout of a run that timed out, or infinity for any other error."""
    return error.timeout_seconds if isinstance(error, PluginTimeoutError) else inf
