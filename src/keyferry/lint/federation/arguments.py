"""The config of a provider that runs ``keyferry-federate``: what its arguments and variables name or stand for."""

from __future__ import annotations

import os
from collections.abc import Sequence

from keyferry._core.paths import Path
from keyferry._core.values import Value
from keyferry.api.federation.presets import PRESETS
from keyferry.api.federation.rules import CONFIG_FLAG, RULE_FLAGS, make_document, read_setting
from keyferry.api.federation.v1alpha1 import FederationConfig
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import ProvideError
from keyferry.lint.federation.decode import FederationFile, decode_federation, interpret_federation

__all__ = ["ProviderFederation", "find_federation", "is_federate", "named_config"]

_PROGRAM = "keyferry-federate"
_ABSENT, _REFUSED, _ARGUMENTS = "KF678", "KF679", "KF680"
_MOST_BYTES = 1 << 20


class ProviderFederation(Value):
    """The config of a provider; *source* is its file, empty for arguments. Without *config*, the problem is why."""

    source: str
    config: FederationConfig | None = None
    at: Path = ("args",)
    code: str = ""
    message: str = ""


def is_federate(provider: CredentialProvider, beside: Sequence[FederationFile] = ()) -> bool:
    """Return whether a provider runs ``keyferry-federate``: by its name, its arguments, or the file that they name."""
    if provider.name == _PROGRAM or provider.name.startswith(f"{_PROGRAM}-"):
        return True
    flags = _flags(provider.args or ())
    if flags.get("registry") and not PRESETS.keys().isdisjoint(flags.get("preset", ())):
        return True
    path = named_config(provider)
    return bool(path) and any(_stem(each.path) == _stem(path) for each in beside)


def named_config(provider: CredentialProvider) -> str:
    """Return the path of the FederationConfig that a provider's arguments or variables name, or an empty text."""
    return read_setting(_flags(provider.args or ()), _variables(provider), CONFIG_FLAG)


def find_federation(provider: CredentialProvider, beside: Sequence[FederationFile]) -> ProviderFederation:
    """Return the config of a provider: one of *beside*, which were given too, else the file that is on this machine."""
    flags = _flags(provider.args or ())
    path = named_config(provider)
    if not path:
        return _from_arguments(flags, provider)
    both = [f"--{name}" for name in RULE_FLAGS if name in flags]
    if both:
        message = f"--config cannot be used with {', '.join(both)}; write these settings into the config"
        return ProviderFederation(source="", code=_ARGUMENTS, message=message)
    return _from_file(path, _config_place(provider), beside)


def _from_arguments(flags: dict[str, list[str]], provider: CredentialProvider) -> ProviderFederation:
    try:
        config, problems = interpret_federation(make_document(flags, _variables(provider)))
    except ProvideError as error:
        return ProviderFederation(source="", code=_ARGUMENTS, message=str(error))
    if problems:
        return ProviderFederation(
            source="", code=_ARGUMENTS, message=f"the plugin refuses them: {problems[0][1]}"
        )
    return ProviderFederation(source="", config=config)


def _from_file(path: str, at: Path, beside: Sequence[FederationFile]) -> ProviderFederation:
    file = _choose(path, beside)
    is_given = file is not None
    if file is None and os.path.isfile(path):
        file = _read(path)
    if file is None:
        message = f"the FederationConfig {path!r} does not exist on this machine, or cannot be read"
        return ProviderFederation(source=path, config=None, at=at, code=_ABSENT, message=message)
    if file.problems:
        # Not quoted: the arguments may name any file, and a message may have a part of it.
        message = f"{file.path!r} is no FederationConfig that the plugin accepts; lint that file"
        return ProviderFederation(source=path, config=None, at=at, code=_REFUSED, message=message)
    if not is_given and not file.is_json:
        message = (
            f"{path!r} is YAML, and the plugin reads JSON; write it with 'keyferry plugin install federate'"
        )
        return ProviderFederation(source=path, config=None, at=at, code=_REFUSED, message=message)
    return ProviderFederation(source=path, config=file.config, at=at)


def _choose(path: str, beside: Sequence[FederationFile]) -> FederationFile | None:
    """Return the given file of that path, else of that name but for its ending, else the only one."""
    same = [each for each in beside if os.path.abspath(each.path) == path]
    named = [each for each in beside if _stem(each.path) == _stem(path)]
    chosen = same or named or (list(beside) if len(beside) == 1 else [])
    return chosen[0] if chosen else None


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _read(path: str) -> FederationFile | None:
    try:
        with open(path, "rb") as stream:
            return decode_federation(path, stream.read(_MOST_BYTES))
    except OSError:
        return None


def _config_place(provider: CredentialProvider) -> Path:
    for index, word in enumerate(provider.args or ()):
        if word.lstrip("-").partition("=")[0] == CONFIG_FLAG:
            return "args", index
    return ("env",)


def _variables(provider: CredentialProvider) -> dict[str, str]:
    return {variable.name: variable.value for variable in provider.env or ()}


def _flags(args: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of the flags that matter here, in both of the forms that the plugin accepts."""
    found: dict[str, list[str]] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not word.startswith("-") or name not in (CONFIG_FLAG, *RULE_FLAGS):
            continue
        if not equals and rest:
            value = rest.pop(0)
        found.setdefault(name, []).append(value)
    return found
