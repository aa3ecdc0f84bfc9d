"""The agent's config: what is refused, with code and position, and what is only suspect."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule
from keyferry.lint.kinds.agent_config import check_agent_config
from keyferry.lint.report import FileKind
from keyferry.lint.run import lint_any

HEAD = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"


def codes(text: str, head: str = HEAD) -> list[tuple[str, int | None, str]]:
    """The code, line and path of each problem."""
    checked = check_agent_config("agent.yaml", (head + text).encode())
    return [(each.code, each.line, each.path) for each in checked.findings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("socket: /run/a.sock\nrefreshAhead: false\ncacheEntries: 5\npluginTimeout: 5s\n", []),
        ("sockt: /run/a.sock\n", [("KF504", 3, "sockt")]),
        ("socket: /a\nsocket: /b\n", [("KF505", 4, "socket")]),
        ("cacheEntries: many\n", [("KF503", 3, "cacheEntries")]),
        ("cacheEntries: -1\n", [("KF503", 3, "cacheEntries")]),
        ("cacheEntries: 0\n", [("KF510", 3, "cacheEntries")]),
        ("refreshAhead: 1\n", [("KF503", 3, "refreshAhead")]),
        ("pluginTimeout: 5\n", [("KF503", 3, "pluginTimeout")]),
        ("pluginTimeout: 5h\n", [("KF510", 3, "pluginTimeout")]),
        ("pluginTimeout: soon\n", [("KF503", 3, "pluginTimeout")]),
        ("socket: run/a.sock\n", [("KF510", 3, "socket")]),
        ("socketMode: '660'\n", [("KF510", 3, "socketMode")]),
        ("metrics: 127.0.0.1:9750\n", []),
        ("metrics: '[::]:9750'\n", []),
        ("metrics: localhost:9750\n", [("KF510", 3, "metrics")]),
        ("metrics: ':9750'\n", [("KF510", 3, "metrics")]),
        ("metrics: 9750\n", [("KF503", 3, "metrics")]),
        ("logLevel: loud\n", [("KF510", 3, "logLevel")]),
        ("page: 127.0.0.1:7475\n", []),
        ("page: '[::1]:0'\n", []),
        ("page: 'off'\n", []),
        *(
            (f"page: '{address}'\n", [("KF510", 3, "page")])
            for address in (
                *("0.0.0.0:7475", ":7475", "10.0.0.1:7475", "[::]:7475", "localhost:7475"),
                *("127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.1:80", "::1:80"),
                *("127.0.0.1.evil.example:80", "127.0.0.1:7475/", "on"),
            )
        ),
        ("access:\n- uids: [1000]\n  registries: [registry.example]\n", []),
        ("access:\n- uids: [1000]\n", [("KF511", 4, "access[0]")]),
        ("access:\n- registries: [a.example]\n", [("KF511", 4, "access[0]")]),
        (
            "access:\n- uids: [0]\n  registries: [a.example]\n  everyRegistry: true\n",
            [("KF512", 4, "access[0]")],
        ),
        (
            "access:\n- uids: [1]\n  registries: ['a b']\n",
            [("KF513", 5, "access[0].registries[0]")],
        ),
        ("access:\n- gids: [27]\n  everyRegistry: true\n", [("KF552", 4, "access[0]")]),
        ("access:\n- uids: [0]\n  everyRegistry: true\n", []),
        (
            "access:\n- uids: [65534]\n  registries: [a.example]\n",
            [("KF551", 4, "access[0]")],
        ),
        ("manage:\n- {}\n", [("KF511", 4, "manage[0]")]),
        ("manage:\n- gids: [65534]\n", [("KF551", 4, "manage[0]")]),
    ],
)
def test_every_problem_has_a_code_and_a_position(text: str, expected: list[tuple[str, int, str]]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: [", "KF501"),
        ("apiVersion: v1\nkind: AgentConfig\n", "KF502"),
        ("apiVersion: keyferry.dev/v9\nkind: AgentConfig\n", "KF502"),
        ("- a\n", "KF503"),
    ],
)
def test_what_is_no_agent_config_is_refused(text: str, code: str) -> None:
    assert [each[0] for each in codes(text, head="")] == [code]


def test_the_values_are_read() -> None:
    """Durations in nanoseconds; a rule has tuples."""
    text = "stopTimeout: 1m\naccess:\n- gids: [3]\n  registries: [r.example]\nmanage:\n- uids: [7]\n"
    config = check_agent_config("x", (HEAD + text).encode()).config
    assert config.settings == {"stopTimeout": 60_000_000_000}
    assert config.access == (AccessRule(uids=(), gids=(3,), registries=("r.example",)),)
    assert config.manage == (ManageRule(uids=(7,)),)


def test_lint_recognises_the_file_and_its_writers(tmp_path: Path) -> None:
    """The command lints it by its kind; a file that others can write is reported."""
    path = tmp_path / "agent.yaml"
    path.write_text(HEAD)
    path.chmod(0o666)
    report = lint_any(str(path))
    assert report.kind is FileKind.AGENT_CONFIG
    assert [each.code for each in report.findings] == ["KF550"]
    assert report.accepted
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: AgentConfig\n  x: [")
    broken.chmod(0o600)
    assert [each.code for each in lint_any(str(broken)).findings] == ["KF501"]
    path.chmod(0o600)
    assert lint_any(str(path)).findings == ()
