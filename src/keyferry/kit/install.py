"""Install a plugin in Python as a small program that starts fast and is isolated from the user's settings."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
import sysconfig
from enum import StrEnum
from hashlib import sha256
from importlib.util import find_spec

import keyferry
from keyferry._core.files import Folder, open_folder, reason_of
from keyferry._core.values import Value
from keyferry.errors import EnvironmentProblem
from keyferry.kit.plugin import PluginKind

__all__ = [
    "PLUGINS",
    "OwnPlugin",
    "Plugin",
    "ProgramState",
    "config_text",
    "find_own",
    "find_program",
    "install",
    "is_written_here",
    "launcher_text",
    "program_text",
    "takes_no_arguments",
    "write_config",
]

_MODE = 0o755
_FOLDER_MODE, _CONFIG_MODE = 0o755, 0o644
_CHECKSUM_END = ".sha256"
# The kernel truncates a "#!" line at this length.
_MAX_FIRST_LINE = 127
_OWN_LINES = 4  # of a launcher, after those that name the interpreter
# More than a launcher can have.
_MAX_BYTES = 1 << 16
_CHECK_SECONDS = 60
_NO_FUNCTION, _NEEDS_ARGUMENTS = 110, 111
_CHECK = f"""\
import sys
sys.path += {{paths!a}}
import {{module}} as module
function = getattr(module, {{function!r}}, None)
if not callable(function):
    sys.exit({_NO_FUNCTION})
import inspect
try:
    parameters = inspect.signature(function).parameters.values()
except (TypeError, ValueError):
    parameters = ()
if any(each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters):
    sys.exit({_NEEDS_ARGUMENTS})
"""


class Plugin(Value):
    """A reference plugin: its name, the program it replaces, its kind, and a description."""

    name: str
    upstream: str
    kind: PluginKind
    about: str
    function: str = "main"

    @property
    def module(self) -> str:
        """The module whose ``main`` is the plugin."""
        return f"keyferry_plugins.{self.name.replace('-', '_')}"

    @property
    def program(self) -> str:
        """The default name of its program."""
        return f"keyferry-{self.name}"


class OwnPlugin(Value):
    """A plugin of the user, in a package that is installed for this Python: its module and function."""

    module: str
    function: str
    upstream: str = ""

    @property
    def program(self) -> str:
        """The default name of its program: that of its package."""
        return self.module.partition(".")[0].replace("_", "-")


class ProgramState(StrEnum):
    """What has the name of a program that is to be installed."""

    ABSENT = "absent"
    CURRENT = "current"
    OLDER = "older"  # a launcher of the same plugin, for another Python or other paths
    FOREIGN = "foreign"


_IMAGE, _CLUSTER = PluginKind.IMAGE, PluginKind.CLUSTER
PLUGINS = {
    name: Plugin(name=name, upstream=upstream, kind=kind, about=about)
    for name, upstream, kind, about in (
        ("ecr", "ecr-credential-provider", _IMAGE, "Amazon ECR, private and public"),
        ("gcr", "auth-provider-gcp", _IMAGE, "Google Container Registry and Artifact Registry"),
        ("acr", "acr-credential-provider", _IMAGE, "Azure Container Registry"),
        ("static", "", _IMAGE, "docker config files and directories of secrets"),
        ("docker-helper", "", _IMAGE, "any docker-credential-* program"),
        ("federate", "", _IMAGE, "any registry that trusts an OpenID Connect issuer"),
        ("eks", "aws-iam-authenticator", _CLUSTER, "Amazon EKS, by a presigned STS request"),
        ("gke", "gke-gcloud-auth-plugin", _CLUSTER, "Google GKE"),
        ("aks", "kubelogin", _CLUSTER, "Azure AKS, by Entra ID"),
        ("oidc", "kubectl-oidc_login", _CLUSTER, "any OpenID Connect issuer"),
    )
}


def find_own(text: str) -> OwnPlugin | None:
    """Return the plugin that ``package.module:function`` names, or None for text of another form.

    Raise EnvironmentProblem if this Python does not find the module. The module itself is not run.
    """
    module, colon, function = text.partition(":")
    if not (colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        return None
    if _origin(module) is None:
        hint = "install its package with the pip of that Python"
        raise EnvironmentProblem(f"module {module!r} is not installed for {sys.executable}; {hint}")
    return OwnPlugin(module=module, function=function)


def this_python() -> str:
    """Return the interpreter that runs keyferry, for other programs; raise EnvironmentProblem if they cannot use it."""
    if getattr(sys, "frozen", False):
        raise EnvironmentProblem(
            "this executable has its Python inside, where no other program can use it; "
            "install keyferry, or use keyferry.pyz"
        )
    return sys.executable


def takes_no_arguments(plugin: OwnPlugin) -> bool:
    """Import a plugin as its program will, and return whether its function can be called without arguments.

    Raise EnvironmentProblem if the module cannot be imported, or has no such function. The function is not run.
    """
    code = _CHECK.format(paths=_paths(plugin), module=plugin.module, function=plugin.function)
    try:
        done = subprocess.run(
            [this_python(), "-IS", "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentProblem(f"module {plugin.module!r}: its import takes too long") from None
    if done.returncode == _NO_FUNCTION:
        raise EnvironmentProblem(f"module {plugin.module!r} has no function {plugin.function!r}")
    if done.returncode not in (0, _NEEDS_ARGUMENTS):
        why = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise EnvironmentProblem(f"module {plugin.module!r} cannot be imported by its program: {why}")
    return done.returncode == 0


def _origin(module: str) -> str | None:
    """Return the file of a module; None if it cannot be found."""
    try:
        spec = find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None  # a package above it is missing, or cannot be imported
    return None if spec is None else spec.origin


def find_program(plugin: Plugin | OwnPlugin, folder: str, name: str) -> tuple[ProgramState, str]:
    """Return what *name* in *folder* is, and the interpreter of a launcher of *plugin*."""
    try:
        with open_folder(folder) as opened:
            return _find_in(plugin, opened, name)
    except FileNotFoundError:
        return ProgramState.ABSENT, ""
    except OSError:
        return ProgramState.FOREIGN, ""


def _find_in(plugin: Plugin | OwnPlugin, folder: Folder, name: str) -> tuple[ProgramState, str]:
    try:
        return _state_of(plugin, folder, name)
    except FileNotFoundError:
        return ProgramState.ABSENT, ""
    except (OSError, ValueError):
        return ProgramState.FOREIGN, ""


def _state_of(plugin: Plugin | OwnPlugin, folder: Folder, name: str) -> tuple[ProgramState, str]:
    """Judge a file by its content; a link, a folder and what cannot be read are somebody else's."""
    if not stat.S_ISREG(folder.status_of(name).st_mode):
        return ProgramState.FOREIGN, ""
    fd = folder.open(name)
    with open(fd, "rb") as stream:
        data = stream.read(_MAX_BYTES)
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
    python = _python_of(plugin, os.fsdecode(data).splitlines())
    if not python:
        return ProgramState.FOREIGN, ""
    is_current = data == os.fsencode(launcher_text(plugin)) and mode == _MODE
    return ProgramState.CURRENT if is_current else ProgramState.OLDER, python


def _python_of(plugin: Plugin | OwnPlugin, lines: list[str]) -> str:
    """Return the interpreter of a launcher of *plugin*; empty if a line is not as ``launcher_text`` writes it."""
    *head, first, paths, name, call = lines if len(lines) > _OWN_LINES else [""] * (_OWN_LINES + 1)
    expected = ("import sys", f"from {plugin.module} import {plugin.function}", f"{plugin.function}()")
    if (first, name, call) != expected or not (paths.startswith("sys.path += [") and paths.endswith("]")):
        return ""
    if len(head) == 1:
        python = head[0].removeprefix("#!").removesuffix(" -IS")
    else:
        python = head[-2].removeprefix("'''exec' '").partition("' -IS ")[0].replace("'\\''", "'")
    is_ours = _is_writable(python) and _first_lines(python) == "\n".join([*head, ""])
    return python if is_ours else ""


def install(plugin: Plugin | OwnPlugin, folder: str, name: str, *, replace: bool = False) -> str:
    """Write a program called *name* into *folder* that runs *plugin*; return its path.

    An older program of the same plugin is replaced, anything else only with *replace*. Raise EnvironmentProblem if the
    folder does not exist or cannot be written, or something else has the name.
    """
    path = os.path.join(folder, name)
    if not os.path.isdir(folder):
        raise EnvironmentProblem(
            f"{folder!r} is not a folder; create it with: mkdir -p {shlex.quote(folder)}"
        )
    text = os.fsencode(launcher_text(plugin))
    try:
        with open_folder(folder, is_strict=True) as opened:
            if not replace and _find_in(plugin, opened, name)[0] is ProgramState.FOREIGN:
                raise EnvironmentProblem(
                    f"{path!r} exists already; replace it with --force, if this plugin is to take its place"
                )
            # The mode does not depend on the umask, because the kubelet may be another user.
            opened.replace(name, text, mode=_MODE, is_exact=True)
    except OSError as error:
        raise EnvironmentProblem(f"{path!r} cannot be written: {reason_of(error, path)}") from None
    return path


def config_text(document: object) -> bytes:
    """Return a plugin's config as it is written."""
    return f"{json.dumps(document, indent=2)}\n".encode()


def is_written_here(path: str, data: bytes) -> bool:
    """Return whether ``write_config`` wrote *data*, which is at *path*: the checksum beside it is that of *data*."""
    folder, name = os.path.split(path + _CHECKSUM_END)
    try:
        # No link in the place of the checksum is followed, and no named pipe waited for.
        with open_folder(folder or os.curdir, is_strict=True) as opened:
            fd = opened.open(name)
        with open(fd, "rb") as stream:
            return stream.read(_MAX_BYTES) == _checksum(path, data)
    except OSError:
        return False


def _checksum(path: str, data: bytes) -> bytes:
    """Return the line that ``sha256sum --check`` reads."""
    return f"{sha256(data).hexdigest()}  {os.path.basename(path)}\n".encode()


def write_config(path: str, data: bytes) -> None:
    """Write a plugin's config atomically, so that only this user can change it; make its folder if needed.

    Its checksum is written beside it, which tells later that nobody else has changed it. Raise EnvironmentProblem if it
    cannot be written.
    """
    folder, name = os.path.split(path)
    try:
        with open_folder(folder, make=_FOLDER_MODE, is_strict=True) as opened:
            # The mode does not depend on the umask, because the kubelet may be another user.
            opened.replace(name, data, mode=_CONFIG_MODE, is_exact=True)
            opened.replace(name + _CHECKSUM_END, _checksum(path, data), mode=_CONFIG_MODE, is_exact=True)
    except OSError as error:
        raise EnvironmentProblem(f"{path!r} cannot be written: {reason_of(error, path)}") from None


def launcher_text(plugin: Plugin | OwnPlugin, executable: str = "") -> str:
    """Return the program: this interpreter without the user's settings and ``site``, and the required paths."""
    return program_text(plugin.module, _paths(plugin), executable, function=plugin.function)


def program_text(
    module: str, paths: list[str], executable: str = "", comment: str = "", *, function: str = "main"
) -> str:
    """Return a program that calls *function* of *module*, found in *paths*, in an isolated interpreter."""
    lines = [
        f"{_first_lines(executable or this_python())}{comment}import sys",
        f"sys.path += {paths!a}",
        f"from {module} import {function}",
        f"{function}()",
        "",
    ]
    return "\n".join(lines)


def _is_writable(executable: str) -> bool:
    return bool(executable) and not any(mark in executable for mark in "\\\n\r")


def _first_lines(executable: str) -> str:
    if not _is_writable(executable):
        raise EnvironmentProblem(f"the path of this Python, {executable!r}, cannot be written into a program")
    line = f"#!{executable} -IS\n"
    is_plain = executable.isascii() and not any(mark in executable for mark in " \t")
    if is_plain and len(line) <= _MAX_FIRST_LINE:
        return line
    # The path's bytes may be in any encoding; latin-1 can decode all of them.
    coding = "" if executable.isascii() else "# -*- coding: latin-1 -*-\n"
    # The shell executes the next line; to Python it is a string.
    quoted = executable.replace("'", "'\\''")
    return f"#!/bin/sh\n{coding}'''exec' '{quoted}' -IS \"$0\" \"$@\"\n' '''\n"


def _paths(plugin: Plugin | OwnPlugin) -> list[str]:
    """Return the paths of the plugin, of keyferry, and of cryptography, which some of its plugins use."""
    places = sysconfig.get_paths()
    paths = [_parent(_parent(keyferry.__file__)), places["purelib"], places["platlib"]]
    # Not always in the same folder: the system's packages have a folder of their own, and so has a package that is
    # installed from its sources.
    for package in (plugin.module.partition(".")[0], "cryptography"):
        origin = _origin(package)
        if origin is not None:
            is_package = os.path.basename(origin).startswith("__init__.")
            paths.append(_parent(_parent(origin)) if is_package else _parent(origin))
    return list(dict.fromkeys(paths))


def _parent(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))
