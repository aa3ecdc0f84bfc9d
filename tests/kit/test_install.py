"""Plugins that are made and installed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.kit.install import PLUGINS, Plugin, ProgramState, find_program, install, launcher_text
from keyferry.kit.plugin import PluginKind
from keyferry.kit.scaffold import check_name, write_project
from support.sdk_plugins import SOURCE

STATIC = PLUGINS["static"]


def start(path: Path, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a launcher with nothing but *env* in its environment."""
    return subprocess.run([path, *words], cwd=cwd, env=env, input=b"", capture_output=True, check=False)


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=PLUGINS)
def test_every_plugin_has_a_module_and_a_program(plugin: Plugin) -> None:
    """Under the name that the table says."""
    assert plugin.program == f"keyferry-{plugin.name}"
    assert callable(import_module(plugin.module).main)
    assert plugin.kind in ("image", "cluster")


def test_a_launcher_is_this_python_isolated(tmp_path: Path) -> None:
    """Its first line is the interpreter itself, its paths are those of the running package."""
    path = Path(install(STATIC, str(tmp_path), "keyferry-static"))
    lines = path.read_text().splitlines()
    assert lines[0] == f"#!{sys.executable} -IS"
    assert lines[2].startswith(f"sys.path += ['{SOURCE}'")
    assert path.stat().st_mode & 0o7777 == 0o755
    assert start(path, "--version").stdout.startswith(b"keyferry-static (keyferry ")


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_the_rights_of_a_launcher_are_not_the_umasks(umask: int, tmp_path: Path) -> None:
    """Everybody may run it, its owner alone may change it."""
    before = os.umask(umask)
    try:
        path = install(STATIC, str(tmp_path), "plugin")
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o7777 == 0o755


def test_nothing_of_the_user_gets_into_a_launcher(tmp_path: Path) -> None:
    """Neither by variables of Python nor by the folder it is started in, nor by the one it is in."""
    bin_dir, evil = tmp_path / "bin", tmp_path / "evil"
    for folder in (bin_dir, evil):
        folder.mkdir()
        for name in (
            "keyferry",
            "keyferry_plugins",
            "os",
            "sitecustomize",
            "usercustomize",
            "stat",
            "static",
        ):
            (folder / f"{name}.py").write_text("print('evil'); raise SystemExit(66)\n")
    path = Path(install(STATIC, str(bin_dir), "plugin"))
    env = {
        "PYTHONPATH": str(evil),
        "PYTHONSTARTUP": str(evil / "os.py"),
        "PYTHONHOME": str(evil),
        "PYTHONUSERBASE": str(evil),
        "PYTHONINSPECT": "1",
        "PYTHONWARNINGS": "error",
        "HOME": str(evil),
    }
    done = start(path, "--version", cwd=evil, **env)
    assert (done.returncode, b"evil" in done.stdout + done.stderr) == (0, False)


def test_a_launcher_works_from_anywhere_and_by_a_link(tmp_path: Path) -> None:
    """And says the name it was started by."""
    install(STATIC, str(tmp_path), "plugin")
    (tmp_path / "other name").symlink_to("plugin")
    for name in ("plugin", "other name"):
        done = start(tmp_path / name, "--version", cwd=Path("/"))
        assert done.stdout.startswith(f"{name} (keyferry ".encode())


def moved_python(folder: Path) -> Path:
    """This interpreter under another path."""
    folder.mkdir(parents=True)
    path = folder / "python3"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


STRANGE = {
    "blank": "with a blank",
    "quote": 'it\'s "quoted" `x` $HOME',
    "quotes": "''a''",
    "long": "x" * 200,
    "umlaut": "\u00e4\u20ac",
    "long-umlaut": "\u00e4" * 70,
    "no-utf-8": "\udcff\udcfe and a blank",
    "no-utf-8-plain": "\udcff\udcfe",
    "semicolon": "a;b&c|d",
    "tab": "a\tb",
}


@pytest.mark.parametrize("name", STRANGE.values(), ids=STRANGE)
def test_an_interpreter_with_a_strange_path_is_found(name: str, tmp_path: Path) -> None:
    """By way of a shell, where the kernel's own way does not do; arguments arrive as they are."""
    python = moved_python(tmp_path / name)
    path = tmp_path / "plugin"
    path.write_bytes(os.fsencode(launcher_text(STATIC, str(python))))
    path.chmod(0o755)
    done = start(path, "--versio n", "*", "$HOME", PATH="/usr/bin:/bin")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(b"plugin: unknown flag '--versio n'"), done.stderr


@pytest.mark.parametrize("path", ["/a\\x/python", "/a\nb/python", "/a\rb/python"])
def test_a_path_that_cannot_be_written_is_refused(path: str) -> None:
    """Better no program than one that does something else."""
    with pytest.raises(EnvironmentProblem, match="cannot be written into a program"):
        launcher_text(STATIC, path)


def test_a_program_is_not_replaced_unasked(tmp_path: Path) -> None:
    """And if asked, at once; a link is replaced, not followed."""
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "plugin").symlink_to("victim")
    with pytest.raises(EnvironmentProblem, match="exists already; replace it with --force"):
        install(STATIC, str(tmp_path), "plugin")
    install(STATIC, str(tmp_path), "plugin", replace=True)
    assert not (tmp_path / "plugin").is_symlink()
    assert (tmp_path / "victim").read_text() == "mine"
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(EnvironmentProblem, match="exists already"):
        install(STATIC, str(tmp_path), "dangling")


PYTHONS = [
    "/usr/bin/python3",
    "/opt/my python/bin/python3",
    "/opt/it's/python3",
    "/" + "long/" * 40 + "python3",
]


@pytest.mark.parametrize("python", PYTHONS)
def test_an_older_program_of_the_same_plugin_is_updated(python: str, tmp_path: Path) -> None:
    """It was written for another Python, or is not executable; the one that is up to date is recognised."""
    path = tmp_path / "plugin"
    path.write_text(launcher_text(STATIC, python))
    assert find_program(STATIC, str(tmp_path), "plugin") == (ProgramState.OLDER, python)
    install(STATIC, str(tmp_path), "plugin")
    assert path.read_text() == launcher_text(STATIC)
    assert find_program(STATIC, str(tmp_path), "plugin") == (ProgramState.CURRENT, sys.executable)
    path.chmod(0o644)
    assert find_program(STATIC, str(tmp_path), "plugin")[0] is ProgramState.OLDER
    assert find_program(STATIC, str(tmp_path), "other") == (ProgramState.ABSENT, "")


FOREIGN: dict[str, Callable[[str], str]] = {
    "another-plugin": lambda _: launcher_text(PLUGINS["federate"]),
    "a-line-more": lambda text: text.replace("import sys", "import os\nimport sys"),
    "a-line-after": lambda text: f"{text}print()\n",
    "another-call": lambda text: text.replace("sys.path += [", "sys.path += list([").replace("]\n", "])\n"),
    "no-interpreter": lambda text: text.partition("\n")[2],
    "other-options": lambda text: text.replace(" -IS", " -I"),
    "no-name": lambda text: f"#! -IS\n{text.partition(chr(10))[2]}",
    "a-name-that-is-never-written": lambda text: f"#!/a\\b -IS\n{text.partition(chr(10))[2]}",
    "empty": lambda _: "",
    "binary": lambda _: "\x7fELF\x00",
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_program_of_somebody_else_is_kept(case: str, tmp_path: Path) -> None:
    """Also a launcher that somebody has changed."""
    text = FOREIGN[case](launcher_text(STATIC))
    (tmp_path / "plugin").write_text(text)
    with pytest.raises(EnvironmentProblem, match="exists already; replace it with --force"):
        install(STATIC, str(tmp_path), "plugin")
    assert (tmp_path / "plugin").read_text() == text


def test_a_place_that_does_not_do_is_said_and_left_clean(tmp_path: Path) -> None:
    """A folder in the program's place, and no folder at all."""
    (tmp_path / "plugin" / "x").mkdir(parents=True)
    with pytest.raises(EnvironmentProblem, match="cannot be written: is a directory"):
        install(STATIC, str(tmp_path), "plugin", replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["plugin"]
    with pytest.raises(EnvironmentProblem, match=r"is not a folder; create it with: mkdir -p '.*/no where'"):
        install(STATIC, str(tmp_path / "no where"), "plugin")


FILES = {
    ".gitignore",
    "README.md",
    "pyproject.toml",
    "src/acme_login/__init__.py",
    "src/acme_login/__main__.py",
    "src/acme_login/plugin.py",
    "tests/conftest.py",
    "tests/test_plugin.py",
}


@pytest.mark.parametrize("name", ["a", "acme", "acme-registry", "a1", "a-1-b", "yes", "null", "a" * 63])
def test_names_that_a_program_a_module_and_a_config_can_have(name: str) -> None:
    """All three at once."""
    assert check_name(name) == ""


BAD_NAMES = [
    "", "A", "Acme", "1a", "-a", "a-", "a--b", "a_b", "a.b", "a b", "a/b", "../a", ".", "a\n", "\u00e4", "a\u0131",
    "a" * 64, "{{name}}", "$(id)", "a;b", "\u0430cme",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_names_that_one_of_them_cannot_have(name: str) -> None:
    """With the rule."""
    assert check_name(name).startswith("expected lower-case letters")


@pytest.mark.parametrize(
    "name", ["class", "import", "json", "os", "test", "types", "keyferry", "pytest", "conftest"]
)
def test_names_that_are_taken(name: str) -> None:
    """A module of that name would hide the one that Python or the tests mean."""
    assert check_name(name) == "Python, keyferry or the tests have a module of that name"


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_every_file_is_written_and_nothing_is_left_to_fill_in(kind: PluginKind, tmp_path: Path) -> None:
    """Names are put in, packaging is valid, and what is named in it is there."""
    folder = tmp_path / "new" / "project"
    written = write_project("acme-login", kind, str(folder))
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {os.path.relpath(path, folder) for path in written}
    config = "config/provider.yaml" if kind == PluginKind.IMAGE else "config/kubeconfig.yaml"
    assert found == FILES | {config}
    for path in map(Path, written):
        assert "{{" not in path.read_text()
        assert not stat.S_IMODE(path.stat().st_mode) & 0o111
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "acme-login"
    assert project["scripts"] == {"acme-login": "acme_login.plugin:main"}


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_the_code_compiles_and_fits_the_usual_line(kind: PluginKind, tmp_path: Path) -> None:
    """A first look at it is a good one."""
    for path in map(Path, write_project("acme", kind, str(tmp_path))):
        if path.suffix == ".py":
            text = path.read_text()
            compile(text, str(path), "exec")
            assert text.endswith("\n")
            assert max(map(len, text.splitlines())) <= 110


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    """Whatever it is."""
    (tmp_path / ".hidden").write_text("mine")
    with pytest.raises(EnvironmentProblem, match="is not empty; choose another folder with --to"):
        write_project("acme", PluginKind.IMAGE, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [".hidden"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file in its way, a file above it."""
    (tmp_path / "file").write_text("mine")
    for place, words in (("file", "file exists"), ("file/below", "not a directory")):
        with pytest.raises(EnvironmentProblem, match=words):
            write_project("acme", PluginKind.IMAGE, str(tmp_path / place))
    assert (tmp_path / "file").read_text() == "mine"
