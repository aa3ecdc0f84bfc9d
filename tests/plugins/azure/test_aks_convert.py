"""Rewriting kubeconfigs to use the cluster plugin of Azure: a real file, a copy beside it, nothing else touched."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from support.azure_cloud import CLIENT_SECRET
from support.reference import Answer, run_plugin

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: old
clusters:
- name: c
  cluster: {server: https://c.test, insecure-skip-tls-verify: true}
contexts:
- {name: old, context: {cluster: c, user: old}}
- {name: run, context: {cluster: c, user: run}}
users:
- name: old
  user:
    auth-provider:
      name: azure
      config:
        {apiserver-id: server, client-id: client, tenant-id: tenant, environment: AzurePublicCloud, config-mode: '%s'}
- name: run
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: /usr/bin/kubelogin
      args: [get-token, --login, spn, --server-id, server2, --client-id=client2, -t, tenant2, --legacy]
      installHint: get it
- name: other
  user: {token: 0123}
- name: aws
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks]}}
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig with users of both kinds, and others."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG % "1")
    return path


def convert(path: Path, *args: str, env: dict[str, str] | None = None) -> Answer:
    return run_plugin("aks", "", ["convert-kubeconfig", "--kubeconfig", str(path), *args], env)


def users(path: Path) -> dict[str, dict[str, dict[str, object]]]:
    """The users of a kubeconfig, by name."""
    return {entry["name"]: entry["user"] for entry in yaml.safe_load(path.read_text())["users"]}


def test_both_kinds_of_users_are_rewritten(kubeconfig: Path) -> None:
    """Client, tenant and cloud are carried over; others stay as they were, and so does the old file beside it."""
    answer = convert(kubeconfig)
    assert answer.status == 0, answer.stderr
    assert "changed old, run" in answer.stdout
    found = users(kubeconfig)
    assert set(found["old"]) == {"exec"}
    assert found["old"]["exec"]["command"] == "keyferry-aks"
    assert found["old"]["exec"]["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    words = "get-token --login devicecode --server-id server --client-id client --tenant-id tenant"
    assert found["old"]["exec"]["args"] == [*words.split(), "--environment", "AzurePublicCloud"]
    words = (
        "get-token --login devicecode --server-id server2 --client-id client2 --tenant-id tenant2 --legacy"
    )
    assert found["run"]["exec"]["args"] == words.split()
    assert found["run"]["exec"]["installHint"] == "get it"
    assert "token: 0123" in kubeconfig.read_text()
    assert found["aws"] == {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "args": ["eks"]}
    }
    kept = kubeconfig.with_name("config.before-keyferry")
    assert kept.read_text() == KUBECONFIG % "1"
    for path in (kubeconfig, kept):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", ["", "0"])
def test_old_entries_with_the_old_audience_are_legacy(kubeconfig: Path, mode: str) -> None:
    """As long as their mode is empty or 0."""
    kubeconfig.write_text(KUBECONFIG % mode)
    assert convert(kubeconfig, "--context", "old").status == 0
    args = users(kubeconfig)["old"]["exec"]["args"]
    assert isinstance(args, list)
    assert args[-1] == "--legacy"


def test_one_context_can_be_chosen(kubeconfig: Path) -> None:
    """Only its user changes."""
    before = users(kubeconfig)
    assert convert(kubeconfig, "--context", "run").status == 0
    after = users(kubeconfig)
    assert after["old"] == before["old"]
    assert after["run"] != before["run"]
    assert "no context 'none'" in convert(kubeconfig, "--context", "none").stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("-l azurecli", "--server-id server"),
        ("-l azurecli -t other -s sub", "--server-id server --tenant-id other --subscription sub"),
        ("-l msi --client-id mine", "--server-id server --client-id mine"),
        ("-l workloadidentity", "--server-id server"),
        ("-l azd", "--server-id server"),
        (
            "-l azurepipelines --azure-pipelines-service-connection-id x",
            "--server-id server --tenant-id tenant --azure-pipelines-service-connection-id x",
        ),
        (
            "-l spn --client-certificate c.pem -e AzureChinaCloud",
            "--server-id server --client-id client --tenant-id tenant --environment AzureChinaCloud"
            " --client-certificate c.pem",
        ),
    ],
)
def test_each_login_takes_its_own_words(kubeconfig: Path, args: str, words: str) -> None:
    """What a login does not use is not carried over."""
    answer = convert(kubeconfig, "--context", "old", *args.split())
    assert answer.status == 0, answer.stderr
    login = args.split()[1]
    assert users(kubeconfig)["old"]["exec"]["args"] == f"get-token --login {login} {words}".split()


def test_the_folder_of_az_becomes_a_variable(kubeconfig: Path) -> None:
    """AZURE_CONFIG_DIR, for the plugin alone."""
    assert convert(kubeconfig, "-l", "azurecli", "--azure-config-dir", "/az").status == 0
    assert users(kubeconfig)["old"]["exec"]["env"] == [{"name": "AZURE_CONFIG_DIR", "value": "/az"}]


def test_a_secret_is_not_written_into_the_file(kubeconfig: Path) -> None:
    """Unless compat asks for that, as upstream does; the answer says what to set."""
    args = ("-l", "spn", "--client-secret", CLIENT_SECRET)
    answer = convert(kubeconfig, *args)
    assert CLIENT_SECRET not in kubeconfig.read_text() + answer.stdout
    assert "AZURE_CLIENT_SECRET" in answer.stdout
    assert convert(kubeconfig, *args, "--compat").status == 0
    assert CLIENT_SECRET in kubeconfig.read_text()
    assert users(kubeconfig)["old"]["exec"]["command"] == "kubelogin"


def test_a_link_stays_a_link(kubeconfig: Path, tmp_path: Path) -> None:
    """The file behind it is rewritten."""
    link = tmp_path / "link"
    link.symlink_to(kubeconfig)
    assert convert(link).status == 0
    assert link.is_symlink()
    assert users(kubeconfig)["old"]["exec"]["command"] == "keyferry-aks"


def test_a_file_without_such_users_is_left_alone(tmp_path: Path) -> None:
    """No copy, no change."""
    path = tmp_path / "config"
    path.write_text("users: [{name: x, user: {token: t}}]\n")
    answer = convert(path)
    assert answer.status == 0
    assert "nothing is changed" in answer.stdout
    assert [found.name for found in tmp_path.iterdir()] == ["config"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", "is not a YAML mapping"),
        ("{", "is not a YAML mapping"),
        ("users: [{name: x, user: {auth-provider: {name: azure}}}]", "needs --server-id"),
        ("users: [{name: x, user: {exec: {command: kubelogin, args: [--wat]}}}]", "unknown flag '--wat'"),
    ],
    ids=["list", "broken", "no server", "unknown flag"],
)
def test_a_file_that_cannot_be_rewritten_stays_as_it_is(tmp_path: Path, text: str, said: str) -> None:
    """The error says what is wrong."""
    path = tmp_path / "config"
    path.write_text(text)
    answer = convert(path)
    assert (answer.status, answer.stdout) == (1, "")
    assert said in answer.stderr
    assert path.read_text() == text


def test_the_file_is_found_as_kubectl_finds_it(kubeconfig: Path, tmp_path: Path) -> None:
    """KUBECONFIG if it is one file; several are too many to choose from."""
    one = run_plugin(
        "aks", "", ["convert-kubeconfig"], {"KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
    )
    assert one.status == 0
    two = run_plugin(
        "aks", "", ["convert-kubeconfig"], {"KUBECONFIG": f"{kubeconfig}:b", "HOME": str(tmp_path)}
    )
    assert "--kubeconfig FILE" in two.stderr
    none = run_plugin("aks", "", ["convert-kubeconfig"], {"HOME": str(tmp_path)})
    assert "cannot be read" in none.stderr
