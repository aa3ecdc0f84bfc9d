"""What is hardly meant in an exec section: which program it leads to, and what it is told."""

import os
import stat
from collections.abc import Iterator

from keyferry._core.paths import Path
from keyferry.api.clientauthentication import v1, v1beta1
from keyferry.api.kubeconfig.v1 import ExecConfig
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.clusters.kubeconfig.resolve import clean_install_hint
from keyferry.invoke.executable import clean_path, look_path
from keyferry.lint.files import who_writes
from keyferry.lint.secrets import is_loader, looks_secret, secret_arguments

__all__ = ["Suspicion", "check_exec"]

Suspicion = tuple[Path, str, str]


def check_exec(written: ExecConfig | None, anchored: ExecConfig | None) -> Iterator[Suspicion]:
    """What is suspicious about a plugin, as it is *written* and *anchored* to its kubeconfig's folder."""
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
        return  # a refusal
    if written != anchored:
        message = f"{written!r} counts from the folder of this file, not from yours: it means {anchored!r}"
        yield at, "KF274", message
    found = look_path(clean_path(anchored))
    is_path = os.sep in anchored
    if not found.problem:
        yield from _check_program(at, found.path)
    elif is_path:
        yield at, "KF276", f"{anchored!r} cannot be run on this machine: {found.reason}"
    else:
        message = f"{written!r} is not found in the PATH of this process; install it, or write its path"
        yield at, "KF275", message


def _check_program(at: Path, path: str) -> Iterator[Suspicion]:
    target = os.path.realpath(path)
    try:
        status = os.stat(target)
        # Who can replace the link chooses the program as well as who can replace what it leads to.
        replaceable = [each for each in dict.fromkeys((target, path)) if _is_replaceable(each)]
    except OSError:
        return
    who = who_writes(status.st_mode)
    if who:
        yield at, "KF283", f"{who} can write {target} and so choose what runs; chmod go-w {target}"
    elif replaceable:
        folder, name = os.path.split(replaceable[0])
        yield at, "KF283", f"everybody can write to {folder} and so replace {name}; chmod o-w {folder}"
    elif status.st_uid not in (0, os.geteuid()):
        yield at, "KF283", f"{target} belongs to user {status.st_uid}, who can change it"


def _is_replaceable(path: str) -> bool:
    mode = os.stat(os.path.dirname(path)).st_mode
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)


def _check_version(plugin: ExecConfig) -> Iterator[Suspicion]:
    if plugin.api_version == v1beta1.API_VERSION:
        message = (
            f"{plugin.api_version!r} is old; write {v1.API_VERSION!r} if the plugin speaks it, "
            "and an interactiveMode beside it"
        )
        yield ("apiVersion",), "KF273", message


def _check_hint(hint: str) -> Iterator[Suspicion]:
    if clean_install_hint(hint) != hint:
        message = "there are control characters in it, which are shown as U+001B and the like; remove them"
        yield ("installHint",), "KF281", message


def _check_environment(plugin: ExecConfig) -> Iterator[Suspicion]:
    names: dict[str, int] = {}
    for index, variable in enumerate(plugin.env):
        for code, message in _check_variable(variable.name, variable.value):
            yield ("env", index, "value" if code == "KF271" else "name"), code, message
        first = names.setdefault(variable.name, index)
        if first != index and variable.name:
            message = f"{variable.name!r} is set by env[{first}] already; the last one counts"
            yield ("env", index, "name"), "KF279", message


def _check_variable(name: str, value: str) -> Iterator[tuple[str, str]]:
    if "=" in name or "\0" in name + value:
        what = "a NUL, with which no plugin can be started" if "\0" in name + value else "a '=' in its name"
        yield "KF280", f"{name!r} has {what}"
    if name == EXEC_INFO:
        yield "KF278", f"{name!r} is set for every plugin, and what stands here is replaced; remove it"
    elif name == "PATH":
        message = (
            "it counts for what the plugin itself starts; the plugin is looked for in the PATH of whoever "
            "runs kubectl"
        )
        yield "KF277", f"{name!r} decides which code is run: {message}"
    elif is_loader(name):
        yield "KF277", f"{name!r} loads foreign code into the plugin; make sure that this is meant"
    if looks_secret(name, value):
        message = f"the value of {name!r} looks like a secret; let the plugin read it from a file of your own"
        yield "KF271", message


def _check_arguments(args: tuple[str, ...]) -> Iterator[Suspicion]:
    for index, what in secret_arguments(args):
        yield ("args", index), "KF271", f"{what} looks like a secret, and arguments show in the process list"
