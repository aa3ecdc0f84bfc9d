"""Programs by their names and paths, found as Go finds them; and the plugins behind shims."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.bridge.kubelet_install import python_shim
from keyferry.invoke.executable import LookPathResult, clean_path, look_path
from keyferry.invoke.shim import MARK, MAX_SHIM_BYTES, is_shim, plugin_behind, program_behind
from support.plugins import write_executable


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [
        ("", "."), ("./a", "a"), ("a/../b", "b"), ("//a", "/a"), ("///a/", "/a"), ("/", "/"), ("//", "/"),
        ("../a", "../a"),
    ],
)  # fmt: skip
def test_paths_are_cleaned_as_by_go(path: str, cleaned: str) -> None:
    assert clean_path(path) == cleaned


def test_a_program_is_looked_for_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that can be executed counts; folders and plain files are passed over."""
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "tool").mkdir()
    write_executable(tmp_path / "b" / "tool", "", mode=0o644)
    write_executable(tmp_path / "c" / "tool", "")
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / folder) for folder in "abc"))
    assert look_path("tool") == LookPathResult(path=str(tmp_path / "c" / "tool"))
    assert look_path("other").problem == 'exec: "other": executable file not found in $PATH'
    for name in ("", ".", ".."):
        assert look_path(name).problem == f'exec: "{name}": executable file not found in $PATH'


@pytest.mark.parametrize("path", ["", ".", "sub"])
def test_a_relative_folder_in_path_gives_a_path_and_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    write_executable(tmp_path / path / "tool", "")
    monkeypatch.setenv("PATH", f"/nonexistent:{path}")
    found = look_path("tool")
    assert found.path == os.path.join("" if path == "." else path, "tool")
    assert "cannot run executable found relative to current directory" in found.problem


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("/nonexistent/x", "stat /nonexistent/x: no such file or directory"),
        ("/dev", "is a directory"),
        ("/etc/passwd", "permission denied"),
        ("/a\0b", "stat /a\0b: invalid argument"),
    ],
)
def test_why_a_path_is_no_program(name: str, problem: str) -> None:
    assert look_path(name).problem.endswith(f": {problem}")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x7fELF" + MARK + b"\0", True),
        (b"#!/bin/sh\n", False),
        (b"", False),
        (MARK + b"x" * MAX_SHIM_BYTES, False),
        (MARK + b"x" * (MAX_SHIM_BYTES - len(MARK)), True),
    ],
)
def test_a_shim_is_told_by_its_mark(tmp_path: Path, content: bytes, expected: bool) -> None:
    assert is_shim(str(write_executable(tmp_path / "p", content))) is expected


def test_looking_for_the_mark_leaves_nothing_open(tmp_path: Path) -> None:
    path = str(write_executable(tmp_path / "p", MARK))
    before = len(os.listdir("/proc/self/fd"))
    assert is_shim(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_cannot_be_read_is_no_shim(tmp_path: Path) -> None:
    assert not is_shim(str(tmp_path / "absent"))
    assert not is_shim(str(tmp_path))
    assert not is_shim("a\0b")


@pytest.mark.parametrize("suffix", [".real", ".beside"])
def test_the_plugin_behind_a_shim_is_found(tmp_path: Path, suffix: str) -> None:
    path = str(write_executable(tmp_path / "p", python_shim()))
    assert plugin_behind(path) == ""
    (tmp_path / f"p{suffix}").write_text("")
    assert plugin_behind(path) == path + suffix


def test_without_a_shim_the_plugin_is_itself(tmp_path: Path) -> None:
    """Also beside the files that a shim left behind, as when an upgrade has overwritten it."""
    path = str(write_executable(tmp_path / "p", "#!/bin/sh\n"))
    (tmp_path / "p.real").write_text("")
    (tmp_path / "p.agent").symlink_to("auto")
    assert plugin_behind(path) == path
    assert program_behind(path) == path


def test_a_run_looks_past_an_installed_shim_alone(tmp_path: Path) -> None:
    path = str(write_executable(tmp_path / "p", python_shim()))
    (tmp_path / "p.real").write_text("")
    assert program_behind(path) == path
    (tmp_path / "p.agent").symlink_to("auto")
    assert program_behind(path) == path + ".real"
    (tmp_path / "p.real").unlink()
    assert program_behind(path) == path
