"""The table of commands and the exit codes they share."""

import sys
from enum import IntEnum

from keyferry import errors
from keyferry._core.values import Value
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


def gravest(codes: "Iterable[Exit]") -> Exit:
    """One exit code for several: a sure no, then what failed, then what nobody can tell, then a yes."""
    found = tuple(codes)
    if Exit.NO in found:
        return Exit.NO
    failed = (code for code in found if code not in (Exit.OK, Exit.UNKNOWN))
    return next(failed, Exit.UNKNOWN if Exit.UNKNOWN in found else Exit.OK)


def exit_code(error: Exception) -> Exit:
    """The exit code of an error."""
    if isinstance(error, errors.ClusterAuthError):
        return _cluster_code(error)
    if isinstance(error, errors.RegistryError):
        return _REGISTRY_CODES.get(error.cause, Exit.NO)
    if isinstance(error, errors.ImagePullError):
        return _REGISTRY_CODES.get(error.cause) or _code_behind(error)
    if isinstance(error, errors.ContainerRuntimeError):
        return _REGISTRY_CODES.get(error.kind, Exit.NO)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return Exit.NO


def _code_behind(error: errors.ImagePullError) -> Exit:
    """3 for what this machine kept from being done, such as a folder that is none."""
    local = any(isinstance(failure, errors.EnvironmentProblem) for failure in error.failures)
    return Exit.ENVIRONMENT if local else Exit.NO


def _cluster_code(error: errors.ClusterAuthError) -> Exit:
    """The code of what is behind it; where that is nothing of ours, the server's refusal."""
    if error.cause is not None:
        return exit_code(error.cause)
    return Exit.TIMEOUT if isinstance(error.__cause__, TimeoutError) else Exit.REFUSED


_REGISTRY_CODES = {
    "refused": Exit.REFUSED,
    "timeout": Exit.TIMEOUT,
    "unreachable": Exit.ENVIRONMENT,
    "name": Exit.USAGE,
}

_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (errors.PluginTimeoutError, Exit.TIMEOUT),
    (errors.PluginError, Exit.PLUGIN),
    (errors.ServiceAccountError, Exit.PLUGIN),
    (errors.ImageNameError, Exit.USAGE),
    (errors.ConfigError, Exit.ENVIRONMENT),
    (errors.PolicyError, Exit.ENVIRONMENT),
    (errors.EnvironmentProblem, Exit.ENVIRONMENT),
    (errors.PullSecretError, Exit.ENVIRONMENT),
    (errors.RecordError, Exit.ENVIRONMENT),
    (errors.DocumentError, Exit.ENVIRONMENT),
)
