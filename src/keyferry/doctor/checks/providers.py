"""The provider config, its plugins and its patterns: the findings are those of lint, each shown once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from keyferry._core.severity import Severity
from keyferry.doctor.facts import ConfigFacts, KubeletFacts, PluginFile, ProviderFacts, ShimFacts
from keyferry.doctor.health import HealthLevel, HealthLine
from keyferry.doctor.hints import Hints
from keyferry.images.node.kubelet import BIN_DIR_FLAG
from keyferry.lint.code import Finding

__all__ = ["check_config", "check_patterns", "check_plugins"]

# The codes of lint about the bin dir and its executables.
_PLUGIN_CODES = ("KF140", "KF141", "KF142", "KF190", "KF191", "KF192", "KF193")
_LEVELS = {Severity.ERROR: HealthLevel.PROBLEM, Severity.WARNING: HealthLevel.WARNING}
_MOST_LINES = 3
_MOST_PATTERNS = 4


def check_config(facts: ConfigFacts | None, kubelet: KubeletFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield where the config is, and the findings that are neither about a plugin nor about a pattern."""
    if facts is None:
        if kubelet.kubelet is not None:
            text = "none: the kubelet uses pull secrets and the node's docker config alone"
            yield HealthLine(
                level=HealthLevel.OK,
                subject="provider config",
                text=text,
                next_command=hints.about_image("explain"),
            )
        return
    found, report = facts.found, facts.report
    lint = hints.lint(found.config, found.bin_dir)
    if not found.bin_dir:
        text = f"{found.config} has no bin dir beside it, and a kubelet needs both; set {BIN_DIR_FLAG}"
        yield HealthLine(
            level=HealthLevel.PROBLEM,
            subject="bin dir",
            text=text,
            next_command=hints.doctor("--bin-dir", "DIR"),
        )
    rest = [each for each in _findings(facts) if not _is_plugin(each) and not _is_pattern(each)]
    yield from _shown(rest, "provider config", lint)
    counts = ", ".join(
        f"{number} {severity}{'s' * (number > 1)}"
        for severity in Severity
        if (number := sum(each.severity is severity for each in report.findings))
    )
    refused = "" if report.accepted else "; a kubelet does not start with it"
    text = f"{found.config} ({found.config_from}): {len(facts.providers)} providers; lint: {counts or 'no findings'}"
    level = HealthLevel.OK if report.accepted else HealthLevel.PROBLEM
    yield HealthLine(
        level=level,
        subject="provider config",
        text=f"{text}{refused}",
        next_command=lint if report.findings else "",
    )


def check_plugins(facts: ConfigFacts | None, hints: Hints) -> Iterator[HealthLine]:
    """Yield the bin dir's findings, then one line for each plugin or its findings."""
    if facts is None or not facts.found.bin_dir:
        return
    lint = hints.lint(facts.found.config, facts.found.bin_dir)
    found = list(filter(_is_plugin, _findings(facts)))
    own = {provider.place: _of(provider, found) for provider in facts.providers}
    claimed = [finding for findings in own.values() for finding in findings]
    yield from _shown([each for each in found if each not in claimed], facts.found.bin_dir, lint)
    for provider in facts.providers:
        yield from _shown(own[provider.place], provider.name, lint)
        if not own[provider.place] and provider.plugin is not None:
            yield _plugin(provider)


def _plugin(provider: ProviderFacts) -> HealthLine:
    assert provider.plugin is not None  # noqa: S101 - the caller has checked it
    text = f"{provider.plugin.path} is executable and {_owner(provider.plugin)}"
    if provider.shim is None:
        return HealthLine(level=HealthLevel.OK, subject=provider.name, text=text)
    return _shim(provider.name, text, provider.shim)


def _owner(plugin: PluginFile) -> str:
    owner = "root" if plugin.user_id == 0 else f"user {plugin.user_id}"
    return f"belongs to {owner} (mode {plugin.mode & 0o7777:04o})"


def _shim(name: str, text: str, shim: ShimFacts) -> HealthLine:
    """Return the line about a shim and the plugin behind it, which is run if the agent does not answer."""
    text += f"; it is a shim that asks the node agent at {shim.socket or '(no link names it)'}"
    command = "keyferry bridge kubelet status"
    behind = shim.plugin
    if behind is None:
        if not shim.is_broken:
            return HealthLine(
                level=HealthLevel.OK,
                subject=name,
                text=f"{text}, with a provider of its own",
                next_command=command,
            )
        return HealthLine(
            level=HealthLevel.WARNING,
            subject=name,
            text=f"{text}, and the plugin behind it is missing",
            next_command=command,
        )
    if not behind.mode & 0o111:
        text += f", and {behind.path} behind it is not executable"
        return HealthLine(level=HealthLevel.WARNING, subject=name, text=text, next_command=command)
    return HealthLine(
        level=HealthLevel.OK,
        subject=name,
        text=f"{text}; behind it, {behind.path} {_owner(behind)}",
        next_command=command,
    )


def check_patterns(facts: ConfigFacts | None, hints: Hints) -> Iterator[HealthLine]:
    """Yield one line for each provider's patterns, or the findings about them."""
    if facts is None:
        return
    lint = hints.lint(facts.found.config, facts.found.bin_dir)
    found = list(filter(_is_pattern, _findings(facts)))
    for provider in facts.providers:
        own = _of(provider, found)
        yield from _shown(own, provider.name, lint)
        if not own:
            shown = ", ".join(provider.patterns[:_MOST_PATTERNS])
            more = len(provider.patterns) - _MOST_PATTERNS
            text = f"{shown}, and {more} more" if more > 0 else shown
            yield HealthLine(level=HealthLevel.OK, subject=provider.name, text=text or "none")


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


def _shown(findings: list[Finding], subject: str, command: str) -> Iterator[HealthLine]:
    """Yield the first findings, the worst first, and the number of the others of each severity."""
    ranked = sorted(findings, key=lambda each: each.severity is not Severity.ERROR)
    for finding in ranked[:_MOST_LINES]:
        where = f"{finding.file}:{finding.line}: " if finding.line is not None else ""
        text = f"{where}{finding.message} ({finding.code})"
        yield HealthLine(level=_LEVELS[finding.severity], subject=subject, text=text, next_command=command)
    left = Counter(finding.severity for finding in ranked[_MOST_LINES:])
    for severity, number in left.items():
        text = f"and {number} more {severity}{'s' * (number > 1)}"
        yield HealthLine(
            level=_LEVELS[severity], subject=subject, text=text, next_command=command, count=number
        )
