"""The lines of ``keyferry doctor``: what is said of each fact, at which level, and the command that helps."""

from __future__ import annotations

import pytest

from keyferry import __version__
from keyferry._core.severity import Severity
from keyferry._core.values import replace
from keyferry.doctor.examine import examine
from keyferry.doctor.facts import (
    AgentFacts,
    AgentProblem,
    ConfigFacts,
    DiskFacts,
    KubeletFacts,
    MirrorFacts,
    NodeFacts,
    PluginFile,
    ProbeRoute,
    ProviderFacts,
    RecordsFacts,
    RegistryProbe,
    RuntimeFacts,
    ShimFacts,
)
from keyferry.doctor.health import HealthLevel, HealthLine, HealthSection, Hints, NodeHealth, render_health
from keyferry.doctor.network_checks import check_clock, check_proxies, check_registries
from keyferry.doctor.node_checks import check_disk, check_kubelet, check_mirrors, check_records, check_runtime
from keyferry.doctor.provider_checks import check_agents, check_config, check_patterns, check_plugins
from keyferry.images.node.discover import Discovery
from keyferry.images.node.kubelet import Kubelet, Kubelets
from keyferry.images.node.settings import RECORDS_GATE, KubeletSettings, Setting
from keyferry.lint.code import Finding
from keyferry.lint.report import LintReport
from keyferry.pulls.cri import RuntimeInfo
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Endpoint, Mirrors, RuntimeKind

OK, WARNING, PROBLEM, UNKNOWN, NEXT = HealthLevel
NO_KUBELET = KubeletFacts(kubelets=Kubelets())


def health(*levels: HealthLevel, is_node: bool = True) -> NodeHealth:
    lines = tuple(HealthLine(level=level, subject="s", text="t") for level in levels)
    return NodeHealth(
        sections=(HealthSection(title="one", lines=lines[:1]), HealthSection(title="two", lines=lines[1:])),
        is_node=is_node,
    )


@pytest.mark.parametrize(
    ("levels", "verdict", "has_findings"),
    [
        ((OK, OK), "all is well", False),
        ((OK, NEXT), "all is well", False),
        ((PROBLEM, WARNING, PROBLEM), "2 problems, 1 warning", True),
        ((WARNING,), "1 warning", True),
        ((OK, UNKNOWN), "all that can be seen is well, 1 thing could not be checked", False),
        ((PROBLEM, UNKNOWN, UNKNOWN), "1 problem, 2 things could not be checked", True),
    ],
)
def test_the_verdict_counts(levels: tuple[HealthLevel, ...], verdict: str, has_findings: bool) -> None:
    found = health(*levels)
    assert (found.verdict, found.has_findings) == (verdict, has_findings)


def test_of_a_machine_that_is_no_node_nothing_is_told() -> None:
    assert health(UNKNOWN, is_node=False).verdict.startswith("cannot tell: ")


def test_foreign_text_cannot_harm_a_terminal() -> None:
    """File contents, names of processes and texts of servers come from elsewhere."""
    evil = "a\x1b[2Jb\u202ec\nd"
    line = HealthLine(level=PROBLEM, subject=evil, text=evil, next_command=evil)
    text = render_health(NodeHealth(sections=(HealthSection(title="one", lines=(line,)),)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == 5


def test_each_level_has_its_mark_and_findings_their_name() -> None:
    lines = tuple(HealthLine(level=level, subject="s", text="t") for level in HealthLevel)
    text = render_health(NodeHealth(sections=(HealthSection(title="one", lines=lines),)))
    shown = ["ONE", "  ✓ s: t", "  ! warning: s: t", "  ✗ problem: s: t", "  ? s: t", "  → s: t"]
    assert text.splitlines()[2:] == shown


def test_a_command_that_several_lines_share_is_told_once() -> None:
    """Below the last of them."""
    lines = tuple(
        HealthLine(level=PROBLEM, subject=subject, text="t", next_command=command)
        for subject, command in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "x"))
    )
    text = render_health(NodeHealth(sections=(HealthSection(title="one", lines=lines),)))
    assert [line.strip() for line in text.splitlines() if "try:" in line] == ["try: y", "try: x"]
    assert text.splitlines()[-1].strip() == "try: x"


HINTS = Hints(shared=("--config", "my file"), others=("--root", "/r"))


def test_options_are_repeated_and_quoted() -> None:
    assert HINTS.doctor("--online") == "keyferry doctor --config 'my file' --root /r --online"
    assert HINTS.doctor(is_root=True) == "sudo keyferry doctor --config 'my file' --root /r"
    assert HINTS.about_image("explain", "reg.io/a") == "keyferry explain reg.io/a --config 'my file'"
    assert HINTS.lint("/c", "/b") == "keyferry lint /c --bin-dir /b"
    assert HINTS.lint("/c") == "keyferry lint /c"


KUBELET = Kubelet(pid=7, program="kubelet", process="/proc/7", users=frozenset({0}), flags={})


def test_sections_without_lines_are_left_out() -> None:
    found = examine(NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets(found=(KUBELET,)))), Hints())
    assert [section.title for section in found.sections] == ["kubelet", "provider config", "proxies"]


def test_those_who_do_not_see_all_are_told_to_look_as_root() -> None:
    facts = NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets(hidden="others cannot be seen")), is_root=False)
    found = examine(facts, Hints())
    assert not found.is_node
    looked, can_do = found.sections
    assert looked.lines[0].text.endswith("none is visible; others cannot be seen")
    assert can_do.lines[0].next_command == "sudo keyferry doctor"
    seen = examine(NodeFacts(kubelet=NO_KUBELET), Hints()).sections[1]
    assert "sudo" not in "".join(line.next_command for line in seen.lines)


OTHER_KUBELET = replace(KUBELET, flags={"--root-dir": "/r", "--config": "/c"})
SETTINGS = KubeletSettings(
    kubelet=OTHER_KUBELET,
    root_dir=Setting(value="/r", origin="flags"),
    notes=("/c of the kubelet: cannot be read",),
)


def about_kubelet(facts: KubeletFacts, *, is_root: bool = True) -> list[HealthLine]:
    return list(check_kubelet(facts, Hints(), is_root=is_root))


def test_no_kubelet_is_a_warning_and_a_hidden_one_unknown() -> None:
    (none,) = about_kubelet(KubeletFacts(kubelets=Kubelets()))
    assert (none.level, none.text) == (WARNING, "no kubelet is running")
    for is_root, command in ((True, ""), (False, "sudo keyferry doctor")):
        (hidden,) = about_kubelet(KubeletFacts(kubelets=Kubelets(hidden="they are hidden")), is_root=is_root)
        assert (hidden.level, hidden.next_command) == (UNKNOWN, command)


def test_the_flags_are_shown_and_other_kubelets_named() -> None:
    other = Kubelet(pid=8, program="k3s", process="/proc/8", users=frozenset({0}), flags={})
    runs, more, flags = about_kubelet(KubeletFacts(kubelets=Kubelets(found=(OTHER_KUBELET, other))))
    assert runs.text == "process 7 (kubelet) runs"
    assert (more.level, "processes 8;" in more.text) == (WARNING, True)
    assert flags.text == "--config=/c --root-dir=/r"
    assert about_kubelet(KubeletFacts(kubelets=Kubelets(found=(other,))))[1].text.startswith("none of those")


def test_a_file_that_cannot_be_read_is_a_problem_for_root_alone() -> None:
    facts = KubeletFacts(kubelets=Kubelets(found=(OTHER_KUBELET,)), settings=SETTINGS)
    assert about_kubelet(facts)[-1].level is PROBLEM
    last = about_kubelet(facts, is_root=False)[-1]
    assert (last.level, last.next_command) == (UNKNOWN, "sudo keyferry doctor")


@pytest.mark.parametrize(
    ("pulls", "version", "gates", "levels"),
    [
        (32, "1.36", {}, [PROBLEM]),
        (31, "1.36", {}, []),
        (None, "1.36", {}, []),
        (32, "1.37", {}, []),
        (32, "1.34", {}, []),
        (32, "1.34", {RECORDS_GATE: True}, [PROBLEM]),
        (32, "1.35", {RECORDS_GATE: False}, []),
        (32, "", {}, [WARNING]),
        (32, "", {RECORDS_GATE: False}, []),
    ],
)
def test_more_parallel_pulls_than_a_kubelet_has_locks(
    pulls: int | None, version: str, gates: dict[str, bool], levels: list[HealthLevel]
) -> None:
    """It panics if it keeps pull records and is of a version with the bug; a version that is not known may be one."""
    settings = replace(SETTINGS, notes=(), gates=gates, parallel_pulls=pulls)
    found = about_kubelet(
        KubeletFacts(kubelets=Kubelets(found=(OTHER_KUBELET,)), settings=settings, version=version)
    )
    about = [line for line in found if line.subject == "maxParallelImagePulls"]
    assert [line.level for line in about] == levels
    assert all("set 31 or less, or upgrade the kubelet" in line.text for line in about)


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
    config = list(check_config(facts, NO_KUBELET, Hints()))
    assert [line.level for line in config] == [PROBLEM, PROBLEM]
    assert config[0].text == "/c:3: about providers[1].defaultCacheDuration (KF120)"
    assert "lint: 1 error, 3 warnings, 1 info; a kubelet does not start with it" in config[1].text
    folder, own, other = check_plugins(facts, Hints())
    assert (folder.subject, folder.text) == ("/b", "the folder (KF190)")
    assert own.text == "/b/a is executable and belongs to root (mode 0755)"
    assert (other.subject, other.level) == ("b", WARNING)
    first, second = check_patterns(facts, Hints())
    assert (first.level, second.level) == (WARNING, OK)


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
    assert [line.level for line in found] == [OK, WARNING, WARNING, OK]
    assert all(line.next_command == "keyferry bridge kubelet status" for line in found)


def about_agents(*, is_online: bool = True, **facts: object) -> list[tuple[HealthLevel, str]]:
    agent = AgentFacts(socket="/run/a.sock", named_by="KEYFERRY_AGENT", **{"is_there": True, **facts})  # type: ignore[arg-type] # its fields
    node = NodeFacts(kubelet=NO_KUBELET, is_online=is_online, agents=(agent,))
    return [(line.level, line.text) for line in check_agents(node, Hints())]


WHERE = "/run/a.sock (named by KEYFERRY_AGENT)"


def test_an_agent_is_not_asked_unless_it_is_wanted() -> None:
    assert about_agents(is_online=False) == [(OK, f"{WHERE} is there; --online asks it")]


@pytest.mark.parametrize(
    ("facts", "level", "text"),
    [
        ({"is_there": False}, WARNING, f"{WHERE} is not there; plugins are run without it"),
        ({"problem": "no"}, WARNING, f"{WHERE} gives no answer, and plugins are run without it: no"),
        ({"is_closed": True}, UNKNOWN, f"{WHERE} answers; this user may not see its status"),
        ({"version": __version__}, OK, f"{WHERE} answers, version {__version__}"),
        ({"version": "0.0.9"}, OK, f"{WHERE} answers, version 0.0.9; this command has version {__version__}"),
    ],
)
def test_each_state_has_its_line(facts: dict[str, object], level: HealthLevel, text: str) -> None:
    assert about_agents(is_online=True, **facts) == [(level, text)]


def test_what_is_wrong_with_an_agent_that_answers_has_lines_of_its_own() -> None:
    """In the agent's own words; what pulls fail for is a problem."""
    problems = (
        AgentProblem(is_bad=True, text="Provider ecr fails", reason="exit status 3: no role"),
        AgentProblem(is_bad=False, text="The new config is refused"),
    )
    answers, config, bad, refused = about_agents(
        version=__version__, config="/other", has_same_config=False, verdict="2 warnings", problems=problems
    )
    assert answers == (OK, f"{WHERE} answers, version {__version__}: 2 warnings")
    assert config[0] is WARNING
    assert "its config /other is not the one above" in config[1]
    assert bad == (PROBLEM, "Provider ecr fails: exit status 3: no role")
    assert refused == (WARNING, "The new config is refused")


def test_of_many_problems_of_an_agent_the_first_are_told_and_all_are_counted() -> None:
    problems = tuple(AgentProblem(is_bad=at < 5, text=f"Provider {at} fails") for at in range(10))
    agent = AgentFacts(socket="/a", named_by="x", is_there=True, version="1", problems=problems)
    node = NodeFacts(kubelet=NO_KUBELET, is_online=True, agents=(agent,))
    lines = [(line.level, line.count) for line in check_agents(node, Hints())][1:]
    assert lines == [*[(PROBLEM, 1)] * 3, (PROBLEM, 2), (WARNING, 5)]


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        ({"is_there": False}, "run"),
        ({"problem": "no"}, "status"),
        ({"has_same_config": False}, "status"),
        ({"problems": (AgentProblem(is_bad=False, text="broken"),)}, "status"),
    ],
)
def test_a_command_asks_the_same_agent(facts: dict[str, object], command: str) -> None:
    for named_by, more in (("KEYFERRY_AGENT", " --socket /run/a.sock"), ("its usual place", "")):
        agent = AgentFacts(socket="/run/a.sock", named_by=named_by, **{"is_there": True, **facts})  # type: ignore[arg-type] # its fields
        node = NodeFacts(kubelet=NO_KUBELET, is_online=True, agents=(agent,))
        found = [line.next_command for line in check_agents(node, Hints()) if line.next_command]
        assert found == [f"keyferry agent {command}{more}"]


def test_a_variable_that_names_no_agent_is_said_to_name_none() -> None:
    node = NodeFacts(kubelet=NO_KUBELET, agents=(AgentFacts(socket="foo", named_by="KEYFERRY_AGENT"),))
    [line] = check_agents(node, Hints())
    assert line.level is WARNING
    assert line.text == (
        "KEYFERRY_AGENT is 'foo', expected 'off', 'auto' or the absolute path of a socket; "
        "plugins are run without it"
    )


CRIO = RuntimeKind.CRIO


@pytest.mark.parametrize(
    ("facts", "level", "command"),
    [
        (RuntimeFacts(socket="/s", named_by="here", is_socket=True, kind=CRIO), OK, ""),
        (RuntimeFacts(socket="/s", named_by="here", is_socket=False, kind=None), PROBLEM, ""),
        (
            RuntimeFacts(socket="/s", named_by="here", is_socket=None, kind=CRIO),
            PROBLEM,
            "systemctl status crio",
        ),
        (RuntimeFacts(), UNKNOWN, ""),
    ],
)
def test_the_socket_is_there_or_not(facts: RuntimeFacts, level: HealthLevel, command: str) -> None:
    first = next(check_runtime(facts, Hints(), is_online=False))
    assert (first.level, first.next_command) == (level, command)


def test_the_version_is_told_online() -> None:
    known = RuntimeFacts(
        socket="/s",
        named_by="here",
        is_socket=True,
        kind=CRIO,
        version=RuntimeInfo(name="cri-o", version="1.31", api_version="v1"),
    )
    assert [each.text for each in check_runtime(known, Hints(), is_online=True)][1] == "cri-o 1.31, CRI v1"
    silent = RuntimeFacts(
        socket="/s", named_by="here", is_socket=True, kind=CRIO, version_problem="it does not answer"
    )
    assert [each.level for each in check_runtime(silent, Hints(), is_online=True)][1] is UNKNOWN


def node_with(*mirrors: MirrorFacts, stale: tuple[tuple[str, str], ...] = ()) -> NodeFacts:
    return NodeFacts(kubelet=NO_KUBELET, mirrors=mirrors, stale_sources=stale)


def test_a_login_of_the_runtimes_own_is_well() -> None:
    own = Endpoint(
        url="https://reg.io", host="reg.io", api="https://reg.io/v2", is_registry=True, has_login=True
    )
    (line,) = check_mirrors(
        node_with(MirrorFacts(name="reg.io", mirrors=Mirrors(runtime=CRIO, file="/f", endpoints=(own,)))),
        Hints(),
    )
    assert (line.level, "a login of its own" in line.text) == (OK, True)


def test_a_file_of_k3s_that_was_changed_since_its_start_is_a_warning() -> None:
    (line,) = check_mirrors(node_with(stale=(("/a.yaml", "/certs.d"),)), Hints())
    assert (line.level, line.text.startswith("/a.yaml is newer than /certs.d")) == (WARNING, True)


def test_mirrors_of_cri_o_get_no_credential_and_blocked_names_are_warned_of() -> None:
    mirror = Endpoint(url="https://m", host="m", api="https://m/v2", offer=CredentialOffer.WITHHELD)
    facts = (
        MirrorFacts(name="reg.io", mirrors=Mirrors(runtime=CRIO, file="/f", endpoints=(mirror,))),
        MirrorFacts(name="bad.io", mirrors=Mirrors(runtime=CRIO, file="/f", is_blocked=True)),
        MirrorFacts(
            name="every other registry", mirrors=Mirrors(runtime=CRIO, file="/f", endpoints=(mirror,))
        ),
    )
    own, blocked, others = check_mirrors(node_with(*facts), Hints())
    assert (own.level, own.text.endswith("CRI-O does not send them to another host")) == (OK, True)
    assert (blocked.level, blocked.text) == (WARNING, "/f blocks it: CRI-O pulls none of it")
    assert others.next_command == ""


def test_a_file_that_cannot_be_used_is_named_once() -> None:
    broken = Mirrors(runtime=CRIO, file="/f", problem="it is not TOML")
    (line,) = check_mirrors(
        node_with(MirrorFacts(name="a.io", mirrors=broken), MirrorFacts(name="b.io", mirrors=broken)), Hints()
    )
    assert (line.level, line.text) == (PROBLEM, "/f: it is not TOML")


FACTS = RecordsFacts(root="/r", policy="AlwaysVerify", policy_from="its file")


def about_records(facts: RecordsFacts | None, *, is_root: bool = True) -> list[HealthLine]:
    return list(check_records(facts, Hints(), is_root=is_root))


@pytest.mark.parametrize(
    ("facts", "level", "text"),
    [
        (FACTS, OK, "AlwaysVerify (its file)"),
        (
            RecordsFacts(root="/r", policy="X", policy_from="its file", policy_problem="unknown policy"),
            PROBLEM,
            "its file: unknown policy",
        ),
        (
            RecordsFacts(root="/r", policy="X", policy_from="f", is_off=True),
            OK,
            "every pod may use every image",
        ),
    ],
)
def test_the_policy_comes_first(facts: RecordsFacts, level: HealthLevel, text: str) -> None:
    first = about_records(facts)[0]
    assert (first.level, text in first.text) == (level, True)


def test_a_folder_is_absent_unreadable_or_counted() -> None:
    assert "does not exist" in about_records(FACTS)[1].text
    closed = RecordsFacts(root="/r", policy="X", policy_from="f", unreadable="Permission denied")
    assert (about_records(closed)[1].level, about_records(closed)[1].next_command) == (UNKNOWN, "")
    assert about_records(closed, is_root=False)[1].next_command == "sudo keyferry doctor"


@pytest.mark.parametrize(
    ("severity", "level"), [(Severity.ERROR, PROBLEM), (Severity.WARNING, WARNING), (Severity.INFO, OK)]
)
def test_findings_of_lint_give_the_level(severity: Severity, level: HealthLevel) -> None:
    report = LintReport(
        path="/r", kubernetes="1.37", findings=(Finding(code="KF400", severity=severity, message="m"),)
    )
    found = about_records(RecordsFacts(root="/r", policy="X", policy_from="f", report=report, count=3))[1]
    assert (found.level, found.text.startswith("/r/image_manager has 3 records")) == (level, True)


def test_errors_and_warnings_are_counted_on_their_own() -> None:
    kinds = (Severity.ERROR, Severity.WARNING, Severity.WARNING)
    report = LintReport(
        path="/r",
        kubernetes="1.37",
        findings=tuple(Finding(code="KF400", severity=kind, message="m") for kind in kinds),
    )
    _, *found = about_records(RecordsFacts(root="/r", policy="X", policy_from="f", report=report, count=3))
    assert [(line.level, line.count) for line in found] == [(PROBLEM, 1), (WARNING, 2)]


@pytest.mark.parametrize(("free", "level"), [(10, OK), (9, WARNING)])
def test_little_space_is_a_warning(free: int, level: HealthLevel) -> None:
    (line,) = check_disk(DiskFacts(path="/r", free=free << 20, total=100 << 20))
    assert (line.level, f"{free}.0 MiB of 100.0 MiB" in line.text) == (level, True)
    (line,) = check_disk(DiskFacts(path="/r", free=5, total=10))
    assert "5 B of 10 B are free (50 %)" in line.text


def about_proxies(
    environ: dict[str, str] | None, *registries: str, pattern: str = "reg.io"
) -> list[HealthLine]:
    config = ConfigFacts(
        found=Discovery(config="/c"),
        report=LintReport(path="/c", kubernetes="1.37"),
        providers=(ProviderFacts(name="p", patterns=(pattern,), place=("/c", "providers[0]")),),
    )
    facts = NodeFacts(
        kubelet=KubeletFacts(kubelets=Kubelets(found=(KUBELET,)), settings=None, environment=environ),
        config=config,
        registries=registries,
        is_root=False,
    )
    return list(check_proxies(facts, Hints()))


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({}, "no proxy for HTTPS"),
        ({"HTTP_PROXY": "http://p"}, "no proxy for HTTPS"),
        ({"HTTPS_PROXY": "u:secret@p:1"}, "proxy p:1 for a.io, docker.io"),
        (
            {"https_proxy": "http://p", "NO_PROXY": "registry-1.docker.io"},
            "proxy p for a.io, none for docker.io",
        ),
        ({"HTTPS_PROXY": "socks5://p:1080"}, "proxy p:1080 for a.io, docker.io"),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, "no proxy for HTTPS"),
    ],
)
def test_it_is_told_which_registries_use_the_proxy(environ: dict[str, str], text: str) -> None:
    (line,) = about_proxies(environ, "a.io", "docker.io")
    assert (line.level, line.text) == (OK, text)


def test_an_environment_that_cannot_be_read_is_unknown() -> None:
    (line,) = about_proxies(None)
    assert (line.level, line.next_command) == (UNKNOWN, "sudo keyferry doctor")


@pytest.mark.parametrize(
    ("pattern", "exceptions", "service"),
    [
        ("*.dkr.ecr.*.amazonaws.com", "", "169.254.169.254"),
        ("*.dkr.ecr.*.amazonaws.com", "169.254.0.0/16", ""),
        ("gcr.io/project", "", "metadata.google.internal"),
        ("*.azurecr.io", ".internal", "169.254.169.254"),
        ("reg.io", "", ""),
    ],
)
def test_a_metadata_service_behind_a_proxy_is_a_warning(pattern: str, exceptions: str, service: str) -> None:
    found = about_proxies({"HTTP_PROXY": "http://p", "NO_PROXY": exceptions}, pattern=pattern)[1:]
    assert [line.text.endswith(f"add {service} to the kubelet's NO_PROXY") for line in found] == [
        True
    ] * bool(service)


def test_answers_are_judged_and_the_others_counted() -> None:
    probes = (
        RegistryProbe(registry="a.io", status=200),
        RegistryProbe(registry="b.io", problem="cannot be reached"),
        RegistryProbe(registry="c.io", status=503),
    )
    facts = NodeFacts(
        kubelet=NO_KUBELET, registries=("a.io", "b.io", "c.io", "d.io"), probes=probes, is_online=True
    )
    levels = [line.level for line in check_registries(facts, Hints())]
    assert levels == [OK, PROBLEM, WARNING, UNKNOWN]


def test_the_registry_that_agrees_most_counts() -> None:
    """One registry with a wrong clock does not make this machine wrong."""
    wrong = RegistryProbe(registry="a.io", status=200, skew_seconds=4000.0)
    right = RegistryProbe(registry="b.io", status=200, skew_seconds=-2.0)
    (line,) = check_clock((wrong, right, RegistryProbe(registry="c.io", status=200)))
    assert (line.level, line.text) == (OK, "within 60 s of b.io")
    (line,) = check_clock((wrong,))
    assert line.level is PROBLEM
    assert "is 4000 s behind that of a.io" in line.text


def test_a_request_without_a_proxy_is_repeated_without_one() -> None:
    """The shell of the reader may have a proxy that the kubelet does not have."""
    probe = RegistryProbe(registry="a.io", problem="cannot be reached", route=ProbeRoute(owner="the kubelet"))
    facts = NodeFacts(kubelet=NO_KUBELET, registries=("a.io",), probes=(probe,), is_online=True)
    (line,) = check_registries(facts, Hints())
    assert line.text == "cannot be reached (without a proxy, by the environment of the kubelet)"
    assert line.next_command == "curl -v --noproxy '*' https://a.io/v2/"
