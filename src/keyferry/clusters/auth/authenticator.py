"""Run the plugin of an exec config once at a time, share its credential between callers, and count its runs.

The rules are client-go's. A credential is valid up to and including its expiry; without an expiry it is valid for the
life of the process. A 401 response counts only against the current credential. Failures are not cached. In addition,
from the second consecutive failure on, the plugin is not run again until a pause is over, which grows with each
failure, so that callers cannot run it in a tight loop.
"""

from __future__ import annotations

import os
import weakref
from bisect import bisect_left
from collections.abc import Callable, Hashable
from threading import Lock

from keyferry._core.clock import monotonic_ns, time_ns
from keyferry._core.values import Value
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.pem import parse_key_pair
from keyferry.errors import ClusterAuthError, KeyferryError, UnusableCertificateError
from keyferry.invoke.sharing import Flight

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio

# The values of call_status in rest_client_exec_plugin_call_total.
NO_ERROR = "no_error"
PLUGIN_ERROR = "plugin_execution_error"
NOT_FOUND = "plugin_not_found_error"
INTERNAL_ERROR = "client_internal_error"
# client-go's buckets for the age of a certificate, in seconds: ten minutes to four years.
ROTATION_BUCKETS = (
    600.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
    604800.0,
    2592000.0,
    7776000.0,
    15552000.0,
    31104000.0,
    124416000.0,
)
_FIRST_PAUSE_NS = 500_000_000
_MAX_PAUSE_NS = 30_000_000_000


class Rotations(Value):
    """Ages of certificates when they were replaced: the count for each bucket, and the sum in seconds."""

    buckets: tuple[int, ...]
    seconds: float


class CallMetrics:
    """Counts of plugin runs, policy decisions and replaced certificates.

    It can be updated from several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: dict[tuple[int, str], int] = {}
        self._decisions: dict[str, int] = {}
        self._rotations = [0] * (len(ROTATION_BUCKETS) + 1)
        self._rotated_seconds = 0.0

    def called(self, code: int, call_status: str) -> None:
        """Count a run by its exit code and status."""
        with self._lock:
            key = (code, call_status)
            self._calls[key] = self._calls.get(key, 0) + 1

    def decided(self, outcome: str) -> None:
        """Count a decision of the policy."""
        with self._lock:
            self._decisions[outcome] = self._decisions.get(outcome, 0) + 1

    def rotated(self, age_seconds: float) -> None:
        """Count a client certificate that was replaced at the age of *age_seconds*."""
        with self._lock:
            self._rotations[bisect_left(ROTATION_BUCKETS, age_seconds)] += 1
            self._rotated_seconds += age_seconds

    @property
    def calls(self) -> dict[tuple[int, str], int]:
        """Runs by exit code and call_status."""
        with self._lock:
            return dict(self._calls)

    @property
    def decisions(self) -> dict[str, int]:
        """Decisions of the policy by outcome."""
        with self._lock:
            return dict(self._decisions)

    @property
    def rotations(self) -> Rotations:
        """Ages of replaced certificates."""
        with self._lock:
            return Rotations(buckets=tuple(self._rotations), seconds=self._rotated_seconds)


# The default for the whole process, as in client-go; callers that need separate counts pass their own.
CALLS = CallMetrics()


class Authenticator:
    """The credential of one exec config, which *run* obtains.

    It can be shared between threads and event loops, and used after a fork. A caller that needs a run while another
    one is in progress waits for that one. A valid credential is returned without waiting.
    """

    def __init__(
        self,
        run: Callable[[], ClusterCredential],
        *,
        server: str = "",
        backs_off: bool = True,
        recorder: CallMetrics = CALLS,
        clock: Callable[[], int] = time_ns,
        monotonic: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._server = server
        self._backs_off = backs_off
        self._clock = clock
        self._monotonic = monotonic
        self._credential: ClusterCredential | None = None
        self._expires_ns: int | None = None
        self._error: KeyferryError | None = None
        self._failures = 0
        self._resume_ns = 0
        self._certificates = 0
        self._flight: Flight[ClusterCredential | KeyferryError] | None = None
        self._lock = Lock()
        self._waiting: dict[tuple[int, int], asyncio.Future[ClusterCredential]] = {}
        with _alive_lock:
            _alive.add(self)

    @property
    def certificates(self) -> int:
        """The number of times the client certificate has changed, not counting the first certificate."""
        return self._certificates

    @property
    def expires_ns(self) -> int | None:
        """The expiry of the current credential in Unix nanoseconds; None if it has none or there is no credential."""
        return self._expires_ns

    @property
    def last_error(self) -> KeyferryError | None:
        """The error of the last run; None if it succeeded or there was none."""
        return self._error

    def current(self) -> ClusterCredential | None:
        """Return the current credential, expired or not, without running the plugin."""
        return self._credential

    def ready(self) -> ClusterCredential | None:
        """Return the current credential if it has not expired, without waiting or running the plugin."""
        credential, expires_ns = self._credential, self._expires_ns
        return credential if expires_ns is None or self._clock() <= expires_ns else None

    def credential(self) -> ClusterCredential:
        """Return a valid credential, running the plugin if necessary. Raises ClusterAuthError."""
        return self.ready() or self._obtain(None)

    async def credential_async(self) -> ClusterCredential:
        """Return the same as ``credential`` without blocking the event loop."""
        return self.ready() or await self._obtain_async(None)

    def renew(self, refused: ClusterCredential) -> ClusterCredential:
        """Return the credential that replaces *refused* after a 401 response. Raises ClusterAuthError."""
        return self._obtain(refused)

    async def renew_async(self, refused: ClusterCredential) -> ClusterCredential:
        """Return the same as ``renew`` without blocking the event loop."""
        return await self._obtain_async(refused)

    def certificate_span_ns(self) -> tuple[int, int] | None:
        """Return the validity period of the current client certificate in Unix nanoseconds; None without one."""
        return _span_ns(self._credential)

    def reset_after_fork(self) -> None:
        """Discard a run in progress, which only a thread of the parent process could finish."""
        self._lock = Lock()
        self._flight = None
        self._waiting = {}

    def _obtain(self, refused: ClusterCredential | None) -> ClusterCredential:
        while True:
            with self._lock:
                usable = self.ready() if refused is None else self._credential
                if usable is not None and usable is not refused:
                    return usable
                flight, is_mine = self._flight, self._flight is None
                if flight is None:
                    if self._monotonic() < self._resume_ns:
                        raise self._failure(self._error)
                    self._flight = flight = Flight()
            if is_mine:
                return self._fly(flight)
            landed = flight.wait()
            if isinstance(landed, ClusterCredential):
                return landed
            if landed is not None:
                raise self._failure(landed)

    async def _obtain_async(self, refused: ClusterCredential | None) -> ClusterCredential:
        """Obtain the credential in a thread.

        All callers on one event loop share that thread, so that a burst does not use up the loop's executor.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        key = id(loop), id(refused)
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = loop.run_in_executor(None, self._obtain, refused)
            waiting.add_done_callback(lambda done: self._forget(key, done))
        # A caller that is cancelled must not cancel the run for the others.
        return await asyncio.shield(waiting)

    def _forget(self, key: tuple[int, int], done: asyncio.Future[ClusterCredential]) -> None:
        self._waiting.pop(key, None)
        if not done.cancelled():
            done.exception()  # marks it as retrieved, or asyncio logs a warning if every caller was cancelled

    def _fly(self, flight: Flight[ClusterCredential | KeyferryError]) -> ClusterCredential:
        """Run the plugin and give the result to every waiting caller."""
        landed: ClusterCredential | KeyferryError | None = None
        before: ClusterCredential | None = None
        try:
            landed = self._run_plugin()
        finally:
            with self._lock:
                before = self._credential
                if isinstance(landed, ClusterCredential):
                    self._take(landed)
                elif landed is not None:
                    self._take_failure(landed)
                self._flight = None
            flight.land(landed)
        if not isinstance(landed, ClusterCredential):
            raise self._failure(landed)
        span = _span_ns(before) if _is_other_certificate(before, landed) else None
        if span is not None:
            self._recorder.rotated((self._clock() - span[0]) / 1e9)
        return landed

    def _run_plugin(self) -> ClusterCredential | KeyferryError:
        try:
            return self._run()
        except KeyferryError as error:
            # The error is passed on as a value, and the frames of its traceback hold the plugin's output.
            error.__traceback__ = None
            return error

    def _take(self, credential: ClusterCredential) -> None:
        self._certificates += _is_other_certificate(self._credential, credential)
        self._credential, self._expires_ns = credential, credential.expires_ns
        self._error, self._failures, self._resume_ns = None, 0, 0

    def _take_failure(self, error: KeyferryError) -> None:
        """Store a failure; the old credential is kept, and its expiry, too, unless a certificate was unusable."""
        if isinstance(error, UnusableCertificateError):
            # client-go stores the expiry of a response before it checks the key pair.
            self._expires_ns = error.expires_ns
        self._error = error
        self._failures += 1
        if self._backs_off and self._failures > 1:
            pause_ns = min(_MAX_PAUSE_NS, _FIRST_PAUSE_NS << min(self._failures - 2, 16))
            self._resume_ns = self._monotonic() + pause_ns

    def _failure(self, error: KeyferryError | None) -> ClusterAuthError:
        if error is None:
            return ClusterAuthError(self._server, "the plugin run was interrupted")
        text = f"getting credentials: {error.kubernetes_text}"
        return ClusterAuthError(self._server, f"no credential: {error}", text, error)


def _is_other_certificate(before: ClusterCredential | None, after: ClusterCredential) -> bool:
    return before is not None and before.certificate_pem != after.certificate_pem


def _span_ns(credential: ClusterCredential | None) -> tuple[int, int] | None:
    if credential is None or not credential.certificate_pem:
        return None
    try:
        pair = parse_key_pair(credential.certificate_pem, credential.key_pem)
    except KeyferryError:
        return None  # this is used for metrics only, which must not make a request fail
    return pair.not_before_ns, pair.not_after_ns


_alive: weakref.WeakSet[Authenticator] = weakref.WeakSet()
_alive_lock = Lock()
_shared: weakref.WeakValueDictionary[Hashable, Authenticator] = weakref.WeakValueDictionary()
_shared_lock = Lock()


def shared_authenticator(key: Hashable, make: Callable[[], Authenticator]) -> Authenticator:
    """Return this process's authenticator for *key*, made by *make* at first use.

    *key* must contain everything that determines which program runs and what input it gets.
    """
    with _shared_lock:
        found = _shared.get(key)
        if found is None:
            _shared[key] = found = make()
        return found


def living_authenticators() -> tuple[Authenticator, ...]:
    """Return every authenticator of this process that is still referenced."""
    with _alive_lock:
        return tuple(_alive)


def _reset_after_fork() -> None:
    global _shared_lock, _alive_lock
    _shared_lock, _alive_lock = Lock(), Lock()
    for authenticator in list(_alive):
        authenticator.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
