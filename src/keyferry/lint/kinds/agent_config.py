"""Read and lint the agent's config: the agent refuses what lint reports as an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.documents import Document, read_document
from keyferry._core.paths import Path
from keyferry._core.severity import Severity
from keyferry._core.values import Value
from keyferry._net.listen_address import parse_listen_address, why_too_long
from keyferry.api.agentconfig.v1alpha1 import API_VERSION, KIND, AccessRule, AgentConfig, ManageRule
from keyferry.api.codec import Refused, describe_empty, read_typed
from keyferry.errors import Kind, MatchError, Problem
from keyferry.images.match import parse_pattern
from keyferry.lint.code import Code, Finding, Rules, finding_of
from keyferry.lint.report import FileKind, LintReport, make_report
from keyferry.lint.source import NotingReader, SourceFile, find_unknown_fields, find_writers

# The user and group that a kernel shows for ids that have no number in the reader's user namespace.
OVERFLOW_ID = 65534
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

agent_rule = Rules[AgentConfig]()


KF501 = Code(
    "KF501",
    Severity.ERROR,
    "the agent's config is not valid YAML or JSON",
    why="the agent does not start with it; a running agent keeps its old config",
    fix="correct the syntax at the given position",
)
KF502 = Code(
    "KF502",
    Severity.ERROR,
    "the file is not an AgentConfig of a known version",
    why="only AgentConfig of keyferry.dev/v1alpha1 is read",
    fix="correct apiVersion and kind",
)
KF503 = Code(
    "KF503",
    Severity.ERROR,
    "a value has the wrong type",
    why="nothing is converted",
    fix="use the expected type",
)
KF504 = Code(
    "KF504",
    Severity.ERROR,
    "unknown field",
    why="a misspelled setting or rule would have no effect",
    fix="correct the spelling or remove the field",
    of_name=True,
)
KF505 = Code(
    "KF505",
    Severity.ERROR,
    "a key is given more than once",
    why="only one of the values could count",
    fix="keep one of them",
    of_name=True,
)


class CheckedAgentConfig(Value):
    """A config and its problems."""

    config: AgentConfig
    findings: tuple[Finding, ...] = ()

    @property
    def refusals(self) -> tuple[Problem, ...]:
        """The problems for which the agent refuses the config."""
        return tuple(each.as_problem() for each in self.findings if each.severity is Severity.ERROR)


KF550 = Code(
    "KF550",
    Severity.WARNING,
    "other users can write the agent's config",
    why="a user who can write it decides who gets the node's credentials",
    fix="run chmod go-w on the file",
)


def lint_agent_config(source: SourceFile) -> LintReport:
    """Return all problems of the agent's config."""
    checked = check_agent_config(source.path, source.data, source.read)
    writers = find_writers(KF550, source.path, "and choose who gets credentials")
    return make_report(FileKind.AGENT_CONFIG, source, (*checked.findings, *writers))


def check_agent_config(
    path: str, data: bytes, read: Callable[[bytes], Document] = read_document
) -> CheckedAgentConfig:
    """Decode and check the agent's config *path*, whose content is *data*."""
    typed = read_typed(path, data, read, syntax_code=KF501.code, type_code=KF503.code)
    if isinstance(typed, Refused):
        return CheckedAgentConfig(config=AgentConfig(), findings=(finding_of(typed.problem),))
    document = typed.document
    if (typed.api_version, typed.kind) != (API_VERSION, KIND):
        found = f"found apiVersion {typed.api_version!r} and kind {typed.kind!r}"
        if document.value is None:
            found = describe_empty(data)
        foreign = KF502.at(message=f"{found}, expected {API_VERSION!r} and {KIND!r}")
        return CheckedAgentConfig(config=AgentConfig(), findings=(foreign.placed(path, document),))
    reader = NotingReader()
    config = AgentConfig.from_document(document.value, reader)
    findings = (*_check_form(document, reader), *agent_rule.check(config))
    return CheckedAgentConfig(
        config=config, findings=tuple(finding.placed(path, document) for finding in findings)
    )


def _check_form(document: Document, reader: NotingReader) -> Iterator[Finding]:
    yield from find_unknown_fields(KF504, reader, "the agent does not start with it")
    for each in document.duplicates:
        yield KF505.at(
            *each.path, message=f"the key is given more than once, first in line {each.first.line}"
        )
    for at, problem in reader.problems:
        if problem.kind is not Kind.STRICT:
            yield KF503.at(*at, message=problem.message)


KF510 = Code(
    "KF510",
    Severity.ERROR,
    "the value of a setting is out of range",
    why="the agent could not work with it",
    fix="use a value in the range of the message",
)


@agent_rule(KF510)
def settings(config: AgentConfig) -> Iterator[Finding]:
    """Settings with a value that the agent cannot work with."""
    for name, value in config.settings.items():
        problem = why_wrong(name, value)
        if problem:
            yield KF510.at(name, message=problem)


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


KF511 = Code(
    "KF511",
    Severity.ERROR,
    "a rule names no user, or no registry",
    why="such a rule has no effect, which is not what its author intended",
    fix="add uids or gids, and registries or everyRegistry",
)
KF512 = Code(
    "KF512",
    Severity.ERROR,
    "a rule has both registries and everyRegistry",
    why="one of them would have no effect",
    fix="keep one of them",
)
KF513 = Code(
    "KF513",
    Severity.ERROR,
    "a registry of a rule is not a valid pattern",
    why="it matches no image",
    fix="use a pattern as in matchImages of a provider config",
)


@agent_rule(KF511, KF512, KF513)
def access(config: AgentConfig) -> Iterator[Finding]:
    """Rules that have no effect, or not the one that was meant."""
    for at, rule in _rules(config):
        if not rule.uids and not rule.gids:
            yield KF511.at(*at, message="the rule names nobody; add uids or gids")
        if not isinstance(rule, AccessRule):
            continue
        if rule.every_registry and rule.registries:
            yield KF512.at(*at, message="the rule has registries and everyRegistry, expected one of them")
        if not rule.every_registry and not rule.registries:
            yield KF511.at(
                *at, message="the rule names no registry; add registries, or 'everyRegistry: true'"
            )
        for number, pattern in enumerate(rule.registries):
            try:
                parse_pattern(pattern)
            except MatchError as error:
                yield KF513.at(*at, "registries", number, message=error.message)


def _rules(config: AgentConfig) -> Iterator[tuple[Path, AccessRule | ManageRule]]:
    for index, rule in enumerate(config.access or ()):
        yield ("access", index), rule
    for index, manager in enumerate(config.manage or ()):
        yield ("manage", index), manager


KF551 = Code(
    "KF551",
    Severity.WARNING,
    "a rule names the overflow user or group, 65534",
    why="every user of a foreign user namespace has this id, and so do many services that run as nobody",
    fix="run the client as a user of its own and name that",
)
KF552 = Code(
    "KF552",
    Severity.WARNING,
    "a rule gives every registry to a user who is not root",
    why="this user gets the node's credentials for each registry, also those of later providers",
    fix="list the registries, if not all are meant",
)


@agent_rule(KF551, KF552)
def wide_access(config: AgentConfig) -> Iterator[Finding]:
    """Rules that give more than was probably meant."""
    for at, rule in _rules(config):
        is_wide = isinstance(rule, AccessRule) and rule.every_registry
        if is_wide and any((*(uid for uid in rule.uids if uid), *rule.gids)):
            message = "users other than root get every registry; list the registries, if not all are meant"
            yield KF552.at(*at, message=message)
        if OVERFLOW_ID in (*rule.uids, *rule.gids):
            message = f"{OVERFLOW_ID} stands for every user of a foreign user namespace, and for nobody"
            yield KF551.at(*at, message=message)
