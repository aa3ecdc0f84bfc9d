"""``keyferry plugin install``: a reference plugin where a node or a user looks for it, and that it works there."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry import load_providers
from support.commands import run_in_process, run_keyferry
from support.plugins import provider_entry, write_config, write_executable
from support.sdk_plugins import SOURCE, request_bytes


def docker_config(folder: Path) -> Path:
    """A docker config with one login."""
    login = base64.b64encode(b"user:pass-word").decode()
    path = folder / "docker.json"
    path.write_text(json.dumps({"auths": {"registry.example": {"auth": login}}}))
    path.chmod(0o600)
    return path


def install(folder: Path, *words: str, name: str = "plugin") -> subprocess.CompletedProcess[str]:
    """Install the plugin ``static`` under a name."""
    return run_in_process("plugin", "install", "static", "--bin-dir", str(folder), "--as", name, *words)


def start(path: Path, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program with nothing but *env* in its environment."""
    return subprocess.run([path, *words], cwd=cwd, env=env, input=b"", capture_output=True, check=False)


def test_all_that_are_listed_can_be_installed(tmp_path: Path) -> None:
    """Under the names of those they stand in for; one that stands in for none keeps its own."""
    listed = run_in_process("plugin", "install")
    assert listed.returncode == 0
    plugins = re.findall(r"^(\S+) +(?:image|cluster) ", listed.stdout, re.MULTILINE)
    assert {"ecr", "gcr", "acr", "static", "federate", "eks", "gke", "aks", "oidc"} < set(plugins)
    done = run_in_process("plugin", "install", *plugins, "--bin-dir", str(tmp_path), "--upstream-name")
    assert done.returncode == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == len(plugins)
    assert {"auth-provider-gcp", "ecr-credential-provider", "keyferry-static"} < set(names)
    for name in names:
        shown = start(tmp_path / name, "--version")
        assert (shown.returncode, shown.stdout.startswith(f"{name} (keyferry ".encode())) == (0, True)
        assert name.startswith("keyferry-") or name in listed.stdout


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


def test_a_program_of_another_plugin_is_not_replaced_unasked(tmp_path: Path) -> None:
    assert install(tmp_path).stdout == f"{tmp_path}/plugin\n"
    words = ("plugin", "install", "gke", "--bin-dir", str(tmp_path), "--as", "plugin")
    refused = run_in_process(*words)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "exists already; replace it with --force" in refused.stderr
    assert run_in_process(*words, "--force").returncode == 0


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_the_rights_of_a_program_are_not_the_umasks(umask: int, tmp_path: Path) -> None:
    """Everybody may run it, its owner alone may change it."""
    before = os.umask(umask)
    try:
        assert install(tmp_path).returncode == 0
    finally:
        os.umask(before)
    assert (tmp_path / "plugin").stat().st_mode & 0o7777 == 0o755


def test_nothing_of_the_user_gets_into_a_program(tmp_path: Path) -> None:
    """Neither by variables of Python nor by the folder it is started in, nor by the one it is in."""
    bin_dir, evil = tmp_path / "bin", tmp_path / "evil"
    modules = ("keyferry", "keyferry_plugins", "os", "sitecustomize", "usercustomize", "stat", "static")
    for folder in (bin_dir, evil):
        folder.mkdir()
        for name in modules:
            (folder / f"{name}.py").write_text("print('evil'); raise SystemExit(66)\n")
    assert install(bin_dir).returncode == 0
    env = {
        "PYTHONPATH": str(evil),
        "PYTHONSTARTUP": str(evil / "os.py"),
        "PYTHONHOME": str(evil),
        "PYTHONUSERBASE": str(evil),
        "PYTHONINSPECT": "1",
        "PYTHONWARNINGS": "error",
        "HOME": str(evil),
    }
    done = start(bin_dir / "plugin", "--version", cwd=evil, **env)
    assert (done.returncode, b"evil" in done.stdout + done.stderr) == (0, False)


def test_a_program_says_the_name_it_was_started_by(tmp_path: Path) -> None:
    """It works from anywhere and by a link."""
    install(tmp_path)
    (tmp_path / "other name").symlink_to("plugin")
    done = start(tmp_path / "other name", "--version", cwd=Path("/"))
    assert done.stdout.startswith(b"other name (keyferry ")


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
def test_an_interpreter_with_a_strange_path_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By way of a shell, where the kernel's own way does not do; arguments arrive as they are."""
    (tmp_path / name).mkdir()
    python = write_executable(tmp_path / name / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    monkeypatch.setattr(sys, "executable", str(python))
    assert install(tmp_path).returncode == 0
    done = start(tmp_path / "plugin", "--versio n", "*", "$HOME", PATH="/usr/bin:/bin")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(b"plugin: unknown flag '--versio n'"), done.stderr


@pytest.mark.parametrize("python", ["/a\\x/python", "/a\nb/python", "/a\rb/python"])
def test_a_path_that_cannot_be_written_is_refused(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Better no program than one that does something else."""
    monkeypatch.setattr(sys, "executable", python)
    done = install(tmp_path)
    assert (done.returncode, "cannot be written into a program" in done.stderr) == (3, True)
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_replaced_on_request_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    for name, target in (("plugin", "victim"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(target)
        done = install(tmp_path, name=name)
        assert (done.returncode, "exists already; replace it with --force" in done.stderr) == (3, True)
        assert install(tmp_path, "--force", name=name).returncode == 0
        assert not (tmp_path / name).is_symlink()
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


PYTHONS = [
    "/usr/bin/python3",
    "/opt/my python/bin/python3",
    "/opt/it's/python3",
    "/" + "long/" * 40 + "python3",
]


@pytest.mark.parametrize("python", PYTHONS)
def test_an_older_program_of_the_same_plugin_is_updated(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written for another Python, or is not executable; the one that is up to date is recognised."""
    path = tmp_path / "plugin"
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "executable", python)
        assert install(tmp_path).returncode == 0
    before = f"{path} is updated; it was a program of the same plugin, with "
    assert install(tmp_path).stderr == f"keyferry: {before}{python}\n"
    current = path.read_text()
    assert sys.executable in current
    assert install(tmp_path).stderr == f"keyferry: {path} is up to date\n"
    path.chmod(0o644)
    assert before in install(tmp_path).stderr
    assert (path.read_text(), path.stat().st_mode & 0o777) == (current, 0o755)


FOREIGN: dict[str, Callable[[str], str]] = {
    "another-plugin": lambda text: text.replace("keyferry_plugins.static", "keyferry_plugins.federate"),
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
    """Also one of ours that somebody has changed; --force replaces it."""
    install(tmp_path)
    path = tmp_path / "plugin"
    current = path.read_text()
    text = FOREIGN[case](current)
    assert text != current
    path.write_text(text)
    done = install(tmp_path)
    assert (done.returncode, done.stdout, path.read_text()) == (3, "", text)
    assert "exists already; replace it with --force" in done.stderr
    assert install(tmp_path, "--force").returncode == 0
    assert path.read_text() == current


def test_a_place_that_does_not_do_is_said_and_left_clean(tmp_path: Path) -> None:
    """A folder in the program's place, and no folder at all, with the words that make it."""
    (tmp_path / "plugin" / "x").mkdir(parents=True)
    done = install(tmp_path, "--force")
    assert (done.returncode, "cannot be written: is a directory" in done.stderr) == (3, True)
    assert [path.name for path in tmp_path.iterdir()] == ["plugin"]
    done = install(tmp_path / "no where")
    assert done.returncode == 3
    assert f"is not a folder; create it with: mkdir -p '{tmp_path}/no where'" in done.stderr


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


def test_an_installation_from_a_wheel_is_found_in_its_own_place(tmp_path: Path) -> None:
    """In an environment with a blank in its path, far from these sources, the launcher runs that installation."""
    home = tmp_path / "an env"
    venv.create(home, symlinks=True, with_pip=False)
    python = home / "bin" / "python3"
    site = sysconfig.get_path("purelib", "venv", {"base": str(home)})
    # What a wheel's installation is: the packages, copied.
    for package in ("keyferry", "keyferry_plugins"):
        shutil.copytree(os.path.join(SOURCE, package), os.path.join(site, package))
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
