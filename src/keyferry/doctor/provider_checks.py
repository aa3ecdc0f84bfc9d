"""Checks of the provider config, its plugins and patterns, by the findings of lint, and of the node agents."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator

from keyferry import __version__
from keyferry._core.severity import Severity
from keyferry.doctor.facts import (
    AgentFacts,
    AgentProblem,
    ConfigFacts,
    KubeletFacts,
    NodeFacts,
    PluginFile,
    ProviderFacts,
    ShimFacts,
)
from keyferry.doctor.health import HealthLevel, HealthLine, Hints, make_line
from keyferry.images.node.kubelet import BIN_DIR_FLAG
from keyferry.lint.code import Finding

# The codes of lint about the bin dir and its executables.
_PLUGIN_CODES = ("KF140", "KF141", "KF142", "KF190", "KF191", "KF192", "KF193")
_LEVELS = {Severity.ERROR: HealthLevel.PROBLEM, Severity.WARNING: HealthLevel.WARNING}
_MAX_LINES = 3
_MAX_PATTERNS = 4
_ALONE = "plugins are run without it"
_USUAL = "its usual place"


def check_config(facts: ConfigFacts | None, kubelet: KubeletFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield where the config is, and the findings that are neither about a plugin nor about a pattern."""
    if facts is None:
        if kubelet.kubelet is not None:
            text = "none: the kubelet uses pull secrets and the node's docker config alone"
            yield make_line(HealthLevel.OK, "provider config", text, hints.about_image("explain"))
        return
    found, report = facts.found, facts.report
    lint = hints.lint(found.config, found.bin_dir)
    if not found.bin_dir:
        text = f"{found.config} has no bin dir beside it, and a kubelet needs both; set {BIN_DIR_FLAG}"
        yield make_line(HealthLevel.PROBLEM, "bin dir", text, hints.doctor("--bin-dir", "DIR"))
    rest = [each for each in _findings(facts) if not _is_plugin(each) and not _is_pattern(each)]
    yield from _finding_lines(rest, "provider config", lint)
    counts = ", ".join(
        f"{number} {severity}{'s' * (number > 1)}"
        for severity in Severity
        if (number := sum(each.severity is severity for each in report.findings))
    )
    refused = "" if report.accepted else "; a kubelet does not start with it"
    text = f"{found.config} ({found.config_from}): {len(facts.providers)} providers; lint: {counts or 'no findings'}"
    level = HealthLevel.OK if report.accepted else HealthLevel.PROBLEM
    yield make_line(level, "provider config", f"{text}{refused}", lint if report.findings else "")


def check_plugins(facts: ConfigFacts | None, hints: Hints) -> Iterator[HealthLine]:
    """Yield the bin dir's findings, then one line for each plugin or its findings."""
    if facts is None or not facts.found.bin_dir:
        return
    lint = hints.lint(facts.found.config, facts.found.bin_dir)
    found = list(filter(_is_plugin, _findings(facts)))
    own = {provider.place: _of(provider, found) for provider in facts.providers}
    claimed = [finding for findings in own.values() for finding in findings]
    yield from _finding_lines([each for each in found if each not in claimed], facts.found.bin_dir, lint)
    for provider in facts.providers:
        yield from _finding_lines(own[provider.place], provider.name, lint)
        if not own[provider.place] and provider.plugin is not None:
            text = f"{provider.plugin.path} is executable and {_owner(provider.plugin)}"
            if provider.shim is None:
                yield make_line(HealthLevel.OK, provider.name, text)
            else:
                yield _shim_line(provider.name, text, provider.shim)


def _owner(plugin: PluginFile) -> str:
    owner = "root" if plugin.user_id == 0 else f"user {plugin.user_id}"
    return f"belongs to {owner} (mode {plugin.mode & 0o7777:04o})"


def _shim_line(name: str, text: str, shim: ShimFacts) -> HealthLine:
    """Return the line about a shim and the plugin behind it, which is run if the agent does not answer."""
    text += f"; it is a shim that asks the node agent at {shim.socket or '(no link names it)'}"
    command = "keyferry bridge kubelet status"
    behind = shim.plugin
    if behind is None:
        if not shim.is_broken:
            return make_line(HealthLevel.OK, name, f"{text}, with a provider of its own", command)
        return make_line(HealthLevel.WARNING, name, f"{text}, and the plugin behind it is missing", command)
    if not behind.mode & 0o111:
        text += f", and {behind.path} behind it is not executable"
        return make_line(HealthLevel.WARNING, name, text, command)
    return make_line(HealthLevel.OK, name, f"{text}; behind it, {behind.path} {_owner(behind)}", command)


def check_patterns(facts: ConfigFacts | None, hints: Hints) -> Iterator[HealthLine]:
    """Yield one line for each provider's patterns, or the findings about them."""
    if facts is None:
        return
    lint = hints.lint(facts.found.config, facts.found.bin_dir)
    found = list(filter(_is_pattern, _findings(facts)))
    for provider in facts.providers:
        own = _of(provider, found)
        yield from _finding_lines(own, provider.name, lint)
        if not own:
            shown = ", ".join(provider.patterns[:_MAX_PATTERNS])
            more = len(provider.patterns) - _MAX_PATTERNS
            text = f"{shown}, and {more} more" if more > 0 else shown
            yield make_line(HealthLevel.OK, provider.name, text or "none")


def _findings(facts: ConfigFacts) -> Iterator[Finding]:
    """Yield the errors and warnings."""
    return (each for each in facts.report.findings if each.severity in _LEVELS)


def _is_plugin(finding: Finding) -> bool:
    return finding.code in _PLUGIN_CODES


def _is_pattern(finding: Finding) -> bool:
    return ".matchImages" in finding.path


def _of(provider: ProviderFacts, findings: Iterable[Finding]) -> list[Finding]:
    file, path = provider.place
    return [each for each in findings if each.file == file and f"{each.path}.".startswith(f"{path}.")]


def _finding_lines(findings: list[Finding], subject: str, command: str) -> Iterator[HealthLine]:
    """Yield the first findings, the worst first, and the number of the others of each severity."""
    ranked = sorted(findings, key=lambda each: each.severity is not Severity.ERROR)
    for finding in ranked[:_MAX_LINES]:
        where = f"{finding.file}:{finding.line}: " if finding.line is not None else ""
        text = f"{where}{finding.message} ({finding.code})"
        yield make_line(_LEVELS[finding.severity], subject, text, command)
    left = Counter(finding.severity for finding in ranked[_MAX_LINES:])
    for severity, number in left.items():
        text = f"and {number} more {severity}{'s' * (number > 1)}"
        yield make_line(_LEVELS[severity], subject, text, command, count=number)


def check_agents(facts: NodeFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield one line for each agent, and one for each thing about it that is not as it should be."""
    for agent in facts.agents:
        yield from _agent_lines(agent, hints, is_online=facts.is_online)


def _agent_lines(agent: AgentFacts, hints: Hints, *, is_online: bool) -> Iterator[HealthLine]:
    if not agent.socket.startswith("/"):
        text = (
            f"{agent.named_by} is {agent.socket!r}, expected 'off', 'auto' or the absolute path of a socket"
        )
        yield _agent_line(HealthLevel.WARNING, f"{text}; {_ALONE}")
        return
    where = f"{agent.socket} (named by {agent.named_by})"
    if agent.named_by == _USUAL:
        where = f"{agent.socket} ({_USUAL})"
    if not agent.is_there:
        yield _agent_line(
            HealthLevel.WARNING, f"{where} is not there; {_ALONE}", _agent_command(agent, "run")
        )
    elif not is_online:
        yield _agent_line(HealthLevel.OK, f"{where} is there; --online asks it", hints.doctor("--online"))
    elif agent.problem:
        text = f"{where} gives no answer, and {_ALONE}: {agent.problem}"
        yield _agent_line(HealthLevel.WARNING, text, _agent_command(agent, "status"))
    elif agent.is_closed:
        text = f"{where} answers; this user may not see its status"
        yield _agent_line(HealthLevel.UNKNOWN, text, hints.doctor("--online", is_root=True))
    else:
        yield from _status_lines(agent, where)


def _status_lines(agent: AgentFacts, where: str) -> Iterator[HealthLine]:
    other = "" if agent.version == __version__ else f"; this command has version {__version__}"
    verdict = f": {agent.verdict}" if agent.verdict else ""
    yield _agent_line(HealthLevel.OK, f"{where} answers, version {agent.version}{verdict}{other}")
    if not agent.has_same_config:
        text = f"its config {agent.config} is not the one above, so lookups with that one do not use it"
        yield _agent_line(HealthLevel.WARNING, text, _agent_command(agent, "status"))
    for problem in agent.problems[:_MAX_LINES]:
        text = f"{problem.text}: {problem.reason}" if problem.reason else problem.text
        yield _agent_line(_level_of(problem), text, _agent_command(agent, "status"))
    left = Counter(map(_level_of, agent.problems[_MAX_LINES:]))
    for level, number in left.items():
        text = f"and {number} more {level}{'s' * (number > 1)}"
        yield make_line(level, "agent", text, _agent_command(agent, "status"), count=number)


def _level_of(problem: AgentProblem) -> HealthLevel:
    return HealthLevel.PROBLEM if problem.is_bad else HealthLevel.WARNING


def _agent_command(agent: AgentFacts, name: str) -> str:
    place = () if agent.named_by == _USUAL else ("--socket", agent.socket)
    return shlex.join(("keyferry", "agent", name, *place))


def _agent_line(level: HealthLevel, text: str, next_command: str = "") -> HealthLine:
    return make_line(level, "agent", text, next_command)
