"""An image credential provider that calls one of docker's credential helpers."""

from __future__ import annotations

from collections.abc import Sequence

from keyferry._core.docker_hub import HUB, LOGIN_URL
from keyferry._core.user_info import hide_user_info
from keyferry.sdk import Deadline, ProvideError, Request, Response, serve
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_flags
from keyferry_plugins.docker.helper import ask_helper, check_server_url, host_of, program_of
from keyferry_plugins.docker.keyring import read_cache_duration

ABOUT = """\
Give the kubelet the logins of a docker credential helper: the program docker-credential-NAME receives the
registry's URL and prints the login for all images of that registry."""

FLAGS = (
    Flag(
        name="helper",
        about="the helper: NAME for docker-credential-NAME on PATH, or an absolute path (required)",
    ),
    Flag(
        name="server-url",
        about="REGISTRY=URL: pass URL to the helper for images of REGISTRY (may be given again)",
        is_repeated=True,
    ),
    Flag(
        name="cache-duration",
        about="how long the kubelet caches a login, such as 10m or 1h; without it the config decides",
    ),
    *LOG_FLAGS,
)
_SECONDS = 50.0


def provide(request: Request, flags: Flags) -> Response:
    """Return the helper's login for the image's registry, or an empty response if it has none."""
    helper = flags.text("helper")
    if not helper:
        raise ProvideError("no helper is given", "add --helper NAME to the args of the provider's config")
    program_of(helper)
    seconds = read_cache_duration(flags.text("cache-duration"))
    login = ask_helper(helper, _server_url(request.registry, flags.texts("server-url")), Deadline(_SECONDS))
    if login is None:
        # Not cached, so that a pull works right after the next login.
        return Response(cache_seconds=0)
    return Response.for_registry(request, login.username, login.password, cache_seconds=seconds)


def _server_url(registry: str, given: Sequence[str]) -> str:
    """Return the URL for the helper: the one given for the registry, docker's own for Docker Hub, or the registry."""
    urls = {}
    for text in given:
        name, equals, url = text.partition("=")
        if not name or not equals:
            raise ProvideError(f"--server-url: found {hide_user_info(text)[:200]!r}, expected REGISTRY=URL")
        urls[name] = check_server_url(url)
    if registry in urls:
        return urls[registry]
    return LOGIN_URL if host_of(registry) == HUB else check_server_url(registry)


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT)
    serve(lambda request: provide(request, flags))
