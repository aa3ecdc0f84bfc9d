"""Settings of a provider that a kubelet accepts but that are probably not intended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from keyferry.api.credentialprovider.v1 import API_VERSION as PROVIDER_V1
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ExecEnvVar
from keyferry.api.meta import format_duration
from keyferry.images.config.validate import PROVIDER_API_VERSIONS
from keyferry.lint.providers.patterns import Suspicion, check_patterns
from keyferry.lint.secrets import is_loader, looks_secret, refers_to_variable, secret_arguments

_WINDOWS = ".exe"
_LONG_NS = 12 * 3600 * 10**9


def check_provider(provider: CredentialProvider) -> Iterator[Suspicion]:
    """Yield the suspicions about one provider."""
    for check in _CHECKS:
        yield from check(provider)


def _name(provider: CredentialProvider) -> Iterator[Suspicion]:
    name = provider.name
    if not name:
        message = (
            "the name is empty: validation accepts it, but the kubelet exits when it searches for the plugin"
        )
        yield ("name",), "KF170", f"{message}; set the file name of the plugin"
        return
    for pattern, what in (
        (r"[\x00-\x1f\x7f]", "has a control character, such as a tab or a line break"),
        (r"\\", "has a backslash"),
        (r"^-", "begins with a dash"),
        (r"[^\x00-\x7f]", "has a character outside ASCII, which may look like another one"),
    ):
        if re.search(pattern, name):
            message = f"the name {name!r} {what}; it must be exactly the plugin's file name"
            yield ("name",), "KF171", message
            return


def check_windows_names(providers: Sequence[CredentialProvider]) -> Iterator[tuple[int, Suspicion]]:
    """Yield names that end in ``.exe`` beside others that do not: in a config for Windows all of them do."""
    named = [provider.name for provider in providers if provider.name]
    if all(name.lower().endswith(_WINDOWS) for name in named):
        return
    for number, provider in enumerate(providers):
        if provider.name.lower().endswith(_WINDOWS):
            message = (
                f"the name {provider.name!r} ends in '.exe', which is only used on Windows nodes, and other providers "
                "do not; it must be exactly the plugin's file name"
            )
            yield number, (("name",), "KF171", message)


def _cache(provider: CredentialProvider) -> Iterator[Suspicion]:
    duration = provider.default_cache_duration_ns
    at = ("defaultCacheDuration",)
    if duration == 0:
        message = (
            "with '0s' the plugin is run for every pull unless its response sets cacheDuration; set "
            "for example '10m'"
        )
        yield at, "KF176", message
    elif duration is not None and duration > _LONG_NS:
        shown = format_duration(duration)
        message = f"{shown!r} is longer than registry tokens are valid (ECR: 12h); set '12h' or less"
        yield at, "KF177", message


def _protocol(provider: CredentialProvider) -> Iterator[Suspicion]:
    version = provider.api_version
    if version in PROVIDER_API_VERSIONS and version != PROVIDER_V1:
        message = (
            f"{version!r} is outdated since Kubernetes 1.26; set {PROVIDER_V1!r} if the plugin supports it"
        )
        yield ("apiVersion",), "KF178", message


def _environment(provider: CredentialProvider) -> Iterator[Suspicion]:
    names: dict[str, int] = {}
    for index, variable in enumerate(provider.env or ()):
        for code, message in _variable(variable):
            yield ("env", index, "value" if code in _OF_VALUES else "name"), code, message
        first = names.setdefault(variable.name, index)
        if first != index and variable.name:
            message = f"{variable.name!r} is already set by env[{first}]; the last value is used, so remove the other"
            yield ("env", index, "name"), "KF174", message


def _variable(variable: ExecEnvVar) -> Iterator[tuple[str, str]]:
    name, value = variable.name, variable.value
    if not name:
        yield "KF172", "the variable has no name, so the plugin cannot see it"
    elif "=" in name:
        yield "KF172", f"{name!r} has a '=' in its name, so the plugin sees {name.partition('=')[0]!r}"
    elif "\0" in name + value:
        yield "KF172", f"{name!r} has a NUL character, so the plugin cannot be started"
    if is_loader(name):
        yield (
            "KF173",
            f"{name!r} changes which code the plugin runs, and replaces the kubelet's own value",
        )
    if looks_secret(name, value):
        message = (
            f"the value of {name!r} looks like a secret; let the plugin read it from a file that only "
            "root can read"
        )
        yield "KF175", message
    if refers_to_variable(value):
        message = f"the value of {name!r} refers to a variable, which the kubelet does not expand"
        yield "KF183", f"{message}; write the value itself"


def _arguments(provider: CredentialProvider) -> Iterator[Suspicion]:
    for index, what in secret_arguments(provider.args or ()):
        message = f"{what} looks like a secret, and arguments are visible in the process list; use a file"
        yield ("args", index), "KF175", message


# Codes about the value of a variable, not about its name.
_OF_VALUES = ("KF175", "KF183")

_CHECKS: tuple[Callable[[CredentialProvider], Iterator[Suspicion]], ...] = (
    _name,
    check_patterns,
    _cache,
    _protocol,
    _environment,
    _arguments,
)
