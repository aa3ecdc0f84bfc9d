"""An image credential provider of the kubelet for Azure Container Registry."""

from __future__ import annotations

import os

from keyferry._core.values import Value
from keyferry.sdk.flags import LOG_FLAGS, Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Deadline, Request, Response
    from keyferry.sdk.flags import Flags
    from keyferry.sdk.http import Retry
    from keyferry_plugins.azure.clouds import Cloud
    from keyferry_plugins.azure.config import Config
    from keyferry_plugins.azure.identity import RequestContext, Source

__all__ = ["FLAGS", "main", "provide"]

ABOUT = """\
Give the kubelet credentials for Azure Container Registry: by the node's managed identity, service principal or
workload identity, or the identity of the pod's service account. CONFIG is the node's cloud config, azure.json."""
FLAGS = (
    Flag("registry-mirror", "source:target[,source:target...], registries mirrored in ACR", short="r"),
    Flag("ib-sni-name", "TLS server name of the identity bindings endpoint; enables identity bindings"),
    Flag("ib-apiserver-ip", "address or host name of the API server that serves identity bindings"),
    Flag("ib-default-client-id", "client ID if the service account has no annotation"),
    Flag("ib-default-tenant-id", "tenant ID if the service account has no annotation"),
    Flag("ib-ca-file", "CA file of the identity bindings endpoint", default="/etc/kubernetes/certs/ca.crt"),
    Flag("compat", "behave exactly like acr-credential-provider, quirks included", is_switch=True),
    *LOG_FLAGS,
)
# The kubelet kills a plugin after 60 seconds and discards its error message.
SECONDS = 50.0
_COMPAT_SECONDS = 600.0
_USER = "00000000-0000-0000-0000-000000000000"
_ANONYMOUS = "*.azurecr.*"
_STATIC_ZONES = ("*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us")


class RegistryLocation(Value):
    """The login server that an image is pulled from, and the source of the mirror if one applied."""

    login_server: str
    source: str = ""


def main() -> None:
    """Run the plugin."""
    from keyferry.sdk import serve
    from keyferry.sdk.flags import read_flags

    flags = read_flags(FLAGS, ABOUT, words="CONFIG")
    serve(lambda request: provide(request, flags))


def provide(request: Request, flags: Flags, environ: Mapping[str, str] | None = None) -> Response:
    """Return the credentials for the image's registry; empty if it is not a registry of Azure."""
    from keyferry.sdk import Response

    given = _gather(request, flags, os.environ if environ is None else environ)
    place = _locate(request.image, flags.text("registry-mirror"), given.cloud, compat=given.compat)
    if given.compat:
        return _provide_compat(given, place)
    if place is None:
        return Response(cache_seconds=0)
    # The node configures the mirror, so the node's identity authenticates to it.
    source = _choose(given, is_mirrored=bool(place.source))
    if source.obtain is None:
        return _answer(place, given.config.client_id, source.password)
    return _by_token(given, place, source)


def _gather(request: Request, flags: Flags, environ: Mapping[str, str]) -> RequestContext:
    from keyferry.sdk import Deadline, ProvideError
    from keyferry_plugins.azure.bindings import read_bindings
    from keyferry_plugins.azure.config import load_config
    from keyferry_plugins.azure.identity import RequestContext

    compat = flags.is_on("compat")
    if len(flags.words) != 1:
        raise ProvideError(
            f"found {len(flags.words)} arguments besides flags, expected one: the cloud config",
            "in the kubelet's config: args: [/etc/kubernetes/azure.json]",
        )
    bindings = read_bindings(flags)
    config = load_config(flags.words[0])
    deadline = Deadline(_COMPAT_SECONDS if compat else SECONDS)
    cloud = _find_cloud(config, environ, deadline)
    retry = _retry(config, compat=compat)
    return RequestContext(request, config, cloud, environ, deadline, bindings, retry, compat)


def _find_cloud(config: Config, environ: Mapping[str, str], deadline: Deadline) -> Cloud:
    """Return the cloud that the config names; an unknown name means the public cloud, as in other node components."""
    from keyferry_plugins.azure.clouds import PUBLIC, ask_resource_manager, find_cloud

    endpoint = config.resource_manager_endpoint
    has_file = bool(environ.get("AZURE_ENVIRONMENT_FILEPATH"))
    cloud = (None if endpoint and not has_file else find_cloud(config.cloud, environ)) or PUBLIC
    return ask_resource_manager(endpoint, config.cloud, cloud, deadline) if endpoint else cloud


def _retry(config: Config, *, compat: bool) -> Retry | None:
    from keyferry.sdk.http import Retry

    if compat:
        from keyferry_plugins.azure.backoff import PROVIDER_BACKOFF

        return PROVIDER_BACKOFF
    if not config.use_backoff:
        return None
    attempts = 1 + min(config.backoff_retries, 6) if config.backoff_retries else Retry().attempts
    return Retry(attempts, config.backoff_seconds or Retry().first_seconds)


def _locate(image: str, mirrors: str, cloud: Cloud, *, compat: bool) -> RegistryLocation | None:
    from keyferry_plugins.azure.login_server import (
        apply_mirror,
        find_login_server,
        find_login_server_compat,
        parse_mirrors,
    )

    targets, refused = parse_mirrors(mirrors)
    for entry in refused:
        from keyferry.sdk import tell
        from keyferry.sdk.messages import shown

        tell(f"--registry-mirror: {shown(entry, 80)!r} is ignored, expected source:target")
    mirrored = apply_mirror(targets, image, compat=compat)
    find = find_login_server_compat if compat else find_login_server
    server = find(mirrored.image, cloud.registry_suffix)
    return RegistryLocation(server, mirrored.source) if server else None


def _choose(given: RequestContext, *, is_mirrored: bool) -> Source:
    from keyferry.sdk import ProvideError
    from keyferry_plugins.azure.identity import choose_node_source, choose_pod_source

    source = (None if is_mirrored else choose_pod_source(given)) or choose_node_source(given)
    if source is None:
        raise ProvideError(
            "the cloud config names no identity: neither useManagedIdentityExtension nor aadClientId with a secret,"
            " a certificate or a federated token",
            "set one of them, or give the pod's service account an identity (tokenAttributes in the kubelet's config)",
        )
    return source


def _by_token(given: RequestContext, place: RegistryLocation, source: Source) -> Response:
    from keyferry.sdk.http import Retry
    from keyferry_plugins.azure.exchange import HOUR_SECONDS, Exchange, cache_seconds, exchange_token

    assert source.obtain is not None  # noqa: S101 - for the type checker: the caller checks this
    token = source.obtain()
    exchange = Exchange(
        place.login_server,
        given.cloud.registry_suffix,
        token.access_token,
        source.tenant,
        source.grantee,
        given.compat,
    )
    password = exchange_token(exchange, given.deadline, given.retry or Retry())
    seconds = HOUR_SECONDS if given.compat else cache_seconds(password)
    return _answer(place, _USER, password, seconds)


def _answer(place: RegistryLocation, user: str, password: str, seconds: float = 3600.0) -> Response:
    """Return the login for the registry and the mirror's source, and an empty login for anonymous pulls."""
    from keyferry.sdk import AuthConfig, Response

    keys = [place.login_server, *([place.source] if place.source else [])]
    login = AuthConfig(user, password)
    return Response({_ANONYMOUS: AuthConfig("", ""), **dict.fromkeys(keys, login)}, cache_seconds=seconds)


def _provide_compat(given: RequestContext, place: RegistryLocation | None) -> Response:
    """Decide in upstream's order: choose the identity, parse the image, then check whether the identity applies."""
    from keyferry.sdk import ProvideError, Response
    from keyferry_plugins.azure.identity import choose_node_source, choose_pod_source

    if not given.request.api_version.endswith("/v1"):
        raise ProvideError(f"request: apiVersion is {given.request.api_version!r}, expected v1 of its group")
    is_mirrored = place is not None and bool(place.source)
    source = (None if is_mirrored else choose_pod_source(given)) or choose_node_source(given)
    if place is None or source is None:
        return Response(cache_seconds=0)
    if not given.config.use_managed_identity:
        return _static_compat(given)
    return _by_token(given, place, source)


def _static_compat(given: RequestContext) -> Response:
    from keyferry.sdk import AuthConfig, Response

    login = AuthConfig(given.config.client_id, given.config.client_secret)
    suffix = given.cloud.registry_suffix
    keys = list(_STATIC_ZONES)
    if ".azurecr." in suffix and f"*{suffix}" not in keys:
        keys.append(f"*{suffix}")
    return Response({_ANONYMOUS: AuthConfig("", ""), **dict.fromkeys(keys, login)}, cache_seconds=3600)
