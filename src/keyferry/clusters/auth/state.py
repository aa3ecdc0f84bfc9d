"""When a credential is used, renewed or waited for: the refresh state machine, without input or output.

client-go's rules: a credential is good up to and including its expiry; without
one it is good for the life of the process; a 401 counts only against the
credential that is still current; failures are not remembered. On top of these,
and only from the second failure in a row on, a failing plugin is left alone for a
growing while, so that no caller can drive it in a hot loop.
"""

from enum import Enum

from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.errors import KeyferryError

_FIRST_PAUSE_NS = 500_000_000
_LONGEST_PAUSE_NS = 30_000_000_000


class Step(Enum):
    """What a caller who needs a credential does next."""

    USE = "use the credential"
    RUN = "run the plugin"
    PAUSE = "fail as the plugin failed last, it is too soon to run it again"


class RefreshState:
    """The credential at hand and what happened to the runs so far; whoever shares it holds a lock."""

    __slots__ = ("backs_off", "credential", "expires_ns", "error", "failures", "resume_ns", "certificates")

    def __init__(self, *, backs_off: bool = True) -> None:
        self.backs_off = backs_off
        self.credential: ClusterCredential | None = None
        self.expires_ns: int | None = None
        self.error: KeyferryError | None = None
        self.failures = 0
        self.resume_ns = 0
        # Counts changes of the client certificate; a connection made under another number is not used again.
        self.certificates = 0

    def decide(self, now_ns: int, monotonic_ns: int) -> Step:
        """What to do for a request at *now_ns*, wall-clock time."""
        if self.credential is not None and (self.expires_ns is None or now_ns <= self.expires_ns):
            return Step.USE
        return self._run_or_pause(monotonic_ns)

    def decide_after_refusal(self, refused: ClusterCredential, monotonic_ns: int) -> Step:
        """What to do when the server said 401 to *refused*: renew it, unless that was done already."""
        if self.credential is not refused:
            return Step.USE
        return self._run_or_pause(monotonic_ns)

    def succeed(self, credential: ClusterCredential) -> bool:
        """Take a new credential; tell whether the client certificate changed, the first one apart."""
        before = self.credential
        self.credential, self.expires_ns = credential, credential.expires_ns
        self.error, self.failures, self.resume_ns = None, 0, 0
        changed = before is not None and before.certificate_pem != credential.certificate_pem
        self.certificates += changed
        return changed

    def fail(self, error: KeyferryError, monotonic_ns: int) -> None:
        """Take a failure; the old credential stays, as does its expiry."""
        self.error = error
        self.failures += 1
        if self.backs_off and self.failures > 1:
            pause = min(_LONGEST_PAUSE_NS, _FIRST_PAUSE_NS << min(self.failures - 2, 16))
            self.resume_ns = monotonic_ns + pause

    def postpone(self, expires_ns: int | None) -> None:
        """Take the expiry of an answer whose certificate could not be used.

        client-go stores the expiry before it looks at the key pair, so the old
        credential, if there is one, lives on under the new expiry. Kept as it is.
        """
        self.expires_ns = expires_ns

    def _run_or_pause(self, monotonic_ns: int) -> Step:
        return Step.PAUSE if monotonic_ns < self.resume_ns else Step.RUN
