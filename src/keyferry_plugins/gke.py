"""An exec plugin of kubeconfigs for Google's clusters: tokens from gcloud, default credentials, or Edge."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import sleep, time

from keyferry._core.json import loads
from keyferry.sdk import Deadline, ExecResponse, ProvideError, serve_cluster
from keyferry.sdk.cluster import respond_cluster
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_flags
from keyferry.sdk.http import ONCE, Retry
from keyferry.sdk.stdio import deliver
from keyferry_plugins.google.adc import default_token, impersonate, impersonation_url
from keyferry_plugins.google.cache import cache_key, cache_path, format_indented, read_cache, write_cache
from keyferry_plugins.google.calls import RUN_SECONDS, Calls
from keyferry_plugins.google.gcloud import GcloudCall, config_helper, edge_cloud, gcloud_token
from keyferry_plugins.oauth.answers import Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never


ABOUT = """\
Give kubectl and other clients a token for Google Kubernetes Engine clusters: gcloud's own, that of the
application default credentials, or one for a cluster of Distributed Cloud Edge."""
FLAGS = (
    Flag(
        name="use_application_default_credentials",
        about="use these credentials instead of gcloud's account",
        is_switch=True,
    ),
    Flag(
        name="use_edge_cloud",
        about="request a token for an Edge cluster; needs project, location and cluster",
        is_switch=True,
    ),
    Flag(name="project", about="the project, passed on to gcloud"),
    Flag(name="account", about="the account, passed on to gcloud"),
    Flag(name="configuration", about="the named configuration, passed on to gcloud"),
    Flag(name="location", about="the location of an Edge cluster"),
    Flag(name="cluster", about="the name of an Edge cluster"),
    Flag(name="impersonate_service_account", about="the service account to impersonate"),
    Flag(name="compat", about="behave exactly like gke-gcloud-auth-plugin, quirks included", is_switch=True),
    *LOG_FLAGS,
)
_SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    # With this scope the cluster identifies a service account by its e-mail address, not by its number.
    "https://www.googleapis.com/auth/userinfo.email",
)
_TOKEN_VARIABLE = "CLOUDSDK_AUTH_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
# The interval of gke-gcloud-auth-plugin between attempts, whatever failed.
_COMPAT_WAITS = (0.01, 0.05, 0.25)


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT)
    if flags.is_on("compat"):
        _serve_as_upstream(flags)
    serve_cluster(lambda _: provide(flags))


def provide(
    flags: Flags, *, environ: Mapping[str, str] | None = None, now: Callable[[], float] = time
) -> ExecResponse:
    """Return a token by the flags: Edge, then application default credentials, then gcloud."""
    is_compat = flags.is_on("compat")
    calls = Calls(
        deadline=Deadline(RUN_SECONDS),
        environ=os.environ if environ is None else environ,
        now=now,
        retry=ONCE if is_compat else Retry(),
        is_compat=is_compat,
    )
    token = _token(flags, calls)
    return ExecResponse(token=token.value, expires_at=token.expires_at)


def _token(flags: Flags, calls: Calls) -> Token:
    impersonated = flags.text("impersonate_service_account")
    if flags.is_on("use_edge_cloud"):
        cluster, project, location = (flags.text(name) for name in ("cluster", "project", "location"))
        call = edge_cloud(cluster=cluster, project=project, location=location, impersonate=impersonated)
        return _cached_token(call, calls)
    if flags.is_on("use_application_default_credentials"):
        return _default_token(calls, impersonated)
    if calls.setting(_TOKEN_VARIABLE):
        return Token(value=calls.setting(_TOKEN_VARIABLE), origin="environment")
    project, account, configuration = (flags.text(name) for name in ("project", "account", "configuration"))
    return _cached_token(
        config_helper(
            project=project, account=account, impersonate=impersonated, configuration=configuration
        ),
        calls,
    )


def _cached_token(call: GcloudCall, calls: Calls) -> Token:
    path, key = cache_path(calls), cache_key(call, calls)
    found = None if key is None else read_cache(path, key, calls.now())
    if found is not None:
        return found
    token = gcloud_token(call, calls)
    if key is not None:
        write_cache(path, key, token)
    return token


def _default_token(calls: Calls, impersonated: str) -> Token:
    if calls.is_compat:
        return _try_as_upstream(calls)
    token = default_token(calls, _SCOPES)
    if not impersonated:
        return token
    url = impersonation_url(impersonated)
    return impersonate(calls, url, token, _SCOPES, where="--impersonate_service_account")


def _try_as_upstream(calls: Calls) -> Token:
    """Return a token of the default credentials, after up to four attempts with short pauses."""
    for seconds in _COMPAT_WAITS:
        try:
            return default_token(calls, _SCOPES)
        except ProvideError:
            sleep(seconds * (0.9 + os.urandom(1)[0] / 1280))
    return default_token(calls, _SCOPES)


def _serve_as_upstream(flags: Flags) -> Never:
    """Write the response in v1beta1 and indented, whatever KUBERNETES_EXEC_INFO requests."""
    deliver(lambda: format_indented(loads(respond_cluster(lambda _: provide(flags), ""))).encode())
