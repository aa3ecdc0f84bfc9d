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


def test_several_are_asked_at_once(tmp_path: Path) -> None:
    """Each waits for the others."""
    meeting = threading.Barrier(4, timeout=20)

    def reply(_: Received) -> Reply:
        meeting.wait()
        return answer(200)

    machine = DoctorNode(tmp_path)
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(reply)) for _ in range(4)]
        machine.node.add("own", [f"127.0.0.1:{server.port}" for server in servers])
        # A registry on loopback is asked over plain HTTP first, so each is asked twice.
        lines = machine.lines(*machine.node.options(), "--online", "--registry-timeout", "20")
    assert pick(lines, "registries") == [("ok", "answers, and asks for no credential")] * 4


def test_no_more_than_a_few_are_asked(tmp_path: Path) -> None:
    machine = DoctorNode(tmp_path)
    machine.node.add("own", [f"127.0.1.{number}:1" for number in range(1, 20)])
    with machine.running(has_socket=False):
        lines = machine.lines("--online")
    *asked, left = [line for line in lines if line["title"] == "registries"]
    assert {line["level"] for line in asked} == {"problem"}
    assert asked[0]["text"].endswith(" (without a proxy, by the environment of the kubelet)")
    # The shell of the reader may have a proxy that the kubelet does not have.
    assert asked[0]["next"] == "curl -v --noproxy '*' https://127.0.1.1:1/v2/"
    assert (left["level"], left["text"]) == ("unknown", "3 more registries were not asked")


def test_one_that_never_answers_ends_with_the_time_for_all(tmp_path: Path) -> None:
    machine = DoctorNode(tmp_path)
    with serving(lambda _: Reply(after=5, is_closed=True)) as silent:
        machine.node.add("own", [f"127.0.0.1:{silent.port}"])
        lines = machine.lines(*machine.node.options(), "--online", "--registry-timeout", "0.3")
    assert [level for level, _ in pick(lines, "registries")] == ["problem"]


def test_a_date_that_is_none_tells_nothing(tmp_path: Path) -> None:
    raw = b"HTTP/1.1 200 OK\r\nDate: soon\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    machine = DoctorNode(tmp_path)
    with serving(lambda _: Reply(raw=raw)) as server:
        machine.node.add("own", [f"127.0.0.1:{server.port}"])
        lines = machine.lines(*machine.node.options(), "--online")
    assert [level for level, _ in pick(lines, "registries")] == ["ok"]
    assert pick(lines, "clock") == []


def test_the_registry_that_agrees_most_counts(tmp_path: Path) -> None:
    """One registry with a wrong clock does not make this machine wrong."""
    machine = DoctorNode(tmp_path)
    with serving(lambda _: answer(ahead=timedelta(hours=1))) as wrong, serving(lambda _: answer()) as right:
        machine.node.add("own", [f"127.0.0.1:{server.port}" for server in (wrong, right)])
        lines = machine.lines(*machine.node.options(), "--online")
    assert pick(lines, "clock") == [("ok", f"within 60 s of 127.0.0.1:{right.port}")]


def test_a_runtime_tells_its_version_and_one_that_is_silent_why_not(tmp_path: Path) -> None:
    machine = DoctorNode(tmp_path)
    machine.node.add("any", ["*.example"])
    with running_containerd() as containerd:
        machine.socket = containerd.socket
        with machine.running(has_socket=False):
            ((level, text),) = pick(machine.lines("--online"), "container runtime", "version")
    assert (level, text.startswith("containerd "), text.endswith(", CRI v1")) == ("ok", True, True)
    machine.socket = tmp_path / "silent.sock"
    with machine.running():
        lines = machine.lines("--online", "--registry-timeout", "0.3")
    assert [level for level, _ in pick(lines, "container runtime", "version")] == ["unknown"]
