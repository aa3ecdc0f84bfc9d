"""What is asked with --online: real registries over TLS, their clocks, and a container runtime."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from keyferry.doctor.online import MAX_REGISTRIES, ask_registries, ask_runtime
from support.certificates import Authority
from support.containerd import running_containerd
from support.doctor import DoctorNode, pick
from support.fake_cloud import ConnectProxy, FakeServer, Received, Reply, serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")


def answer(status: int = 401, ahead: timedelta = timedelta()) -> Reply:
    """An answer whose date is ahead of this machine's clock."""
    date = format_datetime(datetime.now(UTC) + ahead, usegmt=True)
    return Reply(
        raw=f"HTTP/1.1 {status} X\r\nDate: {date}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    )


@contextmanager
def registry(folder: Path, reply: Reply, host: str = "127.0.0.1") -> Iterator[FakeServer]:
    """A registry over TLS, whose authority is in ``ca.pem``."""
    authority = Authority()
    pair = authority.server(host)
    (folder / "ca.pem").write_text(authority.pem)
    (folder / "pair.pem").write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    with serving(lambda _: reply, context) as server:
        yield server


@pytest.mark.parametrize(
    ("ahead", "level", "text"),
    [
        (timedelta(), "ok", "within 60 s of {}"),
        (timedelta(minutes=3), "warning", "behind that of {}"),
        (timedelta(hours=-2), "problem", "ahead of that of {}"),
    ],
)
def test_the_clock_is_judged_by_the_date_of_a_registry(
    tmp_path: Path, ahead: timedelta, level: str, text: str
) -> None:
    machine = DoctorNode(tmp_path)
    with registry(tmp_path, answer(ahead=ahead)) as server:
        host = f"127.0.0.1:{server.port}"
        machine.node.add("own", [host])
        lines = machine.lines(*machine.node.options(), "--online", "--ca-file", str(tmp_path / "ca.pem"))
    assert pick(lines, "registries") == [("ok", "answers, and asks for a credential")]
    ((found, said),) = pick(lines, "clock")
    assert (found, text.format(host) in said) == (level, True)
    assert [(each.method, each.path) for each in server.received] == [("GET", "/v2/")]
    assert "authorization" not in server.received[0].headers


def test_a_certificate_that_is_not_trusted_is_a_problem_with_its_cure(tmp_path: Path) -> None:
    """On loopback plain HTTP is tried first, which such a server refuses."""
    machine = DoctorNode(tmp_path)
    with registry(tmp_path, answer()) as server:
        machine.node.add("own", [f"127.0.0.1:{server.port}"])
        lines = machine.lines(*machine.node.options(), "--online")
    ((level, text),) = pick(lines, "registries")
    assert (level, "--ca-file" in text) == ("problem", True)
    assert server.received == []


def test_a_server_that_is_no_registry_is_a_warning(tmp_path: Path) -> None:
    machine = DoctorNode(tmp_path)
    with serving(lambda _: Reply(404)) as server:
        machine.node.add("own", [f"127.0.0.1:{server.port}"]).add("any", ["*.example"])
        lines = machine.lines(*machine.node.options(), "--online")
    ((level, text),) = pick(lines, "registries")
    assert (level, "status 404" in text) == ("warning", True)


def test_the_registries_are_asked_through_the_proxy_of_the_one_who_asks_them(tmp_path: Path) -> None:
    """That of the kubelet; if the runtime's environment is known, its own; the line says whose."""
    machine = DoctorNode(tmp_path)
    machine.node.add("own", ["reg.example"])
    ca = str(tmp_path / "ca.pem")
    with (
        registry(tmp_path, answer(), "reg.example") as server,
        ConnectProxy({"reg.example": server.port}) as proxy,
        ConnectProxy({}) as other,
        machine.running({"HTTPS_PROXY": proxy.url}, has_socket=False),
    ):
        url, other_url = proxy.url, other.url
        kubelets = machine.lines("--online", "--ca-file", ca)
        environ = f"HTTPS_PROXY={other_url}\0".encode()
        machine.processes.write(30, "/usr/bin/containerd", environ=environ)
        runtimes = machine.lines("--online", "--ca-file", ca)
        environ = f"HTTPS_PROXY={other_url.replace('//', '//user:pass-word@')}\0".encode()
        (tmp_path / "proc" / "30" / "environ").write_bytes(environ)
        secret = machine.lines("--online", "--ca-file", ca)
    assert (proxy.asked, other.asked) == (["reg.example:443"], ["reg.example:443"] * 2)
    text = f"answers, and asks for a credential (through the proxy {url}, by the environment of the kubelet)"
    assert pick(kubelets, "registries") == [("ok", text)]
    (line,) = [each for each in runtimes if each["title"] == "registries"]
    assert line["level"] == "problem"
    assert line["text"].endswith(f"(through the proxy {other_url}, by the environment of containerd)")
    assert line["next"] == f"curl -v --proxy {other_url} https://reg.example/v2/"
    (line,) = [each for each in secret if each["title"] == "registries"]
    assert ("pass-word" in str(secret), line["next"]) == (False, "")


def test_a_proxy_of_another_kind_is_not_guessed_around(tmp_path: Path) -> None:
    """Go's programs can use SOCKS, so that the registry may well be reached."""
    machine = DoctorNode(tmp_path)
    machine.node.add("own", ["reg.example"])
    with machine.running({"HTTPS_PROXY": "socks5://127.0.0.1:1"}, has_socket=False):
        lines = machine.lines("--online")
    ((level, text),) = pick(lines, "registries")
    assert (level, "SOCKS" in text) == ("unknown", True)


def test_patterns_with_wildcards_name_nobody_to_ask(tmp_path: Path) -> None:
    machine = DoctorNode(tmp_path)
    machine.node.add("any", ["*.example"])
    lines = machine.lines(*machine.node.options(), "--online")
    assert pick(lines, "registries")[0][1].startswith("no pattern names a registry without a wildcard")


def test_several_are_asked_at_once_and_no_more_than_a_few() -> None:
    """Each waits for another; and one that never answers ends with the time for all."""
    meeting = threading.Barrier(4, timeout=20)

    def reply(_: Received) -> Reply:
        meeting.wait()
        return answer(200)

    with ExitStack() as stack:
        servers = [stack.enter_context(serving(reply)) for _ in range(4)]
        hosts = [f"127.0.0.1:{server.port}" for server in servers]
        # find_origin asks over plain HTTP first, so each server is asked twice.
        probes = ask_registries(hosts, "", 20)
    assert [probe.status for probe in probes] == [200] * 4
    assert len(ask_registries(["127.0.0.1:1"] * 40, "", 20)) == MAX_REGISTRIES
    with serving(lambda _: Reply(after=5, is_closed=True)) as silent:
        (probe,) = ask_registries([f"127.0.0.1:{silent.port}"], "", 0.5)
    assert probe.problem


def test_a_date_that_is_none_tells_nothing() -> None:
    raw = b"HTTP/1.1 200 OK\r\nDate: soon\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with serving(lambda _: Reply(raw=raw)) as server:
        (probe,) = ask_registries([f"127.0.0.1:{server.port}"], "", 20)
    assert (probe.status, probe.skew_seconds) == (200, None)


def test_a_runtime_tells_its_version_and_a_socket_without_one_why_not(tmp_path: Path) -> None:
    with running_containerd() as containerd:
        version, problem = ask_runtime(str(containerd.socket), 20)
    assert version is not None
    assert (version.name, problem) == ("containerd", "")
    assert ask_runtime(str(tmp_path / "none"), 1)[0] is None
