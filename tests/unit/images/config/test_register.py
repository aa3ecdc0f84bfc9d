"""The bin dir and every executable are checked as the kubelet checks them at its start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.errors import Problem
from keyferry.images.config.read import read_config
from keyferry.images.config.validate import check_bin_dir, check_executables, plugin_path
from support.scripted import config_text, write_printer


def checked(folder: Path, *names: str) -> tuple[Problem | None, ...]:
    config = folder / "config.json"
    config.write_text(config_text(*({"name": name} for name in names)))
    return check_executables(read_config(str(config)), str(folder))


def test_an_executable_is_fine(tmp_path: Path) -> None:
    """Also through a link."""
    write_printer(tmp_path, "plugin")
    os.symlink("plugin", tmp_path / "link")
    assert checked(tmp_path, "plugin", "link") == (None, None)


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("missing", "KF141", "is missing"),
        ("dangling", "KF141", "is missing"),
        ("file.under", "KF142", "is not executable; chmod +x"),
        ("folder", "KF142", "is a directory"),
        ("", "KF142", "is a directory"),
        ("loop", "KF142", "cannot be read: too many levels"),
        ("nul\0byte", "KF142", "cannot be read: invalid argument"),
        ("x" * 300, "KF142", "cannot be read: file name too long"),
    ],
)
def test_what_cannot_be_run_is_a_problem(tmp_path: Path, name: str, code: str, message: str) -> None:
    """Missing, a directory, not executable, or not even a name the system takes."""
    (tmp_path / "file.under").write_text("")
    (tmp_path / "file.under").chmod(0o644)
    (tmp_path / "folder").mkdir()
    os.symlink("loop", tmp_path / "loop")
    os.symlink("nowhere", tmp_path / "dangling")
    (problem,) = checked(tmp_path, name)
    assert problem is not None
    assert (problem.code, problem.path) == (code, "providers[0].name")
    assert message in problem.message
    assert problem.kubernetes_text.startswith(
        "plugin binary executable  did not exist"
        if code == "KF141"
        else "error inspecting binary executable : exec: "
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "is a directory"),
        ("plain", "permission denied"),
        ("loop", "stat $DIR/loop: too many levels of symbolic links"),
        ("x" * 300, f"stat $DIR/{'x' * 300}: file name too long"),
    ],
)
def test_the_text_for_what_is_there_and_cannot_be_run_is_that_of_look_path(
    tmp_path: Path, name: str, reason: str
) -> None:
    """``findExecutable`` in Go's os/exec: errors of stat name their call and the path, the others do not."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("")
    os.symlink("loop", tmp_path / "loop")
    (problem,) = checked(tmp_path, name)
    assert problem is not None
    text = problem.kubernetes_text.replace(str(tmp_path), "$DIR")
    assert text == f'error inspecting binary executable : exec: "$DIR/{name}": {reason}'


def test_a_bin_dir_that_is_a_file_is_found_at_the_first_provider(tmp_path: Path) -> None:
    """The kubelet only looks whether there is something; ENOTDIR is no "did not exist" to Go."""
    (tmp_path / "config.json").write_text(config_text({"name": "one"}))
    bin_dir = tmp_path / "bin"
    bin_dir.write_text("")
    assert check_bin_dir(str(bin_dir)) is None
    (problem,) = check_executables(read_config(str(tmp_path / "config.json")), str(bin_dir))
    assert problem is not None
    assert problem.code == "KF142"
    assert problem.kubernetes_text == (
        f'error inspecting binary executable : exec: "{bin_dir}/one": stat {bin_dir}/one: not a directory'
    )


def test_every_provider_is_checked_in_order(tmp_path: Path) -> None:
    """A bad one does not hide the next."""
    write_printer(tmp_path, "good")
    first, second, third = checked(tmp_path, "bad", "good", "worse")
    assert first is not None
    assert second is None
    assert third is not None
    assert (first.path, third.path) == ("providers[0].name", "providers[2].name")


def test_a_path_is_joined_and_cleaned_as_in_go() -> None:
    """An empty name is the bin dir itself; names cannot leave it once they are validated."""
    assert plugin_path("/bin/", "x") == "/bin/x"
    assert plugin_path("/bin", "") == "/bin"
    assert plugin_path("/a/../b", "x") == "/b/x"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("missing", "did not exist"),
        ("file/below", "not a directory"),
        ("nul\0byte", "invalid argument"),
    ],
)
def test_a_bin_dir_that_cannot_be_had_is_a_problem(tmp_path: Path, name: str, text: str) -> None:
    """It comes before everything else."""
    (tmp_path / "file").write_text("")
    problem = check_bin_dir(f"{tmp_path}/{name}")
    assert problem is not None
    assert problem.code == "KF140"
    assert text in problem.kubernetes_text
    assert check_bin_dir(str(tmp_path)) is None
