"""Hostile provider names: whatever a name looks like, it is one file in the bin dir or it is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.errors import ConfigError, PluginNotFoundError
from keyferry.images.load import load_providers
from keyferry.images.lookup import Providers
from support.plugins import (
    IMAGE,
    PLUGIN,
    REGISTRY,
    Node,
    print_answer,
    provider_entry,
    write_config,
    write_executable,
)


def answers_as(username: str) -> str:
    """The script of a plugin that is known by the user name it gives, and notes that it ran."""
    return f'#!/bin/sh\n: >"$0.ran"\n{print_answer(auth={REGISTRY: (username, "x")})}\n'


def usernames(providers: Providers) -> list[str]:
    """The user names found for the test image."""
    found = providers.lookup(IMAGE)
    found.raise_for_failures()
    return [credential.username for credential in found.credentials]


def ran(folder: Path) -> list[str]:
    """What was run below a folder, by the notes it left."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.ran"))


LEADS_ASTRAY = {
    "the parent folder": "..",
    "the folder itself": ".",
    "a file above": "../evil",
    "a file above, by a detour": "sub/../../evil",
    "a file below": "sub/evil",
    "an absolute path": "/bin/sh",
    "a trailing slash": f"{PLUGIN}/",
    "a leading slash": f"/{PLUGIN}",
    "a trailing space": f"{PLUGIN} ",
    "a leading space": f" {PLUGIN}",
    "a program and its argument": f"{PLUGIN} -x",
}


@pytest.mark.parametrize("name", LEADS_ASTRAY.values(), ids=LEADS_ASTRAY)
def test_a_name_that_is_no_file_name_is_refused(node: Node, name: str) -> None:
    """A name that leads out of the bin dir, or holds a space, stops the config, though its file exists."""
    (node.bin_dir / "sub").mkdir()
    for place in (node.root / "evil", node.bin_dir / "sub" / "evil", node.bin_dir / PLUGIN):
        write_executable(place, answers_as("evil"))
    if " " in name:
        write_executable(node.bin_dir / name, answers_as("evil"))
    node.provider(name)
    with pytest.raises(ConfigError) as raised:
        node.load()
    assert [problem.path for problem in raised.value.problems] == ["providers[0].name"]
    assert raised.value.problems[0].code == "KF121"
    assert "provider name cannot" in raised.value.kubernetes_text
    assert ran(node.root) == []


LITERAL = {
    "a backslash": "a\\b",
    "backslashes that lead up": "..\\evil",
    "an escaped dot": "%2e",
    "escaped dots and a slash": "%2e%2e%2fevil",
    "a newline": f"{PLUGIN}\nevil",
    "a tab": f"{PLUGIN}\tevil",
    "an escape sequence": "\x1b[2J",
    "the suffix of another system": f"{PLUGIN}.exe",
    "a leading dash": "-rf",
    "an option": "--help",
    "three dots": "...",
    "a hidden file": ".evil",
    "full-width dots": "\uff0e\uff0e",
    "a slash of another kind": "..\u2215evil",
    "a Cyrillic letter": "\u0440lugin",
    "a no-break space": f"{PLUGIN}\u00a0",
    "a space of no width": f"{PLUGIN}\u200b",
    "text that runs backwards": f"\u202e{PLUGIN}",
    "other case": PLUGIN.upper(),
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "a home folder": "~",
    "a variable": "$HOME",
    "a glob": "*",
    "a command": f"{PLUGIN};evil",
    "a substitution": "$(evil)",
}


@pytest.mark.parametrize("name", LITERAL.values(), ids=LITERAL)
def test_an_odd_name_is_the_file_of_exactly_that_name(node: Node, name: str) -> None:
    """No character of a name is decoded, folded, expanded or cut off: that file runs and no other."""
    for decoy in {PLUGIN, "evil", "a", "b", "help", "caf\u00e9", "cafe\u0301"} - {name}:
        write_executable(node.bin_dir / decoy, answers_as("decoy"))
    write_executable(node.root / "evil", answers_as("decoy"))
    write_executable(node.bin_dir / name, answers_as("exact"))
    node.provider(name)
    assert usernames(node.load()) == ["exact"]
    assert ran(node.root) == [f"bin/{name}.ran"]


@pytest.mark.parametrize("name", LITERAL.values(), ids=LITERAL)
def test_an_odd_name_without_a_file_is_missing(node: Node, name: str) -> None:
    """A name is not taken for another that looks or decodes the same."""
    for decoy in {PLUGIN, "evil", "a", "b", "help", "caf\u00e9", "cafe\u0301"} - {name}:
        write_executable(node.bin_dir / decoy, answers_as("decoy"))
    write_executable(node.root / "evil", answers_as("decoy"))
    node.provider(name)
    with pytest.raises(ConfigError) as raised:
        node.load()
    assert [problem.code for problem in raised.value.problems] == ["KF141"]
    assert ran(node.root) == []


NO_FILE_CAN_HAVE = {
    "no character": "",
    "a NUL": f"{PLUGIN}\0",
    "a NUL and more": f"{PLUGIN}\0/evil",
    "too many characters": "x" * 300,
}


@pytest.mark.parametrize("name", NO_FILE_CAN_HAVE.values(), ids=NO_FILE_CAN_HAVE)
def test_a_name_that_no_file_can_have_is_a_config_error(node: Node, name: str) -> None:
    """What the system refuses as a file name is a problem of the config, never cut off, never a crash."""
    write_executable(node.bin_dir / PLUGIN, answers_as("decoy"))
    node.provider(name)
    with pytest.raises(ConfigError) as raised:
        node.load()
    assert [problem.path for problem in raised.value.problems] == ["providers[0].name"]
    assert ran(node.root) == []


def test_every_bad_name_of_a_config_is_listed(node: Node) -> None:
    """All bad names are found at once, and none of the good ones is run for it."""
    write_executable(node.bin_dir / PLUGIN, answers_as("good"))
    write_config(node.config, [provider_entry(name) for name in ("..", PLUGIN, "a/b", ".")])
    with pytest.raises(ConfigError) as raised:
        load_providers(node.config, node.bin_dir)
    assert [problem.path for problem in raised.value.problems] == [
        "providers[0].name",
        "providers[2].name",
        "providers[3].name",
    ]
    assert ran(node.root) == []


# Where plugins are looked for


@pytest.fixture
def hijacker(node: Node, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of the plugin's name in a folder that stands first on PATH."""
    folder = node.root / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return write_executable(folder / PLUGIN, answers_as("hijacker"))


@pytest.mark.parametrize("bin_dir", ["bin", "./bin", "bin/", "bin/../bin", "bin/."])
def test_a_relative_bin_dir_is_looked_in_and_path_is_not(
    node: Node, hijacker: Path, monkeypatch: pytest.MonkeyPatch, bin_dir: str
) -> None:
    """A plugin in a relative bin dir is the one that runs, whatever PATH holds."""
    write_executable(node.bin_dir / PLUGIN, answers_as("own"))
    write_config(node.config, [provider_entry()])
    monkeypatch.chdir(node.root)
    assert usernames(load_providers(node.config, bin_dir)) == ["own"]
    assert ran(hijacker.parent) == []


def test_a_plugin_in_the_current_folder_is_not_looked_up_on_path(
    node: Node, hijacker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bin dir '.' the plugin's path is its bare name, and still no PATH is searched."""
    write_executable(node.bin_dir / PLUGIN, answers_as("own"))
    write_config(node.config, [provider_entry()])
    monkeypatch.chdir(node.bin_dir)
    assert usernames(load_providers(node.config, ".")) == ["own"]
    assert ran(hijacker.parent) == []


@pytest.mark.parametrize("bin_dir", ["bin", "."])
def test_a_missing_plugin_is_not_looked_up_on_path(
    node: Node, hijacker: Path, monkeypatch: pytest.MonkeyPatch, bin_dir: str
) -> None:
    """A plugin that is not in the bin dir is missing at loading, though PATH has one of its name."""
    write_config(node.config, [provider_entry()])
    monkeypatch.chdir(node.bin_dir if bin_dir == "." else node.bin_dir.parent)
    with pytest.raises(ConfigError, match="is missing"):
        load_providers(node.config, bin_dir)
    assert ran(hijacker.parent) == []


@pytest.mark.parametrize("bin_dir", ["bin", "."])
def test_a_vanished_plugin_is_not_looked_up_on_path(
    node: Node, hijacker: Path, monkeypatch: pytest.MonkeyPatch, bin_dir: str
) -> None:
    """A plugin that is gone when it should run is missing then, though PATH has one of its name."""
    own = write_executable(node.bin_dir / PLUGIN, answers_as("own"))
    write_config(node.config, [provider_entry()])
    monkeypatch.chdir(node.bin_dir if bin_dir == "." else node.root)
    providers = load_providers(node.config, bin_dir)
    own.unlink()
    (failure,) = providers.lookup(IMAGE).failures
    assert isinstance(failure.error, PluginNotFoundError)
    assert ran(hijacker.parent) == []


def test_a_path_of_the_config_does_not_decide_which_plugin_runs(node: Node, hijacker: Path) -> None:
    """A PATH among a provider's variables is the plugin's own and not used to find it."""
    node.provider(env=[{"name": "PATH", "value": f"{hijacker.parent}:/usr/bin:/bin"}])
    write_executable(node.bin_dir / PLUGIN, answers_as("own"))
    assert usernames(node.load()) == ["own"]
    assert ran(hijacker.parent) == []
