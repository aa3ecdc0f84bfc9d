"""Debian's kubectl, with keyferry as its credential plugin, against a real TLS server."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api_server import ApiServer
from support.certificates import Authority, Pair, key_pem, make_certificate, make_key
from support.commands import run_in_process
from support.kube import OTHER, TOKEN, Kube, credential, kube_in, pair_fields
from support.parts import need
from support.plugins import write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

# Where tools/parts.sh unpacks Debian's, so that a kubectl of another origin can stay where it is.
UNPACKED = Path(__file__).resolve().parents[2] / ".cache" / "parts" / "usr" / "bin"
# Debian's kubectl is of 1.20, which knows no v1.
API_VERSION = "client.authentication.k8s.io/v1beta1"


@pytest.fixture
def kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The program; its home is a folder of the test."""
    monkeypatch.setenv("PATH", f"{UNPACKED}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return need("kubectl")


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(authority: Authority) -> Iterator[ApiServer]:
    with ApiServer(authority) as running:
        running.tokens = {TOKEN}
        yield running


@pytest.fixture
def inner(tmp_path: Path, server: ApiServer, authority: Authority) -> Kube:
    """The kubeconfig that keyferry reads: its plugin is a script."""
    return kube_in(tmp_path / "inner", server.url, authority.pem)


@pytest.fixture
def outer(tmp_path: Path, server: ApiServer, authority: Authority, inner: Kube) -> Kube:
    """The kubeconfig that kubectl reads: its plugin is keyferry."""
    folder = tmp_path / "outer"
    folder.mkdir()
    words = [sys.executable, "-m", "keyferry", "kube", "token", "--kubeconfig", str(inner.path)]
    wrapper = write_executable(folder / "keyferry", f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    made = Kube(folder)
    plugin = {"apiVersion": API_VERSION, "command": str(wrapper), "interactiveMode": "Never"}
    made.write(server.url, ca=authority.pem, user={"exec": plugin})
    return made


def run_kubectl(kubectl: str, kube: Kube, *words: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl to its end."""
    command = [kubectl, "--kubeconfig", str(kube.path), *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )


def test_kubectl_is_let_in_with_a_token_from_keyferry(kubectl: str, outer: Kube, server: ApiServer) -> None:
    done = run_kubectl(kubectl, outer, "get", "--raw", "/version")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"].startswith("/version")
    assert {seen.token for seen in server.seen} == {TOKEN}


def test_kubectl_is_let_in_with_a_certificate_from_keyferry(
    kubectl: str, inner: Kube, outer: Kube, server: ApiServer, authority: Authority
) -> None:
    pair = authority.client("carol")
    server.tokens, server.serials = set(), {pair.serial}
    inner.answer(credential(pair=pair))
    done = run_kubectl(kubectl, outer, "get", "--raw", "/version")
    assert done.returncode == 0, done.stderr
    assert server.seen[-1].serial == pair.serial


def test_kubectl_is_told_when_the_plugin_behind_keyferry_fails(
    kubectl: str, inner: Kube, outer: Kube, server: ApiServer
) -> None:
    inner.answer()
    done = run_kubectl(kubectl, outer, "get", "--raw", "/version")
    assert (done.returncode, server.seen) == (1, [])
    assert "exited with status 1" in done.stderr
    assert "failed with exit code 4" in done.stderr


def test_a_token_that_is_refused_is_asked_for_again(kubectl: str, inner: Kube, outer: Kube) -> None:
    inner.answer(credential(OTHER))
    done = run_kubectl(kubectl, outer, "get", "--raw", "/version")
    assert done.returncode == 1
    assert inner.runs() >= 2


def test_contexts_agree_with_kubectls(kubectl: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(
        json.dumps(
            {
                "contexts": [context("b", "c1", "u1"), context("shared", "c1", "u1", "team")],
                "clusters": [{"name": "c1", "cluster": {"server": "https://c1.example"}}],
                "users": [{"name": "u1", "user": {"token": "t"}}],
            }
        )
    )
    second.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [context("a", "c2", "u2"), context("shared", "c2", "u2", "other")],
            }
        )
    )
    env = {"KUBECONFIG": f"{first}:{tmp_path}/missing:{second}", "HOME": str(tmp_path)}
    command = [kubectl, "config", "get-contexts"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **env})
    listed = json.loads(run_in_process("kube", "contexts", "-o", "json", cwd=None, **env).stdout)["contexts"]
    ours = [
        ("*" if each["current"] else "", each["name"], each["cluster"], each["user"], each["namespace"])
        for each in listed
    ]
    assert ours == columns(theirs.stdout)


def context(name: str, cluster: str, user: str, namespace: str = "") -> dict[str, object]:
    """A context as a kubeconfig has it."""
    fields = {"cluster": cluster, "user": user, "namespace": namespace}
    return {"name": name, "context": {key: value for key, value in fields.items() if value}}


def columns(table: str) -> list[tuple[str, ...]]:
    """The cells under kubectl's header, which tells where each column begins."""
    header, *lines = table.splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", header)]
    ends = [*starts[1:], None]
    cut = [slice(*pair) for pair in zip(starts, ends, strict=True)]
    return [tuple(line[each].strip() for each in cut) for line in lines]


# What kubectl refuses, keyferry refuses, and the other way round where that is said in the docs.


def both(
    kubectl: str, kube: Kube
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """What kubectl and keyferry make of one kubeconfig."""
    theirs = run_kubectl(kubectl, kube, "get", "--raw", "/version")
    return theirs, run_in_process("kube", "raw", "/version", "--kubeconfig", str(kube.path), KUBERC="off")


def test_neither_takes_a_common_name_for_a_name(kubectl: str, inner: Kube, authority: Authority) -> None:
    for pair, is_good in (
        (authority.server("localhost"), True),
        (authority.server_called("localhost"), False),
    ):
        with ApiServer(authority, pair=pair) as server:
            server.tokens = {TOKEN}
            inner.write(f"https://localhost:{server.port}", ca=authority.pem, user={"token": TOKEN})
            theirs, ours = both(kubectl, inner)
            assert [theirs.returncode == 0, ours.returncode == 0] == [is_good, is_good]
            assert bool(server.seen) is is_good
    assert "x509: certificate relies on legacy Common Name field" in theirs.stderr
    assert "only its subject alternative names count, a common name does not" in ours.stderr


def test_neither_takes_an_encrypted_key(
    kubectl: str, inner: Kube, server: ApiServer, authority: Authority
) -> None:
    key = make_key()
    pair = Pair(make_certificate(key), key_pem(key, "pkcs8", "pass"))
    inner.write(server.url, ca=authority.pem, user=pair_fields(pair))
    theirs, ours = both(kubectl, inner)
    assert (theirs.returncode, ours.returncode, server.seen) == (1, 3, [])
    assert "tls: failed to parse private key" in theirs.stderr
    assert "is encrypted" in ours.stderr


def test_an_answer_that_has_ended_already_serves_one_request_here(
    kubectl: str, inner: Kube, server: ApiServer, authority: Authority
) -> None:
    """The real kubectl runs the plugin again for the certificate, and another one closes the connection at hand."""
    pairs = [authority.client() for _ in range(40)]
    answers = [credential(TOKEN, pair, seconds=0) for pair in pairs]
    inner.answer(*(text.replace("k8s.io/v1", "k8s.io/v1beta1") for text in answers))
    section = inner.exec_user()["exec"]
    assert isinstance(section, dict)
    inner.write(server.url, ca=authority.pem, user={"exec": {**section, "apiVersion": API_VERSION}})
    theirs = run_kubectl(kubectl, inner, "get", "--raw", "/version")
    assert theirs.returncode == 1
    assert "use of closed network connection" in theirs.stderr
    assert server.seen == []
    runs = inner.runs()
    assert runs > 1
    ours = run_in_process("kube", "raw", "/version", "--kubeconfig", str(inner.path), KUBERC="off")
    assert (ours.returncode, inner.runs()) == (0, runs + 1)
    assert [seen.serial for seen in server.seen] == [pairs[runs].serial]
