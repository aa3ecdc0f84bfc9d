"""Suspicious values in an exec section: its program, arguments and variables."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from keyferry._core.paths import Path
from keyferry.api.clientauthentication import v1
from keyferry.api.kubeconfig.v1 import ExecConfig
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.clusters.kubeconfig.resolve import clean_install_hint
from keyferry.invoke.executable import clean_path, look_path
from keyferry.lint.files import who_writes
from keyferry.lint.secrets import is_loader, looks_secret, refers_to_variable, secret_arguments

__all__ = ["Suspicion", "check_exec"]

Suspicion = tuple[Path, str, str]

# Codes about the value of a variable, not about its name.
_OF_VALUES = ("KF271", "KF284")


def check_exec(written: ExecConfig | None, anchored: ExecConfig | None) -> Iterator[Suspicion]:
    """Yield the suspicions about a plugin as *written*, and as *anchored* at its kubeconfig's folder."""
    if written is None or anchored is None:
        return
    for at, code, message in (
        *_check_command(written.command, anchored.command),
        *_check_version(written),
        *_check_hint(written.install_hint),
        *_check_environment(written),
        *_check_arguments(written.args or ()),
    ):
        yield ("exec", *at), code, message


def _check_command(written: str, anchored: str) -> Iterator[Suspicion]:
    at = ("command",)
    if not written:
        return  # reported as a refusal
    if written != anchored:
        message = f"{written!r} is relative to the folder of this file, not to the current one: it means {anchored!r}"
        yield at, "KF274", message
    found = look_path(clean_path(anchored))
    is_path = os.sep in anchored
    if not found.problem:
        yield from _check_program(at, found.path)
    elif is_path:
        yield at, "KF276", f"{anchored!r} cannot be run on this machine: {found.reason}"
    else:
        message = f"{written!r} is not found in the PATH of this process; install it, or set its path"
        yield at, "KF275", message


def _check_program(at: Path, path: str) -> Iterator[Suspicion]:
    target = os.path.realpath(path)
    try:
        status = os.stat(target)
        # A user who can replace the link chooses the program, like one who can replace its target.
        replaceable = [each for each in dict.fromkeys((target, path)) if _is_replaceable(each)]
    except OSError:
        return
    who = who_writes(status.st_mode)
    if who:
        yield (
            at,
            "KF283",
            f"{who} can write {target} and choose the program that runs; run chmod go-w {target}",
        )
    elif replaceable:
        folder, name = os.path.split(replaceable[0])
        yield at, "KF283", f"everybody can write to {folder} and replace {name}; run chmod o-w {folder}"
    elif status.st_uid not in (0, os.geteuid()):
        yield at, "KF283", f"{target} belongs to user {status.st_uid}, who can change it"


def _is_replaceable(path: str) -> bool:
    mode = os.stat(os.path.dirname(path)).st_mode
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)


def _check_version(plugin: ExecConfig) -> Iterator[Suspicion]:
    if plugin.api_version != v1.API_VERSION and plugin.api_version in v1.API_VERSIONS:
        message = (
            f"{plugin.api_version!r} is an old version; set {v1.API_VERSION!r} if the plugin supports it, "
            "and an interactiveMode"
        )
        yield ("apiVersion",), "KF273", message


def _check_hint(hint: str) -> Iterator[Suspicion]:
    if clean_install_hint(hint) != hint:
        message = "it contains control characters, which are shown as code points such as U+001B; remove them"
        yield ("installHint",), "KF281", message


def _check_environment(plugin: ExecConfig) -> Iterator[Suspicion]:
    names: dict[str, int] = {}
    for index, variable in enumerate(plugin.env):
        for code, message in _check_variable(variable.name, variable.value):
            yield ("env", index, "value" if code in _OF_VALUES else "name"), code, message
        first = names.setdefault(variable.name, index)
        if first != index and variable.name:
            message = f"{variable.name!r} is already set by env[{first}]; the last value is used"
            yield ("env", index, "name"), "KF279", message


def _check_variable(name: str, value: str) -> Iterator[tuple[str, str]]:
    if "=" in name or "\0" in name + value:
        what = "a NUL, so the plugin cannot be started" if "\0" in name + value else "a '=' in its name"
        yield "KF280", f"{name!r} has {what}"
    if name == EXEC_INFO:
        yield "KF278", f"{name!r} is set for every plugin, which replaces this value; remove it"
    elif name == "PATH":
        message = (
            "it applies to the programs that the plugin starts; the plugin itself is searched in the PATH of "
            "kubectl"
        )
        yield "KF277", f"{name!r} changes which code runs: {message}"
    elif is_loader(name):
        yield "KF277", f"{name!r} loads other code into the plugin; make sure that this is intended"
    if looks_secret(name, value):
        message = (
            f"the value of {name!r} looks like a secret; let the plugin read a file that only you can read"
        )
        yield "KF271", message
    if refers_to_variable(value):
        message = f"the value of {name!r} refers to a variable, which kubectl does not expand; write the value itself"
        yield "KF284", message


def _check_arguments(args: tuple[str, ...]) -> Iterator[Suspicion]:
    for index, what in secret_arguments(args):
        yield (
            ("args", index),
            "KF271",
            f"{what} looks like a secret, and arguments are visible in the process list",
        )
