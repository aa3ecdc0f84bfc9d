"""The exit codes that all commands share, and which error ends with which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum

from keyferry import errors
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


class WrongUsage(Exception):
    """Options that cannot be combined or have a wrong value; the caller adds the hint about ``--help``."""


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
        (
            errors.ClusterAuthError,
            dict.fromkeys((Kind.UNREACHABLE, Kind.CONTENT, Kind.ERROR), Exit.UNKNOWN),
        ),
        (errors.RegistryError, dict.fromkeys(_SILENCE, Exit.UNKNOWN)),
    )
