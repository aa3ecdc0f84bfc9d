"""Where the secrets of clusters could leak besides errors: processes, files, descriptors, metrics, logs, dumps."""

from __future__ import annotations

import base64
import gc
import json
import logging
import os
import pickle
import shlex
import ssl
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import keyferry
from keyferry.clusters.session import ClusterSession, load_cluster
from keyferry.errors import ClusterAuthError, KeyferryError
from keyferry.invoke.policy import PluginPolicy
from keyferry.lint.run import lint_any
from support.certificates import key_pem, make_certificate, make_key
from support.plugins import write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

Json = dict[str, Any]
V1 = "client.authentication.k8s.io/v1"
SECRET = "Zq7marked-S3cret9vX"
KEY = make_key()
KEY_PEM, CERTIFICATE = key_pem(KEY), make_certificate(KEY)
# A line of the key that stands nowhere else.
KEY_LINE = KEY_PEM.splitlines()[1]


def answer(**status: str) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


TOKEN = answer(token=SECRET)
PAIR = answer(clientCertificateData=CERTIFICATE, clientKeyData=KEY_PEM)


def kubeconfig(folder: Path, user: Json, cluster: Json | None = None) -> Path:
    document = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://k"} | (cluster or {})}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


def plugin(folder: Path, body: str, **fields: object) -> Json:
    command = str(write_executable(folder / "plugin", f"#!/bin/sh\n{body}\n"))
    return {"exec": {"command": command, "apiVersion": V1, "interactiveMode": "Never"} | fields}


def say(text: str) -> str:
    return f"printf %s {shlex.quote(text)}"


def load(path: Path) -> ClusterSession:
    return load_cluster(kubeconfig=path, policy=PluginPolicy())


def test_nothing_but_its_own_variables_reaches_the_plugins_environment(tmp_path: Path) -> None:
    """Neither a token of another user, nor a password, nor a key is on its command line or in its environment."""
    copy = f"cat /proc/$$/cmdline /proc/$$/environ >{tmp_path}/public"
    user = plugin(tmp_path, f"{copy}; {say(TOKEN)}", provideClusterInfo=True)
    path = kubeconfig(tmp_path, user, {"certificate-authority-data": base64.b64encode(b"authority").decode()})
    document = json.loads(path.read_text())
    document["users"].append({"name": "other", "user": {"token": SECRET, "client-key-data": "eA=="}})
    path.write_text(json.dumps(document))
    session = load(path)
    for _ in range(2):
        session.renew(session.grant())
    public = (tmp_path / "public").read_bytes()
    assert b"KUBERNETES_EXEC_INFO" in public
    assert SECRET.encode() not in public


@linux
def test_descriptors_do_not_reach_the_plugin(tmp_path: Path) -> None:
    """Open files of ours, a key in memory among them, are none of its business."""
    memory = os.memfd_create("secret", 0)
    os.write(memory, SECRET.encode())
    os.set_inheritable(memory, True)
    try:
        listing = f"ls -l /proc/self/fd >{tmp_path}/fds"
        load(kubeconfig(tmp_path, plugin(tmp_path, f"{listing}; {say(TOKEN)}"))).grant()
    finally:
        os.close(memory)
    seen = (tmp_path / "fds").read_text()
    assert "memfd" not in seen
    assert "config" not in seen


PROGRAM = """
import os, sys
sys.path[:0] = {paths!r}
import ssl
from keyferry.clusters.session import load_cluster
from keyferry.errors import KeyferryError
from keyferry.invoke.policy import PluginPolicy
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
opened = []
def watch(event, args):
    if event == "open" and isinstance(args[2], int) and args[2] & WRITES and args[0] != os.devnull:
        opened.append(str(args[0]))
sys.addaudithook(watch)
session = load_cluster(kubeconfig={config!r}, policy=PluginPolicy())
for _ in range(2):
    try:
        grant = session.grant()
        session.renew(grant)
        session.ssl_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="k")
    except KeyferryError:
        pass
print(opened)
"""


@pytest.mark.parametrize("said", [TOKEN, PAIR, PAIR[:-3], TOKEN * 2], ids=["token", "pair", "cut", "twice"])
def test_a_session_writes_nothing_anywhere(tmp_path: Path, said: str) -> None:
    """No cache, temp file, key file or crash report, whether all goes well or not."""
    folder, empty = tmp_path / "kube", tmp_path / "empty"
    folder.mkdir()
    empty.mkdir()
    config = kubeconfig(folder, plugin(folder, say(said)))
    before = sorted(os.listdir(folder))
    source = os.path.dirname(os.path.dirname(keyferry.__file__))
    program = PROGRAM.format(paths=[source, *filter(None, map(_site, sys.path))], config=str(config))
    environ = {"HOME": str(empty), "TMPDIR": str(empty), "PATH": os.environ["PATH"]}
    run = [sys.executable, "-I", "-B", "-c", program]
    done = subprocess.run(run, cwd=empty, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    assert sorted(os.listdir(folder)) == before
    assert os.listdir(empty) == []


def _site(path: str) -> str:
    return path if "site-packages" in path else ""


def test_metrics_name_no_plugin_no_user_and_no_secret(tmp_path: Path) -> None:
    user = plugin(tmp_path, say(TOKEN), args=[SECRET], env=[{"name": SECRET, "value": SECRET}])
    session = load(kubeconfig(tmp_path, user, {"server": f"https://{SECRET}.example"}))
    session.grant()
    registry = CollectorRegistry()
    registry.register(keyferry.cluster_metrics_collector())
    text = generate_latest(registry).decode()
    assert "rest_client_exec_plugin_call_total" in text
    assert SECRET.lower() not in text.lower()
    assert str(tmp_path) not in text


def test_no_log_record_of_any_level_holds_a_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for said in (TOKEN, PAIR, TOKEN[:-4], SECRET):
        user = plugin(tmp_path, say(said), args=[said[:20]], env=[{"name": "A", "value": SECRET}])
        try:
            session = load(kubeconfig(tmp_path, user, {"proxy-url": f"http://u:{SECRET}@p"}))
            session.renew(session.grant())
        except KeyferryError:
            pass
    assert SECRET not in caplog.text
    assert KEY_LINE not in caplog.text


def test_an_error_does_not_keep_what_the_plugin_printed_alive(tmp_path: Path) -> None:
    """Nothing that can be reached from an error holds the answer, so no crash report can."""
    body = say(json.dumps({"apiVersion": "v0", "status": {"token": "Zq7-kept-alive-marker"}}))
    session = load(kubeconfig(tmp_path, plugin(tmp_path, body)))
    with pytest.raises(ClusterAuthError) as caught:
        session.grant()
    seen: set[int] = set()
    waiting: list[object] = [caught.value, caught.value.__dict__, caught.value.underlying]
    texts: list[str] = []
    while waiting and len(seen) < 20_000:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type) or type(item).__name__ in ("module", "frame"):
            continue
        seen.add(id(item))
        if isinstance(item, str | bytes):
            texts.append(str(item))
            continue
        if type(item).__module__ == "builtins" and callable(item):
            continue
        waiting.extend(gc.get_referents(item))
    # kubernetes_text says what Kubernetes says, which for this error is the version alone.
    assert not [text for text in texts if "kept-alive-marker" in text and "import" not in text]


def test_what_is_pickled_of_an_error_holds_no_secret(tmp_path: Path) -> None:
    """Errors cross process borders, as in a pool of workers."""
    user = plugin(tmp_path, f"echo {SECRET} >&2; exit 3", env=[{"name": "A", "value": SECRET}], args=[SECRET])
    session = load(kubeconfig(tmp_path, user, {"proxy-url": f"http://u:{SECRET}@p"}))
    with pytest.raises(ClusterAuthError) as caught:
        session.grant()
    data = pickle.dumps(caught.value)
    assert SECRET.encode() not in data
    assert str(pickle.loads(data)) == str(caught.value)


def test_a_session_cannot_be_pickled_by_accident(tmp_path: Path) -> None:
    """It holds locks, and credentials that are nobody else's."""
    session = load(kubeconfig(tmp_path, plugin(tmp_path, say(TOKEN))))
    session.grant()
    with pytest.raises(TypeError):
        pickle.dumps(session)


@linux
def test_no_descriptor_with_a_key_stays_open(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True}
    session = load(kubeconfig(tmp_path, plugin(tmp_path, say(PAIR)), cluster))
    context = session.ssl_context()
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(50):
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="k")
        session.ssl_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="k")
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert not [fd for fd in before if "memfd:keyferry" in _target(fd)]


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


@pytest.mark.parametrize("wrong", ["pair", "cut", "binary"])
def test_a_key_that_cannot_be_used_is_in_no_error(tmp_path: Path, wrong: str) -> None:
    other = key_pem(make_key())
    key = {"pair": other, "cut": KEY_PEM[:100], "binary": "\x00" + KEY_PEM}[wrong]
    said = answer(clientCertificateData=CERTIFICATE, clientKeyData=key)
    (tmp_path / "answer").write_text(said)
    shown = shown_of_failure(load(kubeconfig(tmp_path, plugin(tmp_path, f"cat {tmp_path}/answer"))))
    # What every such key begins with tells nothing.
    assert "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg" in key
    assert key.splitlines()[1][48:] not in shown


def shown_of_failure(session: ClusterSession) -> str:
    """All that can be shown of an error, locals of its frames included; this frame holds no secret."""
    try:
        session.grant()
    except ClusterAuthError as error:
        frames = traceback.TracebackException.from_exception(error, capture_locals=True)
        return f"{''.join(frames.format())} {error!r} {error.underlying!r} {error.kubernetes_text}"
    raise AssertionError("nothing was raised")


def test_a_server_with_a_password_in_it_is_shown_without(tmp_path: Path) -> None:
    """Errors name the server; what stands before its '@' is nobody's business."""
    user = plugin(tmp_path, "exit 1")
    session = load(kubeconfig(tmp_path, user, {"server": f"https://u:{SECRET}@k"}))
    with pytest.raises(ClusterAuthError) as caught:
        session.grant()
    assert "@k" in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.server}"


def test_linting_keeps_nothing_of_the_file_in_its_report(tmp_path: Path) -> None:
    user = {"token": SECRET, "password": SECRET, "tokenFile": "x"} | plugin(
        tmp_path, "", args=["--token", SECRET]
    )
    path = kubeconfig(tmp_path, user, {"proxy-url": f"http://u:{SECRET}@p"})
    report = lint_any(str(path))
    assert {"KF226", "KF270", "KF271", "KF264"} <= {finding.code for finding in report.findings}
    texts = [finding.kubernetes_text + finding.message for finding in report.findings]
    assert SECRET not in repr(report) + "".join(texts) + report.kubernetes_text


NOWHERE: Json = {"server": "https://127.0.0.1:1"}
LOUD = (
    f'echo "Authorization: Bearer {SECRET}" >&2; echo "of the settings: $KEY" >&2; '
    "printf 'red \\033[31m\\033]0;title\\007\\n' >&2"
)


@pytest.mark.parametrize("mode", ["Never", "IfAvailable"])
@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
def test_a_diagnosis_masks_what_the_plugin_says(tmp_path: Path, mode: str, fails: bool) -> None:
    """On a terminal, too: the plugin does not get it, and what it writes is shown once, in the report."""
    body = f"{LOUD}; {'exit 3' if fails else say(TOKEN)}"
    settings = [{"name": "KEY", "value": f"x{SECRET}x"}]
    path = kubeconfig(tmp_path, plugin(tmp_path, body, interactiveMode=mode, env=settings), NOWHERE)
    shown = explained_on_a_terminal(path)
    assert "its standard error, with secrets masked: Authorization: Bearer ****" in shown
    assert "of the settings: ****" in shown
    assert SECRET not in shown
    assert "\x1b[31m" not in shown
    assert "\x1b]0" not in shown
    assert "\ufffd[31m" in shown


@pytest.mark.parametrize("end", ["exit 3", say("no document"), say(answer(other="Zq7printed"))])
def test_an_error_masks_what_the_plugin_says(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], end: str
) -> None:
    """Also what it printed as its answer; and nothing goes to the standard error of this process."""
    settings = [{"name": "KEY", "value": f"x{SECRET}x"}]
    body = f"{LOUD}; echo 'of the answer: Zq7printed' >&2; {say(answer(token='Zq7printed'))}; {end}"
    session = load(kubeconfig(tmp_path, plugin(tmp_path, body, env=settings)))
    with pytest.raises(ClusterAuthError) as caught:
        session.grant()
    error = caught.value
    shown = f"{error} {error!r} {error.underlying!r} {error.kubernetes_text} {pickle.dumps(error)!r}"
    assert "of the settings: ****" in error.stderr_tail
    assert "of the answer: ****" in str(error)
    assert SECRET not in shown
    assert "Zq7printed" not in shown
    assert "\x1b" not in error.stderr_tail
    assert capfd.readouterr() == ("", "")


def test_a_diagnosis_says_that_a_plugin_had_the_terminal(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, plugin(tmp_path, say(TOKEN), interactiveMode="Always"), NOWHERE)
    shown = explained_on_a_terminal(path)
    assert "it had the terminal (interactiveMode is Always)" in shown


def explained_on_a_terminal(path: Path) -> str:
    """Return what the diagnosis of a kubeconfig writes to a terminal, as it is written."""
    from support.terminal import keyferry_on_terminal  # not on Windows

    words = ("kube", "explain", "--timeout", "10", "--kubeconfig", str(path))
    return keyferry_on_terminal(*words, columns=1000, KUBERC="off", NO_COLOR="1").raw


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_no_command_shows_a_token_of_the_servers_url(tmp_path: Path, scheme: str) -> None:
    """Neither one of its query nor its user info."""
    url = f"{scheme}://u:{SECRET}@127.0.0.1:1/?access_token={SECRET}"
    user = plugin(tmp_path, say(TOKEN), provideClusterInfo=True)
    proxy = f"ftp://p/?token={SECRET}"
    path = str(kubeconfig(tmp_path, user, {"server": url}))
    commands = [
        ["kube", "contexts", "-o", "json"],
        ["kube", "explain", "-o", "json"],
        ["kube", "explain"],
        ["kube", "whoami"],
        ["kube", "exec-info"],
        ["explain", "pod/web"],
    ]
    for words in commands:
        assert SECRET not in said(*words, "--kubeconfig", path), words
    assert SECRET not in said("lint", path)
    assert SECRET not in repr(load(Path(path)))
    path = str(kubeconfig(tmp_path, user, {"server": url, "proxy-url": proxy}))
    for words in (["lint", path], ["lint", path, "-o", "json"], ["kube", "raw", "/", "--kubeconfig", path]):
        assert SECRET not in said(*words), words


def said(*words: str) -> str:
    """Run a command that shows the address of the server or the proxy, and return its output."""
    environ = {**os.environ, "KUBERC": "off", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "keyferry", *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert "***" in done.stdout + done.stderr, (words, done)
    return done.stdout + done.stderr
