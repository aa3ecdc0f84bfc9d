"""Providers whose plugin is written in the test: executables, plugins in this process, stepped clocks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.errors import PluginError, ServiceAccountError
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import ServiceAccount, ServiceAccounts, TokenRequest
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.images.provider.provider import Provider
from keyferry.invoke.run import Limits

SECOND = 1_000_000_000
V1 = "credentialprovider.kubelet.k8s.io/v1"
CONFIG_V1 = "kubelet.config.k8s.io/v1"
Response = CredentialProviderResponse


def cache_entries(provider: Provider) -> int:
    """Return the number of cache entries, including expired entries that are not removed yet."""
    return provider.cache_uses()[0].entries


def cache_hits(providers: Providers) -> dict[str, int]:
    """Return the number of answers from the cache, by provider."""
    return {provider.name: provider.counters.read().hits for provider in providers.providers}


class Clock:
    """A clock that advances only when it is stepped."""

    def __init__(self, now: int = 1_000 * SECOND) -> None:
        self.now = now

    def __call__(self) -> int:
        """Return the time, in nanoseconds."""
        return self.now

    def step(self, seconds: float) -> None:
        """Advance the clock, or move it back."""
        self.now += int(seconds * SECOND)


class Scripted:
    """A plugin in this process that returns *answer*, and records its requests."""

    def __init__(
        self, answer: Response | PluginError | Callable[[CredentialProviderRequest], Response | PluginError]
    ) -> None:
        self.answer = answer
        self.requests: list[CredentialProviderRequest] = []

    @property
    def runs(self) -> int:
        """How often the plugin was run."""
        return len(self.requests)

    def __call__(
        self, request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[Response, float]:
        """Record the request and answer it."""
        del timeout_seconds
        self.requests.append(request)
        answer = self.answer if isinstance(self.answer, Response | PluginError) else self.answer(request)
        if isinstance(answer, PluginError):
            raise answer
        return answer, 0.003


class Accounts:
    """An API server's accounts, by namespace and name, and its tokens."""

    def __init__(self, accounts: Mapping[tuple[str, str], ServiceAccount]) -> None:
        self.accounts = dict(accounts)
        self.tokens: dict[tuple[str, str], str] = {}
        self.requests: list[TokenRequest] = []

    def get(self, namespace: str, name: str) -> ServiceAccount:
        """Return the account of that name."""
        try:
            return self.accounts[namespace, name]
        except KeyError:
            raise ServiceAccountError(f"serviceaccount {name!r} not found") from None

    def token(self, request: TokenRequest) -> str:
        """Return the token set for the account, or one derived from its UID."""
        self.requests.append(request)
        key = request.account.namespace, request.account.name
        return self.tokens.get(key, f"token-of-{request.account.uid}")


def response(
    password: str = "p1",
    *,
    cache_key_type: str = "Registry",
    cache_seconds: float | None = 600,
    keys: tuple[str, ...] = ("reg.io",),
) -> Response:
    duration = None if cache_seconds is None else int(cache_seconds * SECOND)
    auth = {key: AuthConfig(username="user", password=password) for key in keys}
    return Response(cache_key_type=cache_key_type, cache_duration_ns=duration, auth=auth)


def configured(
    name: str = "plugin",
    *,
    match_images: tuple[str, ...] = ("reg.io",),
    default_seconds: float | None = 0,
    token_attributes: ServiceAccountTokenAttributes | None = None,
) -> CredentialProvider:
    return CredentialProvider(
        name=name,
        match_images=match_images,
        default_cache_duration_ns=None if default_seconds is None else int(default_seconds * SECOND),
        api_version=V1,
        token_attributes=token_attributes,
    )


def attributes(
    cache_type: str = "ServiceAccount",
    *,
    require: bool = True,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> ServiceAccountTokenAttributes:
    return ServiceAccountTokenAttributes(
        service_account_token_audience="registry",
        cache_type=cache_type,
        require_service_account=require,
        required_service_account_annotation_keys=required,
        optional_service_account_annotation_keys=optional,
    )


def provider(
    plugin: Scripted,
    clock: Clock,
    config: CredentialProvider | None = None,
    accounts: ServiceAccounts | None = None,
) -> Provider:
    return Provider(config or configured(), plugin, accounts=accounts, clock=clock)


def document(
    auth: object = None,
    *,
    version: object = V1,
    kind: object = "CredentialProviderResponse",
    **fields: object,
) -> str:
    """Return the JSON of a response, valid except for the given fields; ``...`` omits a field."""
    answer = {
        "kind": kind,
        "apiVersion": version,
        "cacheKeyType": "Registry",
        "cacheDuration": "10m",
        "auth": {"reg.io": {"username": "user", "password": "p1"}} if auth is None else auth,
    }
    return json.dumps({name: value for name, value in (answer | fields).items() if value is not ...})


def write_printer(
    folder: Path, name: str, stdout: bytes = b"", *, stderr: bytes = b"", status: int = 0
) -> Path:
    """Write an executable that prints exactly these bytes."""
    (folder / f"{name}.out").write_bytes(stdout)
    (folder / f"{name}.err").write_bytes(stderr)
    return write_script(folder, name, f'cat "$0.out"; cat "$0.err" >&2; exit {status}')


def write_script(folder: Path, name: str, body: str) -> Path:
    """Write an executable shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def write_python(folder: Path, name: str, body: str) -> Path:
    """Write an executable script for this interpreter."""
    path = folder / name
    path.write_text(f"#!{sys.executable} -IS\n{body}\n")
    path.chmod(0o755)
    return path


def exec_plugin(path: Path, **settings: object) -> ExecPlugin:
    """Return the plugin at *path*, with limits that keep a test short."""
    limits = settings.pop("limits", Limits(timeout_seconds=30))
    assert isinstance(limits, Limits)
    env = settings.pop("env", ())
    assert isinstance(env, tuple)
    assert not settings
    return ExecPlugin(name=path.name, path=os.fspath(path), api_version=V1, env=env, limits=limits)


def config_text(*providers: Mapping[str, object], version: str = CONFIG_V1) -> str:
    """Return the JSON of a provider config; missing fields are filled in."""
    filled = [
        {"name": "plugin", "matchImages": ["reg.io"], "defaultCacheDuration": "0s", "apiVersion": V1}
        | dict(each)
        for each in providers
    ]
    return json.dumps({"apiVersion": version, "kind": "CredentialProviderConfig", "providers": filled})
