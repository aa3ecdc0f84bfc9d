"""The client of the agent's socket: an answer, or the reason why there is none."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from keyferry._net.agent import (
    MAX_REQUEST_BYTES,
    ROOT_SOCKET,
    Fallback,
    FallbackReason,
    SocketReply,
    ask_agent,
    find_socket,
)
from support.agent_server import Answer, answered, bound, http, serving

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs Unix sockets")
BODY = b'{"apiVersion":"agent.keyferry.dev/v1","kind":"LookupRequest","image":"r.io/x"}'


def ask(place: Path | str, body: bytes = BODY, seconds: float = 20.0) -> SocketReply | Fallback:
    return ask_agent(str(place), "/v1/lookup", body, answer_seconds=seconds)


def reason(found: SocketReply | Fallback) -> FallbackReason:
    assert isinstance(found, Fallback)
    assert found.message[0].islower() or found.message[0] == "'"
    assert found.message in repr(found)
    return found.reason


def test_an_answer_is_its_status_and_body(tmp_path: Path) -> None:
    with serving(tmp_path / "a" / "s", lambda _: (403, {"kind": "Status", "secret": "hidden"})):
        found = ask(tmp_path / "a" / "s")
    assert isinstance(found, SocketReply)
    assert (found.status, b"hidden" in found.body) == (403, True)
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", FallbackReason.GARBLED),
        (b"hello\r\n\r\n", FallbackReason.GARBLED),
        (http(answered())[:-1], FallbackReason.GARBLED),
        (http(answered()) + b"x", FallbackReason.GARBLED),
        (b"HTTP/1.1 100 Continue\r\ncontent-length: 0\r\n\r\n", FallbackReason.GARBLED),
        (b"HTTP/1.1 200\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n", FallbackReason.GARBLED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1048577\r\n\r\n", FallbackReason.TOO_LARGE),
        (b"x" * 20_000, FallbackReason.GARBLED),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000, FallbackReason.GARBLED),
    ],
)
def test_what_cannot_be_read_is_no_answer(tmp_path: Path, answer: Answer, expected: FallbackReason) -> None:
    with serving(tmp_path / "a" / "s", lambda _: answer):
        assert reason(ask(tmp_path / "a" / "s")) is expected


def test_a_silent_agent_is_slow(tmp_path: Path) -> None:
    with serving(tmp_path / "a" / "s", lambda _: None):
        assert reason(ask(tmp_path / "a" / "s", seconds=0.05)) is FallbackReason.SLOW


def test_an_agent_that_is_not_there_is_absent_or_refuses(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o750)
    assert reason(ask("")) is FallbackReason.OFF
    assert reason(ask("relative/s")) is FallbackReason.ABSENT
    assert reason(ask(tmp_path / "none" / "s")) is FallbackReason.ABSENT
    assert reason(ask(tmp_path / "a" / "s")) is FallbackReason.ABSENT
    with bound(tmp_path / "a" / "s"):
        pass
    assert reason(ask(tmp_path / "a" / "s")) is FallbackReason.REFUSED


def test_a_folder_that_others_can_write_is_untrusted(tmp_path: Path) -> None:
    with serving(tmp_path / "a" / "s", lambda _: answered()) as server:
        (tmp_path / "a").chmod(0o770)
        assert reason(ask(tmp_path / "a" / "s")) is FallbackReason.UNTRUSTED
        (tmp_path / "a").chmod(0o755)
        assert isinstance(ask(tmp_path / "a" / "s"), SocketReply)
    assert len(server.requests) == 1


def test_a_file_is_not_a_socket(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o750)
    (tmp_path / "a" / "s").write_text("")
    assert reason(ask(tmp_path / "a" / "s")) is FallbackReason.UNTRUSTED


@pytest.mark.skipif(sys.platform != "linux", reason="others do not connect through the folder")
def test_a_long_folder_is_no_obstacle_and_a_long_name_is_said_to_be_one(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir(mode=0o750)
    (folder / "s").symlink_to("elsewhere")
    assert reason(ask(folder / "s")) is FallbackReason.UNTRUSTED
    name = "s" * 120
    found = ask_agent(f"{folder}/{name}", "/v1/status", owner=None, method="GET")
    assert isinstance(found, Fallback)
    # How many bytes are left depends on the number of the folder's descriptor.
    text = f"the name '{name}' of the agent's socket has 120 bytes, expected at most \\d\\d; "
    assert re.fullmatch(f"{text}have the agent listen at a shorter one", found.message)


def test_a_larger_answer_is_taken_where_it_is_expected(tmp_path: Path) -> None:
    """And a user is named who has to listen."""
    document = {"kind": "Status", "text": "x" * (3 << 20)}
    with serving(tmp_path / "a" / "s", lambda _: (200, document)) as server:
        place = str(tmp_path / "a" / "s")
        found = ask_agent(place, "/v1/lookup", BODY, max_bytes=4 << 20, only_uid=os.geteuid())
        assert isinstance(found, SocketReply)
        assert found.read_object() == document
        other = ask_agent(place, "/v1/lookup", BODY, only_uid=os.geteuid() + 1)
        assert reason(other) is FallbackReason.UNTRUSTED
    assert len(server.requests) == 1


def test_a_request_has_a_largest_size() -> None:
    assert reason(ask("/nowhere", b"x" * (MAX_REQUEST_BYTES + 1))) is FallbackReason.TOO_LARGE


def test_the_socket_is_given_or_in_the_environment_or_in_its_usual_place() -> None:
    assert find_socket({"KEYFERRY_AGENT": "/env"}, "/given") == "/given"
    assert find_socket({"KEYFERRY_AGENT": "/env"}) == "/env"
    assert find_socket({"KEYFERRY_AGENT": "/env"}, "off") == ""
    assert find_socket({"KEYFERRY_AGENT": "off"}) == ""
    usual = find_socket({"KEYFERRY_AGENT": "auto", "XDG_RUNTIME_DIR": "/run/user/1"})
    assert usual == (ROOT_SOCKET if os.geteuid() == 0 else "/run/user/1/keyferry/agent.sock")


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b'{"kind":"Status"}', {"kind": "Status"}), (b'["hidden"]', {}), (b"hidden", {}), (b"", {})],
)
def test_a_body_that_is_no_object_is_an_empty_one(body: bytes, expected: dict[str, object]) -> None:
    assert SocketReply(status=200, body=body).read_object() == expected
