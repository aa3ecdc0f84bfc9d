"""A pod's API server that is hostile: a WebSocket that never ends, floods, or sends what no API server sends.

Each ends in an error that says so, in bounded time and memory, and the connection is closed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiProblem
from keyferry.clusters.exec import ExecLimits, ExecTarget, exec_in_pod
from keyferry.clusters.session import load_cluster
from keyferry.errors import ClusterAuthError, Kind
from support.certificates import Authority
from support.kube import TOKEN, Kube
from support.kubernetes_api import KubernetesApi, pod_for_exec
from support.kubernetes_exec import CLOSE, STATUS, STDERR, STDOUT, V4, ExecSocket, Finished

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

TARGET = ExecTarget(namespace="shop", pod="web", container="app")
Script = Callable[[ExecSocket], None]


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Who signs the server's certificate."""
    return Authority()


@pytest.fixture
def api(authority: Authority) -> Iterator[KubernetesApi]:
    """A server with a pod, into which bob may exec."""
    with pod_for_exec(authority, TOKEN) as running:
        yield running


@pytest.fixture
def session(api: KubernetesApi, tmp_path: Path, authority: Authority) -> ClusterAccess:
    """Bob's session."""
    kube = Kube(tmp_path)
    kube.write(api.url, ca=authority.pem, user={"token": TOKEN})
    return load_cluster(kubeconfig=str(kube.path))


def endless(channel: int) -> Script:
    """Return what writes for ever on a channel."""

    def script(socket: ExecSocket) -> None:
        while True:
            socket.send(channel, b"x" * 4096)

    return script


def pings(socket: ExecSocket) -> None:
    """Send pings for ever."""
    while True:
        for _ in range(1000):
            socket.protocol.send_ping(b"")
        socket.flush()


def empty_frames(socket: ExecSocket) -> None:
    """Send frames without content for ever."""
    while True:
        for _ in range(1000):
            socket.protocol.send_binary(bytes((STDOUT,)))
        socket.flush()


def fragments(socket: ExecSocket) -> None:
    """Begin a message and never end it."""
    socket.protocol.send_binary(bytes((STDOUT,)), fin=False)
    while True:
        for _ in range(1000):
            socket.protocol.send_continuation(b"", fin=False)
        socket.flush()


def text(socket: ExecSocket) -> None:
    """Send text."""
    socket.protocol.send_text(b"\x01hello")
    socket.flush()


def huge_frame(socket: ExecSocket) -> None:
    """Announce a frame of 2^62 bytes."""
    socket.connection.sendall(b"\x82\x7f" + (1 << 62).to_bytes(8, "big"))


def compressed(socket: ExecSocket) -> None:
    """Send a frame of an extension that was not agreed on."""
    socket.connection.sendall(b"\xc2\x02\x01x")


def no_channel(socket: ExecSocket) -> None:
    """Send a frame without a channel."""
    socket.protocol.send_binary(b"")
    socket.flush()


def masked(socket: ExecSocket) -> None:
    """Send a frame that only clients send."""
    socket.connection.sendall(b"\x82\x82abcdef")


def status_without_end(socket: ExecSocket) -> None:
    """Send a Status of megabytes."""
    while True:
        socket.send(STATUS, b" " * 4096)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (endless(STDOUT), "stdout is longer than"),
        (endless(STDERR), "stderr is longer than"),
        (status_without_end, "status is longer than"),
        (pings, "it sends more than a command may write"),
        (empty_frames, "it sends more than a command may write"),
        (fragments, "it sends more than a command may write"),
        (lambda socket: socket.send(0, b"x"), "a frame has channel 0"),
        (lambda socket: socket.send(4, b"x"), "a frame has channel 4"),
        (lambda socket: socket.send(99, b"x"), "a frame has channel 99"),
        (no_channel, "a frame has no channel"),
        (text, "it sends text"),
        (huge_frame, "a frame is too long, or not one of a WebSocket"),
        (compressed, "a frame is too long, or not one of a WebSocket"),
        (masked, "a frame is too long, or not one of a WebSocket"),
        (lambda socket: socket.finish(Finished(status={"status": "Failure", "code": "0"})), ""),
    ],
)
def test_what_no_api_server_sends_ends_the_connection(
    api: KubernetesApi, session: ClusterAccess, script: Script, says: str
) -> None:
    api.exec.script = script
    limits = ExecLimits(stdout_bytes=1 << 18, frames=10_000, seconds=120)
    if says:
        with pytest.raises(ClusterAuthError, match=says) as caught:
            exec_in_pod(session, TARGET, ("true",), limits)
        assert caught.value.kind is Kind.CONTENT
    else:
        assert isinstance(exec_in_pod(session, TARGET, ("true",), limits), ApiProblem)
    assert api.exec.closed.get(timeout=60) == "web"


def test_the_older_version_has_no_frame_that_closes(api: KubernetesApi, session: ClusterAccess) -> None:
    api.exec.versions = (V4,)
    api.exec.script = lambda socket: socket.send(CLOSE, bytes((STDOUT,)))
    with pytest.raises(ClusterAuthError, match="a frame has channel 255"):
        exec_in_pod(session, TARGET, ("true",))


def test_a_command_that_has_ended_need_not_be_waited_for(api: KubernetesApi, session: ClusterAccess) -> None:
    """The server told how it ended and keeps the connection open."""

    def script(socket: ExecSocket) -> None:
        socket.send(STATUS, b'{"status": "Success"}')

    api.exec.script = script
    found = exec_in_pod(session, TARGET, ("true",), ExecLimits(close_seconds=0.1))
    assert getattr(found, "exit_code", None) == 0
    assert api.exec.closed.get(timeout=60) == "web"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-WebSocket-Accept": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="},
        {"Upgrade": "h2c"},
        {"Sec-WebSocket-Extensions": "permessage-deflate"},
        {"Sec-WebSocket-Protocol": "base64.channel.k8s.io"},
        {"Sec-WebSocket-Protocol": f"{V4}, chat"},
    ],
)
def test_another_protocol_is_not_spoken(
    api: KubernetesApi, session: ClusterAccess, headers: dict[str, str]
) -> None:
    """An answer to another request, an extension or a protocol that was not offered."""
    api.exec.break_handshake = headers
    with pytest.raises(ClusterAuthError, match="the connection to the pod is given up"):
        exec_in_pod(session, TARGET, ("true",))


def test_a_message_of_the_server_is_harmless(api: KubernetesApi, session: ClusterAccess) -> None:
    """No escape of it reaches a terminal, nor a secret, nor more than a line."""
    message = "\x1b[2J\r\nkeyferry: ✓ all is well \u202e token=kf-marked-secret-value " + "x" * 9000
    status: dict[str, object] = {"status": "Failure", "reason": "Forbidden", "message": message, "code": 403}
    api.exec.run = lambda _: Finished(status=status)
    found = str(exec_in_pod(session, TARGET, ("true",)))
    assert found.isprintable()
    assert len(found) < 1000
    assert "kf-marked" not in found
