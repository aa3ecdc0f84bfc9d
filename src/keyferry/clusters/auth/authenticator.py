"""Run the plugin of an exec config once at a time, and share its credential between callers.

The rules are client-go's. A credential is valid up to and including its expiry; without an expiry it is valid for the
life of the process. A 401 response counts only against the current credential. Failures are not cached. In addition,
from the second consecutive failure on, the plugin is not run again until a pause is over, which grows with each
failure, so that callers cannot run it in a tight loop.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Hashable
from threading import Lock

from keyferry._core.clock import monotonic_ns, time_ns
from keyferry.clusters.auth.call_metrics import CALLS, CallMetrics
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.pem import parse_key_pair
from keyferry.errors import ClusterAuthError, KeyferryError, UnusableCertificateError
from keyferry.invoke.sharing import SharedRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio

_FIRST_PAUSE_NS = 500_000_000
_MAX_PAUSE_NS = 30_000_000_000


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
        # That of the credential, or after a response with an unusable certificate that of the response.
        self._expires_ns: int | None = None
        self._error: KeyferryError | None = None
        self._failures = 0
        self._resume_ns = 0
        self._certificate_generation = 0
        self._current_run: SharedRun[ClusterCredential | KeyferryError] | None = None
        self._lock = Lock()
        self._waiting: dict[tuple[int, int], asyncio.Future[ClusterCredential]] = {}
        with _alive_lock:
            _alive.add(self)

    @property
    def certificate_generation(self) -> int:
        """The number of times the client certificate has changed, not counting the first certificate."""
        return self._certificate_generation

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
        self._current_run = None
        self._waiting = {}

    def _obtain(self, refused: ClusterCredential | None) -> ClusterCredential:
        """Return a valid credential, or with *refused* any credential but that one; run the plugin if there is none.

        If another thread runs it already, wait for its result. If that run was interrupted, try again.
        """
        while True:
            with self._lock:
                usable = self.ready() if refused is None else self._credential
                if usable is not None and usable is not refused:
                    return usable
                run, is_mine = self._current_run, self._current_run is None
                if run is None:
                    if self._monotonic() < self._resume_ns:
                        raise self._failure(self._error)
                    self._current_run = run = SharedRun()
            if is_mine:
                return self._run_for_all(run)
            result = run.wait()
            if isinstance(result, ClusterCredential):
                return result
            if result is not None:
                raise self._failure(result)

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

    def _run_for_all(self, run: SharedRun[ClusterCredential | KeyferryError]) -> ClusterCredential:
        """Run the plugin and give the result to every waiting caller."""
        result: ClusterCredential | KeyferryError | None = None
        before: ClusterCredential | None = None
        try:
            result = self._run_plugin()
        finally:
            with self._lock:
                before = self._credential
                if isinstance(result, ClusterCredential):
                    self._take(result)
                elif result is not None:
                    self._take_failure(result)
                self._current_run = None
            run.finish(result)
        if not isinstance(result, ClusterCredential):
            raise self._failure(result)
        span = _span_ns(before) if _is_other_certificate(before, result) else None
        if span is not None:
            self._recorder.rotated((self._clock() - span[0]) / 1e9)
        return result

    def _run_plugin(self) -> ClusterCredential | KeyferryError:
        try:
            return self._run()
        except KeyferryError as error:
            # The error is passed on as a value, and the frames of its traceback hold the plugin's output.
            error.__traceback__ = None
            return error

    def _take(self, credential: ClusterCredential) -> None:
        self._certificate_generation += _is_other_certificate(self._credential, credential)
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
