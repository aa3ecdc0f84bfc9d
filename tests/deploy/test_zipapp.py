"""One file with all plugins, which under a plugin's name is that plugin, and one with the whole command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry import __version__
from support.commands import Node, plain_pod
from support.far_node import far_cluster
from support.kubelets import listening
from support.pages import Machine, blocks

ROOT = Path(__file__).resolve().parents[2]
REQUEST = {
    "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
    "kind": "CredentialProviderRequest",
    "image": "registry.example/team/app",
}


def build(target: Path, what: str = "plugins") -> Path:
    subprocess.run(
        [sys.executable, str(ROOT / "tools" / "build_zipapp.py"), what, str(target)],
        check=True,
        timeout=120,
    )
    return target


def run(program: Path, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    # Without site-packages: everything comes out of the file.
    command = [sys.executable, "-IS", str(program), *args]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("zipapp") / "keyferry-plugins.pyz")


@pytest.fixture
def docker_config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": {"registry.example": {"username": "joe", "password": "made-up"}}}))
    path.chmod(0o600)
    return path


def test_two_builds_have_the_same_bytes(zipapp: Path, tmp_path: Path) -> None:
    assert build(tmp_path / "again.pyz").read_bytes() == zipapp.read_bytes()


def test_it_is_the_plugin_whose_name_it_has(zipapp: Path, tmp_path: Path, docker_config: Path) -> None:
    program = tmp_path / "keyferry-static"
    shutil.copy(zipapp, program)
    done = run(program, "--docker-config", str(docker_config), stdin=json.dumps(REQUEST))
    assert done.returncode == 0, done.stderr
    login = {"username": "joe", "password": "made-up"}
    assert json.loads(done.stdout)["auth"] == {"registry.example": login}


def test_the_page_copies_it_to_a_plugins_name_and_gives_it_one(zipapp: Path, tmp_path: Path) -> None:
    bin_dir = "/usr/libexec/kubernetes/plugins"
    for name in ("plugins", "dist"):
        (tmp_path / name).mkdir()
    shutil.copy(zipapp, tmp_path / "dist" / "keyferry-plugins.pyz")
    machine = Machine(tmp_path, {str(tmp_path / "plugins"): bin_dir})
    output = machine.run(blocks("docs/plugins/README.md", "sh")[-1])
    assert "keyferry-ecr" in output.partition(__version__)[0]
    assert __version__ in output
    asked = machine.shell(f"{tmp_path / 'plugins' / 'keyferry-ecr'} </dev/null || true")
    assert "standard input is empty" in asked.stdout


def test_it_runs_as_a_program(zipapp: Path) -> None:
    done = subprocess.run(
        [str(zipapp), "keyferry-static", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{zipapp.name} keyferry-static (keyferry {__version__})\n"


def test_a_plugin_that_is_named_as_an_argument_shows_what_was_typed(zipapp: Path) -> None:
    typed = f"{zipapp.name} keyferry-static"
    assert run(zipapp, "keyferry-static", "--help").stdout.startswith(f"usage: {typed} ")
    assert run(zipapp, "keyferry-static", "--nope").stderr == (
        f"{typed}: unknown flag '--nope'; '{typed} --help' lists all flags\n"
    )


def test_the_file_has_a_version_and_a_help_of_its_own(zipapp: Path) -> None:
    assert run(zipapp, "--version").stdout == f"{zipapp.name} (keyferry {__version__})\n"
    shown = run(zipapp, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(f"usage: {zipapp.name} PLUGIN [FLAGS]\n")
    assert "\n  keyferry-ecr\n" in shown.stdout
    assert shown.stdout.count(zipapp.name) == 2
    assert run(zipapp).stderr.startswith(f"{zipapp.name}: no plugin is named; ")


@pytest.mark.parametrize(
    "name",
    ["keyferry-ecr", "keyferry-gcr", "keyferry-acr", "keyferry-eks", "keyferry-gke", "keyferry-aks",
     "keyferry-oidc", "keyferry-docker-helper", "keyferry-federate", "ecr-credential-provider"],
)  # fmt: skip
def test_every_plugin_is_in_it(zipapp: Path, name: str) -> None:
    done = run(zipapp, name, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


def test_a_name_that_is_no_plugins_is_refused_with_those_that_are(zipapp: Path) -> None:
    done = run(zipapp, "keyferry-nothing")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"{zipapp.name}: 'keyferry-nothing' is not a plugin; ")
    assert "keyferry-ecr" in done.stderr
    assert "copy this file under the name of a plugin" in done.stderr


def test_a_package_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    """A file that lacks a package would be found out on a node."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "build_zipapp.py", tmp_path / "tools")
    shutil.copy(ROOT / "LICENSE", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("keyferry_plugins"))
    tool = [sys.executable, str(tmp_path / "tools" / "build_zipapp.py"), "plugins", str(tmp_path / "it.pyz")]
    done = subprocess.run(tool, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "keyferry_plugins/__init__.py" in done.stderr
    assert not (tmp_path / "it.pyz").exists()


# The whole command.


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("command") / "keyferry.pyz", "keyferry")


def test_the_command_reads_yaml_and_runs_plugins_from_any_folder(command: Path, tmp_path: Path) -> None:
    """With the standard library alone: the part of PyYAML that it needs is in the file."""
    node = Node(tmp_path).add("own", ["reg.io"])
    words = ["explain", "reg.io/app", *plain_pod(tmp_path), *node.options(), "-o", "json"]
    relative = os.path.relpath(command, tmp_path)
    done = subprocess.run(
        [sys.executable, "-IS", relative, *words],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"]["outcome"] == "yes"
    assert node.request("own").count("reg.io/app") == 1


def test_the_command_asks_the_agents_pod_of_a_node(command: Path, tmp_path: Path) -> None:
    """With the part of websockets that is written in Python."""
    with far_cluster(tmp_path) as far:
        far.node.files.add(
            "own", ["registry.example"], '{"registry.example": {"username": "u", "password": "p"}}'
        )
        far.node.add_agent()
        words = ("explain", "pod/web", "-n", "shop", "--on-node", "--kubeconfig", str(far.kube.path))
        done = run(command, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from node 'node1', by the node agent's pod" in done.stdout


@pytest.mark.parametrize(
    "words", [["lint", "{config}"], ["doctor", "--config", "{config}"], ["kube", "--help"]]
)
def test_the_command_has_its_parts(command: Path, tmp_path: Path, words: list[str]) -> None:
    """Also those that are found by a walk over the modules, such as the codes of lint."""
    node = Node(tmp_path).add("own", ["reg.io"])
    done = run(command, *(word.format(config=node.config) for word in words))
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_schemas_and_the_page_are_in_the_file(command: Path) -> None:
    script = (
        "import importlib.resources as r, sys; sys.path.insert(0, sys.argv[1]); root = r.files('keyferry');"
        "print(len(list((root / 'show/schemas').iterdir())), (root / 'page/static/page.css').is_file())"
    )
    done = subprocess.run(
        [sys.executable, "-IS", "-c", script, str(command)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(len(list((ROOT / "src/keyferry/show/schemas").iterdir()))), "True"]


def test_the_demo_runs_from_the_file(command: Path) -> None:
    done = run(command, "demo", "--all")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_file_has_not_is_said(command: Path, tmp_path: Path) -> None:
    """The packages of extras, such as the one that talks to a container runtime."""
    with listening(tmp_path / "runtime.sock"):
        done = run(command, "pull", "reg.io/app", "--cri", str(tmp_path / "runtime.sock"), "--no-kubelet")
    assert done.returncode == 3
    assert "'grpcio'" in done.stderr
