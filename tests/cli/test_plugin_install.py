"""``keyferry plugin install``: a reference plugin where a node or a user looks for it, and that it works there."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from keyferry import load_providers
from keyferry.kit.install import PLUGINS
from support.commands import run_in_process, run_keyferry
from support.plugins import provider_entry, write_config
from support.sdk_plugins import SOURCE, request_bytes


def docker_config(folder: Path) -> Path:
    """A docker config with one login."""
    login = base64.b64encode(b"user:pass-word").decode()
    path = folder / "docker.json"
    path.write_text(json.dumps({"auths": {"registry.example": {"auth": login}}}))
    path.chmod(0o600)
    return path


def test_without_a_name_all_are_listed() -> None:
    """With what they stand in for."""
    done = run_in_process("plugin", "install")
    assert done.returncode == 0
    for plugin in PLUGINS.values():
        assert plugin.program in done.stdout
        assert plugin.upstream in done.stdout


def test_an_installed_plugin_serves_a_lookup(tmp_path: Path) -> None:
    """Through a provider config that names it, as a kubelet would."""
    done = run_in_process("plugin", "install", "static", "--bin-dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/keyferry-static\n"
    config = docker_config(tmp_path)
    write_config(
        tmp_path / "config.json", [provider_entry("keyferry-static", args=["--docker-config", str(config)])]
    )
    answer = load_providers(tmp_path / "config.json", tmp_path).lookup("registry.example/app")
    assert answer.failures == ()
    assert [(each.username, each.password) for each in answer.credentials] == [("user", "pass-word")]


def test_several_get_the_names_of_those_they_stand_in_for(tmp_path: Path) -> None:
    """And one that stands in for none keeps its own."""
    done = run_in_process(
        "plugin", "install", "ecr", "gcr", "static", "--bin-dir", str(tmp_path), "--upstream-name"
    )
    assert done.returncode == 0
    names = ["auth-provider-gcp", "ecr-credential-provider", "keyferry-static"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for name in names:
        shown = subprocess.run(
            [tmp_path / name, "--version"], env={}, capture_output=True, text=True, check=True
        )
        assert shown.stdout.startswith(f"{name} (keyferry ")


def test_a_name_of_the_users_own(tmp_path: Path) -> None:
    """It is updated by the same words; a program of another plugin, or of somebody else, is not replaced unasked."""
    words = ("plugin", "install", "eks", "--bin-dir", str(tmp_path), "--as", "my-login")
    path = tmp_path / "my-login"
    assert run_in_process(*words).stdout == f"{path}\n"
    again = run_in_process(*words)
    assert (again.returncode, again.stdout, again.stderr) == (
        0,
        f"{path}\n",
        f"keyferry: {path} is up to date\n",
    )
    current = path.read_text()
    path.write_text(current.replace(sys.executable, "/opt/older/python3"))
    older = run_in_process(*words)
    assert older.stderr == (
        f"keyferry: {path} is updated; it was a program of the same plugin, with /opt/older/python3\n"
    )
    assert path.read_text() == current
    for other in (("plugin", "install", "gke", *words[3:]), words):
        refused = run_in_process(*other)
        assert (refused.returncode, refused.stdout) == (3, "")
        assert "exists already; replace it with --force" in refused.stderr
        path.write_text("#!/bin/sh\n")
    assert run_in_process(*words, "--force").returncode == 0
    assert path.read_text() == current


WRONG = {
    "unknown": (("nope", "--bin-dir", "."), "'nope' is not a reference plugin; expected one of ecr, "),
    "no-folder": (("ecr",), "no folder is given; set it with --bin-dir DIR"),
    "one-name-for-two": (("ecr", "gcr", "--bin-dir", ".", "--as", "x"), "--as names one program"),
    "path": (("ecr", "--bin-dir", ".", "--as", "../x"), "--as '../x': not a valid name of a program"),
    "dot": (("ecr", "--bin-dir", ".", "--as", ".."), "--as '..': not a valid name of a program"),
    "blank": (("ecr", "--bin-dir", ".", "--as", " "), "--as ' ': not a valid name of a program"),
    "both": (("ecr", "--bin-dir", ".", "--as", "x", "--upstream-name"), "not allowed with"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_makes_no_sense_is_wrong_usage(case: tuple[tuple[str, ...], str], tmp_path: Path) -> None:
    """Status 2, and no file."""
    words, message = case
    done = run_in_process("plugin", "install", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    """With the words that make it."""
    done = run_in_process("plugin", "install", "ecr", "--bin-dir", str(tmp_path / "bin"))
    assert done.returncode == 3
    assert f"create it with: mkdir -p {tmp_path}/bin" in done.stderr


def test_an_installation_from_a_wheel_is_found_in_its_own_place(tmp_path: Path) -> None:
    """In an environment with a blank in its path, far from these sources, the launcher runs that installation."""
    home = tmp_path / "an env"
    venv.create(home, symlinks=True, with_pip=False)
    python = home / "bin" / "python3"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    # What a wheel's installation is: the packages, copied.
    for package in ("keyferry", "keyferry_plugins"):
        subprocess.run(["cp", "-r", os.path.join(SOURCE, package), site], check=True)
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    code = "import sys; from keyferry.cli.main import run; sys.exit(run())"
    done = subprocess.run(
        [python, "-c", code, "plugin", "install", "static", "--bin-dir", str(bin_dir)],
        env={"PATH": os.environ["PATH"]}, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    program = bin_dir / "keyferry-static"
    assert program.read_text().startswith("#!/bin/sh\n")
    assert f"'{site}'" in program.read_text()
    assert SOURCE not in program.read_text()
    ran = subprocess.run(
        [program, "--docker-config", docker_config(tmp_path)],
        input=request_bytes("registry.example/app"), env={}, cwd="/", capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["auth"]["registry.example"] == {"username": "user", "password": "pass-word"}
    assert sys.executable not in program.read_text()


def own_package(folder: Path) -> Path:
    """A package of one's own, outside the folders that Python searches by itself."""
    package = folder / "src" / "acme_registry"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "plugin.py").write_text(
        "from keyferry.sdk import Response, serve\n\n\n"
        "def provide(request):\n"
        "    return Response.for_registry(request, 'user', 'pass-word', cache_seconds=60)\n\n\n"
        "def start():\n    serve(provide)\n"
    )
    return folder / "src"


def test_ones_own_plugin_is_installed_by_its_function(tmp_path: Path) -> None:
    """Under the name of its package; it is found though neither site nor PYTHONPATH is used when it runs."""
    source = own_package(tmp_path)
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    words = ("plugin", "install", "acme_registry.plugin:start", "--bin-dir", str(bin_dir))
    done = run_keyferry(*words, PYTHONPATH=os.pathsep.join((str(source), SOURCE)))
    assert done.returncode == 0
    assert (
        done.stderr
        == f"keyferry: check that it is a plugin with: keyferry plugin test {bin_dir}/acme-registry\n"
    )
    assert done.stdout == f"{bin_dir}/acme-registry\n"
    write_config(tmp_path / "config.json", [provider_entry("acme-registry")])
    answer = load_providers(tmp_path / "config.json", bin_dir).lookup("registry.example/app")
    assert answer.failures == ()
    assert [(each.username, each.password) for each in answer.credentials] == [("user", "pass-word")]
    named = run_keyferry(*words, "--as", "other", PYTHONPATH=os.pathsep.join((str(source), SOURCE)))
    assert named.stdout == f"{bin_dir}/other\n"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("os:name", "module 'os' has no function 'name'"),
        ("os:nowhere", "module 'os' has no function 'nowhere'"),
        ("acme_registry.broken:main", "cannot be imported by its program: RuntimeError: not here"),
    ],
)
def test_what_is_no_function_is_not_installed(name: str, problem: str, tmp_path: Path) -> None:
    source = own_package(tmp_path)
    (source / "acme_registry" / "broken.py").write_text("raise RuntimeError('not here')\n")
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    words = ("plugin", "install", name, "--bin-dir", str(bin_dir))
    done = run_keyferry(*words, PYTHONPATH=os.pathsep.join((str(source), SOURCE)))
    assert (done.returncode, list(bin_dir.iterdir())) == (3, [])
    assert problem in done.stderr


def test_a_function_that_needs_arguments_is_warned_of(tmp_path: Path) -> None:
    done = run_in_process("plugin", "install", "os:fsencode", "--bin-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/os\n")
    assert "warning: 'fsencode' needs arguments" in done.stderr


@pytest.mark.parametrize("module", ["acme_nowhere.plugin", "json.nowhere", "json.decoder.nowhere"])
def test_a_module_that_is_not_installed_says_where_to_install_it(module: str, tmp_path: Path) -> None:
    """For the Python that the program would run with."""
    done = run_in_process("plugin", "install", f"{module}:main", "--bin-dir", str(tmp_path))
    assert done.returncode == 3
    assert f"module '{module}' is not installed for {sys.executable}" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["nope", "a.b:", ":main", "a b:main", "a.b:main()", "a/b:main"])
def test_a_name_of_another_form_is_wrong_usage(name: str, tmp_path: Path) -> None:
    """Both forms are named."""
    done = run_in_process("plugin", "install", name, "--bin-dir", str(tmp_path))
    assert done.returncode == 2
    assert "is not a reference plugin" in done.stderr
    assert "or package.module:function" in done.stderr


@pytest.mark.parametrize("words", [["demo"], ["plugin", "install", "ecr"]])
def test_one_executable_has_no_python_for_other_programs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``make binary`` builds it: its Python is inside."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    more = ["--bin-dir", str(tmp_path)] if words[0] == "plugin" else []
    done = run_in_process(*words, *more)
    assert done.returncode == 3
    assert "has its Python inside" in done.stderr
    assert not list(tmp_path.iterdir())
