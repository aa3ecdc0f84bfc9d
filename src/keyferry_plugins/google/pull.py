"""Settings of the image plugin: flags, variables, and how long a response may be cached."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.sdk import GLOBAL, IMAGE, REGISTRY, ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.flags import Flags

__all__ = ["ANNOTATION", "PullSettings", "kept_seconds", "read_settings"]

ANNOTATION = "iam.gke.io/enable-wi-image-pull"
_DURATION, _TYPE = "KUBE_SIDECAR_CACHE_DURATION", "KUBE_SIDECAR_CACHE_TYPE"
_TYPES = {"": "", "image": IMAGE, "registry": REGISTRY, "global": GLOBAL}
_NANOSECONDS = 1e9
# The time that a pull of a large image may take after the kubelet reads the token from its cache.
_MARGIN_SECONDS = 300.0


class PullSettings(Value):
    """How to obtain a login, and the response's caching; *key_type* is empty and *seconds* None if unset."""

    flow: str = "gcr"
    identity_provider: str = ""
    project: str = ""
    key_type: str = ""
    seconds: float | None = None


def read_settings(flags: Flags, environ: Mapping[str, str]) -> PullSettings:
    """Merge flags and environment; raise ProvideError if they are invalid."""
    if flags.words not in ((), ("get-credentials",)):
        raise ProvideError(
            f"unknown arguments {' '.join(flags.words)[:80]!r}", "the only command is get-credentials"
        )
    provider, project = flags.text("identity-provider"), flags.text("project-id")
    if provider and not project:
        raise ProvideError("--identity-provider needs --project-id", "give the project of the cluster's pool")
    kind = environ.get(_TYPE, "")
    if kind not in _TYPES:
        raise ProvideError(f"{_TYPE} is {kind[:80]!r}, expected image, registry or global")
    return PullSettings(flags.text("authFlow"), provider, project, _TYPES[kind], _duration(environ))


def _duration(environ: Mapping[str, str]) -> float | None:
    text = environ.get(_DURATION, "")
    if not text:
        return None
    from keyferry.api.meta import parse_duration
    from keyferry.errors import DurationError

    try:
        return parse_duration(text) / _NANOSECONDS
    except DurationError as error:
        problem = str(error)
    raise ProvideError(f"{_DURATION}: {problem}")


def kept_seconds(settings: PullSettings, expires_at: float | None, now: float) -> float:
    """Return how long the kubelet may cache a token: the configured time, limited by the token's expiry."""
    if expires_at is None:
        return 0.0
    life = max(0.0, expires_at - now)
    usable = float(int(life - min(_MARGIN_SECONDS, life / 2)))
    return usable if settings.seconds is None else min(settings.seconds, usable)
