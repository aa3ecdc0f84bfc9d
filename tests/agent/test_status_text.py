"""What 'keyferry agent status' shows first, what it leaves out, and that it stays within the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from keyferry.agent.status_text import StatusOptions, render_status
from support.terminal import keyferry_on_terminal

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z
OPTIONS = StatusOptions(columns=80, page_command="keyferry agent page")
COMMAND = (
    "keyferry plugin trace /opt/kubelet/plugins/acr harbor.example/a --config /etc/kubernetes/c.yaml -o text"
)
Json = dict[str, object]


def provider(name: str, state: str = "well", ends: str | None = "2026-09-21T14:13:44Z") -> Json:
    return {
        "name": name,
        "state": state,
        "cache": {"entries": 2, "tenantEntries": 1, "expiresAt": ends},
        "runs": 35,
        "failures": {"exit": 2, "timeout": 1},
        "lastFailure": None,
    }


def problem(level: str = "bad") -> Json:
    return {
        "level": level,
        "text": "Provider acr-credential-provider fails, and nothing of it is cached",
        "reason": "exited with status 1: AADSTS700016: the application was not found in the directory",
        "next": COMMAND,
        "since": "2026-09-21T14:04:20Z",
    }


def status(providers: Iterable[Json], problems: Iterable[Json] = (), verdict: str = "All is well") -> Json:
    found = list(problems)
    return {
        "version": "0.1.0",
        "pid": 812,
        "uid": 0,
        "gid": 0,
        "startedAt": "2026-09-20T07:13:20Z",
        "sockets": ["/run/keyferry/agent.sock"],
        "page": "http://127.0.0.1:7475/",
        "config": {
            "providerConfig": "/etc/p.yaml",
            "binDir": "/opt/bin",
            "hash": f"sha256:{'a' * 64}",
            "loadedAt": "2026-09-21T13:13:20Z",
        },
        "health": {
            "level": "bad" if found else "well",
            "verdict": verdict,
            "since": "2026-09-21T14:04:20Z",
            "problems": found,
        },
        "providers": list(providers),
        "refresh": {
            "next": [
                {
                    "at": f"2026-09-21T14:13:{40 + at}Z",
                    "provider": "acr-credential-provider",
                    "for": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/application",
                    "failures": at,
                }
                for at in range(7)
            ]
        },
        "callers": [
            {"uid": uid, "requests": 9, "refused": 0, "lastAt": f"2026-09-21T14:1{uid}:00Z"}
            for uid in range(3)
        ],
    }


def shown(document: Json, options: StatusOptions = OPTIONS) -> list[str]:
    return render_status(document, options, NOW).split("\n")


def test_the_verdict_is_first_then_what_is_not_well_why_and_what_to_do() -> None:
    lines = shown(status([provider("acr", "failing", None)], [problem()], "1 problem"))
    assert lines[0] == "✗ 1 problem, for 9 min"
    assert lines[1] == "agent of version 0.1.0, process 812, user 0, running for 1 d"
    assert lines[3:6] == [
        "✗ Provider acr-credential-provider fails, and nothing of it is cached, for 9 min",
        "    exited with status 1: AADSTS700016: the application was not found in the",
        "    directory",
    ]
    assert lines[6] == f"    try: {COMMAND}"  # on one line, to be copied


def test_a_provider_has_its_state_and_times_that_are_relative() -> None:
    lines = shown(status([provider("ecr"), provider("gcr", "unused", None)]))
    assert lines[3:6] == [
        "  PROVIDER   STATE          CACHED   ENDS      RUNS   FAILED",
        "✓ ecr        well           3        in 24 s   35     3",
        "- gcr        not used yet   3        -         35     3",
    ]
    assert any(line.startswith("in 20 s ") and "acr-credential-provider" in line for line in lines)
    assert any(line.split() == ["2", "9", "0", "1", "min", "ago"] for line in lines)


def test_the_worst_come_first_and_the_others_are_counted() -> None:
    states = ["well"] * 196 + ["unstable", "failing", "no-credential", "renewal-fails"]
    lines = shown(status([provider(f"p{at:03}", state) for at, state in enumerate(states)]))
    rows = [line.split()[1] for line in lines if line[:3] in ("✗ p", "! p", "✓ p")]
    assert rows == ["p197", "p199", "p196", "p198", *(f"p{at:03}" for at in range(8))]
    assert "  and 188 more; --all shows them" in lines
    many = shown(status([provider(f"p{at}", "failing") for at in range(20)], [problem()] * 9))
    assert "  and 8 more, 8 of them not well; --all shows them" in many
    assert "  and 6 more; --all shows them" in many
    everything = StatusOptions(columns=80, is_whole=True)
    assert (
        sum(line.startswith("✗ p") for line in shown(status([provider("p", "failing")] * 20), everything))
        == 20
    )


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_no_line_but_a_command_is_wider_than_the_terminal(columns: int) -> None:
    long = [provider(f"{'very-long-' * 8}{at}", "renewal-fails") for at in range(20)]
    lines = shown(
        status(long, [problem()]), StatusOptions(columns=columns, page_command="keyferry agent page")
    )
    wide = [line for line in lines if len(line) > columns]
    assert all("try: keyferry" in line or "sha256:" in line for line in wide)


@pytest.mark.parametrize("rows", [10, 24, 60])
def test_a_watched_status_stays_within_the_screen(rows: int) -> None:
    """What is most to the point is at its top."""
    document = status([provider(f"p{at}", "failing") for at in range(20)], [problem()] * 9, "9 problems")
    lines = shown(document, StatusOptions(columns=80, rows=rows))
    assert len(lines) < rows
    assert max(map(len, lines)) <= 80
    assert lines[0] == "✗ 9 problems, for 9 min"


def test_a_watched_status_has_whole_commands_or_none() -> None:
    """A part of one could be pasted, too."""
    document = status([provider("p", "failing")], [problem()], "1 problem")
    command = next(line for line in shown(document) if "try: " in line)
    assert command in shown(document, StatusOptions(columns=len(command), rows=24))
    narrow = shown(document, StatusOptions(columns=len(command) - 1, rows=24))
    assert not any("try: " in line for line in narrow)
    assert any("leave out --watch" in line for line in narrow)


def test_a_note_folds_between_words_and_leaves_its_command_whole(tmp_path: Path) -> None:
    """On a terminal of 60 columns."""
    socket = tmp_path / "none.sock"
    shown = keyferry_on_terminal("agent", "status", "--socket", str(socket), columns=60)
    first, *lines = shown.screen.splitlines()
    assert (shown.status, first.startswith("keyferry: "), len(lines) > 0) == (3, True, True)
    assert all(line.startswith("          ") for line in lines)
    assert f"'keyferry agent run --socket {socket}'" in shown.raw.replace("\r\n", "\n")
