"""keyferry as kubectl's plugin: a real kubectl runs it, lists it, and completes its words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api_server import ApiServer
from support.certificates import Authority
from support.kube import OTHER, TOKEN, Kube, credential
from support.kubernetes_api import KubernetesApi, pod
from support.parts import PARTS, lacking, need

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

# Where tools/parts.sh unpacks Debian's, and where the package installs its programs.
UNPACKED = PARTS / "usr" / "bin"
INSTALLED = Path(sys.executable).parent
COMPLETES_PLUGINS = (1, 26)


@pytest.fixture
def kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The program, which finds keyferry on the PATH; one that is installed is newer than Debian's."""
    monkeypatch.setenv("PATH", os.pathsep.join((str(INSTALLED), os.environ["PATH"], str(UNPACKED))))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERC", "off")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return need("kubectl")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def api(authority: Authority) -> Iterator[KubernetesApi]:
    """A cluster whose user may list pods."""
    with KubernetesApi(authority) as running:
        running.add_user(TOKEN)
        running.permit(TOKEN, "get list", "pods")
        running.add(pod("web-1", "shop"), pod("web-2", "shop"))
        yield running


def kube_for(server: ApiServer, authority: Authority, folder: Path) -> Kube:
    folder.mkdir()
    kube = Kube(folder)
    kube.write(server.url, ca=authority.pem)
    kube.answer(credential(TOKEN).replace("k8s.io/v1", "k8s.io/v1beta1"))
    section = kube.exec_user()["exec"]
    assert isinstance(section, dict)
    # Debian 12's kubectl is of 1.20, which knows no v1.
    plugin = {**section, "apiVersion": "client.authentication.k8s.io/v1beta1"}
    kube.write(server.url, ca=authority.pem, user={"exec": plugin})
    return kube


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL
    )


def version_of(kubectl: str) -> tuple[int, int]:
    found = re.search(r"v(\d+)\.(\d+)\.", run(kubectl, "version", "--client").stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def test_kubectl_lists_the_plugin(kubectl: str) -> None:
    done = run(kubectl, "plugin", "list")
    assert str(INSTALLED / "kubectl-keyferry") in done.stdout.splitlines()


def test_help_and_errors_spell_the_command_as_it_was_called(kubectl: str) -> None:
    done = run(kubectl, "keyferry", "explain", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: kubectl keyferry explain [IMAGE]")
    assert "  kubectl keyferry explain pod/web -n shop\n" in done.stdout
    assert "usage: kubectl keyferry COMMAND" in run(kubectl, "keyferry").stdout
    wrong = run(kubectl, "keyferry", "kube", "whoami", "--no-such-option")
    assert wrong.returncode == 2
    assert "try 'kubectl keyferry kube whoami --help'" in wrong.stderr


def test_flags_before_a_command_are_its_own(
    kubectl: str, api: KubernetesApi, authority: Authority, tmp_path: Path
) -> None:
    kube = kube_for(api, authority, tmp_path / "kube")
    flags = ("--kubeconfig", str(kube.path), "--context=test", "-n", "shop")
    done = run(kubectl, "keyferry", *flags, "explain", "pod/none")
    assert (done.returncode, api.seen[0].path) == (3, "/api/v1/namespaces/shop/pods/none")
    assert "there is no pod 'none' in namespace 'shop'" in done.stderr


def test_kubectl_completes_pods(
    kubectl: str, api: KubernetesApi, authority: Authority, tmp_path: Path
) -> None:
    if version_of(kubectl) < COMPLETES_PLUGINS:
        lacking("kubectl-completion")
    kube = kube_for(api, authority, tmp_path / "kube")
    flags = ("--kubeconfig", str(kube.path), "-n", "shop")
    done = run(kubectl, "__complete", "keyferry", "explain", *flags, "pod/")
    assert done.stdout.splitlines() == ["pod/web-1", "pod/web-2", ":4"]
    done = run(kubectl, "__complete", "keyferry", "ex")
    assert done.stdout.splitlines()[0].startswith("explain\texplain why")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="none"),
        pytest.param(("--token", OTHER), id="token"),
        pytest.param(("--as", "alice", "--as-group", "dev", "--as-group=ops"), id="as"),
        pytest.param(("--as-group", "dev"), id="a group without a user"),
        pytest.param(("--insecure-skip-tls-verify",), id="insecure"),
        pytest.param(("--tls-server-name", "elsewhere.example"), id="another name"),
        pytest.param(("--certificate-authority", "/nowhere"), id="an authority that is not there"),
        pytest.param(("--context", "nowhere"), id="no such context"),
        pytest.param(("--cluster", "nowhere"), id="no such cluster"),
        pytest.param(("--user", "nobody"), id="no such user"),
        pytest.param(("-s", "https://127.0.0.1:9"), id="another server"),
        pytest.param(("--request-timeout", "30s"), id="a time limit"),
        pytest.param(("--request-timeout", "soon"), id="no time limit"),
    ],
)
def test_flags_mean_what_they_mean_to_kubectl(
    kubectl: str, authority: Authority, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """Both send the same, or neither sends anything."""
    with ApiServer(authority) as server:
        server.tokens = {TOKEN, OTHER}
        kube = kube_for(server, authority, tmp_path / "kube")
        options = ("--kubeconfig", str(kube.path), *flags)
        theirs = run(kubectl, "get", "--raw", "/version", *options)
        sent = what_is_sent(server)
        ours = run(kubectl, "keyferry", *options, "kube", "raw", "/version")
        assert what_is_sent(server) == sent
        assert (ours.returncode == 0) is (theirs.returncode == 0), ours.stderr + theirs.stderr


def test_a_token_file_goes_before_a_token_as_in_kubectl(
    kubectl: str, authority: Authority, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    with ApiServer(authority) as server:
        server.tokens = {TOKEN, OTHER}
        kube = kube_for(server, authority, tmp_path / "kube")
        kube.write(server.url, ca=authority.pem, user={"tokenFile": str(file)})
        options = ("--kubeconfig", str(kube.path), "--token", OTHER)
        run(kubectl, "get", "--raw", "/version", *options)
        sent = what_is_sent(server)
        run(kubectl, "keyferry", "kube", "raw", "/version", *options)
        assert what_is_sent(server) == sent != set()


def what_is_sent(server: ApiServer) -> set[tuple[tuple[str, str], ...]]:
    """Return the headers about the user of all requests, and forget these; some kubectls ask more than once."""
    names = ("authorization", "impersonate-user", "impersonate-group", "impersonate-uid")
    kept = {tuple(sorted(pair for pair in seen.headers if pair[0].lower() in names)) for seen in server.seen}
    server.seen.clear()
    return kept


def test_a_command_to_paste_works_where_the_plugin_is_installed(kubectl: str, tmp_path: Path) -> None:
    """It begins with ``keyferry``, which is installed beside kubectl's plugin."""
    kube = Kube(tmp_path)
    kube.write("https://127.0.0.1:9")
    done = run(kubectl, "keyferry", "kube", "whoami", "--context", "none", "--kubeconfig", str(kube.path))
    hint = re.search(r"try: (keyferry .*)", done.stderr)
    assert hint is not None
    assert shutil.which("keyferry") == str(INSTALLED / "keyferry")
    assert "test" in run(*hint[1].split()).stdout
