"""The commands and configs on the page of keyferry-federate, each as it stands there."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from keyferry.api.federation.presets import PRESETS
from support.commands import run_keyferry
from support.fake_cloud import Authority, Received, Reply, serving
from support.federation import AUDIENCE, EXAMPLES, ISSUER, account_claims, account_token, federation, sign
from support.parts import need
from support.plugins import write_executable
from support.reference import ask_image, write_launcher

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "plugins" / "federation.md").read_text(encoding="utf-8")
PATIENCE_SECONDS = 120
BIN_DIR = "/usr/libexec/kubernetes/plugins"
PROVIDERS = "/etc/kubernetes/providers.yaml"


def blocks(kind: str, word: str = "") -> list[str]:
    """The blocks of one language on the page that have a word."""
    found = re.findall(rf"^( *)```{kind}\n(.*?)^\1```", PAGE, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found if word in text]


def run_script(text: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a block with this installation's programs, in a folder of the test; sudo only runs its words."""
    path = folder / "path"
    path.mkdir(exist_ok=True)
    write_executable(path / "sudo", '#!/bin/sh\nexec "$@"\n')
    found = f"{path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-ec", text], cwd=folder, env={"PATH": found, "HOME": str(folder), **env},
        capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip


def preset_of(text: str) -> str:
    """The preset of a command."""
    words = shlex.split(text)
    return words[words.index("--preset") + 1]


NEW = {f"{number}-{preset_of(text)}": text for number, text in enumerate(blocks("sh", "plugin new"))}


def test_every_command_has_a_test() -> None:
    """A block that none of these tests runs is a block without a test; the job's script is run with real skopeo."""
    known = ("plugin new", "kubectl get --raw", "--federation-config", "plugin try", "skopeo copy")
    assert [text for text in blocks("sh") if not any(word in text for word in known)] == []


def test_every_preset_has_its_command() -> None:
    """In its own section, which names all of its parameters."""
    sections = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
    own = {text.split("`")[1]: text for text in sections if text.startswith("`")}
    assert set(own) == set(PRESETS)
    for name, text in own.items():
        assert f"--preset {name} " in text
        assert "What can go wrong: " in text
        assert "On the other side:" in text
        parameters = PRESETS[name]["params"]
        assert isinstance(parameters, dict)
        assert [each for each in parameters if f"`{each}`" not in text] == []


@pytest.mark.parametrize("text", NEW.values(), ids=NEW)
def test_a_new_provider_of_the_page_is_clean(text: str, tmp_path: Path) -> None:
    """Both of its configs have no finding, alone and together."""
    done = run_script(text, tmp_path)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "keyferry-federate"
    assert f"with the preset `{preset_of(text)}`: " in (made / "README.md").read_text()
    configs = [path.name for path in made.glob("*.yaml") if path.name != "rbac.yaml"]
    assert "provider.yaml" in configs
    linted = run_keyferry("lint", *configs, "--elsewhere", cwd=made)
    assert (linted.returncode, linted.stdout) == (0, ""), linted.stdout


def test_the_issuer_is_found_with_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the paths that every API server has, by real kubectl, which may ask for others before, such as /version."""
    monkeypatch.setenv("PATH", f"{ROOT / '.cache' / 'parts' / 'usr' / 'bin'}:{os.environ['PATH']}")
    need("kubectl")
    (text,) = blocks("sh", "kubectl get --raw")
    answers = {"/.well-known/openid-configuration": {"issuer": ISSUER}, "/openid/v1/jwks": {"keys": ["x"]}}

    def handle(received: Received) -> Reply:
        found = answers.get(received.path)
        return Reply(404) if found is None else Reply(document=found)

    authority = Authority(tmp_path)
    with serving(handle, authority.context("127.0.0.1")) as server:
        cluster = {"server": server.url, "certificate-authority": str(authority.bundle)}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": cluster}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "users": [{"name": "x", "user": {"token": "made-up"}}],
        }  # fmt: skip
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        done = run_script(text, tmp_path, KUBECONFIG=str(tmp_path / "kubeconfig"))
        assert done.returncode == 0, done.stderr
        assert [each.path for each in server.received if each.path in answers] == list(answers)
        assert {(each.method, each.body) for each in server.received} == {("GET", b"")}
        assert {each.headers.get("authorization") for each in server.received} == {"Bearer made-up"}
    assert ISSUER in done.stdout


def test_the_plugin_is_installed_and_updated_as_on_the_page(tmp_path: Path) -> None:
    """With both of the page's own paths in the test's folder."""
    (tmp_path / "bin").mkdir()
    made = run_script(blocks("sh", "plugin new")[0], tmp_path)
    assert made.returncode == 0, made.stderr
    files = tmp_path / "keyferry-federate"
    provider = (files / "provider.yaml").read_text().replace("/etc/keyferry", str(tmp_path / "etc"))
    (tmp_path / "providers.yaml").write_text(provider)
    (tmp_path / "federation.yaml").write_text((files / "federation.yaml").read_text())
    (text,) = blocks("sh", "--federation-config")
    text = text.replace(BIN_DIR, str(tmp_path / "bin")).replace(PROVIDERS, str(tmp_path / "providers.yaml"))
    for words in ("", "is up to date"):
        done = run_script(text, tmp_path)
        assert done.returncode == 0, done.stderr
        assert words in done.stderr
    program = tmp_path / "bin" / "keyferry-federate"
    target = tmp_path / "etc" / "keyferry-federate" / "federation.json"
    assert done.stdout == f"{program}\n{target}\n"
    assert target.exists()
    (inline,) = re.findall(r"`(keyferry plugin install federate --bin-dir [^`]+)`", PAGE)
    assert run_script(inline.replace(BIN_DIR, str(tmp_path / "bin")), tmp_path).returncode == 0


def test_the_command_that_tries_is_the_one_that_is_tested() -> None:
    """``tests/plugins/federation`` runs it, with a cluster and a registry."""
    (text,) = blocks("sh", "plugin try")
    words = shlex.split(text)
    assert [words[0], words[1], words[2], words[4]] == ["keyferry", "plugin", "try", "--service-account"]
    assert len(words) == 6


def test_the_configs_on_the_page_are_good(tmp_path: Path) -> None:
    """They are read, and have rules, none of which is for some other registry."""
    configs = blocks("json")
    assert configs
    for text in configs:
        path = tmp_path / "federation.json"
        path.write_text(text)
        path.chmod(0o644)
        answer = ask_image("federate", "other.example.com/app", args=[f"--config={path}"])
        assert "no rule is for the registry" in answer.stderr


def test_the_arguments_on_the_page_give_a_login(tmp_path: Path) -> None:
    """With the registry's name and the token that the page asks for."""
    (entry,) = yaml.safe_load(blocks("yaml", "tokenAttributes:")[0])["providers"]
    with federation(tmp_path, EXAMPLES["jfrog"].handler, AUDIENCE) as world:
        answer = world.ask(
            f"{entry['matchImages'][0]}/app",
            args=entry["args"],
            token=account_token(aud=[entry["tokenAttributes"]["serviceAccountTokenAudience"]]),
        )
        assert answer.auth[AUDIENCE][0] == "k8s-puller"


def test_a_job_gets_a_docker_config_as_on_the_page(tmp_path: Path) -> None:
    """By a provider config and a token in a variable, without a kubelet."""
    (text,) = blocks("yaml", "--subject-from=env")
    (tmp_path / "ci.yaml").write_text(text)
    (tmp_path / "bin").mkdir()
    host = "team.jfrog.io"
    token = sign({**account_claims(), "iss": "https://gitlab.example.com", "aud": host})
    login = {"access_token": "opaque-1", "expires_in": 3600, "username": "u"}
    with federation(tmp_path, lambda _: Reply(document=login), host) as world:
        write_launcher(tmp_path / "bin", "federate", env={**world.env, "REGISTRY_ID_TOKEN": token})
        done = run_keyferry(
            "get", f"{host}/docker/app", "--config", str(tmp_path / "ci.yaml"), "--bin-dir", str(tmp_path / "bin"),
            "-o", "dockerconfig", "--reveal",
        )  # fmt: skip
    auth = base64.b64encode(b"u:opaque-1").decode()
    assert json.loads(done.stdout)["auths"][host]["auth"] == auth, done.stderr
