"""A hostile agent: what it answers moves no cursor, forges no line, and opens nothing but its page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.agent_server import telling
from support.commands import run_keyferry
from support.parts import root
from support.plugins import wait_until, write_executable

STRANGER = 12_002
FORGED = "FORGED line\n\x1b[2JFORGED\r\u202e\nFORGED"


def forge(value: object) -> object:
    """Return a document with other text in the place of every text."""
    if isinstance(value, dict):
        return {name: forge(each) for name, each in value.items()}
    if isinstance(value, list):
        return [forge(each) for each in value]
    return f"told{FORGED}" if isinstance(value, str) else value


STATUS = {
    **dict.fromkeys(("version", "pid", "uid", "gid", "startedAt", "page", "metrics", "pageProblem"), "x"),
    "sockets": ["x"],
    "takenOver": True,
    "config": dict.fromkeys(("providerConfig", "hash", "loadedAt", "binDir"), "x"),
    "health": {
        **dict.fromkeys(("level", "verdict", "since"), "x"),
        "problems": [dict.fromkeys(("level", "text", "reason", "next", "since"), "x")] * 5,
    },
    "reload": {"applied": False, "at": "x", "problems": ["x", "x"], "notes": ["x"]},
    "providers": [
        {"name": "x", "state": "x", "cache": {"expiresAt": "x"}, "lastFailure": {"at": "x", "message": "x"}}
    ],
    "refresh": {"next": [{"at": "x", "provider": "x", "for": "x", "failures": "x"}]},
    "callers": [{"uid": "x", "requests": "x", "refused": "x", "lastAt": "x"}],
}


@pytest.mark.parametrize(
    ("words", "document"),
    [
        pytest.param(("status",), STATUS, id="status"),
        pytest.param(("reload",), {"applied": True, "hash": "x", "notes": ["x"]}, id="reloaded"),
        pytest.param(("reload",), {"applied": False, "problems": ["x"]}, id="refused"),
        pytest.param(("page",), {"url": "http://127.0.0.1:1/", "expiresAt": "x"}, id="page"),
    ],
)
def test_what_a_hostile_agent_says_forges_no_line(
    tmp_path: Path, words: tuple[str, ...], document: Mapping[str, object]
) -> None:
    told = forge(document)
    assert isinstance(told, dict)
    if "url" in document:
        told["url"] = document["url"]
    with telling(tmp_path / "run" / "agent.sock", told) as path:
        done = run_keyferry("agent", *words, "--socket", path)
    shown = done.stdout + done.stderr
    assert "FORGED" in shown
    assert [line for line in shown.splitlines() if line.startswith("FORGED")] == []
    assert not {"\x1b", "\r", "\u202e"} & set(shown)


@root
@pytest.mark.parametrize("whose", ["folder", "socket", "own"])
def test_no_command_is_printed_that_another_users_agent_names(tmp_path: Path, whose: str) -> None:
    """Who looks at the status as root may paste it."""
    command = "keyferry plugin trace /home/stranger/evil image"
    problem = {"level": "bad", "text": "Provider x fails", "reason": "so", "next": command, "since": "x"}
    status = {
        **STATUS,
        "health": {"level": "bad", "verdict": "1 problem", "since": "x", "problems": [problem]},
    }
    with telling(tmp_path / "run" / "agent.sock", status) as path:
        if whose != "own":
            os.chown(os.path.dirname(path) if whose == "folder" else path, STRANGER, STRANGER)
        shown = run_keyferry("agent", "status", "--socket", path).stdout
    assert "Provider x fails" in shown
    assert (command in shown, "its commands are not shown" in shown) == (whose == "own", whose != "own")


def open_page(path: str, folder: Path) -> tuple[int, str, str]:
    """Run ``agent page --open``; return the status, standard error and what the browser was given."""
    opened = folder / "opened"
    browser = write_executable(folder / "browser", f'#!/bin/sh\nprintf "%s\\n" "$@" > {opened}\n')
    done = run_keyferry("agent", "page", "--open", "--socket", path, BROWSER=str(browser))
    if done.returncode == 0:
        wait_until(opened.exists, "the browser")
    return done.returncode, done.stderr, opened.read_text() if opened.exists() else ""


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "--version",
        "-url http://127.0.0.1:7475/",
        "https://127.0.0.1:7475/",
        "http://evil.example:80/",
        "http://[::1%eth0;id]:80/",
        "http://[::1%25evil]:80/",
        "http://localhost:7475/",
        "http://127.0.0.1/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:7475",
        "http://127.0.0.1:7475@evil.example:80/",
        "http://evil.example:80/@127.0.0.1:7475/",
        "http://192.0.2.1:7475/",
        "http://127.0.0.1:7475/ --version",
        "http://127.0.0.1:7475/\n",
        "javascript:alert(1)",
        "",
        None,
        7475,
    ],
)
def test_only_a_page_on_this_machine_is_opened_or_printed(tmp_path: Path, url: object) -> None:
    with telling(tmp_path / "run" / "agent.sock", {"url": url, "expiresAt": "soon"}) as path:
        status, said, opened = open_page(path, tmp_path)
        printed = run_keyferry("agent", "page", "--socket", path)
    assert (status, opened) == (3, "")
    assert "no link to a page on this machine" in said
    assert (printed.returncode, printed.stdout) == (3, "")


@pytest.mark.parametrize("url", ["http://127.0.0.1:7475/login?key=a-b_C", "http://[::1]:7475/login?key=a"])
def test_a_page_on_this_machine_is_opened(tmp_path: Path, url: str) -> None:
    with telling(tmp_path / "run" / "agent.sock", {"url": url, "expiresAt": "soon"}) as path:
        status, said, opened = open_page(path, tmp_path)
    assert (status, opened) == (0, f"{url}\n"), said


@root
@pytest.mark.parametrize("whose", ["folder", "socket"])
def test_no_page_is_opened_that_another_users_socket_names(tmp_path: Path, whose: str) -> None:
    """Its link is printed, to be looked at first: an agent may have a user of its own."""
    answer = {"url": "http://127.0.0.1:7475/login?key=a", "expiresAt": "soon"}
    with telling(tmp_path / "run" / "agent.sock", answer) as path:
        os.chown(os.path.dirname(path) if whose == "folder" else path, STRANGER, STRANGER)
        status, said, opened = open_page(path, tmp_path)
        printed = run_keyferry("agent", "page", "--socket", path)
    assert (status, opened) == (3, "")
    assert "root or" in said
    assert printed.stdout == f"{answer['url']}\n"
