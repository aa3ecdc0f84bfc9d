"""The project of a new plugin: which names it may have, where it is written, and that it works at once."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.kit.plugin import PluginKind
from keyferry.kit.scaffold import check_name, write_project

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
