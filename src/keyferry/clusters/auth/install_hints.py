"""Report a missing plugin, with help text and the kubeconfig's install hint a limited number of times."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from keyferry._core.clock import monotonic_ns

__all__ = ["HintLimiter", "not_found_text"]

_HOUR_NS = 3600 * 1_000_000_000
_HELP = """

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""


class HintLimiter:
    """A limit of *most* help texts an hour, so that a controller that retries does not fill its log.

    The hour starts with the first help text, and again with the first one after it is over.
    """

    def __init__(self, most: int = 10, *, clock: Callable[[], int] = monotonic_ns) -> None:
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._began_ns: int | None = None
        self._count = 0

    def take(self) -> bool:
        """Return whether the help text may be shown now, and count it if so."""
        with self._lock:
            now = self._clock()
            if self._began_ns is None or now - self._began_ns >= _HOUR_NS:
                self._began_ns, self._count = now, 0
            if self._count >= self._most:
                return False
            self._count += 1
            return True


def not_found_text(command: str, install_hint: str, *, with_help: bool) -> str:
    """Return client-go's error text for a program that is not found in PATH."""
    text = f"exec: executable {command} not found"
    if not with_help:
        return text
    return text + _HELP + (f"\n\n{install_hint}" if install_hint else "")
