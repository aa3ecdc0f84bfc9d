"""The table of commands and the exit codes they share."""

import sys
from enum import IntEnum

from keyferry import errors
from keyferry._core.values import Value
from keyferry.errors import Kind
from keyferry.show.report import report, report_error

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
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
Exit codes: 0 yes, clean; 1 no, findings; 2 wrong usage; 3 environment (no config, no permission);
4 a plugin failed; 5 a registry or server refused; 6 cannot tell (an input is missing, or a registry cannot
be reached); 124 a plugin or server took too long."""


def load_module(name: str) -> "ModuleType":
    """Import a module by its name, without importlib, which would load the module of warnings."""
    __import__(name)
    return sys.modules[name]


class WrongUsage(Exception):
    """Options that do not fit together, in words; whoever runs the command adds what to type next."""


class Command(Value):
    """A subcommand: the module that has it, imported only when it is asked for, and what it is for."""

    module: str
    summary: str


COMMANDS = {
    "get": Command(
        "keyferry.cli.image.get", "credentials for an image, in the order the kubelet would try them"
    ),
    "explain": Command(
        "keyferry.cli.image.explain", "why the kubelet would, or would not, have credentials for an image"
    ),
    "can-pull": Command(
        "keyferry.cli.image.can_pull", "yes or no: ask the registry whether an image can be pulled"
    ),
    "pull": Command(
        "keyferry.cli.image.pull", "pull images exactly as the kubelet would, and keep the records of it"
    ),
    "lint": Command("keyferry.cli.lint", "every problem of a provider config, with file, line and column"),
    "records": Command(
        "keyferry.cli.records.group", "who may use the images of this node, as the kubelet remembers it"
    ),
    "kube": Command(
        "keyferry.cli.kube.group",
        "an authenticated connection to any cluster that kubectl can reach, and why not",
    ),
    "plugin": Command(
        "keyferry.cli.plugin.group", "for authors: begin a plugin, put it to the test, record it"
    ),
    "demo": Command("keyferry.cli.demo", "the whole story on this machine, nothing to install"),
    "completion": Command("keyferry.cli.completion", "the completion script for bash, zsh or fish"),
}


def leave_for_usage(prog: str, message: str) -> "Never":
    """Report wrong usage and leave with exit code 2."""
    report(f"{message}; try '{prog} --help'")
    raise SystemExit(Exit.USAGE)


def report_failure(error: Exception, edit: "Callable[[str], str]" = str, hint: str = "") -> Exit:
    """Say what went wrong, and what to try next where that is known; return the exit code."""
    report_error(error, edit)
    if hint:
        report(hint)
    return exit_code(error)


def most_severe(codes: "Iterable[Exit]") -> Exit:
    """One exit code for several: a sure no, then what failed, then what nobody can tell, then a yes."""
    found = tuple(codes)
    if Exit.NO in found:
        return Exit.NO
    failed = (code for code in found if code not in (Exit.OK, Exit.UNKNOWN))
    return next(failed, Exit.UNKNOWN if Exit.UNKNOWN in found else Exit.OK)


def exit_code(error: Exception) -> Exit:
    """The exit code of an error: by its kind, and for a few kinds by whose they are."""
    if isinstance(error, errors.ClusterAuthError) and error.underlying is not None:
        return exit_code(error.underlying)
    if not isinstance(error, errors.KeyferryError):
        return Exit.NO
    for family, codes in _BY_FAMILY:
        if isinstance(error, family) and error.kind in codes:
            return codes[error.kind]
    code = EXITS[error.kind]
    return _code_behind(error) if code is Exit.NO and isinstance(error, errors.ImagePullError) else code


def _code_behind(error: errors.ImagePullError) -> Exit:
    """3 for what this machine kept from being done, such as a folder that is none."""
    is_local = any(failure.kind is Kind.ENVIRONMENT for failure in error.failures)
    return Exit.ENVIRONMENT if is_local else Exit.NO


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
# Kinds that a plugin or a record shares with a registry.
_BY_FAMILY: tuple[tuple[type[errors.KeyferryError], dict[Kind, Exit]], ...] = (
    (errors.PluginError, {Kind.ERROR: Exit.PLUGIN, Kind.NOT_FOUND: Exit.PLUGIN}),
    (errors.RecordError, {Kind.CONTENT: Exit.ENVIRONMENT}),
)
