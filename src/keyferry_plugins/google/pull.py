"""Pulls of images: the image plugin's settings, Google's registries, and tokens of pods' service accounts."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.values import Value
from keyferry.api.meta import parse_duration
from keyferry.errors import DurationError
from keyferry.sdk import GLOBAL, IMAGE, REGISTRY, ProvideError
from keyferry.sdk.flags import Flags
from keyferry_plugins.google.calls import (
    ACCESS_TOKEN_TYPE,
    CLOUD_PLATFORM,
    EXCHANGE_GRANT,
    STS_URL,
    Calls,
    access_token,
    refusal,
)
from keyferry_plugins.oauth.answers import Token

ANNOTATION = "iam.gke.io/enable-wi-image-pull"
_DURATION, _TYPE = "KUBE_SIDECAR_CACHE_DURATION", "KUBE_SIDECAR_CACHE_TYPE"
_TYPES = {"": "", "image": IMAGE, "registry": REGISTRY, "global": GLOBAL}
_NANOSECONDS = 1e9
_JWT = "urn:ietf:params:oauth:token-type:jwt"
# All hosts of Google's registries, as patterns that the kubelet matches label by label.
GOOGLE_PATTERNS = (
    "container.cloud.google.com",
    "gcr.io",
    "*.gcr.io",
    "*.pkg.dev",
    "docker.*.rep.pkg.dev",
    "docker.*.goog",
)
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
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
    return PullSettings(
        flow=flags.text("authFlow"),
        identity_provider=provider,
        project=project,
        key_type=_TYPES[kind],
        seconds=_duration(environ),
    )


def _duration(environ: Mapping[str, str]) -> float | None:
    text = environ.get(_DURATION, "")
    if not text:
        return None
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


def is_google_host(host: str) -> bool:
    """Return whether Google runs the registry at *host*, which has no port."""
    labels = host.lower().split(".")
    return any(_matches(pattern.split("."), labels) for pattern in GOOGLE_PATTERNS)


def _matches(pattern: list[str], labels: list[str]) -> bool:
    if len(pattern) != len(labels):
        return False
    return all(
        bool(found) and _LABEL.issuperset(found) if wanted == "*" else found == wanted
        for wanted, found in zip(pattern, labels, strict=True)
    )


def find_google_registry(image: str) -> str:
    """Return an image's registry, with its port, if Google runs it; an empty string otherwise."""
    registry, slash, _ = image.partition("/")
    host, colon, port = registry.partition(":")
    return registry if slash and is_google_host(host) and (not colon or port == "443") else ""


def check_google_registry(image: str) -> str:
    """Return an image's registry, with its port, if Google runs it; raise ProvideError otherwise.

    A token gives access to everything its account can read and write, so no other registry may receive it.
    """
    registry = find_google_registry(image)
    if registry:
        return registry
    raise ProvideError(
        f"image {image[:200]!r} is not in a Google registry; no token was requested",
        f"in the kubelet's config, limit matchImages of this provider to {', '.join(GOOGLE_PATTERNS)}",
    )


def pull_request(project: str, provider: str, subject_token: str) -> dict[str, object]:
    """Return the request to the service for a Kubernetes service account of a GKE workload identity pool."""
    return {
        "audience": f"identitynamespace:{project}.svc.id.goog:{provider}",
        "grant_type": EXCHANGE_GRANT,
        "requested_token_type": ACCESS_TOKEN_TYPE,
        "scope": CLOUD_PLATFORM,
        "subject_token": subject_token,
        "subject_token_type": _JWT,
    }


def exchange_account_token(calls: Calls, project: str, provider: str, subject_token: str) -> Token:
    """Return a federated token for a Kubernetes service account's token."""
    what = "no token for the pod's service account"
    reply = calls.post_json(STS_URL, pull_request(project, provider, subject_token))
    if not reply.is_success:
        hint = (
            f"check that --identity-provider and --project-id name the cluster's pool and that the kubelet's config has"
            f" serviceAccountTokenAudience {project}.svc.id.goog; the principal needs roles/artifactregistry.reader"
        )
        raise refusal(reply, what, hint, (subject_token,))
    return access_token(reply, calls, what, "workload_identity")
