"""The table of commands and the exit codes they share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from enum import IntEnum
from types import ModuleType

from keyferry import errors
from keyferry._core.values import Value
from keyferry.errors import Kind
from keyferry.show.writer import report, report_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never


class Exit(IntEnum):
    """The exit codes, the same in every output format."""

    OK = 0
    NO = 1
    USAGE = 2
    ENVIRONMENT = 3
    PLUGIN = 4
    REFUSED = 5
    UNKNOWN = 6
    TIMEOUT = 124
    INTERRUPTED = 130
    PIPE = 141


EXIT_CODES = """\
Exit codes: 0 success, no findings; 1 negative result, findings; 2 wrong usage; 3 environment problem
(no config, no permission); 4 a plugin failed; 5 a registry or server refused access; 6 unknown (an input is
missing, or a registry or server is unreachable); 124 a plugin or server timed out."""


def load_module(name: str) -> ModuleType:
    """Import and return the module *name*, without importlib, which would import warnings."""
    __import__(name)
    return sys.modules[name]


class WrongUsage(Exception):
    """Options that cannot be combined or have a wrong value; the caller adds the hint about ``--help``."""


class Command(Value):
    """A subcommand: its module, which is imported only when the command runs, and a one-line summary."""

    module: str
    summary: str


COMMANDS = {
    "get": Command(
        module="keyferry.cli.image.get",
        summary="print the credentials for an image, in the order the kubelet tries them",
    ),
    "explain": Command(
        module="keyferry.cli.image.explain",
        summary="explain why the kubelet has, or does not have, credentials for an image",
    ),
    "can-pull": Command(
        module="keyferry.cli.image.can_pull", summary="check with the registry whether an image can be pulled"
    ),
    "pull": Command(
        module="keyferry.cli.image.pull",
        summary="pull images as the kubelet does, and write its pull records",
    ),
    "doctor": Command(
        module="keyferry.cli.doctor",
        summary="check this machine as a node, and name the next command to type",
    ),
    "lint": Command(
        module="keyferry.cli.lint",
        summary="list every problem of a config file, with line and column",
    ),
    "diff": Command(
        module="keyferry.cli.diff",
        summary="show what changes between two provider configs, and for which images",
    ),
    "records": Command(
        module="keyferry.cli.records.group",
        summary="show and maintain the records of who may use the images of this node",
    ),
    "kube": Command(
        module="keyferry.cli.kube.group",
        summary="authenticate to any cluster that kubectl can reach, and explain failures",
    ),
    "plugin": Command(
        module="keyferry.cli.plugin.group", summary="create, test, trace and install credential plugins"
    ),
    "agent": Command(
        module="keyferry.cli.agent.group",
        summary="run the node agent: one shared cache for everybody on this node",
    ),
    "bridge": Command(
        module="keyferry.cli.bridge.group",
        summary="connect the kubelet and docker's tools to the node agent, reversibly",
    ),
    "demo": Command(
        module="keyferry.cli.demo.command",
        summary="show six common problems and the commands that explain them, on this machine",
    ),
    "completion": Command(
        module="keyferry.cli.completion.command", summary="print the completion script for bash, zsh or fish"
    ),
}


def leave_for_usage(prog: str, message: str) -> Never:
    """Report wrong usage and exit with code 2."""
    report(f"{message}; try '{prog} --help'")
    raise SystemExit(Exit.USAGE)


def report_failure(error: Exception, edit: Callable[[str], str] = str, hint: str = "") -> Exit:
    """Report *error*, then *hint* if there is one, and return the exit code."""
    report_error(error, edit)
    if hint:
        report(hint)
    return exit_code(error)


def most_severe(codes: Iterable[Exit]) -> Exit:
    """Return one exit code for several: NO first, then the first failure, then UNKNOWN, then OK."""
    found = tuple(codes)
    if Exit.NO in found:
        return Exit.NO
    failed = (code for code in found if code not in (Exit.OK, Exit.UNKNOWN))
    return next(failed, Exit.UNKNOWN if Exit.UNKNOWN in found else Exit.OK)


def exit_code(error: Exception) -> Exit:
    """Return the exit code of an error, by its kind and, for some kinds, by its class."""
    if isinstance(error, errors.ClusterAuthError) and error.underlying is not None:
        return exit_code(error.underlying)
    if not isinstance(error, errors.KeyferryError):
        return Exit.NO
    if isinstance(error, errors.ImagePullError) and _is_silence(error):
        return Exit.UNKNOWN
    for family, codes in _by_family():
        if isinstance(error, family) and error.kind in codes:
            return codes[error.kind]
    code = EXITS[error.kind]
    return _code_behind(error) if code is Exit.NO and isinstance(error, errors.ImagePullError) else code


def _is_silence(error: errors.ImagePullError) -> bool:
    """Return whether the registry said nothing about the image; that is as unknown after a pull as after a check."""
    for failure in error.failures:
        if failure.kind is not error.kind:
            continue
        if isinstance(failure, errors.RegistryError):
            return failure.kind in _SILENCE
        # With this code the runtime itself is not there, which is a problem of this machine.
        is_runtime = isinstance(failure, errors.ContainerRuntimeError) and failure.code != "UNAVAILABLE"
        return is_runtime and failure.kind is Kind.UNREACHABLE
    return False


def _code_behind(error: errors.ImagePullError) -> Exit:
    """Return 3 if a problem of this machine stopped the pull, such as a target that is not a folder; else 1."""
    is_local = any(failure.kind is Kind.ENVIRONMENT for failure in error.failures)
    return Exit.ENVIRONMENT if is_local else Exit.NO


# With these errors a registry says nothing about an image.
_SILENCE = (Kind.UNREACHABLE, Kind.THROTTLED, Kind.ERROR)

EXITS = {
    Kind.ERROR: Exit.NO,
    Kind.NOT_FOUND: Exit.NO,
    Kind.TIMEOUT: Exit.TIMEOUT,
    Kind.CONTENT: Exit.NO,
    Kind.REFUSED: Exit.REFUSED,
    Kind.THROTTLED: Exit.NO,
    Kind.UNREACHABLE: Exit.ENVIRONMENT,
    Kind.UNSAFE: Exit.NO,
    Kind.ABSENT: Exit.NO,
    Kind.START: Exit.PLUGIN,
    Kind.EXIT: Exit.PLUGIN,
    Kind.OUTPUT: Exit.PLUGIN,
    Kind.PROTOCOL: Exit.PLUGIN,
    Kind.SYNTAX: Exit.ENVIRONMENT,
    Kind.TYPE: Exit.ENVIRONMENT,
    Kind.TRUST: Exit.ENVIRONMENT,
    Kind.FOREIGN: Exit.ENVIRONMENT,
    Kind.MISPLACED: Exit.ENVIRONMENT,
    Kind.LOCKED: Exit.ENVIRONMENT,
    Kind.SYSTEM: Exit.ENVIRONMENT,
    Kind.JSON_SYNTAX: Exit.ENVIRONMENT,
    Kind.YAML_SYNTAX: Exit.ENVIRONMENT,
    Kind.WRONG_TYPE: Exit.ENVIRONMENT,
    Kind.STRICT: Exit.ENVIRONMENT,
    Kind.DURATION: Exit.NO,
    Kind.BASE64: Exit.ENVIRONMENT,
    Kind.URL: Exit.ENVIRONMENT,
    Kind.GROUP_VERSION: Exit.ENVIRONMENT,
    Kind.MISSING_KIND: Exit.ENVIRONMENT,
    Kind.MISSING_API_VERSION: Exit.ENVIRONMENT,
    Kind.UNKNOWN_TYPE: Exit.ENVIRONMENT,
    Kind.OTHER: Exit.ENVIRONMENT,
    Kind.NAME: Exit.USAGE,
    Kind.PATTERN: Exit.NO,
    Kind.TIME: Exit.NO,
    Kind.CONFIG: Exit.ENVIRONMENT,
    Kind.POLICY: Exit.ENVIRONMENT,
    Kind.ENVIRONMENT: Exit.ENVIRONMENT,
    Kind.PULL_SECRET: Exit.ENVIRONMENT,
    Kind.SERVICE_ACCOUNT: Exit.PLUGIN,
}


def _by_family() -> tuple[tuple[type[errors.KeyferryError], dict[Kind, Exit]], ...]:
    """Return the kinds that registry errors also have, with another exit code for plugins, records and clusters."""
    # Not a table of the module: the classes are loaded with the first error.
    return (
        (errors.PluginError, {Kind.ERROR: Exit.PLUGIN, Kind.NOT_FOUND: Exit.PLUGIN}),
        (errors.RecordError, {Kind.CONTENT: Exit.ENVIRONMENT}),
        (errors.ClusterAuthError, {Kind.UNREACHABLE: Exit.UNKNOWN}),
        (errors.RegistryError, dict.fromkeys(_SILENCE, Exit.UNKNOWN)),
    )
