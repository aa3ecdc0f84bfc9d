"""The public API as programs use it: type-checked, never run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import assert_type

import prometheus_client

import keyferry
from keyferry.api.credentialprovider import v1
from keyferry.errors import (
    ConfigError,
    KeyferryError,
    PluginError,
    PluginExitError,
    PluginTimeoutError,
    Problem,
)


def read(image: str) -> list[tuple[str, str, keyferry.Source]]:
    """Credentials in the order the kubelet would try them."""
    providers = keyferry.load_providers(
        "/etc/kubernetes/credential-providers", bin_dir="/usr/libexec/plugins"
    )
    assert_type(providers, keyferry.Providers)
    answer = providers.lookup(image)
    assert_type(answer, keyferry.Answer)
    assert_type(answer.credentials, tuple[keyferry.Credential, ...])
    assert_type(answer.failures, tuple[keyferry.Failure, ...])
    assert_type(answer.reasons, tuple[keyferry.Reason, ...])
    for failure in answer.failures:
        assert_type(failure.error, KeyferryError)
        assert_type(failure.kubernetes_text, str)
    answer.raise_for_failures()
    return [(each.username, each.password, each.source) for each in answer.credentials]


def with_everything(folder: Path, clock: Callable[[], int]) -> keyferry.Providers:
    """Every setting there is."""
    account = keyferry.StaticAccount(
        account=keyferry.ServiceAccount(uid="uid", annotations={"role": "reader"}), token_text="token"
    )
    return keyferry.load_providers(
        folder,
        folder,
        service_accounts=account,
        service_account_tokens=True,
        docker_config=folder,
        timeout_seconds=5,
        withhold_env=["VAULT_TOKEN"],
        environ={"PATH": "/usr/bin"},
        coalesce=False,
        clock=clock,
    )


def caught_at_the_top(image: str) -> str:
    """Errors are where the functions are."""
    try:
        keyferry.load_providers().lookup(image).raise_for_failures()
    except keyferry.PluginTimeoutError as error:
        assert_type(error.timeout_seconds, float)
        assert_type(error, PluginTimeoutError)
    except keyferry.KeyferryError as error:
        assert_type(error.kind, keyferry.Kind)
    progress = keyferry.Progress(done=1, total=2, found=1)
    return f"{progress.layers_done} of {progress.layers}"


class Cluster:
    """A source of accounts written by a user of the library."""

    def get(self, namespace: str, name: str) -> keyferry.ServiceAccount:
        """The account of that name."""
        return keyferry.ServiceAccount(uid=f"{namespace}/{name}")

    def token(self, request: keyferry.TokenRequest) -> str:
        """A token as requested."""
        assert_type(request.to_document(), dict[str, object])
        return request.audience


def accept(accounts: keyferry.ServiceAccounts) -> keyferry.Providers:
    """Anything with the two methods is a source of accounts."""
    return keyferry.load_providers(service_accounts=accounts)


async def for_a_pod(providers: keyferry.Providers, data: Mapping[str, bytes]) -> str:
    """With a pod, its pull secrets and a deadline, without blocking the event loop."""
    accept(Cluster())
    pod = keyferry.Pod(namespace="default", name="app-0", uid="uid", service_account_name="builder")
    secret = keyferry.PullSecret(
        namespace="default", name="pull", type="kubernetes.io/dockerconfigjson", data=data
    )
    answer = await providers.lookup_async("reg.io/app", pod=pod, pull_secrets=[secret], timeout_seconds=10)
    assert_type(answer, keyferry.Answer)
    credential = answer.credentials[0]
    assert_type(providers.evict("reg.io/app", credential), bool)
    return credential.hash


async def fetch(image: str, answer: keyferry.Answer) -> keyferry.PullOutcome:
    """Into a folder, with credentials that are known; a pull has one outcome, however it is begun."""
    route = keyferry.RegistryRoute(ca_file="ca.pem", parallel_blobs=1)
    for attempt in keyferry.check_registry(image, answer.credentials, route=route):
        assert_type(attempt, keyferry.Attempt)
    outcome = keyferry.pull(
        image, keyferry.PullOptions(credentials=answer.credentials), to="app", platform="linux/arm64"
    )
    assert_type(outcome, keyferry.PullOutcome)
    assert_type(outcome.attempts, tuple[keyferry.Attempt, ...])
    return await keyferry.pull_async(
        image, to="app", platform=keyferry.Platform(os="linux", architecture="arm64"), route=route
    )


def handle() -> tuple[Problem, ...]:
    """Errors carry their facts."""
    try:
        keyferry.load_providers()
    except ConfigError as error:
        return error.problems
    except PluginExitError as error:
        assert_type(error.status, int)
        assert_type(error.stderr_tail, str)
    except PluginError as error:
        assert_type(error.plugin, str)
    except KeyferryError as error:
        assert_type(error.kubernetes_text, str)
    return ()


def export(providers: keyferry.Providers) -> None:
    """A collector for the program's own registry."""
    prometheus_client.REGISTRY.register(keyferry.metrics_collector(providers))


def speak(image: str) -> bytes:
    """The wire types of every version."""
    request = v1.CredentialProviderRequest(
        image=image, service_account_token="token", service_account_annotations={"role": "reader"}
    )
    for version in v1.API_VERSIONS:
        assert_type(v1.encode_request(request, version), bytes)
    assert_type(request.to_document(), dict[str, object])
    return v1.encode_request(request)
