"""The image plugin as in auth-provider-gcp, quirks included: one attempt, empty responses on failure, fixed keys."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import dumps, read_object
from keyferry.sdk import IMAGE, AuthConfig, Deadline, HttpError, ProvideError, Request, Response, tell
from keyferry.sdk.http import ONCE, HttpOptions, Reply, fetch
from keyferry_plugins.google.calls import STS_URL
from keyferry_plugins.google.metadata import read_dockercfg
from keyferry_plugins.google.pull import ANNOTATION, PullSettings, find_google_registry, pull_request

_BASE = "http://metadata.google.internal./computeMetadata/v1/instance"
_AGENT = {"User-Agent": "GKE auth-provider-gcp image pull"}
_METADATA = {"Metadata-Flavor": "Google", **_AGENT}
_KEYS = ("container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev")
_METADATA_SECONDS, _STS_SECONDS = 10.0, 30.0
_OK = 200


class _QuietError(Exception):
    """A failure for which upstream returns an empty response."""


def provide_as_upstream(request: Request, settings: PullSettings, deadline: Deadline) -> Response:
    """Return auth-provider-gcp's response, which is empty if no credentials can be obtained."""
    auth: Mapping[str, AuthConfig] = {}
    try:
        auth = _logins(request, settings, deadline)
    except ProvideError as error:
        tell(f"no credentials: {error}")
    except _QuietError:
        pass
    return Response(
        auth=auth, cache_key_type=settings.key_type or IMAGE, cache_seconds=settings.seconds or 0.0
    )


def _logins(request: Request, settings: PullSettings, deadline: Deadline) -> Mapping[str, AuthConfig]:
    if settings.flow == "dockercfg":
        return read_dockercfg(_attribute("google-dockercfg", deadline), "google-dockercfg")
    if settings.flow == "dockercfg-url":
        url = _attribute("google-dockercfg-url", deadline).decode("utf-8", "replace")
        if not url.startswith("http"):
            raise ProvideError("google-dockercfg-url does not begin with http")
        return read_dockercfg(_quietly(url, {}, deadline), "the document at google-dockercfg-url")
    login = AuthConfig(username="_token", password=_token(request, settings, deadline))
    # Upstream also sends the token to registries outside Google, if the image names one.
    registry = find_google_registry(request.image)
    return dict.fromkeys((*([registry] if registry else []), *_KEYS), login)


def _token(request: Request, settings: PullSettings, deadline: Deadline) -> str:
    is_annotated = request.service_account_annotations.get(ANNOTATION) == "true"
    if not settings.identity_provider or not is_annotated:
        found = _access_token(_get(f"{_BASE}/service-accounts/default/token", _METADATA, deadline))
        # The response is not used, but without one there are no credentials.
        _get(f"{_BASE}/service-accounts/default/email", _METADATA, deadline)
        return found
    if not request.service_account_token:
        raise ProvideError("the service account is annotated for its own pulls, but the request has no token")
    body = pull_request(settings.project, settings.identity_provider, request.service_account_token)
    headers = {"Content-Type": "application/json", **_AGENT}
    options = HttpOptions(connect_seconds=_STS_SECONDS, attempt_seconds=_STS_SECONDS)
    data = dumps(body).encode()
    return _access_token(
        _ok(
            fetch("POST", STS_URL, deadline=deadline, headers=headers, body=data, retry=ONCE, options=options)
        )
    )


def _attribute(name: str, deadline: Deadline) -> bytes:
    return _quietly(f"{_BASE}/attributes/{name}", _METADATA, deadline)


def _quietly(url: str, headers: Mapping[str, str], deadline: Deadline) -> bytes:
    try:
        return _get(url, headers, deadline).body
    except ProvideError:
        raise _QuietError from None


def _get(url: str, headers: Mapping[str, str], deadline: Deadline) -> Reply:
    options = HttpOptions(connect_seconds=_METADATA_SECONDS, attempt_seconds=_METADATA_SECONDS)
    return _ok(fetch("GET", url, deadline=deadline, headers=headers, retry=ONCE, options=options))


def _ok(reply: Reply) -> Reply:
    if reply.status != _OK:
        raise HttpError(reply.url, f"answered status {reply.status}")
    return reply


def _access_token(reply: Reply) -> str:
    token = (read_object(reply.body) or {}).get("access_token")
    if not isinstance(token, str):
        raise ProvideError(f"{reply.url}: the response has no access_token")
    return token
