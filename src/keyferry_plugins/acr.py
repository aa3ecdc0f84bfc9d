"""An image credential provider of the kubelet for Azure Container Registry."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from keyferry._core.values import Value
from keyferry.sdk import AuthConfig, Deadline, ProvideError, Request, Response, serve, tell
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_flags
from keyferry.sdk.http import Retry
from keyferry.sdk.messages import shown
from keyferry_plugins.azure.clouds import PUBLIC, Cloud, ask_resource_manager, find_cloud
from keyferry_plugins.azure.config import Config, load_config
from keyferry_plugins.azure.identity import (
    RegistryIdentity,
    RequestContext,
    choose_node_identity,
    choose_pod_identity,
    read_bindings,
)
from keyferry_plugins.azure.registry import (
    HOUR_SECONDS,
    Exchange,
    apply_mirror,
    cache_seconds,
    exchange_token,
    find_login_server,
    find_login_server_compat,
    parse_mirrors,
)
from keyferry_plugins.oauth.answers import Token

ABOUT = """\
Give the kubelet credentials for Azure Container Registry: by the node's managed identity, service principal or
workload identity, or the identity of the pod's service account. CONFIG is the node's cloud config, azure.json."""
FLAGS = (
    Flag(
        name="registry-mirror",
        about="source:target[,source:target...], registries mirrored in ACR",
        short="r",
    ),
    Flag(
        name="ib-sni-name",
        about="TLS server name of the identity bindings endpoint; enables identity bindings",
    ),
    Flag(
        name="ib-apiserver-ip", about="address or host name of the API server that serves identity bindings"
    ),
    Flag(name="ib-default-client-id", about="client ID if the service account has no annotation"),
    Flag(name="ib-default-tenant-id", about="tenant ID if the service account has no annotation"),
    Flag(
        name="ib-ca-file",
        about="CA file of the identity bindings endpoint",
        default="/etc/kubernetes/certs/ca.crt",
    ),
    Flag(name="compat", about="behave exactly like acr-credential-provider, quirks included", is_switch=True),
    *LOG_FLAGS,
)
# The kubelet kills a plugin after 60 seconds and discards its error message.
SECONDS = 50.0
COMPAT_SECONDS = 600.0
_USER = "00000000-0000-0000-0000-000000000000"
_ANONYMOUS = "*.azurecr.*"
_STATIC_ZONES = ("*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us")


class ProviderBackoff(Retry):
    """Intervals that grow by upstream's formula; they exceed the kubelet's timeout, so only ``--compat`` uses them."""

    def delay(self, number: int) -> float:
        """Return the seconds to wait after attempt *number*: 2^n - 1 times the first interval, within 20 percent."""
        part = int.from_bytes(os.urandom(2), "big") / 65536
        return min((2.0**number - 1) * self.first_seconds * (0.8 + 0.4 * part), self.most_seconds)


# Three more attempts, after about 5, 15 and 35 seconds.
PROVIDER_BACKOFF = ProviderBackoff(attempts=4, first_seconds=5.0, most_seconds=60.0)


class RegistryLocation(Value):
    """The login server that an image is pulled from, and the registry that it mirrors, if it is a mirror."""

    login_server: str
    mirror_of: str = ""


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT, words="CONFIG")
    serve(lambda request: provide(request, flags))


def provide(request: Request, flags: Flags, environ: Mapping[str, str] | None = None) -> Response:
    """Return the credentials for the image's registry; empty if it is not a registry of Azure."""
    context = _gather(request, flags, os.environ if environ is None else environ)
    place = _locate(request.image, flags.text("registry-mirror"), context.cloud, is_compat=context.is_compat)
    if context.is_compat:
        return _provide_compat(context, place)
    if place is None:
        return Response(cache_seconds=0)
    identity = _choose(context, place)
    if identity is None:
        raise ProvideError(
            "the cloud config names no identity: neither useManagedIdentityExtension nor aadClientId with a secret,"
            " a certificate or a federated token",
            "set one of them, or give the pod's service account an identity (tokenAttributes in the kubelet's config)",
        )
    if identity.obtain is None:
        login = AuthConfig(username=context.config.client_id, password=identity.password)
        return _answer(login, filter(None, (place.login_server, place.mirror_of)))
    return _exchange(context, place, identity, identity.obtain())


def _gather(request: Request, flags: Flags, environ: Mapping[str, str]) -> RequestContext:
    is_compat = flags.is_on("compat")
    if len(flags.words) != 1:
        raise ProvideError(
            f"found {len(flags.words)} arguments besides flags, expected one: the cloud config",
            "in the kubelet's config: args: [/etc/kubernetes/azure.json]",
        )
    bindings = read_bindings(flags)
    config = load_config(flags.words[0])
    deadline = Deadline(COMPAT_SECONDS if is_compat else SECONDS)
    return RequestContext(
        request=request,
        config=config,
        cloud=_find_cloud(config, environ, deadline),
        environ=environ,
        deadline=deadline,
        bindings=bindings,
        retry=_retry(config, is_compat=is_compat),
        is_compat=is_compat,
    )


def _find_cloud(config: Config, environ: Mapping[str, str], deadline: Deadline) -> Cloud:
    """Return the cloud that the config names; an unknown name means the public cloud, as in other node components."""
    endpoint = config.resource_manager_endpoint
    has_file = bool(environ.get("AZURE_ENVIRONMENT_FILEPATH"))
    cloud = (None if endpoint and not has_file else find_cloud(config.cloud, environ)) or PUBLIC
    return ask_resource_manager(endpoint, config.cloud, cloud, deadline) if endpoint else cloud


def _retry(config: Config, *, is_compat: bool) -> Retry | None:
    if is_compat:
        return PROVIDER_BACKOFF
    if not config.use_backoff:
        return None
    usual = Retry()
    return Retry(
        attempts=1 + min(config.backoff_retries, 6) if config.backoff_retries else usual.attempts,
        first_seconds=config.backoff_seconds or usual.first_seconds,
    )


def _locate(image: str, mirrors: str, cloud: Cloud, *, is_compat: bool) -> RegistryLocation | None:
    targets, refused = parse_mirrors(mirrors)
    for entry in refused:
        tell(f"--registry-mirror: {shown(entry, 80)!r} is ignored, expected source:target")
    mirrored, mirror_of = apply_mirror(targets, image, is_compat=is_compat)
    find = find_login_server_compat if is_compat else find_login_server
    server = find(mirrored, cloud.registry_suffix)
    return RegistryLocation(login_server=server, mirror_of=mirror_of) if server else None


def _choose(context: RequestContext, place: RegistryLocation | None) -> RegistryIdentity | None:
    # The node configures the mirror, so the node's identity authenticates to it.
    is_mirrored = place is not None and bool(place.mirror_of)
    return (None if is_mirrored else choose_pod_identity(context)) or choose_node_identity(context)


def _exchange(
    context: RequestContext, place: RegistryLocation, identity: RegistryIdentity, token: Token
) -> Response:
    """Exchange an Entra token for a password of the registry."""
    exchange = Exchange(
        login_server=place.login_server,
        suffix=context.cloud.registry_suffix,
        access_token=token.value,
        tenant=identity.tenant,
        grantee=identity.grantee,
        is_compat=context.is_compat,
    )
    password = exchange_token(exchange, context.deadline, context.retry or Retry())
    return _answer(
        AuthConfig(username=_USER, password=password),
        filter(None, (place.login_server, place.mirror_of)),
        HOUR_SECONDS if context.is_compat else cache_seconds(password),
    )


def _answer(login: AuthConfig, keys: Iterable[str], seconds: float = HOUR_SECONDS) -> Response:
    """Return the login for *keys*, which are registries or patterns, and an empty login for anonymous pulls."""
    auth = {_ANONYMOUS: AuthConfig(), **dict.fromkeys(keys, login)}
    return Response(auth=auth, cache_seconds=seconds)


def _provide_compat(context: RequestContext, place: RegistryLocation | None) -> Response:
    """Decide in upstream's order: choose the identity, parse the image, then check whether the identity applies."""
    if not context.request.api_version.endswith("/v1"):
        raise ProvideError(
            f"request: apiVersion is {context.request.api_version!r}, expected v1 of its group"
        )
    identity = _choose(context, place)
    if place is None or identity is None:
        return Response(cache_seconds=0)
    if context.config.use_managed_identity and identity.obtain is not None:
        return _exchange(context, place, identity, identity.obtain())
    keys = list(_STATIC_ZONES)
    suffix = context.cloud.registry_suffix
    if ".azurecr." in suffix and f"*{suffix}" not in keys:
        keys.append(f"*{suffix}")
    return _answer(AuthConfig(username=context.config.client_id, password=context.config.client_secret), keys)
