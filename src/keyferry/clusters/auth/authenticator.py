"""Run the plugin of an exec config once at a time, and share its credential between callers.

Threads and asyncio use the same state machine. A caller that needs a run while another run is
in progress waits for that run. A valid credential is returned without waiting.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Hashable
from threading import Lock

from keyferry._core.clock import monotonic_ns, time_ns
from keyferry.clusters.auth.calls import CALLS, CallMetrics
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.pem import parse_key_pair
from keyferry.clusters.auth.state import RefreshState, Step
from keyferry.errors import ClusterAuthError, KeyferryError, UnusableCertificateError
from keyferry.invoke.sharing import Flight

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio

Run = Callable[[], ClusterCredential]


class Authenticator:
    """The credential of one exec config.

    It can be shared between threads and event loops, and used after a fork.
    """

    def __init__(
        self,
        run: Run,
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
        self._clock = clock
        self._monotonic = monotonic
        self._state = RefreshState(backs_off=backs_off)
        self._flight: Flight[ClusterCredential | KeyferryError] | None = None
        self._lock = Lock()
        self._waiting: dict[tuple[int, int], asyncio.Future[ClusterCredential]] = {}
        with _alive_lock:
            _alive.add(self)

    @property
    def certificates(self) -> int:
        """The number of times the client certificate has changed, not counting the first certificate."""
        return self._state.certificates

    @property
    def expires_ns(self) -> int | None:
        """The expiry of the current credential in Unix nanoseconds; None if it has none or there is no credential."""
        return self._state.expires_ns

    @property
    def last_error(self) -> KeyferryError | None:
        """The error of the last run; None if it succeeded or there was none."""
        return self._state.error

    def current(self) -> ClusterCredential | None:
        """Return the current credential, expired or not, without running the plugin."""
        return self._state.credential

    def ready(self) -> ClusterCredential | None:
        """Return the current credential if it has not expired, without waiting or running the plugin."""
        state = self._state
        credential = state.credential
        if credential is None or (state.expires_ns is not None and self._clock() > state.expires_ns):
            return None
        return credential

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
        return _span_ns(self._state.credential)

    def reset_after_fork(self) -> None:
        """Discard a run in progress, which only a thread of the parent process could finish."""
        self._lock = Lock()
        self._flight = None
        self._waiting = {}

    def _obtain(self, refused: ClusterCredential | None) -> ClusterCredential:
        while True:
            with self._lock:
                step = self._decide(refused)
                if step is Step.USE and self._state.credential is not None:
                    return self._state.credential
                if step is Step.PAUSE and self._flight is None:
                    raise self._failure(self._state.error)
                flight, is_mine = self._flight, self._flight is None
                if flight is None:
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

    def _decide(self, refused: ClusterCredential | None) -> Step:
        now = self._monotonic()
        if refused is None:
            return self._state.decide(self._clock(), now)
        return self._state.decide_after_refusal(refused, now)

    def _fly(self, flight: Flight[ClusterCredential | KeyferryError]) -> ClusterCredential:
        """Run the plugin and give the result to every waiting caller."""
        landed: ClusterCredential | KeyferryError | None = None
        changed = False
        before: ClusterCredential | None = None
        try:
            landed = self._run_plugin()
        finally:
            with self._lock:
                before = self._state.credential
                if isinstance(landed, ClusterCredential):
                    changed = self._state.succeed(landed)
                elif landed is not None:
                    self._take_failure(landed)
                self._flight = None
            flight.land(landed)
        if not isinstance(landed, ClusterCredential):
            raise self._failure(landed)
        if changed:
            self._count_rotation(before)
        return landed

    def _count_rotation(self, replaced: ClusterCredential | None) -> None:
        """Record the age of the certificate that was replaced; tokens are not recorded."""
        span = _span_ns(replaced)
        if span is not None:
            self._recorder.rotated((self._clock() - span[0]) / 1e9)

    def _run_plugin(self) -> ClusterCredential | KeyferryError:
        try:
            return self._run()
        except KeyferryError as error:
            # The error is passed on as a value, and the frames of its traceback hold the plugin's output.
            error.__traceback__ = None
            return error

    def _take_failure(self, error: KeyferryError) -> None:
        if isinstance(error, UnusableCertificateError):
            self._state.postpone(error.expires_ns)
        self._state.fail(error, self._monotonic())

    def _failure(self, error: KeyferryError | None) -> ClusterAuthError:
        if error is None:
            return ClusterAuthError(self._server, "the plugin run was interrupted")
        text = f"getting credentials: {error.kubernetes_text}"
        return ClusterAuthError(self._server, f"no credential: {error}", text, error)


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
