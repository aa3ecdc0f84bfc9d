"""Providers whose plugins are plain functions: for tests of how answers are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import PluginError
from keyferry.images.lookup import Providers
from keyferry.images.provider.plugin import Plugin
from keyferry.images.provider.provider import Provider

API_VERSION = "credentialprovider.kubelet.k8s.io/v1"


def answering(
    auth: Mapping[str, tuple[str, str]],
    cache_key_type: str = "Registry",
    duration_ns: int | None = 3_600_000_000_000,
) -> Plugin:
    """Return a plugin that always returns these logins."""

    def plugin(
        _: CredentialProviderRequest, __: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        logins = {key: AuthConfig(username=login[0], password=login[1]) for key, login in auth.items()}
        return CredentialProviderResponse(
            cache_key_type=cache_key_type, cache_duration_ns=duration_ns, auth=logins
        ), 0.002

    return plugin


def failing(error: Callable[[], PluginError]) -> Plugin:
    """Return a plugin that always fails."""

    def plugin(
        _: CredentialProviderRequest, __: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        raise error()

    return plugin


def provider(name: str, patterns: Sequence[str], plugin: Plugin, default_ns: int = 0) -> Provider:
    """Return a provider with these patterns."""
    config = CredentialProvider(
        name=name, match_images=tuple(patterns), default_cache_duration_ns=default_ns, api_version=API_VERSION
    )
    return Provider(config, plugin)


def providers(*members: Provider) -> Providers:
    """Return a ``Providers`` object with all of them."""
    return Providers(members)
