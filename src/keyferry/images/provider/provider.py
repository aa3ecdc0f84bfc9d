"""One provider: its cache, its current runs, and its answer for an image."""

from _thread import allocate_lock
from math import inf
from time import monotonic

from keyferry._core.clock import monotonic_ns
from keyferry._core.values import Value, field
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import (
    KeyferryError,
    PluginError,
    PluginProtocolError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.images.provider.accounts import (
    NOBODY,
    Identity,
    NotApplicable,
    NotGivenError,
    Pod,
    ServiceAccounts,
    identify,
)
from keyferry.images.provider.cache import (
    Cache,
    account_cache_key,
    covers,
    flight_key,
    hash_token,
    other_inputs,
)
from keyferry.images.provider.counters import Counters
from keyferry.images.provider.plugin import Plugin
from keyferry.images.provider.provision import Provision, ProvisionOutcome
from keyferry.images.reference import registry_of
from keyferry.invoke.flight import Flight, Flights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


CACHE_KEY_TYPES = ("Image", "Registry", "Global")
_EVICTION_PAUSE_NS = 30 * 1_000_000_000
_TIMEOUT_SECONDS = 60.0
# A shorter delay before a run is not subtracted from the run's timeout.
_BEGINNING_SECONDS = 0.05
_FAILED_RUN = "failed to get credential from external registry credential provider: "


# The result of a run for all lookups that wait for it: the image, the response and its expiry, or the error.
class _Run(Value):
    image: str
    response: CredentialProviderResponse | None = field(default=None, repr=False)
    expires_ns: int | None = None
    seconds: float | None = None
    error: KeyferryError | None = None
    kubernetes_text: str = field(default="", repr=False)


# The time that a caller has to wait for other lookups' runs and to run the plugin itself.
class _TimeBudget:
    __slots__ = ("_asked_seconds", "_until", "seconds")

    def __init__(self, asked_seconds: float | None, default_seconds: float, waited_seconds: float) -> None:
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
        clock: "Callable[[], int]" = monotonic_ns,
        coalesce: bool = True,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        self.config = config
        self.counters = Counters()
        self._plugin = plugin
        self._accounts = accounts
        self._clock = clock
        self._coalesce = coalesce
        self._timeout_seconds = timeout_seconds
        self._last_type = ""
        self._cache = Cache(clock())
        self._flights: Flights[_Run] = Flights()
        self._lock = allocate_lock()
        self._evicted: dict[bytes, int] = {}

    @property
    def name(self) -> str:
        """The name of the provider, which is the file name of its executable."""
        return self.config.name

    def soonest_expiry_seconds(self) -> float | None:
        """Return the seconds until the first cache entry expires, or None if there is none."""
        with self._lock:
            now = self._clock()
            soonest = self._cache.soonest_expiry_ns(now)
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
        patience = _TimeBudget(timeout_seconds, self._timeout_seconds, waited_seconds)
        try:
            # Before the cache and without caching, as in the kubelet.
            identity = identify(self.config.token_attributes, self._accounts, pod)
            account_key = self._account_key(identity)
            provision = self._provide(image, identity, account_key, patience)
        except NotApplicable as skip:
            return Provision(self.name, ProvisionOutcome.SKIPPED, skipped=str(skip), lacking=skip.lacking)
        except NotGivenError as untold:
            return _unknown(self.name, untold, pod)
        except ServiceAccountError as error:
            self.counters.failed(error.kind)
            return Provision(
                self.name, ProvisionOutcome.FAILED, error=error, kubernetes_text=error.kubernetes_text
            )
        return provision.with_missing(identity.missing)

    def recall(self, image: str, pod: Pod | None = None) -> Provision | None:
        """Return what `provide` returns from the cache alone, or None if it needs a run; do not count it.

        Service accounts are not fetched, so it is None for a pod if the provider has ``tokenAttributes``.
        """
        attributes = self.config.token_attributes
        if pod is not None and attributes is not None:
            return None
        try:
            identity = NOBODY if attributes is None else identify(attributes, None, None)
            if not self._cache:
                return None
            with self._lock:
                kept = self._cache.find(image, b"", self._clock())
        except NotGivenError as untold:
            return _unknown(self.name, untold, None)
        except ServiceAccountError:
            return None
        return kept.with_missing(identity.missing) if kept and identity.missing else kept

    def evict(self, image: str, username: str, password: str) -> bool:
        """Remove a credential that a registry refused; return False if it is not cached or was just evicted.

        Each cache key is evicted at most once in 30 seconds, so that a registry
        that refuses all credentials does not make plugins run in a loop.
        """
        now = self._clock()
        with self._lock:
            self._evicted = {k: at for k, at in self._evicted.items() if now - at < _EVICTION_PAUSE_NS}
            keys = self._cache.evict(image, username, password, keep=self._evicted.keys())
            self._evicted.update(dict.fromkeys(keys, now))
        return bool(keys)

    def reset_after_fork(self) -> None:
        """Replace locks and runs that belong to threads of the parent process; keep the cache."""
        self._lock = allocate_lock()
        self._flights = Flights()
        self.counters._lock = allocate_lock()  # noqa: SLF001 - a thread of the parent may hold this lock too

    def _account_key(self, identity: Identity) -> bytes:
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
        self, image: str, identity: Identity, account_key: bytes, patience: _TimeBudget
    ) -> Provision:
        others = other_inputs(hash_token(identity.token), identity.annotations or {})
        own_key = flight_key(image, others)
        wait_for_registry = self._coalesce
        while True:
            wide_key = self._wide_key(image, account_key, others)
            with self._lock:
                kept = self._cache.find(image, account_key, self._clock())
                if kept is not None:
                    self.counters.count("hits")
                    return kept
                flight = self._flights.find(own_key)
                if flight is None and wait_for_registry and self._last_type != "Image":
                    flight = self._flights.find(wide_key)
                if flight is None and not patience.is_over():
                    keys = (own_key, wide_key)
                    flight = self._flights.start(keys)
                    break
            try:
                shared = self._share(flight, image, identity, patience)
            except TimeoutError:
                return self._late(patience.seconds)
            if shared is not None:
                return shared
            # The other run failed, or its response does not cover this image: run the plugin for this image.
            wait_for_registry = False
        run = self._fly(flight, keys, image, identity, account_key, patience.seconds_to_run())
        return self._from_run(run, identity, ProvisionOutcome.RAN)

    def _wide_key(self, image: str, account_key: bytes, others: bytes) -> "Hashable":
        """Return a key that is equal for runs whose responses may cover each other, by the last response's type."""
        return "" if self._last_type == "Global" else registry_of(image), account_key, others

    def _share(
        self, flight: Flight[_Run] | None, image: str, identity: Identity, patience: _TimeBudget
    ) -> Provision | None:
        """Return the answer of another run if it covers *image*, else None; raise TimeoutError if time is up."""
        if flight is None:
            raise TimeoutError
        run = flight.wait(patience.seconds_left())
        # The timeout of a run with a shorter limit does not apply to a caller with more time.
        if run is None or _seconds_given(run.error) < patience.seconds:
            return None
        if run.image != image and (
            run.response is None or not covers(run.response.cache_key_type, run.image, image)
        ):
            return None
        self.counters.count("shared")
        return self._from_run(run, identity, ProvisionOutcome.SHARED)

    def _late(self, seconds: float) -> Provision:
        """Return the failure of a lookup that timed out while waiting for another lookup's run, which continues."""
        self.counters.failed(PluginTimeoutError.kind)
        text = _FAILED_RUN + "context deadline exceeded"
        error = PluginTimeoutError(self.name, seconds, text, was_killed=False)
        return Provision(self.name, ProvisionOutcome.FAILED, error=error, kubernetes_text=text)

    def _fly(  # noqa: PLR0917 - the data of one run
        self,
        flight: Flight[_Run],
        keys: "tuple[Hashable, ...]",
        image: str,
        identity: Identity,
        account_key: bytes,
        timeout_seconds: float | None,
    ) -> _Run:
        """Run the plugin, cache its response, and pass the result to all lookups that wait for it."""
        run: _Run | None = None
        try:
            run = self._ask(image, identity, timeout_seconds)
        finally:
            with self._lock:
                if run is not None and run.response is not None:
                    self._last_type = run.response.cache_key_type
                    if run.expires_ns is not None:
                        self._keep(run, identity, account_key)
                self._flights.finish(keys, flight)
            flight.land(run)
        return run

    def _keep(self, run: _Run, identity: Identity, account_key: bytes) -> None:
        assert run.response is not None  # noqa: S101 - only responses are cached
        auth, cache_key_type = run.response.auth or {}, run.response.cache_key_type
        kept = Provision(
            self.name, ProvisionOutcome.CACHED, auth, cache_key_type, run.expires_ns, None, identity.ref
        )
        self._cache.store(run.image, account_key, kept)

    def _ask(self, image: str, identity: Identity, timeout_seconds: float | None) -> _Run:
        request = CredentialProviderRequest(image, identity.token, identity.annotations)
        try:
            response, seconds = self._plugin(request, timeout_seconds)
        except PluginError as error:
            self.counters.ran(error.seconds, error)
            text = _FAILED_RUN + error.kubernetes_text
            # The error is passed on as a value; the frames of its traceback hold the plugin's output.
            error.__traceback__ = None
            return _Run(image, seconds=error.seconds, error=error, kubernetes_text=text)
        problem = self._refuse(response, identity)
        self.counters.ran(seconds, problem)
        if problem is not None:
            return _Run(image, seconds=seconds, error=problem, kubernetes_text=problem.kubernetes_text)
        return _Run(image, response, self._expiry_ns(response), seconds)

    def _refuse(self, response: CredentialProviderResponse, identity: Identity) -> PluginError | None:
        """Return the error of a response that is decoded but not allowed, or None."""
        attributes = self.config.token_attributes
        if identity.token and attributes is not None and attributes.cache_type != "Token":
            if any(auth.password == identity.token for auth in (response.auth or {}).values()):
                return _echoed(self.name)
        if response.cache_key_type not in CACHE_KEY_TYPES:
            text = (
                f"credential provider plugin did not return a valid cacheKeyType: {response.cache_key_type}"
            )
            expected = ", ".join(CACHE_KEY_TYPES)
            return PluginProtocolError(self.name, f"cacheKeyType of its response is none of {expected}", text)
        return None

    def _expiry_ns(self, response: CredentialProviderResponse) -> int | None:
        """Return the expiry of a response, or None if it is not cached."""
        duration = response.cache_duration_ns
        if duration is None:
            duration = self.config.default_cache_duration_ns or 0
        return None if duration == 0 else self._clock() + duration

    def _from_run(self, run: _Run, identity: Identity, outcome: ProvisionOutcome) -> Provision:
        if run.response is None:
            return Provision(
                self.name,
                ProvisionOutcome.FAILED,
                seconds=run.seconds,
                account=identity.ref,
                error=run.error,
                kubernetes_text=run.kubernetes_text,
            )
        return Provision(
            self.name,
            outcome,
            run.response.auth or {},
            run.response.cache_key_type,
            run.expires_ns,
            run.seconds,
            identity.ref,
        )


def _unknown(name: str, untold: NotGivenError, pod: Pod | None) -> Provision:
    """Return a provision of unknown outcome; with a pod it has an error, since the kubelet could not continue."""
    if pod is None:
        return Provision(name, ProvisionOutcome.UNKNOWN, missing=untold.missing)
    text = untold.kubernetes_text
    return Provision(
        name, ProvisionOutcome.UNKNOWN, error=untold, kubernetes_text=text, missing=untold.missing
    )


def _seconds_given(error: KeyferryError | None) -> float:
    """Return the timeout of a run that timed out, or infinity for any other error."""
    return error.timeout_seconds if isinstance(error, PluginTimeoutError) else inf


def _echoed(plugin: str) -> PluginError:
    text = (
        "credential provider plugin returned the service account token as the password which is not allowed "
        "when service account cache type is not set to 'Token'"
    )
    message = (
        "it returned the service account token itself, which would outlive the token in the cache; "
        "set tokenAttributes.cacheType to 'Token' for such a plugin"
    )
    return PluginProtocolError(plugin, message, text)
