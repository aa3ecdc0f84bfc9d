"""Text of others that would write on a terminal in our name: no escape and no line break of theirs gets there."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from support.commands import Node, plain_pod
from support.fake_cloud import Reply, serving

PLANTED = "keyferry: planted"
# Colour, title, a line of its own, a line drawn over, one-byte escapes, turned text, separators, half a character.
EVIL = f"a\x1b[31m\x1b]0;t\x07\n{PLANTED}\r{PLANTED}\x85{PLANTED}\x9b2J\x7f\u202e\u2066\u200f\u2028{PLANTED}\u2029z"
HARMFUL = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
NAME = "a\x1b[31m\x9b\u202e\n" + PLANTED  # what a file can be called
IMAGE = "reg.io/team/app:v1"


def run(*words: str, cwd: Path | None = None, **env: str) -> tuple[str, str, int]:
    """Run a command; its output as it is, carriage returns included."""
    done = subprocess.run(
        [sys.executable, "-m", "keyferry", *words],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.stdout.decode(), done.stderr.decode(), done.returncode


def check(*words: str, cwd: Path | None = None, shows: str = "planted", **env: str) -> tuple[str, int]:
    """Run a command that shows the planted text, and see that it is in a line of ours, without its teeth."""
    stdout, stderr, code = run(*words, cwd=cwd, **env)
    both = stdout + stderr
    assert shows in both, both
    assert HARMFUL.search(both) is None, ascii(both)
    assert not [line for line in both.split("\n") if line.startswith(PLANTED)], both
    assert "Traceback" not in both
    return stdout, code


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path).add("one", ["reg.io"])


def write(path: Path, *documents: object) -> str:
    path.write_text("---\n".join(yaml.safe_dump(each) for each in documents))
    return str(path)


def pod(name: str = "web", *secrets: str, image: str = IMAGE) -> dict[str, object]:
    spec = {
        "imagePullSecrets": [{"name": each} for each in secrets],
        "containers": [{"name": "c", "image": image}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([EVIL], id="command"),
        pytest.param(["get", EVIL], id="image"),
        pytest.param(["explain", EVIL], id="image to explain"),
        pytest.param(["can-pull", EVIL], id="image to ask for"),
        pytest.param(["pull", EVIL, "--to", "x"], id="image to pull"),
        pytest.param(["get", "x", "-o", EVIL], id="choice"),
        pytest.param(["get", "x", f"--{EVIL}"], id="option"),
        pytest.param(["get", "x", "--timeout", EVIL], id="number"),
        pytest.param(["get", "x", EVIL], id="one too many"),
        pytest.param(["get", "x", "--service-account", EVIL], id="account"),
        pytest.param(["kube", EVIL], id="subcommand"),
        pytest.param(["kube", "raw", EVIL], id="path"),
        pytest.param(["plugin", "new", EVIL], id="new plugin"),
        pytest.param(["plugin", "test", EVIL, "--image", "x"], id="plugin"),
        pytest.param(["plugin", "install", EVIL, "--bin-dir", "x"], id="reference plugin"),
        pytest.param(["plugin", "trace", EVIL, "x"], id="plugin to trace"),
        pytest.param(["lint", "--list", EVIL], id="code"),
        pytest.param(["lint", "--kubernetes", EVIL], id="version"),
        pytest.param(["lint", "--feature-gates", EVIL], id="gate"),
        pytest.param(["records", "show", EVIL, "--root", EVIL], id="root"),
        pytest.param(["completion", EVIL], id="shell"),
    ],
)
def test_what_is_typed_is_not_echoed_raw(words: list[str], tmp_path: Path) -> None:
    check(*words, cwd=tmp_path, KEYFERRY_CONFIG=str(tmp_path / "none"), KEYFERRY_BIN_DIR=str(tmp_path))


@pytest.mark.parametrize("command", ["get", "explain", "can-pull"])
def test_names_of_files(node: Node, tmp_path: Path, command: str) -> None:
    """Missing, unreadable or broken, as a config, a folder, a pod or a docker config."""
    folder = tmp_path / NAME
    folder.mkdir()
    options = node.options()
    check(command, IMAGE, "--config", str(folder / "none"), "--bin-dir", str(node.bin_dir))
    check(command, IMAGE, "--config", str(node.config), "--bin-dir", str(folder))
    check(command, IMAGE, *options, "-f", str(folder))
    check(command, IMAGE, *options, "--docker-config", str(folder))
    (folder / "config.yaml").write_text("kind: [")
    check(command, IMAGE, "--config", str(folder / "config.yaml"), "--bin-dir", str(node.bin_dir))


def test_names_of_files_in_what_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    Node(folder).add("one", ["reg.io"])
    check("explain", IMAGE, "--config", str(folder / "providers.yaml"), "--bin-dir", str(folder / "bin"))
    for output in ("table", "json", "sarif"):
        check("lint", str(folder / "providers.yaml"), "-o", output, shows="keyferry")
        (folder / "broken.yaml").write_text("kind: [")
        check("lint", str(folder / "broken.yaml"), "-o", output)


@pytest.mark.parametrize("output", ["table", "json", "sarif"])
def test_keys_and_values_of_a_config(node: Node, output: str) -> None:
    document = yaml.safe_load(node.config.read_text())
    document["providers"][0] |= {EVIL: 1, "name": EVIL, "matchImages": [EVIL], "defaultCacheDuration": EVIL}
    document["kind"] = EVIL
    write(node.config, document)
    stdout, code = check("lint", str(node.config), "-o", output)
    assert code == 1
    if output != "table":
        assert json.loads(stdout)
    document["kind"] = "CredentialProviderConfig"
    write(node.config, document)
    check("get", IMAGE, *node.options())


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_names_in_pods_and_secrets(node: Node, tmp_path: Path, output: str) -> None:
    """Listed and missing, given and not listed, broken, with odd types."""
    data = {".dockerconfigjson": json.dumps({"auths": {"reg.io": {"username": EVIL, "password": "x"}}})}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": EVIL, "namespace": EVIL},
        "stringData": data,
    }
    elsewhere = write(tmp_path / "elsewhere.yaml", pod(EVIL, EVIL), secret)
    check("get", IMAGE, "-f", elsewhere, "-o", output, *node.options())
    own = {**secret, "metadata": {"name": EVIL, "namespace": "team"}}
    listed = write(tmp_path / "listed.yaml", pod(EVIL, EVIL, f"{EVIL}2"), own)
    for command in ("get", "explain"):
        stdout, _ = check(command, IMAGE, "-f", listed, "-o", output, *node.options())
        if output != "table":
            read = json.loads if output == "json" else yaml.safe_load
            assert read(stdout)["credentials"][0]["username"] == EVIL
    check("get", IMAGE, "-f", write(tmp_path / "unlisted.yaml", pod(), secret), "-o", output, *node.options())
    broken = {**secret, "data": {".dockerconfigjson": "%%%"}, "stringData": {}}
    check("get", IMAGE, "--secret", write(tmp_path / "broken.yaml", broken), *node.options())
    odd = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": {EVIL: 1}}}
    check("get", IMAGE, "-f", write(tmp_path / "odd-pod.yaml", odd), *node.options(), shows="metadata.name")


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "dockerconfig"])
def test_what_a_plugin_answers(tmp_path: Path, output: str) -> None:
    auth = json.dumps({"reg.io": {"username": EVIL, "password": EVIL}})
    node = Node(tmp_path).add("one", ["reg.io"], auth)
    shows = "keyferry" if output == "dockerconfig" else "planted"
    check("get", IMAGE, "-o", output, "--reveal", *node.options(), shows=shows)


def test_an_answer_for_a_shell_is_exact_in_a_pipe_and_harmless_on_a_terminal(tmp_path: Path) -> None:
    auth = json.dumps({"reg.io": {"username": EVIL, "password": "x"}})
    node = Node(tmp_path).add("one", ["reg.io"], auth)
    words = ("get", IMAGE, "-o", "env", *plain_pod(tmp_path), *node.options())
    stdout, _, _ = run(*words)
    assert f"REGISTRY_USERNAME='{EVIL}'" in stdout
    seen = on_a_terminal(*words)
    assert "REGISTRY_USERNAME" in seen
    assert HARMFUL.search(seen.replace("\r\n", "\n")) is None, ascii(seen)
    assert f"\n{PLANTED}" not in seen


def on_a_terminal(*words: str) -> str:
    """What a command writes on a real terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "keyferry", *words],
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = bytearray()
    try:
        while select.select([ours], [], [], 60)[0]:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:
                break
            if not data:
                break
            seen += data
    finally:
        process.wait(60)
        os.close(ours)
    return seen.decode()


def test_on_a_real_terminal_only_our_colours_are_left(tmp_path: Path) -> None:
    node = Node(tmp_path).add(
        "one", ["reg.io"], before=f"printf %s {json.dumps(ascii(EVIL)[1:-1])} >&2; exit 1"
    )
    listed = write(tmp_path / "pod.yaml", pod("web", EVIL))
    seen = on_a_terminal("explain", IMAGE, "-f", listed, *node.options())
    assert "planted" in seen
    ours = re.sub(r"\x1b\[[0-9;]*m", "", seen.replace("\r\n", "\n"))
    assert "\x1b[33;1m?\x1b[0m" in seen
    assert "\x1b[31m\x1b]0" not in seen
    assert HARMFUL.search(ours) is None, ascii(ours)
    assert f"\n{PLANTED}" not in ours


def test_what_a_plugin_says_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "said").write_text(EVIL)
    node = Node(tmp_path).add("one", ["reg.io"], before=f"cat {tmp_path / 'said'} >&2; exit 1")
    for command in ("get", "explain", "can-pull"):
        check(command, IMAGE, *node.options(), "--timeout", "30")
    check("plugin", "trace", str(node.bin_dir / "one"), "reg.io/app", "-o", "text")
    check("plugin", "trace", str(node.bin_dir / "one"), "reg.io/app", shows="one")


@pytest.mark.parametrize("output", ["table", "json", "junit"])
def test_the_report_of_the_kit(tmp_path: Path, output: str) -> None:
    """About a plugin whose name and words are hostile."""
    (tmp_path / "said").write_text(EVIL)
    plugin = tmp_path / NAME
    plugin.write_text(f"#!/bin/sh\ncat {tmp_path / 'said'} >&2\ncat {tmp_path / 'said'}\nexit 1\n")
    plugin.chmod(0o755)
    check("plugin", "test", str(plugin), "--image", "reg.io/app", "--only", "KP101", "-o", output)


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_what_a_registry_says(tmp_path: Path, status: int, output: str) -> None:
    errors = {"errors": [{"code": "DENIED", "message": EVIL, "detail": EVIL}]}
    with serving(lambda _: Reply(status, errors)) as server:
        host = f"127.0.0.1:{server.port}"
        node = Node(tmp_path).add("one", [host], json.dumps({host: {"username": "u", "password": "p"}}))
        shows = "keyferry" if status == 404 else "127.0.0.1"
        check("can-pull", f"{host}/app", "-o", output, *node.options(), shows=shows)
        words = ["explain", f"{host}/app", "--check-registry", *node.options()]
        check(*words, "-o", output, shows="127.0.0.1")
        check(*words, "-o", output.replace("table", "wide"), shows=shows)
        check(
            "pull",
            f"{host}/app",
            "--to",
            str(tmp_path / "to"),
            "-o",
            output,
            *node.options(),
            shows="keyferry:",
        )


# A reason phrase ends with its line; all else that is hostile may stand in it.
REASON = EVIL.replace("\n", "").replace("\r", "")


class _Refuses(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Refuse every request, CONNECT included."""
        while self.rfile.readline().strip():
            pass
        self.wfile.write(f"HTTP/1.1 403 {REASON}\r\nContent-Length: 0\r\n\r\n".encode())


@contextmanager
def refusing() -> Iterator[str]:
    """A proxy, or a server, with a hostile reason; gives its URL."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Refuses) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def kubeconfig(folder: Path, server: str, **cluster: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return write(folder / "kubeconfig", document)


def test_the_reason_that_a_proxy_or_a_server_gives(tmp_path: Path) -> None:
    with refusing() as url:
        path = kubeconfig(tmp_path, "https://api.example:6443", **{"proxy-url": url})
        for words in (["raw", "/version"], ["whoami"], ["explain"], ["explain", "-o", "json"]):
            # What a proxy says is not quoted; its status is.
            check("kube", *words, "--kubeconfig", path, shows="403")
        node = Node(tmp_path).add("one", ["registry.example"])
        check("can-pull", "registry.example/app", *node.options(), HTTPS_PROXY=url, shows="403")
        path = kubeconfig(tmp_path, url)
        check("kube", "raw", "/version", "--kubeconfig", path)


def test_names_in_a_kubeconfig(tmp_path: Path) -> None:
    """Of contexts, users, clusters and programs; shown, asked for and refused."""
    exec_user = {"apiVersion": "client.authentication.k8s.io/v1", "command": EVIL, "interactiveMode": "Never"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": EVIL,
        "clusters": [{"name": EVIL, "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": EVIL, "context": {"cluster": EVIL, "user": EVIL, "namespace": EVIL}}],
        "users": [{"name": EVIL, "user": {"exec": {**exec_user, "args": [EVIL], "installHint": EVIL}}}],
    }
    path = write(tmp_path / "kubeconfig", document)
    for output in ("table", "json", "yaml"):
        check("kube", "contexts", "--kubeconfig", path, "-o", output)
        check("kube", "explain", "--kubeconfig", path, "-o", output)
        check("kube", "exec-info", "--kubeconfig", path, "-o", output)
    check("kube", "token", "--kubeconfig", path)
    check("kube", "whoami", "--kubeconfig", path, "--context", f"{EVIL}2")
    check("lint", path)


def test_names_in_records(tmp_path: Path) -> None:
    from support.records import folder_of, plant

    plant(tmp_path, ref=EVIL)
    (folder_of(tmp_path) / NAME).write_text("{}")
    for output in ("table", "json", "yaml"):
        for words in (["list"], ["show", EVIL], ["who", EVIL], ["plan", "--policy", "AlwaysVerify"]):
            shows = "keyferry" if words[0] == "plan" else "planted"
            check("records", *words, "--root", str(tmp_path), "-o", output, shows=shows)
