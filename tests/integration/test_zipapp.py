"""One file with all plugins, as ``make zipapp`` builds it: under a plugin's name, it is that plugin."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUEST = {
    "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
    "kind": "CredentialProviderRequest",
    "image": "registry.example/team/app",
}


def build(target: Path) -> Path:
    subprocess.run(
        [sys.executable, str(ROOT / "tools" / "build_zipapp.py"), str(target)], check=True, timeout=120
    )
    return target


def run(program: Path, *args: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
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


def test_it_runs_as_a_program(zipapp: Path) -> None:
    done = subprocess.run(
        [str(zipapp), "keyferry-static", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


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
    assert done.returncode == 1
    assert done.stdout == ""
    assert "keyferry-ecr" in done.stderr
    assert "copy this file under the name of a plugin" in done.stderr
