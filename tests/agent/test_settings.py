"""Each setting comes from the strongest place that has it, and says which."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry import ConfigError, EnvironmentProblem, Node
from keyferry._core.values import replace
from keyferry.agent.settings import (
    DEFAULT_CONFIG,
    DEFAULTS,
    Given,
    default_socket,
    find_agent_socket,
    flag_of,
    resolve_settings,
    socket_options,
    variable_of,
)
from keyferry.agent.state import load_state
from keyferry.api.agentconfig.v1alpha1 import DURATIONS, NUMBERS, SWITCHES, TEXTS
from keyferry.cli.agent import default_of

HEAD = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"
PLACES = {"KEYFERRY_CONFIG": "/c.json", "KEYFERRY_BIN_DIR": "/bin-dir"}


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "agent.yaml"
    path.write_text(HEAD + text)
    return str(path)


def node(tmp_path: Path) -> Node:
    """A machine without a kubelet."""
    return Node(str(tmp_path))


def test_flag_then_environment_then_file_then_default(tmp_path: Path) -> None:
    path = write(tmp_path, "cacheEntries: 1\nconnections: 11\nstopTimeout: 11s\n")
    environ = PLACES | {"KEYFERRY_AGENT_CONNECTIONS": "22", "KEYFERRY_AGENT_STOP_TIMEOUT": "22"}
    given = Given(flags={"stopTimeout": "33s"}, config_file=path, environ=environ)
    found = resolve_settings(given, node=node(tmp_path), uid=0)
    shown = {name: (found.shown(name), found.origins[name]) for name in found.origins}
    assert shown["cacheEntries"] == ("1", path)
    assert shown["connections"] == ("22", "KEYFERRY_AGENT_CONNECTIONS")
    assert shown["stopTimeout"] == ("33s", "flag --stop-timeout")
    assert shown["refreshAhead"] == ("true", "default")
    assert shown["providerConfig"] == ("/c.json", "KEYFERRY_CONFIG")
    assert shown["socket"] == ("/run/keyferry/agent.sock", "default")


def test_a_provider_config_of_the_file_is_stronger_than_discovery(tmp_path: Path) -> None:
    path = write(tmp_path, "providerConfig: /mine.json\nbinDir: /mine\n")
    found = resolve_settings(Given(config_file=path), node=node(tmp_path))
    assert (found.text("providerConfig"), found.origins["binDir"]) == ("/mine.json", path)
    with pytest.raises(EnvironmentProblem):
        resolve_settings(Given(config_file=write(tmp_path, "")), node=node(tmp_path))


def test_other_commands_are_told_places_that_they_would_not_find(tmp_path: Path) -> None:
    path = write(tmp_path, "providerConfig: /my file.json\n")
    found = resolve_settings(Given(flags={"binDir": "/b"}, config_file=path), node=node(tmp_path))
    assert found.place_options() == ("--config", "/my file.json", "--bin-dir", "/b")
    on_node = replace(found, origins={**found.origins, "providerConfig": "kubelet", "binDir": "kubelet"})
    assert on_node.place_options() == ()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("b", "{here}/b"),
        ("./b", "{here}/b"),
        (".//b", "{here}/b"),
        ("l/../b", "{here}/l/../b"),
        ("/b/../c", "/b/../c"),
    ],
)
def test_paths_are_those_of_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, shown: str
) -> None:
    """From flags, variables and the file, whose own path is one of them."""
    monkeypatch.chdir(tmp_path)
    shown = shown.format(here=tmp_path)
    write(tmp_path, f"providerConfig: {given}\n")
    found = resolve_settings(Given(flags={"binDir": given}, config_file="./agent.yaml"), node=node(tmp_path))
    assert (found.text("providerConfig"), found.text("binDir")) == (shown, shown)
    assert (found.config_file, found.origins["providerConfig"]) == (f"{tmp_path}/agent.yaml",) * 2
    assert found.place_options() == ("--config", shown, "--bin-dir", shown)
    environ = {"KEYFERRY_CONFIG": given, "KEYFERRY_BIN_DIR": given}
    found = resolve_settings(Given(environ=environ), node=node(tmp_path))
    assert found.place_options() == ("--config", shown, "--bin-dir", shown)


def test_a_relative_path_in_a_folder_that_is_gone_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    found = resolve_settings(Given(flags={"providerConfig": "c", "binDir": "b"}), node=node(tmp_path))
    assert (found.text("providerConfig"), found.text("binDir")) == ("c", "b")


def test_other_commands_are_told_a_socket_that_they_would_not_find(tmp_path: Path) -> None:
    usual = "/run/keyferry/agent.sock"
    found = resolve_settings(Given(environ=PLACES), node=node(tmp_path), uid=0)
    assert (found.socket_options(usual), found.socket_options("/s")) == ((), ("--socket", "/s"))
    path = write(tmp_path, "socket: /s\n")
    found = resolve_settings(Given(config_file=path, environ=PLACES), node=node(tmp_path))
    assert found.socket_options("/s") == ("--socket", "/s")
    in_default = replace(found, origins={**found.origins, "socket": DEFAULT_CONFIG})
    assert (in_default.socket_options("/s"), in_default.socket_options("/t")) == ((), ("--socket", "/t"))


def test_a_command_is_told_a_socket_that_it_would_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert socket_options("/s", {"KEYFERRY_AGENT": "/s"}) == ()
    assert socket_options("s", {"KEYFERRY_AGENT": "/s"}) == ("--socket", f"{tmp_path}/s")
    assert socket_options("/s", {"KEYFERRY_AGENT": "no socket"}) == ("--socket", "/s")


@pytest.mark.parametrize("setting", ["", "providerConfig"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, setting: str) -> None:
    """At the first start, too."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = write(tmp_path, f"{setting}: {pipe}\nbinDir: /b\n") if setting else str(pipe)
    with pytest.raises(EnvironmentProblem, match="is neither a file nor a folder"):
        load_state(Given(config_file=path), node=node(tmp_path))


@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        ("socket: /s\n", {}, "/s"),
        ("socket: /s\nconnections: 0\n", {}, "/s"),
        ("socket: /s\n", {"KEYFERRY_AGENT": "/e"}, "/e"),
        ("", {"XDG_RUNTIME_DIR": "/run/user/7"}, ""),
    ],
)
def test_where_a_client_looks(tmp_path: Path, text: str, environ: dict[str, str], expected: str) -> None:
    expected = expected or default_socket(environ, os.geteuid())
    assert find_agent_socket(Given(config_file=write(tmp_path, text), environ=environ)) == expected
    missing = Given(config_file=str(tmp_path / "none"), environ=environ)
    assert find_agent_socket(missing) == environ.get("KEYFERRY_AGENT", default_socket(environ, os.geteuid()))


def test_every_wrong_value_is_reported_at_once(tmp_path: Path) -> None:
    environ = PLACES | {"KEYFERRY_AGENT_LOG_LEVEL": "loud", "KEYFERRY_AGENT_WATCH": "yes"}
    flags = {"cacheEntries": "0", "socketMode": "rw", "stopTimeout": "soon", "connections": "x"}
    flags["metrics"] = "everywhere:9750"
    with pytest.raises(ConfigError) as caught:
        resolve_settings(Given(flags=flags, config_file=None, environ=environ), node=node(tmp_path))
    assert sorted(problem.path for problem in caught.value.problems) == [
        "KEYFERRY_AGENT_LOG_LEVEL",
        "KEYFERRY_AGENT_WATCH",
        "flag --cache-entries",
        "flag --connections",
        "flag --metrics",
        "flag --socket-mode",
        "flag --stop-timeout",
    ]


def test_a_broken_or_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_settings(Given(config_file=write(tmp_path, "sockt: x\n")), node=node(tmp_path))
    assert [(problem.code, problem.line) for problem in caught.value.problems] == [("KF504", 3)]
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(EnvironmentProblem):
            resolve_settings(Given(config_file=str(path)), node=node(tmp_path))


@pytest.mark.parametrize(("value", "expected"), [("auto", "default"), ("/s.sock", "KEYFERRY_AGENT")])
def test_the_clients_words_are_no_socket(tmp_path: Path, value: str, expected: str) -> None:
    environ = PLACES | {"KEYFERRY_AGENT": value}
    assert resolve_settings(Given(environ=environ), node=node(tmp_path)).origins["socket"] == expected


def test_a_variable_that_names_no_socket_is_refused(tmp_path: Path) -> None:
    given = Given(environ=PLACES | {"KEYFERRY_AGENT": "on"})
    with pytest.raises(ConfigError, match="KEYFERRY_AGENT: found 'on', expected an absolute path"):
        resolve_settings(given, node=node(tmp_path))


@pytest.mark.parametrize("flags", [{"socket": "/" + "x" * 120}, {}])
def test_a_socket_path_that_is_too_long_is_refused(tmp_path: Path, flags: dict[str, str]) -> None:
    given = Given(flags=flags, environ=PLACES | {"KEYFERRY_AGENT": "/run/" + "x" * 116})
    with pytest.raises(ConfigError, match="found a path of 121 bytes, expected at most 99, because"):
        resolve_settings(given, node=node(tmp_path))


def test_the_socket_of_a_user_is_in_the_runtime_folder() -> None:
    environ = {"XDG_RUNTIME_DIR": "/run/user/1000"}
    assert default_socket(environ, 1000) == "/run/user/1000/keyferry/agent.sock"
    assert default_socket(environ, 0) == default_socket({}, 1000) == "/run/keyferry/agent.sock"


def test_the_documentation_has_every_setting() -> None:
    """With its option, its variable and its default."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "agent-reference.md").read_text(encoding="utf-8")
    lines = page.partition("\n## Settings\n")[2].partition("\n## ")[0].splitlines()
    for name in (*TEXTS, *DURATIONS, *NUMBERS, *SWITCHES):
        rows = "".join(line for line in lines if line.startswith(f"| `{name}` |"))
        assert f"`{variable_of(name)}`" in rows
        assert f"`--{flag_of(name)}`" in rows
        assert default_of(name) in rows


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_default_in_the_help_is_the_default(tmp_path: Path, name: str) -> None:
    """Given as a flag, it is read as the value that is in force without one."""
    found = resolve_settings(Given(flags={name: default_of(name)}, environ=PLACES), node=node(tmp_path))
    assert found.values[name] == DEFAULTS[name]
