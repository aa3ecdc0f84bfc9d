"""The refresh state machine: decide whether to use a credential, run the plugin, or pause. It does no I/O.

The rules are client-go's. A credential is valid up to and including its expiry; without an expiry it is
valid for the life of the process. A 401 response counts only against the current credential. Failures are
not cached. In addition, from the second consecutive failure on, the plugin is not run again until a pause
is over, which grows with each failure, so that callers cannot run it in a tight loop.
"""

from __future__ import annotations

from enum import StrEnum

from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.errors import KeyferryError

_FIRST_PAUSE_NS = 500_000_000
_LONGEST_PAUSE_NS = 30_000_000_000


class Step(StrEnum):
    """The next step of a caller that needs a credential."""

    USE = "use the credential"
    RUN = "run the plugin"
    PAUSE = "raise the plugin's last failure, since the pause is not over"


class RefreshState:
    """The current credential and the results of the runs so far. Callers must hold a lock."""

    __slots__ = ("backs_off", "credential", "expires_ns", "error", "failures", "resume_ns", "certificates")

    def __init__(self, *, backs_off: bool = True) -> None:
        self.backs_off = backs_off
        self.credential: ClusterCredential | None = None
        self.expires_ns: int | None = None
        self.error: KeyferryError | None = None
        self.failures = 0
        self.resume_ns = 0
        # Counts changes of the client certificate; a connection made with another number is not reused.
        self.certificates = 0

    def decide(self, now_ns: int, monotonic_ns: int) -> Step:
        """Return the step for a request at *now_ns*, in Unix nanoseconds."""
        if self.credential is not None and (self.expires_ns is None or now_ns <= self.expires_ns):
            return Step.USE
        return self._run_or_pause(monotonic_ns)

    def decide_after_refusal(self, refused: ClusterCredential, monotonic_ns: int) -> Step:
        """Return the step after a 401 response to *refused*, which may have been replaced already."""
        if self.credential is not refused:
            return Step.USE
        return self._run_or_pause(monotonic_ns)

    def succeed(self, credential: ClusterCredential) -> bool:
        """Store a new credential; return whether it replaces another client certificate."""
        before = self.credential
        self.credential, self.expires_ns = credential, credential.expires_ns
        self.error, self.failures, self.resume_ns = None, 0, 0
        changed = before is not None and before.certificate_pem != credential.certificate_pem
        self.certificates += changed
        return changed

    def fail(self, error: KeyferryError, monotonic_ns: int) -> None:
        """Store a failure; the old credential and its expiry are kept."""
        self.error = error
        self.failures += 1
        if self.backs_off and self.failures > 1:
            pause = min(_LONGEST_PAUSE_NS, _FIRST_PAUSE_NS << min(self.failures - 2, 16))
            self.resume_ns = monotonic_ns + pause

    def postpone(self, expires_ns: int | None) -> None:
        """Store the expiry of a response whose certificate could not be used.

        client-go stores the expiry before it checks the key pair, so the old
        credential, if there is one, is kept with the new expiry.
        """
        self.expires_ns = expires_ns

    def _run_or_pause(self, monotonic_ns: int) -> Step:
        return Step.PAUSE if monotonic_ns < self.resume_ns else Step.RUN
