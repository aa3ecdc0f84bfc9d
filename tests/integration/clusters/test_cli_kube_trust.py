"""Kubeconfigs that somebody else could have written, as ``keyferry kube`` meets them; and those that only seem so."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys

import pytest

from support.api_server import ApiServer, running_proxy
from support.certificates import Authority
from support.commands import run_keyferry
from support.kube import TOKEN, Kube
from support.kube_commands import keyferry_kube
from support.parts import need

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


def keyferry(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "keyferry", "kube", *words])


@pytest.mark.parametrize(
    "line",
    [
        "{keyferry} --kubeconfig <(cat {config})",
        "cat {config} | {keyferry} --kubeconfig /dev/stdin",
        "{keyferry} --kubeconfig /dev/stdin <{config}",
        '{keyferry} --kubeconfig /dev/stdin <<<"$(cat {config})"',
        "KUBECONFIG=/nonexistent:{config} {keyferry}",
        "cd {folder}; {keyferry} --kubeconfig ../kube/config",
    ],
)
def test_what_a_shell_hands_on_is_ones_own(kube: Kube, server: ApiServer, line: str) -> None:
    bash = need("bash")
    words = {"keyferry": keyferry("raw", "/version"), "config": kube.path, "folder": kube.folder}
    done = subprocess.run(
        [bash, "-c", line.format(**words)],
        env={**os.environ, "HOME": str(kube.folder), "KUBERC": "off"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (kube.runs(), server.seen[0].token) == (1, TOKEN)


def test_an_allowlist_does_not_let_a_file_of_others_run_what_it_names(kube: Kube) -> None:
    kuberc = kube.folder / "kuberc"
    kuberc.write_text(
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\n"
        f"credentialPluginAllowlist: [{{command: {kube.folder}/plugin}}]\n"
    )
    assert keyferry_kube(kube, "raw", "/version", KUBERC=str(kuberc)).returncode == 0
    kube.path.chmod(0o666)
    done = keyferry_kube(kube, "raw", "/version", KUBERC=str(kuberc))
    assert (done.returncode, kube.runs()) == (3, 1)
    assert f"is named by {kube.path}, which is not trusted: everybody can write it" in done.stderr
    assert keyferry_kube(kube, "raw", "/version", "--trust", KUBERC=str(kuberc)).returncode == 0


class Foreign:
    """A kubeconfig that everybody can write, with a context for our user and a cluster of its own."""

    def __init__(self, kube: Kube, cluster: dict[str, object]) -> None:
        self.kube, self.path = kube, kube.folder / "foreign"
        document = {
            "current-context": "theirs",
            "contexts": [{"name": "theirs", "context": {"cluster": "theirs", "user": "test"}}],
            "clusters": [{"name": "theirs", "cluster": cluster}],
        }
        self.path.write_text(json.dumps(document))
        self.path.chmod(0o666)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A subcommand with the file of the others before our own."""
        listed = f"{self.path}{os.pathsep}{self.kube.path}"
        return run_keyferry("kube", *words, KUBECONFIG=listed, HOME=str(self.kube.folder), KUBERC="off")


@pytest.fixture
def evil(authority: Authority) -> dict[str, object]:
    """The authority as a field of a cluster."""
    return {"certificate-authority-data": base64.b64encode(authority.pem.encode()).decode()}


def test_a_server_that_a_file_of_others_names_gets_no_token(
    kube: Kube, server: ApiServer, evil: dict[str, object]
) -> None:
    foreign = Foreign(kube, {"server": server.url, **evil})
    done = foreign.run("raw", "/version")
    assert (done.returncode, kube.runs(), server.seen) == (3, 0, [])
    assert (
        f"server {server.url!r}, which would get the credential of user 'test' of {kube.path}" in done.stderr
    )
    assert f"is named by {foreign.path}, which is not trusted: everybody can write it" in done.stderr
    assert "--trust" in done.stderr
    assert foreign.run("raw", "/version", "--trust").returncode == 0
    assert server.seen[0].token == TOKEN


def test_a_proxy_that_a_file_of_others_names_is_not_asked(
    kube: Kube, server: ApiServer, evil: dict[str, object]
) -> None:
    with running_proxy() as proxy:
        foreign = Foreign(kube, {"server": server.url, "proxy-url": f"http://{proxy.address}", **evil})
        assert foreign.run("raw", "/version").returncode == 3
        assert (proxy.told, server.seen) == ([], [])
        assert foreign.run("raw", "/version", "--trust").returncode == 0
        assert len(proxy.told) == 1


def explain(done: subprocess.CompletedProcess[str]) -> tuple[int, dict[str, str], dict[str, str]]:
    """The exit code, the traps, and what is said of each file."""
    document = json.loads(done.stdout)
    traps = {trap["outcome"]: trap["text"] for trap in document["traps"]}
    files = {each["subject"]: each["text"] for each in document["reasons"] if each["stage"] == "file"}
    return done.returncode, traps, files


def test_explain_tells_which_file_is_not_followed_and_why(
    kube: Kube, server: ApiServer, evil: dict[str, object]
) -> None:
    foreign = Foreign(kube, {"server": server.url, **evil})
    for words, code in ((("--no-run",), 3), (("--trust",), 0)):
        found, traps, files = explain(foreign.run("explain", "-o", "json", *words))
        assert found == code
        assert files == {
            str(foreign.path): "read; another user could have written it: everybody can write it",
            str(kube.path): "read",
        }
        assert "kubectl sends it there nevertheless, keyferry only with --trust" in traps["untrusted-file"]
    text = foreign.run("explain", "-o", "wide").stdout
    assert "✗ refused: server" in text
    assert "✓ file" in text


def test_explain_of_a_token_file_that_a_file_of_others_names(kube: Kube, server: ApiServer) -> None:
    (kube.folder / "token").write_text(TOKEN)
    kube.write(server.url, user={"tokenFile": "token"})
    code, traps, _ = explain(keyferry_kube(kube, "explain", "-o", "json", "--no-run"))
    assert (code, "untrusted-file" in traps) == (0, False)
    kube.path.chmod(0o666)
    code, traps, _ = explain(keyferry_kube(kube, "explain", "-o", "json"))
    assert (code, server.seen) == (3, [])
    assert f"credential file '{kube.folder}/token' is named by {kube.path}" in traps["untrusted-file"]
    assert "kubectl reads it nevertheless" in traps["untrusted-file"]


def test_explain_does_not_call_an_allowlist_trust(kube: Kube) -> None:
    kube.path.chmod(0o666)
    code, traps, _ = explain(keyferry_kube(kube, "explain", "-o", "json"))
    assert (code, kube.runs()) == (3, 0)
    assert "kubectl runs it nevertheless, keyferry only with --trust" in traps["untrusted-file"]
    assert "allowlist" not in traps["untrusted-file"]
