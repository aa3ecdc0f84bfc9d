"""Programs by their names and paths, found as Go finds them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.invoke.executable import LookPathResult, base_name, clean_path, look_path
from support.plugins import write_executable


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [
        ("", "."),
        ("./a", "a"),
        ("a/../b", "b"),
        ("//a", "/a"),
        ("///a/", "/a"),
        ("/", "/"),
        ("//", "/"),
        ("../a", "../a"),
    ],
)
def test_paths_are_cleaned_as_by_go(path: str, cleaned: str) -> None:
    assert clean_path(path) == cleaned


@pytest.mark.parametrize(("path", "name"), [("/a/b", "b"), ("b", "b"), ("/", "/")])
def test_the_last_part_of_a_path_is_its_name(path: str, name: str) -> None:
    assert base_name(path) == name


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
