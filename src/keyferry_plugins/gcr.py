"""An image credential provider for Google's registries: Container Registry and Artifact Registry."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import time

from keyferry.sdk import (
    GLOBAL,
    REGISTRY,
    AuthConfig,
    Deadline,
    ProvideError,
    Request,
    Response,
    serve,
    tell,
)
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_flags
from keyferry_plugins.google.adc import explicit_file, none_found, token_from_file, well_known_file
from keyferry_plugins.google.calls import CLOUD_PLATFORM, RUN_SECONDS, Calls
from keyferry_plugins.google.metadata import fetch_dockercfg, fetch_metadata_token, is_on_gce
from keyferry_plugins.google.pull import (
    ANNOTATION,
    GOOGLE_PATTERNS,
    PullSettings,
    check_google_registry,
    exchange_account_token,
    kept_seconds,
    read_settings,
)
from keyferry_plugins.oauth.answers import Token

ABOUT = """\
Give the kubelet a login for images in Google's registries: from the node's service account, the pod's own
(workload identity), application default credentials, or a docker config in the instance's metadata."""
FLOWS = ("gcr", "dockercfg", "dockercfg-url")
FLAGS = (
    Flag(
        name="authFlow",
        about="where logins come from: " + ", ".join(FLOWS),
        default="gcr",
        short="a",
        choices=FLOWS,
    ),
    Flag(
        name="identity-provider",
        about="URL of the cluster's identity provider, for pulls as the pod's service account",
    ),
    Flag(name="project-id", about="the project of the cluster's workload identity pool"),
    Flag(name="compat", about="behave exactly like auth-provider-gcp, quirks included", is_switch=True),
    *LOG_FLAGS,
)
# Google's registries accept both names; auth-provider-gcp uses the first for a node's or pod's token.
_NODE_USER, _DEFAULT_USER = "_token", "oauth2accesstoken"


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT, words="[get-credentials]")
    serve(lambda request: provide(request, flags), is_lenient=flags.is_on("compat"))


def provide(
    request: Request,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    now: Callable[[], float] = time,
) -> Response:
    """Return a login for the image's registry."""
    environ = os.environ if environ is None else environ
    settings = read_settings(flags, environ)
    deadline = Deadline(RUN_SECONDS)
    if settings.identity_provider and settings.flow != "gcr":
        tell(f"--identity-provider has no effect with --authFlow {settings.flow}")
    if flags.is_on("compat"):
        from keyferry_plugins.google.upstream import provide_as_upstream

        return provide_as_upstream(request, settings, deadline)
    calls = Calls(deadline=deadline, environ=environ, now=now)
    return _by_token(request, settings, calls) if settings.flow == "gcr" else _by_config(settings, calls)


def _by_token(request: Request, settings: PullSettings, calls: Calls) -> Response:
    registry = check_google_registry(request.image)
    token = _token(request, settings, calls)
    user = _NODE_USER if token.origin in ("metadata", "workload_identity") else _DEFAULT_USER
    key_type = settings.key_type or REGISTRY
    # A global response needs keys for all registries; any other is used only for this registry.
    keys = (registry, *GOOGLE_PATTERNS) if key_type == GLOBAL else (registry,)
    login = AuthConfig(username=user, password=token.value)
    return Response(
        auth=dict.fromkeys(keys, login),
        cache_key_type=key_type,
        cache_seconds=kept_seconds(settings, token.expires_at, calls.now()),
    )


def _token(request: Request, settings: PullSettings, calls: Calls) -> Token:
    if settings.identity_provider and request.service_account_annotations.get(ANNOTATION) == "true":
        return _account_token(request, settings, calls)
    path = explicit_file(calls)
    if not path and is_on_gce(calls):
        return fetch_metadata_token(calls)
    # The node is not Google's. A file that a person's gcloud wrote comes after the node's own account.
    path = path or well_known_file(calls)
    if not path:
        raise none_found()
    return token_from_file(calls, path, (CLOUD_PLATFORM,))


def _account_token(request: Request, settings: PullSettings, calls: Calls) -> Token:
    """Return the pod's own token, without falling back to the node's, which may have more access than the pod."""
    if not request.service_account_token:
        raise ProvideError(
            "the service account is annotated for its own pulls, but the request has no token for it",
            "in the kubelet's config, set tokenAttributes with serviceAccountTokenAudience"
            f" {settings.project}.svc.id.goog",
        )
    return exchange_account_token(
        calls, settings.project, settings.identity_provider, request.service_account_token
    )


def _by_config(settings: PullSettings, calls: Calls) -> Response:
    # The expiry of passwords is unknown here, so the config sets how long they are cached.
    auth = fetch_dockercfg(calls, is_by_url=settings.flow == "dockercfg-url")
    return Response(auth=auth, cache_key_type=settings.key_type or REGISTRY, cache_seconds=settings.seconds)
