"""Exec into a pod of a server that speaks WebSocket as Kubernetes' does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from keyferry import load_cluster
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiProblem
from keyferry.clusters.exec import ExecLimits, ExecResult, ExecTarget, exec_in_pod
from keyferry.errors import ClusterAuthError, Kind
from support.api_server import running_proxy
from support.certificates import Authority
from support.kube import OTHER, TOKEN, Kube, credential
from support.kubernetes_api import KubernetesApi, pod_for_exec
from support.kubernetes_exec import CLOSE, STATUS, STDOUT, V4, V5, Exec, ExecSocket, Finished, status_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

TARGET = ExecTarget(namespace="shop", pod="web", container="app")
LONG = bytes(range(256)) * 400


@pytest.fixture
def api(authority: Authority) -> Iterator[KubernetesApi]:
    """A server with a pod, into which bob may exec."""
    with pod_for_exec(authority, TOKEN) as running:
        yield running


@pytest.fixture
def session(api: KubernetesApi, kube: Kube, authority: Authority) -> ClusterAccess:
    """Bob's session."""
    kube.write(api.url, ca=authority.pem, user={"token": TOKEN})
    return load_cluster(kubeconfig=str(kube.path))


@pytest.mark.parametrize("version", [V5, V4])
def test_a_command_writes_and_ends(api: KubernetesApi, session: ClusterAccess, version: str) -> None:
    """What it wrote is complete, apart for the two streams, and its exit code is known."""
    api.exec.versions = (version,)
    api.exec.run = lambda _: Finished(4, LONG, b"warning\n")
    words = ("keyferry", "explain", "r.io/a b:v1", "-o", "json", "ü&=+%")
    assert exec_in_pod(session, TARGET, words) == ExecResult(exit_code=4, stdout=LONG, stderr=b"warning\n")
    assert api.exec.asked == [Exec("shop", "web", "app", words, version)]
    assert api.exec.closed.get(timeout=30) == "web"


def test_the_newer_protocol_is_preferred(api: KubernetesApi, session: ClusterAccess) -> None:
    assert exec_in_pod(session, TARGET, ("true",)) == ExecResult(exit_code=0)
    assert [each.version for each in api.exec.asked] == [V5]


def test_a_plugins_token_is_renewed_once(api: KubernetesApi, kube: Kube, authority: Authority) -> None:
    """As for any other request: the upgrade is sent again after a 401."""
    api.add_user(OTHER, "bob")
    api.permit(OTHER, "get create", "pods/exec", "shop")
    del api.users[TOKEN]
    kube.write(api.url, ca=authority.pem)
    kube.answer(credential(token=TOKEN))
    session = load_cluster(kubeconfig=str(kube.path))
    session.grant()
    kube.answer(credential(token=OTHER))
    assert exec_in_pod(session, TARGET, ("true",)) == ExecResult(exit_code=0)
    assert [seen.status for seen in api.seen] == [401, 101]


def test_it_goes_through_the_clusters_proxy(api: KubernetesApi, kube: Kube, authority: Authority) -> None:
    with running_proxy() as proxy:
        kube.write(
            api.url, ca=authority.pem, user={"token": TOKEN}, cluster={"proxy-url": f"http://{proxy.address}"}
        )
        session = load_cluster(kubeconfig=str(kube.path))
        assert exec_in_pod(session, TARGET, ("true",)) == ExecResult(exit_code=0)
        assert proxy.told[0].startswith(f"CONNECT 127.0.0.1:{api.port} ")


Break = Callable[[KubernetesApi], None]


def forbid(verb: str) -> Break:
    """Return what takes a right away."""
    return lambda api: api.users[TOKEN].permitted.discard((verb, "pods/exec", "shop"))


def lose_pod(api: KubernetesApi) -> None:
    """Delete the pod."""
    del api.objects["", "pods", "shop", "web"]


def cut_kubelet(api: KubernetesApi) -> None:
    """Let the server not reach the kubelet."""
    api.exec.unreachable = "dial tcp 10.0.0.7:10250: connect: connection refused"


def cut_kubelet_of_old(api: KubernetesApi) -> None:
    """Let a server that only proxies not reach the kubelet."""
    api.exec.versions = (V4,)
    cut_kubelet(api)


@pytest.mark.parametrize(
    ("change", "target", "kind", "status", "text"),
    [
        (
            forbid("get"),
            TARGET,
            Kind.REFUSED,
            403,
            'no permission to create and get pods/exec in shop: pods "web" is ',
        ),
        (forbid("create"), TARGET, Kind.REFUSED, 403, 'cannot create resource "pods/exec"'),
        (
            lose_pod,
            TARGET,
            Kind.NOT_FOUND,
            404,
            'cannot create and get pods/exec in shop: not found: pods "web"',
        ),
        (
            lambda _: None,
            ExecTarget(namespace="shop", pod="web", container="x"),
            Kind.ERROR,
            400,
            "container x is not",
        ),
        (cut_kubelet, TARGET, Kind.ERROR, 500, "error dialing backend: dial tcp 10.0.0.7:10250"),
        (cut_kubelet_of_old, TARGET, Kind.ERROR, 500, "error dialing backend: dial tcp 10.0.0.7:10250"),
    ],
)
def test_a_refusal_names_the_right_and_the_servers_reason(
    api: KubernetesApi,
    session: ClusterAccess,
    change: Break,
    target: ExecTarget,
    kind: Kind,
    status: int,
    text: str,
) -> None:
    """Before the upgrade and, with version 5, on the channel for errors."""
    change(api)
    found = exec_in_pod(session, target, ("true",))
    assert isinstance(found, ApiProblem)
    assert (found.kind, found.status) == (kind, status)
    assert text in str(found)


def test_a_command_that_does_not_exist_is_the_servers_problem(
    api: KubernetesApi, session: ClusterAccess
) -> None:
    message = 'OCI runtime exec failed: exec: "keyferry": executable file not found in $PATH: unknown'
    status: dict[str, object] = {
        "status": "Failure",
        "reason": "InternalError",
        "message": message,
        "code": 500,
    }
    api.exec.run = lambda _: Finished(status=status)
    found = exec_in_pod(session, TARGET, ("keyferry",))
    assert isinstance(found, ApiProblem)
    assert "executable file not found" in str(found)


def test_frames_may_be_split_and_channels_closed(api: KubernetesApi, session: ClusterAccess) -> None:
    """A message in two fragments, a ping between them, and the end of a channel, as version 5 has it."""

    def script(socket: ExecSocket) -> None:
        socket.protocol.send_binary(bytes((STDOUT,)) + b"one ", fin=False)
        socket.protocol.send_ping(b"still here")
        socket.protocol.send_continuation(b"two", fin=True)
        socket.flush()
        socket.send(CLOSE, bytes((STDOUT,)))
        socket.finish(Finished(status=status_of(0)))

    api.exec.script = script
    assert exec_in_pod(session, TARGET, ("true",)) == ExecResult(exit_code=0, stdout=b"one two")


def test_an_idle_connection_is_kept_alive(api: KubernetesApi, session: ClusterAccess) -> None:
    """A command that writes nothing for long gets pings, so that nobody between cuts the connection."""

    def script(socket: ExecSocket) -> None:
        next(socket.receive())
        socket.finish(Finished())

    api.exec.script = script
    limits = ExecLimits(ping_seconds=0.05)
    assert exec_in_pod(session, TARGET, ("true",), limits) == ExecResult(exit_code=0)


@pytest.mark.parametrize("part", [b"", b"{"], ids=["nothing", "half of the status"])
def test_a_cut_connection_is_no_result(api: KubernetesApi, session: ClusterAccess, part: bytes) -> None:
    def script(socket: ExecSocket) -> None:
        socket.send(STDOUT, b"{}")
        socket.send(STATUS, part)
        socket.cut()

    api.exec.script = script
    with pytest.raises(ClusterAuthError, match="the connection was cut off"):
        exec_in_pod(session, TARGET, ("true",))


def test_the_whole_time_is_limited(api: KubernetesApi, session: ClusterAccess) -> None:
    api.exec.script = lambda socket: socket.send(STDOUT, b"and then")
    # On a busy machine the connection may take longer.
    for seconds in (1, 5, 20):
        with pytest.raises(ClusterAuthError) as caught:
            exec_in_pod(session, TARGET, ("true",), ExecLimits(seconds=seconds))
        if api.exec.asked:
            break
    assert "did not end in time" in str(caught.value)
    assert caught.value.kind is Kind.TIMEOUT
    assert api.exec.closed.get(timeout=30) == "web"


def test_nothing_of_the_command_is_shown(api: KubernetesApi, session: ClusterAccess, caplog: Any) -> None:
    """Not what it wrote, in a repr or a log."""
    api.exec.run = lambda _: Finished(0, b"kf-marked-secret")
    with caplog.at_level("DEBUG"):
        found = exec_in_pod(session, TARGET, ("true",))
    assert "kf-marked" not in repr(found) + caplog.text
    # It would show frames, in hexadecimal.
    assert not [each for each in caplog.records if each.name == "websockets.client"]
