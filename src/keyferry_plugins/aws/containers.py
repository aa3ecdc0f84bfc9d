"""Credentials from a container's credentials endpoint: ECS, EKS Pod Identity, and compatible servers."""

from __future__ import annotations

from keyferry._net.address import is_loopback_host
from keyferry._net.http_errors import split_url
from keyferry.sdk import ProvideError
from keyferry.sdk.http import HttpOptions, Retry, fetch
from keyferry_plugins.aws.credentials import Credentials, read_credentials
from keyferry_plugins.aws.failures import is_transient, read_refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._net.proxy import Origin
    from keyferry_plugins.aws.environment import Environment

__all__ = ["container_credentials", "container_url"]

SOURCE = "the container credentials endpoint"
_RELATIVE, _FULL = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_BASE = "http://169.254.170.2"
_HOSTS = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23")
_ATTEMPT_SECONDS = 5.0


def container_url(environment: Environment) -> str:
    """Return the URL that the environment sets, or an empty string."""
    relative = environment.variable(_RELATIVE)
    if relative:
        return f"{_BASE}/{relative.removeprefix('/')}"
    return environment.variable(_FULL)


def container_credentials(environment: Environment) -> Credentials:
    """Return the endpoint's credentials; raise ProvideError on failure.

    Plain http is allowed only to AWS' link-local addresses and to loopback.
    """
    url = container_url(environment)
    if not url:
        raise ProvideError(
            f"the profile requires container credentials, but neither {_RELATIVE} nor {_FULL} is set"
        )
    origin = split_url(url)
    if origin.scheme == "http" and not _is_near(origin):
        raise ProvideError(
            f"{_FULL}: {origin.host!r} is neither loopback nor an AWS address, and plain http is allowed only to these",
            "use https, or the IP address",
        )
    token = _token(environment)
    reply = fetch(
        "GET",
        url,
        deadline=environment.deadline,
        headers={"Accept": "application/json", **({"Authorization": token} if token else {})},
        retry=Retry(attempts=environment.attempts(), is_transient=is_transient),
        options=_http_options(environment, origin),
    )
    if not reply.is_success:
        from keyferry.sdk.messages import shown

        refusal = read_refusal(reply)
        said = shown(
            ": ".join(filter(None, (refusal.code, refusal.message))), known=(token,) if token else ()
        )
        raise ProvideError(
            f"{SOURCE} {reply.url}: status {reply.status}" + (f", {said}" if said else ""),
            "check the pod identity association or task role, and the authorization token",
        )
    return read_credentials(reply.json(), f"{SOURCE} {reply.url}")


def _http_options(environment: Environment, origin: Origin) -> HttpOptions:
    if origin.scheme == "http":
        return HttpOptions(use_proxy=False, attempt_seconds=_ATTEMPT_SECONDS)
    return environment.http_options()


def _is_near(origin: Origin) -> bool:
    if is_loopback_host(origin.host) or origin.host in _HOSTS:
        return True
    from ipaddress import ip_address

    try:
        return ip_address(origin.host) in map(ip_address, _HOSTS)
    except ValueError:
        return False


def _token(environment: Environment) -> str:
    """Return the endpoint's authorization token; the file, which is renewed, takes precedence over the variable."""
    path = environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if path:
        from keyferry.sdk.files import read_bounded

        token = read_bounded(path, "the container authorization token file").decode("latin-1")
        where = f"the container authorization token file {path!r}"
    else:
        token, where = (
            environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        )
    if any(not " " <= char <= "~" for char in token):
        raise ProvideError(
            f"{where} contains a line break or another character that is not valid in a header"
        )
    return token
