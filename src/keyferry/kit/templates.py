"""The texts of the files that ``keyferry plugin new`` writes; ``{{name}}`` is the name of the plugin, and so on."""

from __future__ import annotations

__all__ = [
    "CLUSTER_FILES",
    "GITHUB_STEP",
    "IMAGE_FILES",
    "JOB_README",
    "NO_RBAC_STEP",
    "PROVIDER_README",
    "RBAC_STEP",
    "VARIABLE_STEP",
]

_PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = "{{name}}"
version = "0.1.0"
description = "{{about}}"
requires-python = ">=3.11"
dependencies = ["keyferry>={{version}}"]

[project.scripts]
{{name}} = "{{module}}.plugin:main"

[dependency-groups]
dev = ["pytest>=8"]

[tool.hatch.build.targets.wheel]
packages = ["src/{{module}}"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
"""

_INIT = '"""{{about}}."""\n'

_MAIN = """\
\"\"\"Run the plugin with ``python -m {{module}}``.\"\"\"

from {{module}}.plugin import main

main()
"""

_CONFTEST = """\
\"\"\"Fixtures that run the plugin as a program, from the sources of this project.\"\"\"

import os
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    \"\"\"Return the command that runs the plugin.\"\"\"
    paths = [str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return [sys.executable, "-m", "{{module}}"]
"""

_IMAGE_PLUGIN = """\
\"\"\"An image credential provider, which the kubelet runs to get a registry's user name and password.\"\"\"

import os

from keyferry.sdk import ProvideError, Request, Response, serve

# The registry of this plugin; by config/provider.yaml, the kubelet runs it for no other images.
REGISTRY = "registry.example.com"
USERNAME = "{{NAME}}_USERNAME"
PASSWORD_FILE = "{{NAME}}_PASSWORD_FILE"


def provide(request: Request) -> Response:
    \"\"\"Return the credentials for the registry of the image that the kubelet pulls.\"\"\"
    if request.registry != REGISTRY:
        return Response()
    path = os.environ.get(PASSWORD_FILE)
    if not path:
        raise ProvideError(f"{PASSWORD_FILE} is not set", "set it under env in the provider's config")
    return Response.for_registry(
        request, os.environ.get(USERNAME, "robot"), read_password(path), cache_seconds=600
    )


def read_password(path: str) -> str:
    \"\"\"Return the first line of a file; replace this with the way to get your registry's password.\"\"\"
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError as error:
        raise ProvideError(f"the password file {path!r} cannot be read: {error.strerror}") from None


def main() -> None:
    \"\"\"Read the request, write the response, and exit.\"\"\"
    serve(provide)
"""

_IMAGE_TEST = """\
\"\"\"Tests of the plugin with the kubelet's requests.\"\"\"

from pathlib import Path

import pytest
from keyferry.sdk.testing import ask, run

from {{module}}.plugin import PASSWORD_FILE, REGISTRY, provide

IMAGE = f"{REGISTRY}/team/app"


@pytest.fixture(autouse=True)
def password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    \"\"\"Write a password to a file and return it.\"\"\"
    path = tmp_path / "password"
    path.write_text("not-a-real-password\\n")
    monkeypatch.setenv(PASSWORD_FILE, str(path))
    return "not-a-real-password"


def test_the_registry_gets_its_login(password: str) -> None:
    \"\"\"The credentials are valid for the whole registry and cached for ten minutes.\"\"\"
    outcome = ask(provide, IMAGE)
    assert outcome.response.cache_key_type == "Registry"
    assert outcome.cache_seconds == 600
    assert outcome.auth[REGISTRY].password == password


def test_another_registry_gets_nothing() -> None:
    \"\"\"The plugin returns no credentials for another registry.\"\"\"
    assert ask(provide, "elsewhere.example/app").auth == {}


def test_a_missing_password_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    \"\"\"Without a password, the plugin fails with a message.\"\"\"
    monkeypatch.delenv(PASSWORD_FILE)
    outcome = ask(provide, IMAGE)
    assert outcome.status == 1
    assert PASSWORD_FILE in outcome.stderr


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_the_program_answers_in_the_version_asked(command: list[str], version: str, password: str) -> None:
    \"\"\"The program, run as by the kubelet, prints one document and exits with 0.\"\"\"
    outcome = run(command, IMAGE, api_version=version)
    document = outcome.document("CredentialProviderResponse")
    assert document["apiVersion"] == f"credentialprovider.kubelet.k8s.io/{version}"
    assert outcome.auth[REGISTRY].password == password
    assert password not in outcome.stderr
"""

_IMAGE_CONFIG = """\
# Kubelet flags: --image-credential-provider-config=THIS-FILE --image-credential-provider-bin-dir=FOLDER-OF-{{name}}
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: "{{name}}"
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages:
      - registry.example.com
    defaultCacheDuration: 10m
    env:
      - name: {{NAME}}_PASSWORD_FILE
        value: /etc/{{name}}/password
"""

_CLUSTER_PLUGIN = """\
\"\"\"An exec plugin for kubeconfigs, which kubectl runs to get a token for a cluster.\"\"\"

import os
from time import time

from keyferry.sdk import ExecRequest, ExecResponse, ProvideError, ask, serve_cluster

TOKEN_FILE = "{{NAME}}_TOKEN_FILE"
LIFETIME_SECONDS = 600


def provide(request: ExecRequest) -> ExecResponse:
    \"\"\"Return a token from the file of TOKEN_FILE, else ask the user for one.\"\"\"
    path = os.environ.get(TOKEN_FILE)
    token = read_token(path) if path else ask(request, "Token: ", is_secret=True)
    return ExecResponse(token=token, expires_at=time() + LIFETIME_SECONDS)


def read_token(path: str) -> str:
    \"\"\"Return the first line of a file; replace this with the way to get your cluster's token.\"\"\"
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError as error:
        raise ProvideError(f"the token file {path!r} cannot be read: {error.strerror}") from None


def main() -> None:
    \"\"\"Read the request, write the credential, and exit.\"\"\"
    serve_cluster(provide)
"""

_CLUSTER_TEST = """\
\"\"\"Tests of the plugin with kubectl's requests.\"\"\"

from pathlib import Path

import pytest
from keyferry.sdk.testing import ask_cluster, run_cluster

from {{module}}.plugin import LIFETIME_SECONDS, TOKEN_FILE, provide


@pytest.fixture(autouse=True)
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    \"\"\"Write a token to a file and return it.\"\"\"
    path = tmp_path / "token"
    path.write_text("not-a-real-token\\n")
    monkeypatch.setenv(TOKEN_FILE, str(path))
    return "not-a-real-token"


def test_the_cluster_gets_its_token(token: str) -> None:
    \"\"\"The response has the token, and an expiry within its lifetime.\"\"\"
    outcome = ask_cluster(provide)
    assert outcome.credential.token == token
    assert 0 < (outcome.lifetime_seconds or 0) <= LIFETIME_SECONDS


def test_nobody_is_asked_where_nobody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    \"\"\"Without a file and a terminal, the plugin fails with a message and does not wait.\"\"\"
    monkeypatch.delenv(TOKEN_FILE)
    outcome = ask_cluster(provide, interactive=False)
    assert outcome.status == 1
    assert "interactiveMode" in outcome.stderr


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_program_answers_in_the_version_asked(command: list[str], version: str, token: str) -> None:
    \"\"\"The program, run as by kubectl, prints one document and exits with 0.\"\"\"
    outcome = run_cluster(command, api_version=version)
    document = outcome.document("ExecCredential")
    assert document["apiVersion"] == f"client.authentication.k8s.io/{version}"
    assert outcome.credential.token == token
    assert token not in outcome.stderr
"""

_CLUSTER_CONFIG = """\
# A user entry for a kubeconfig.
apiVersion: v1
kind: Config
users:
  - name: "{{name}}"
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: "{{name}}"
        interactiveMode: IfAvailable
        installHint: "{{name}} is not on PATH: install it with pip, from its source"
"""

_README = """\
# {{name}}

{{about}}, written with `keyferry.sdk`.

    pip install -e . pytest                                 # where keyferry is installed, from a clone of it
    pytest                                                  # the plugin's own tests
    keyferry plugin test "$(command -v {{name}})" {{kit_options}}

Complete the function `provide` in `src/{{module}}/plugin.py`. {{config_words}}
"""


def _files(plugin: str, test: str, config_name: str, config: str) -> dict[str, str]:
    return {
        "README.md": _README,
        "pyproject.toml": _PYPROJECT,
        "src/{{module}}/__init__.py": _INIT,
        "src/{{module}}/__main__.py": _MAIN,
        "src/{{module}}/plugin.py": plugin,
        "tests/conftest.py": _CONFTEST,
        "tests/test_plugin.py": test,
        config_name: config,
        ".gitignore": "__pycache__/\n*.egg-info/\n.pytest_cache/\n.venv/\ndist/\n",
    }


IMAGE_FILES = _files(_IMAGE_PLUGIN, _IMAGE_TEST, "config/provider.yaml", _IMAGE_CONFIG)
CLUSTER_FILES = _files(_CLUSTER_PLUGIN, _CLUSTER_TEST, "config/kubeconfig.yaml", _CLUSTER_CONFIG)

PROVIDER_README = """\
# {{name}}

A provider for the kubelet that runs `keyferry-federate` with the preset `{{preset}}`: {{about}}.

1. On the registry's side, trust the issuer `{{issuer}}` for the audience `{{audience}}`
   and the subject {{subject}}. keyferry's `docs/plugins/federation.md` says how, for each preset.
{{rbac_step}}3. Check both configs, also with what only both together show:

       keyferry lint provider.yaml federation.yaml

4. On the node, add the entry of `provider.yaml` to the kubelet's provider config. Then install the plugin and its
   config, which is written as JSON to `{{path}}`:

       sudo keyferry plugin install federate --as {{name}} --bin-dir {{bin_dir}} \\
         --federation-config federation.yaml --config provider.yaml

5. Restart the kubelet if its provider config has changed, and try the whole chain:

       {{try_words}}
"""
RBAC_STEP = """\
2. Let kubelets request tokens for the audience:

       kubectl apply -f rbac.yaml

"""
NO_RBAC_STEP = """\
2. The token is not the kubelet's, so kubelets need no further permission.
"""
JOB_README = """\
# {{name}}

A provider config for CI jobs that runs `keyferry-federate` with the preset `{{preset}}`: {{about}}.
The subject is the job's own token, so nothing is stored. No kubelet has such a token, so this is not for a node.

1. On the registry's side, trust the issuer `{{issuer}}` for the audience `{{audience}}`
   and the subject of the job, the claim `sub` of its token. keyferry's `docs/plugins/federation.md` says how, for
   each preset.
2. Give the job a token{{token_step}}

3. Check the config:

       keyferry lint provider.yaml

4. In the job, install keyferry. In this folder, install the plugin, and add `docker-credential-keyferry` to
   docker's config:

       mkdir -p bin
       keyferry plugin install federate --as {{name}} --bin-dir bin
       export KEYFERRY_CONFIG="$PWD/provider.yaml" KEYFERRY_BIN_DIR="$PWD/bin"
       keyferry bridge docker install

   From then on docker, podman, skopeo, buildah and crane ask it for the login, in every step that has both variables.
   To see the whole lookup, or what is wrong:

       keyferry explain {{image}}
"""
GITHUB_STEP = """\
 of GitHub Actions:

       permissions:
         contents: read
         id-token: write"""
VARIABLE_STEP = """\
 in the variable `{{variable}}`; in GitLab:

       id_tokens:
         {{variable}}:
           aud: {{audience}}"""
