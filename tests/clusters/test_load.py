"""From a kubeconfig to a session: whose file it is, which policy applies, which context is meant."""

from __future__ import annotations

import base64
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from keyferry import ClusterSession, PluginPolicy, load_cluster
from keyferry._core.values import replace
from keyferry.api.kubeconfig.v1 import ExecConfig, Kubeconfig
from keyferry.clusters.kubeconfig.files import KubeconfigFile
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.kubeconfig.trust import check_trust
from keyferry.errors import ClusterAuthError, ConfigError, PolicyError
from support.plugins import write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

V1 = "client.authentication.k8s.io/v1"
ANSWER = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "t"}})
PREFERENCE = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a kuberc, and no variables of kubectl."""
    folder = tmp_path / "home"
    (folder / ".kube").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    for name in ("KUBECONFIG", "KUBERC", "KUBECTL_KUBERC"):
        monkeypatch.delenv(name, raising=False)
    return folder


def document(user: Mapping[str, object], server: str = "https://k") -> str:
    return json.dumps(
        {
            "current-context": "c",
            "clusters": [
                {"name": "k", "cluster": {"server": server}},
                {"name": "k2", "cluster": {"server": "https://two"}},
            ],
            "contexts": [
                {"name": "c", "context": {"cluster": "k", "user": "admin", "namespace": "ns"}},
                {"name": "d", "context": {"cluster": "k2", "user": "admin"}},
            ],
            "users": [{"name": "admin", "user": user}, {"name": "other", "user": {"token": "o"}}],
        }
    )


def with_plugin(folder: Path, **more: object) -> Path:
    """A kubeconfig with a plugin beside it, and a file that tells whether it ran."""
    write_executable(folder / "plugin", f"#!/bin/sh\ntouch {folder}/ran\nprintf %s {shlex.quote(ANSWER)}\n")
    plugin = {"command": "./plugin", "apiVersion": V1, "interactiveMode": "Never"}
    path = folder / "config"
    path.write_text(document({"exec": plugin} | more))
    path.chmod(0o600)
    return path


def token(session: ClusterSession) -> str:
    return dict(session.grant().headers).get("Authorization", "").removeprefix("Bearer ")


def test_a_context_comes_to_a_session(tmp_path: Path) -> None:
    session = load_cluster(kubeconfig=with_plugin(tmp_path))
    assert (session.server, session.namespace, session.retries) == ("https://k", "ns", True)
    assert not (tmp_path / "ran").exists()
    assert token(session) == "t"


def test_names_choose_context_cluster_user_and_namespace(tmp_path: Path) -> None:
    path = with_plugin(tmp_path)
    assert load_cluster("d", kubeconfig=path).server == "https://two"
    session = load_cluster(cluster="k2", user="other", namespace="x", kubeconfig=str(path), retries=False)
    assert (session.server, session.namespace, token(session)) == ("https://two", "x", "o")
    assert session.retries is False
    with pytest.raises(ConfigError, match="context 'nope' does not exist"):
        load_cluster("nope", kubeconfig=path)


def test_the_usual_places_are_read(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        load_cluster()
    (home / ".kube" / "config").write_text(document({"token": "home"}))
    assert token(load_cluster()) == "home"
    listed, explicit = tmp_path / "listed", tmp_path / "explicit"
    listed.write_text(document({"token": "listed"}))
    explicit.write_text(document({"token": "explicit"}))
    monkeypatch.setenv("KUBECONFIG", f"/nope:{listed}")
    assert token(load_cluster()) == "listed"
    assert token(load_cluster(kubeconfig=explicit)) == "explicit"


# Trust


def test_a_file_that_runs_nothing_needs_no_trust(tmp_path: Path) -> None:
    path = with_plugin(tmp_path, token="static")
    path.chmod(0o666)
    assert token(load_cluster(kubeconfig=path)) == "static"
    assert token(load_cluster(kubeconfig=path, user="other")) == "o"


def test_it_is_the_file_of_the_user_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several files, the one that names the plugin."""
    path = with_plugin(tmp_path)
    contexts = tmp_path / "contexts"
    contexts.write_text(json.dumps({"current-context": "d"}))
    contexts.chmod(0o666)
    monkeypatch.setenv("KUBECONFIG", f"{contexts}:{path}")
    assert token(load_cluster()) == "t"
    path.chmod(0o666)
    contexts.chmod(0o600)
    with pytest.raises(PolicyError, match=str(path)):
        load_cluster()


def test_data_in_an_untrusted_file_is_its_writers_own(tmp_path: Path) -> None:
    data = base64.b64encode(b"x").decode()
    path = tmp_path / "config"
    path.write_text(document({"client-certificate-data": data, "client-key-data": data}))
    path.chmod(0o666)
    load_cluster(kubeconfig=path)


def test_a_context_of_an_untrusted_file_does_not_choose_the_server_for_a_credential_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may be ours, and not meant for one another."""
    own, foreign = tmp_path / "own", tmp_path / "foreign"
    own.write_text(document({"token": "t"}).replace("//two", "//me:pass-word@two"))
    context = {"cluster": "k2", "user": "other"}
    foreign.write_text(json.dumps({"contexts": [{"name": "theirs", "context": context}]}))
    foreign.chmod(0o666)
    monkeypatch.setenv("KUBECONFIG", f"{foreign}:{own}")
    assert token(load_cluster()) == "t"
    with pytest.raises(PolicyError) as caught:
        load_cluster("theirs")
    said = str(caught.value)
    assert (
        f"context 'theirs', by which 'https://***@two' would get the credential of user 'other' of {own}"
        in said
    )
    assert f"is named by {foreign}, which is not trusted" in said
    assert "pass-word" not in said
    assert token(load_cluster("theirs", trust=True)) == "o"
    foreign.chmod(0o600)
    assert token(load_cluster("theirs")) == "o"


def test_a_credential_of_an_untrusted_file_may_go_to_our_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no secret of ours."""
    own, foreign = tmp_path / "own", tmp_path / "foreign"
    own.write_text(document({"token": "t"}))
    foreign.write_text(json.dumps({"users": [{"name": "they", "user": {"token": "theirs"}}]}))
    foreign.chmod(0o666)
    monkeypatch.setenv("KUBECONFIG", f"{own}:{foreign}")
    assert token(load_cluster(user="they")) == "theirs"


def test_nobody_may_go_to_any_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a credential, or over plain http, which carries none, there is nothing to keep."""
    own, foreign = tmp_path / "own", tmp_path / "foreign"
    users = [{"name": "nobody", "user": {"as": "jane"}}, {"name": "me", "user": {"token": "t"}}]
    own.write_text(json.dumps({"users": users}))
    foreign.write_text(document({}, "http://k"))
    foreign.chmod(0o666)
    monkeypatch.setenv("KUBECONFIG", f"{foreign}:{own}")
    assert token(load_cluster(user="nobody", cluster="k2")) == ""
    assert token(load_cluster(user="me")) == ""


def test_a_file_that_nobody_has_judged_is_not_trusted() -> None:
    config = ClientConfig(server="https://k", exec=ExecConfig(command="plugin"), user_origin="config")
    file = KubeconfigFile(path="config", document=None, config=Kubeconfig())
    for files in ((), (file,)):
        with pytest.raises(PolicyError, match="its owner and mode were not checked"):
            check_trust(replace(config, files=files), trust=False)
    check_trust(replace(config, files=(replace(file, untrusted=""),)), trust=False)


# Policy


def test_the_policy_of_kuberc_applies_unless_one_is_given(tmp_path: Path, home: Path) -> None:
    path = with_plugin(tmp_path)
    kuberc = home / ".kube" / "kuberc"
    kuberc.write_text(PREFERENCE + "credentialPluginPolicy: DenyAll\n")
    with pytest.raises(ClusterAuthError, match="the policy is DenyAll"):
        load_cluster(kubeconfig=path).grant()
    assert not (tmp_path / "ran").exists()
    assert token(load_cluster(kubeconfig=path, policy=PluginPolicy())) == "t"
    kuberc.write_text(
        PREFERENCE + f"credentialPluginPolicy: Allowlist\n"
        f"credentialPluginAllowlist: [{{command: {tmp_path}/plugin}}]\n"
    )
    assert token(load_cluster(kubeconfig=path)) == "t"


def test_the_settings_reach_the_plugin(tmp_path: Path) -> None:
    path = with_plugin(tmp_path)
    write_executable(tmp_path / "plugin", "#!/bin/sh\nexec sleep 20\n")
    with pytest.raises(ClusterAuthError, match=r"within 0\.2 s"):
        load_cluster(kubeconfig=path, timeout_seconds=0.2).grant()
    text = path.read_text().replace('"Never"', '"Always"')
    path.write_text(text)
    with pytest.raises(ClusterAuthError, match="cannot"):
        load_cluster(kubeconfig=path, stdin_unavailable=True).grant()
