"""Lines about the provider config: each finding of lint is in one section, and counted once."""

from __future__ import annotations

from keyferry._core.severity import Severity
from keyferry.doctor.facts import ConfigFacts, KubeletFacts, PluginFile, ProviderFacts, ShimFacts
from keyferry.doctor.health import HealthLevel, HealthSection, Hints, NodeHealth
from keyferry.doctor.provider_checks import check_config, check_patterns, check_plugins
from keyferry.images.node.discover import Discovery
from keyferry.images.node.kubelet import Kubelets
from keyferry.lint.code import Finding
from keyferry.lint.report import LintReport

NOBODY = KubeletFacts(kubelets=Kubelets())
FOUND = Discovery(config="/c", bin_dir="/b", config_from="given", bin_dir_from="given")


def facts_with(*findings: Finding, patterns: tuple[str, ...] = ("reg.io",)) -> ConfigFacts:
    providers = (
        ProviderFacts(
            name="a",
            patterns=patterns,
            place=("/c", "providers[1]"),
            plugin=PluginFile(path="/b/a", user_id=0, mode=0o100755),
        ),
        ProviderFacts(
            name="b",
            patterns=("b.io",),
            place=("/c", "providers[10]"),
            plugin=PluginFile(path="/b/b", user_id=5, mode=0o100700),
        ),
    )
    return ConfigFacts(
        found=FOUND, report=LintReport(path="/c", kubernetes="1.37", findings=findings), providers=providers
    )


def finding(code: str, path: str, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(code=code, severity=severity, message=f"about {path}", path=path, file="/c", line=3)


def test_each_finding_is_in_one_section() -> None:
    facts = facts_with(
        finding("KF191", "providers[10].name"),
        finding("KF150", "providers[1].matchImages[0]"),
        finding("KF120", "providers[1].defaultCacheDuration", Severity.ERROR),
        Finding(code="KF190", severity=Severity.WARNING, message="the folder", file="/b"),
        finding("KF162", "providers[1].matchImages[0]", Severity.INFO),
    )
    config = list(check_config(facts, NOBODY, Hints()))
    assert [line.level for line in config] == [HealthLevel.PROBLEM, HealthLevel.PROBLEM]
    assert config[0].text == "/c:3: about providers[1].defaultCacheDuration (KF120)"
    assert "lint: 1 error, 3 warnings, 1 info; a kubelet does not start with it" in config[1].text
    folder, own, other = check_plugins(facts, Hints())
    assert (folder.subject, folder.text) == ("/b", "the folder (KF190)")
    assert own.text == "/b/a is executable and belongs to root (mode 0755)"
    assert (other.subject, other.level) == ("b", HealthLevel.WARNING)
    first, second = check_patterns(facts, Hints())
    assert (first.level, second.level) == (HealthLevel.WARNING, HealthLevel.OK)


def test_many_findings_and_patterns_are_cut_short() -> None:
    many = [finding("KF150", f"providers[1].matchImages[{number}]") for number in range(5)]
    lines = list(check_patterns(facts_with(*many), Hints()))
    assert [(line.text, line.count) for line in lines][3:] == [("and 2 more warnings", 2), ("b.io", 1)]
    shown = next(check_patterns(facts_with(patterns=tuple("abcdef")), Hints()))
    assert shown.text == "a, b, c, d, and 2 more"


def test_findings_that_are_cut_short_are_counted() -> None:
    """Each by its own severity."""
    many = [finding("KF150", f"providers[1].matchImages[{number}]") for number in range(9)]
    many += [finding("KF124", f"providers[1].matchImages[{number}]", Severity.ERROR) for number in range(5)]
    lines = tuple(check_patterns(facts_with(*many), Hints()))
    health = NodeHealth(sections=(HealthSection(title="patterns", lines=lines),))
    assert health.verdict == "5 problems, 9 warnings"


def test_without_a_config_there_is_nothing_to_say() -> None:
    assert list(check_config(None, NOBODY, Hints())) == []
    assert list(check_plugins(None, Hints())) == []
    assert list(check_patterns(None, Hints())) == []


def test_a_shim_is_shown_with_the_plugin_behind_it() -> None:
    behind = PluginFile(path="/b/a.real", user_id=0, mode=0o100755)
    shims = (
        ShimFacts(socket="/run/a.sock", plugin=behind),
        ShimFacts(socket="", plugin=PluginFile(path="/b/a.real", user_id=0, mode=0o100644)),
        ShimFacts(socket="/run/a.sock", is_broken=True),
        ShimFacts(socket="/run/a.sock"),
    )
    providers = tuple(
        ProviderFacts(
            name="a",
            patterns=(),
            place=("/c", "providers[0]"),
            plugin=PluginFile(path="/b/a", user_id=0, mode=0o100755),
            shim=shim,
        )
        for shim in shims
    )
    found = list(
        check_plugins(
            ConfigFacts(found=FOUND, report=LintReport(path="/c", kubernetes="1.37"), providers=providers),
            Hints(),
        )
    )
    start = "/b/a is executable and belongs to root (mode 0755); it is a shim that asks the node agent at "
    assert [line.text for line in found] == [
        f"{start}/run/a.sock; behind it, /b/a.real belongs to root (mode 0755)",
        f"{start}(no link names it), and /b/a.real behind it is not executable",
        f"{start}/run/a.sock, and the plugin behind it is missing",
        f"{start}/run/a.sock, with a provider of its own",
    ]
    assert [line.level for line in found] == [
        HealthLevel.OK,
        HealthLevel.WARNING,
        HealthLevel.WARNING,
        HealthLevel.OK,
    ]
    assert all(line.next_command == "keyferry bridge kubelet status" for line in found)
