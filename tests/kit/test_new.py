"""``keyferry plugin new``: a project that passes its own tests, keyferry's lint, and keyferry's lookup, at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from keyferry import load_cluster, load_providers
from support.commands import run_in_process
from support.plugins import PATIENCE_SECONDS, write_executable
from support.sdk_plugins import SOURCE

# As a shell finds this Python.
FOUND = shutil.which("python3") or ""
PYTHON = "python3" if Path(FOUND).parent == Path(sys.executable).parent else sys.executable


def new(folder: Path, *words: str) -> Path:
    """Write a project, and give its folder."""
    done = run_in_process("plugin", "new", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"next: cd {words[0]} && {PYTHON} -m pip install pytest && {PYTHON} -m pytest\n" in done.stderr
    project = folder / words[0]
    written = [path for path in project.rglob("*") if path.is_file()]
    assert sorted(done.stdout.split()) == sorted(str(path.relative_to(folder)) for path in written)
    assert not any("{{" in path.read_text() or path.stat().st_mode & 0o111 for path in written)
    return project


def launcher(folder: Path, project: Path, name: str) -> Path:
    """The program that an installation of the project would put there."""
    module = name.replace("-", "_")
    return write_executable(
        folder / name,
        f"#!{sys.executable} -IS\nimport sys\nsys.path[:0] = [{str(project / 'src')!r}, {SOURCE!r}]\n"
        f"from {module}.plugin import main\nmain()\n",
    )


@pytest.mark.parametrize(
    ("words", "tests"),
    [(("acme-registry",), 6), (("acme-login", "--kind", "cluster"), 4)],
    ids=["image", "cluster"],
)
def test_a_new_project_passes_its_own_tests(words: tuple[str, ...], tests: int, tmp_path: Path) -> None:
    """With this Python, in a process of its own, with every warning an error."""
    project = new(tmp_path, *words)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=project, capture_output=True, text=True, check=False, timeout=6 * PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tests} passed" in done.stdout
    packaging = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert packaging["name"] == words[0]
    assert packaging["scripts"] == {words[0]: f"{words[0].replace('-', '_')}.plugin:main"}


@pytest.mark.parametrize("name", ["acme-registry", "yes", "null"])
def test_the_config_of_an_image_plugin_is_clean_and_works(name: str, tmp_path: Path) -> None:
    """No finding of lint; and a lookup through it gets the login, though the name is a word of YAML."""
    project = new(tmp_path, name)
    config = project / "config" / "provider.yaml"
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    launcher(bin_dir, project, name)
    linted = run_in_process("lint", str(config), "--bin-dir", str(bin_dir))
    assert (linted.returncode, "error" in linted.stdout, "warning" in linted.stdout) == (0, False, False)
    secret = tmp_path / "password"
    secret.write_text("pass-word\n")
    document = yaml.safe_load(config.read_text())
    document["providers"][0]["env"][0]["value"] = str(secret)
    moved = tmp_path / "config.json"
    moved.write_text(json.dumps(document))
    (credential,) = load_providers(moved, bin_dir).lookup("registry.example.com/team/app:1").credentials
    assert (credential.username, credential.password) == ("robot", "pass-word")


@pytest.mark.usefixtures("lax_umask")
def test_the_config_is_clean_whatever_the_umask_is(tmp_path: Path) -> None:
    config = new(tmp_path, "acme-registry") / "config" / "provider.yaml"
    linted = run_in_process("lint", str(config))
    assert "KF182" not in linted.stdout


def test_the_kubeconfig_of_a_cluster_plugin_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its user, with a cluster and a context, gives a session its token."""
    project = new(tmp_path, "acme-login", "--kind", "cluster")
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    launcher(bin_dir, project, "acme-login")
    (tmp_path / "token").write_text("the-token\n")
    monkeypatch.setenv("PATH", f"{bin_dir}:/usr/bin:/bin")
    monkeypatch.setenv("ACME_LOGIN_TOKEN_FILE", str(tmp_path / "token"))
    document = yaml.safe_load((project / "config" / "kubeconfig.yaml").read_text())
    document["clusters"] = [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]
    document["contexts"] = [{"name": "x", "context": {"cluster": "c", "user": "acme-login"}}]
    document["current-context"] = "x"
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    credential = load_cluster(kubeconfig=path, trust=True, stdin_unavailable=True).grant().credential
    assert credential is not None
    assert credential.token == "the-token"


def test_a_new_plugin_passes_the_conformance_kit(tmp_path: Path) -> None:
    """What the README of the project says to type is true."""
    project = new(tmp_path, "acme-registry")
    program = launcher(project, project, "acme-registry")
    (tmp_path / "password").write_text("pass-word\n")
    done = run_in_process(
        "plugin", "test", str(program), "--image", "registry.example.com/team/app",
        "--env", f"ACME_REGISTRY_PASSWORD_FILE={tmp_path}/password",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    readme = (project / "README.md").read_text()
    assert (
        "--image registry.example.com/team/app --env ACME_REGISTRY_PASSWORD_FILE=/path/to/password" in readme
    )


def test_a_project_can_be_written_elsewhere(tmp_path: Path) -> None:
    """And what to type next fits a folder with a blank."""
    done = run_in_process("plugin", "new", "acme", "--to", "my work/acme", cwd=tmp_path)
    assert done.returncode == 0
    tests = f"{PYTHON} -m pip install pytest && {PYTHON} -m pytest"
    assert done.stderr == f"keyferry: next: cd 'my work/acme' && {tests}\n"
    assert (tmp_path / "my work" / "acme" / "src" / "acme" / "plugin.py").is_file()


@pytest.mark.parametrize("name", ["a", "a1", "a-1-b", "a" * 63])
def test_names_that_a_program_a_module_and_a_config_can_have(name: str, tmp_path: Path) -> None:
    new(tmp_path, name)


BAD_NAMES = [
    "", "A", "Acme", "1a", "-a", "a-", "a--b", "a_b", "a.b", "a b", "a/b", "../a", ".", "a\n", "\u00e4", "a\u0131",
    "a" * 64, "{{name}}", "$(id)", "a;b", "\u0430cme",
]  # fmt: skip
# A module of that name would hide the one that Python or the tests mean.
TAKEN = ["class", "import", "json", "os", "test", "types", "keyferry", "pytest", "conftest"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *((name, "expected lower-case letters") for name in BAD_NAMES),
        *((name, "Python, keyferry or the tests have a module of that name") for name in TAKEN),
    ],
    ids=ascii,
)
def test_a_bad_name_is_wrong_usage(name: str, rule: str, tmp_path: Path) -> None:
    """Status 2, the rule, and no file."""
    done = run_in_process("plugin", "new", "--", name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not a valid name of a plugin: " in done.stderr
    assert rule in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    """Status 3, and nothing in it is touched."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / ".hidden").write_text("mine")
    done = run_in_process("plugin", "new", "acme", "--kind", "cluster", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "'acme' is not empty; choose another folder with --to" in done.stderr
    assert [path.name for path in (tmp_path / "acme").iterdir()] == [".hidden"]


@pytest.mark.parametrize(("place", "words"), [("file", "file exists"), ("file/below", "not a directory")])
def test_a_place_that_cannot_be_written_is_said(place: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = run_in_process("plugin", "new", "acme", "--to", place, cwd=tmp_path)
    assert (done.returncode, words in done.stderr) == (3, True)
    assert (tmp_path / "file").read_text() == "mine"
