"""Read and lint the agent's config: the agent refuses what lint reports as an error."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.documents import Document, read_document
from keyferry._core.paths import Path, format_path
from keyferry._core.values import Value
from keyferry._net.listen_address import parse_listen_address, why_too_long
from keyferry.api.agentconfig.v1alpha1 import (
    API_VERSION,
    KIND,
    AccessRule,
    AgentConfig,
    ManageRule,
)
from keyferry.api.codec import Refused, describe_empty, place_problem, read_typed
from keyferry.errors import Kind, MatchError, Problem
from keyferry.images.match import parse_pattern
from keyferry.lint.kubeconfig.fields import NotingReader, unknown_fields
from keyferry.lint.kubeconfig.files import check_writers
from keyferry.lint.report import FileKind, LintReport, make_report

__all__ = [
    "OVERFLOW_ID",
    "CheckedAgentConfig",
    "check_agent_config",
    "lint_agent_config",
]

# The user and group that a kernel shows for ids that have no number in the reader's user namespace.
OVERFLOW_ID = 65534
_SYNTAX, _FOREIGN, _TYPE, _UNKNOWN, _REPEATED = "KF501", "KF502", "KF503", "KF504", "KF505"
_RANGE, _NOBODY, _BOTH, _PATTERN = "KF510", "KF511", "KF512", "KF513"
_WRITABLE, _OVERFLOW, _EVERYTHING = "KF550", "KF551", "KF552"
_SECOND = 1_000_000_000
# The least and the most of each number; durations are in nanoseconds.
RANGES: dict[str, tuple[int, int]] = {
    "pluginTimeout": (_SECOND, 3600 * _SECOND),
    "refreshIdle": (0, 366 * 24 * 3600 * _SECOND),
    "stopTimeout": (0, 3600 * _SECOND),
    "socketGroup": (0, (1 << 32) - 2),
    "cacheEntries": (1, 1_000_000),
    "cacheBytes": (1 << 16, 1 << 40),
    "connections": (8, 1_000_000),
}
# An example of each address, and whether it is on loopback alone: the page is not encrypted.
ADDRESSES = {"page": ("127.0.0.1:7475", True), "metrics": ("127.0.0.1:9750", False)}
WORDS: dict[str, tuple[str, ...]] = {
    "logLevel": ("debug", "info", "warning", "error"),
    "logFormat": ("text", "json"),
}


class CheckedAgentConfig(Value):
    """A config and its problems; it has no *refusals* if the agent accepts it."""

    config: AgentConfig
    refusals: tuple[Problem, ...] = ()
    suspicions: tuple[Problem, ...] = ()


def lint_agent_config(path: str, data: bytes) -> LintReport:
    """Return all problems of the agent's config *path*, whose content is *data*."""
    checked = check_agent_config(path, data)
    writers = check_writers(path, "and choose who gets credentials", _WRITABLE)
    problems = (*checked.refusals, *checked.suspicions, *writers)
    return make_report(FileKind.AGENT_CONFIG, path, problems, "")


def check_agent_config(path: str, data: bytes) -> CheckedAgentConfig:
    """Decode and check the agent's config *path*, whose content is *data*."""
    read = read_typed(path, data, read_document, syntax_code=_SYNTAX, type_code=_TYPE)
    if isinstance(read, Refused):
        return CheckedAgentConfig(config=AgentConfig(), refusals=(read.problem,))
    document = read.document
    if (read.api_version, read.kind) != (API_VERSION, KIND):
        found = f"found apiVersion {read.api_version!r} and kind {read.kind!r}"
        if document.value is None:
            found = describe_empty(data)
        problem = Problem("", f"{found}, expected {API_VERSION!r} and {KIND!r}", code=_FOREIGN)
        return CheckedAgentConfig(
            config=AgentConfig(), refusals=(place_problem(problem, path, document, ()),)
        )
    reader = NotingReader()
    config = AgentConfig.from_document(document.value, reader)
    refusals = [*_check_fields(document, reader), *_check_settings(config), *_check_rules(config)]
    return CheckedAgentConfig(
        config=config,
        refusals=tuple(_place(path, document, *refusal) for refusal in refusals),
        suspicions=tuple(_place(path, document, *suspicion) for suspicion in _suspect_rules(config)),
    )


_Found = tuple[Path, str, str]


def _place(path: str, document: Document, at: Path, code: str, message: str) -> Problem:
    return place_problem(Problem(format_path(at), message, code=code), path, document, at)


def _check_fields(document: Document, reader: NotingReader) -> Iterator[_Found]:
    for at, message in unknown_fields(reader, "the agent does not start with it"):
        yield at, _UNKNOWN, message
    for each in document.duplicates:
        yield each.path, _REPEATED, f"the key is given more than once, first in line {each.first.line}"
    for at, problem in reader.problems:
        if problem.kind is not Kind.STRICT:
            yield at, _TYPE, problem.message


def _check_settings(config: AgentConfig) -> Iterator[_Found]:
    for name, value in config.settings.items():
        problem = why_wrong(name, value)
        if problem:
            yield (name,), _RANGE, problem


def why_wrong(name: str, value: str | int | bool) -> str:  # noqa: FBT001 - the value of any setting
    """Return why a setting cannot have this value; empty if it can."""
    if name in RANGES and not RANGES[name][0] <= int(value) <= RANGES[name][1]:
        least, most = RANGES[name]
        return f"found {value}, expected {least} to {most}"
    if name in WORDS and value not in WORDS[name]:
        return f"found {value!r}, expected one of {', '.join(WORDS[name])}"
    if name == "socket":
        return (
            why_too_long(value)
            if str(value).startswith("/")
            else f"found {value!r}, expected an absolute path"
        )
    if name == "socketMode" and not _is_mode(str(value)):
        return f"found {value!r}, expected three octal digits after a 0, such as '0660'"
    if name in ADDRESSES and value != "off":
        return _address_problem(str(value), *ADDRESSES[name])
    return ""


def _address_problem(text: str, example: str, is_loopback: bool) -> str:  # noqa: FBT001 - see ADDRESSES
    address = parse_listen_address(text)
    if address is not None and (address.is_loopback or not is_loopback):
        return ""
    kind = "a loopback address" if is_loopback else "an IP address"
    return f"found {text!r}, expected 'off' or {kind} and a port, such as {example!r}"


def _is_mode(text: str) -> bool:
    return len(text) == 4 and text[0] == "0" and all(digit in "01234567" for digit in text)


def _check_rules(config: AgentConfig) -> Iterator[_Found]:
    for index, rule in enumerate(config.access or ()):
        at: Path = ("access", index)
        yield from _check_principals(at, rule)
        if rule.every_registry and rule.registries:
            yield at, _BOTH, "the rule has registries and everyRegistry, expected one of them"
        if not rule.every_registry and not rule.registries:
            yield at, _NOBODY, "the rule names no registry; add registries, or 'everyRegistry: true'"
        for number, pattern in enumerate(rule.registries):
            try:
                parse_pattern(pattern)
            except MatchError as error:
                yield (*at, "registries", number), _PATTERN, error.message
    for index, manager in enumerate(config.manage or ()):
        yield from _check_principals(("manage", index), manager)


def _check_principals(at: Path, rule: AccessRule | ManageRule) -> Iterator[_Found]:
    if not rule.uids and not rule.gids:
        yield at, _NOBODY, "the rule names nobody; add uids or gids"


def _suspect_rules(config: AgentConfig) -> Iterator[_Found]:
    for index, rule in enumerate(config.access or ()):
        if rule.every_registry and any((*(uid for uid in rule.uids if uid), *rule.gids)):
            message = "users other than root get every registry; list the registries, if not all are meant"
            yield ("access", index), _EVERYTHING, message
        yield from _suspect_principals(("access", index), rule)
    for index, manager in enumerate(config.manage or ()):
        yield from _suspect_principals(("manage", index), manager)


def _suspect_principals(at: Path, rule: AccessRule | ManageRule) -> Iterator[_Found]:
    if OVERFLOW_ID in (*rule.uids, *rule.gids):
        message = f"{OVERFLOW_ID} stands for every user of a foreign user namespace, and for nobody"
        yield at, _OVERFLOW, message
