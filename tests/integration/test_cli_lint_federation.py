"""``keyferry lint`` on a FederationConfig and its provider config: frames without secrets, both together, RBAC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from support.commands import run_keyferry
from support.federation import AUDIENCE, ISSUER
from support.pages import Machine, blocks

FEDERATION = """\
apiVersion: keyferry.dev/v1alpha1
kind: FederationConfig
rules:
- registries: [zot.example.com]
  subject: {{audience: {audience}, issuer: '{issuer}'}}
  preset: passthrough
  params: {{username: hunter2-hunter2}}
"""
PROVIDERS = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: keyferry-federate
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [zot.example.com]
  defaultCacheDuration: 0s
  args: [--config=/etc/keyferry/federation.json]
  tokenAttributes:
    serviceAccountTokenAudience: {audience}
    cacheType: {cache_type}
    requireServiceAccount: true
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> Path:
    """Two files that fit each other."""
    write(tmp_path)
    return tmp_path


def write(folder: Path, *, cache_type: str = "Token", issuer: str = ISSUER) -> None:
    """Write both files."""
    for name, text in (
        ("federation.yaml", FEDERATION.format(audience=AUDIENCE, issuer=issuer)),
        ("providers.yaml", PROVIDERS.format(audience=AUDIENCE, cache_type=cache_type)),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)


def test_two_files_that_fit(files: Path) -> None:
    """No finding; the summary names both kinds."""
    done = run_keyferry("lint", "providers.yaml", "federation.yaml", cwd=files)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no problems found in 1 provider, 1 federation config" in done.stderr


def test_the_file_of_the_arguments_is_elsewhere(files: Path) -> None:
    """It is not on this machine; for another machine that is no finding."""
    done = run_keyferry("lint", "providers.yaml", "-o", "table", cwd=files)
    assert "KF678" in done.stdout
    assert run_keyferry("lint", "providers.yaml", "--elsewhere", cwd=files).returncode == 0


def test_what_both_show_is_in_the_provider_config(files: Path) -> None:
    """At its line, in any order of the files."""
    write(files, cache_type="ServiceAccount")
    done = run_keyferry("lint", "federation.yaml", "providers.yaml", cwd=files)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "providers.yaml:11:5: warning KF670: providers[0].tokenAttributes.cacheType: "
    )
    assert "\n11 |     cacheType: ServiceAccount\n" in done.stdout


def test_the_page_shows_what_both_show(files: Path) -> None:
    write(files, cache_type="ServiceAccount")
    (block,) = blocks("docs/plugins/federation.md", "console")
    Machine(files).show(block)


def test_what_has_one_right_answer_is_corrected(files: Path) -> None:
    """The provider config is, because the other file says what it must be."""
    write(files, cache_type="ServiceAccount")
    path = files / "providers.yaml"
    path.write_text(path.read_text().replace("defaultCacheDuration: 0s", "defaultCacheDuration: 10m"))
    done = run_keyferry("lint", "federation.yaml", "providers.yaml", "--fix", cwd=files)
    assert (done.returncode, done.stdout) == (0, "")
    assert "cacheType: Token\n" in path.read_text()
    assert "defaultCacheDuration: 0s\n" in path.read_text()


def test_a_frame_has_no_parameter(files: Path) -> None:
    """Issuers are shown, and what a parameter holds is not."""
    write(files, issuer="http://kubernetes.example.com")
    text = (files / "federation.yaml").read_text() + "  unknown: hunter2-hunter2\n"
    (files / "federation.yaml").write_text(text)
    done = run_keyferry("lint", "federation.yaml", cwd=files)
    assert "KF651" in done.stdout
    assert "KF603" in done.stdout
    assert "issuer: 'http://kubernetes.example.com'" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_the_document_names_the_kind_of_the_file(files: Path) -> None:
    """As it does for the other kinds."""
    done = run_keyferry("lint", "federation.yaml", "-o", "json", cwd=files)
    assert json.loads(done.stdout)["targets"][0]["kind"] == "federation config"


@pytest.mark.parametrize("name", ["providers.yaml", "federation.yaml"])
def test_rbac_that_kubelets_need(files: Path, name: str) -> None:
    """A ClusterRole and its binding, which kubectl can apply."""
    done = run_keyferry("lint", name, "--rbac", cwd=files)
    assert done.returncode == 0
    role, binding = yaml.safe_load_all(done.stdout)
    assert role["rules"] == [
        {"apiGroups": [""], "resources": [AUDIENCE], "verbs": ["request-serviceaccounts-token-audience"]}
    ]
    assert binding["subjects"][0]["name"] == "system:nodes"


def test_no_rbac_without_tokens(files: Path) -> None:
    """A provider without tokenAttributes needs none."""
    text = (files / "providers.yaml").read_text().partition("  tokenAttributes")[0]
    (files / "providers.yaml").write_text(text)
    done = run_keyferry("lint", "providers.yaml", "--rbac", cwd=files)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no provider of the files receives service account tokens" in done.stderr


def test_a_recipe_that_lets_an_annotation_say_what_a_token_is_for(files: Path) -> None:
    """An error, with its place."""
    rule = """\
  params: {who: {annotation: x/y, pattern: '[a-z]+'}}
  calls:
  - url: https://sts.example.com/token
    bearer: ${subject}
    fields: {requested_scopes: '${who}', project_id: '${who}'}
    out: {token: /t}
  credentials: {username: u, password: '${token}'}
  fromAnnotations: [requested_scopes]
"""
    path = files / "federation.yaml"
    path.write_text(path.read_text().partition("  preset:")[0] + rule)
    done = run_keyferry("lint", "federation.yaml", cwd=files)
    assert done.returncode == 1
    assert (
        "federation.yaml:13:21: error KF612: rules[0].fromAnnotations[0]: no annotation may fill"
        in done.stdout
    )
    assert "rules[0].calls[0].fields.project_id: the value 'who' is an annotation" in done.stdout
