"""The shim in every build: the agent's answer, or exactly the plugin behind it."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry._net import agent
from keyferry._net.messages import MAX_HEAD_BYTES
from keyferry.bridge.kubelet_install import python_shim
from keyferry.bridge.shim import read_answer, read_members, unquote
from keyferry.invoke.shim import MAX_SHIM_BYTES
from support import parts
from support.agent_server import (
    AgentServer,
    Answer,
    Request,
    answered,
    bound,
    http,
    refusal,
    response,
    serving,
)
from support.plugins import API_VERSION, Node, write_executable
from support.shims import IMAGE, KINDS, SOURCE, Place, Shim, build, request

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet's shim is for Linux")
# What another program has to run is not executed as it is.
direct = pytest.mark.parametrize("shim", ["python", "native", "sanitized"], indirect=True)
# Tables run one build in each language.
in_both_languages = pytest.mark.parametrize("shim", ["python", "sanitized"], indirect=True)
FAILED = {"outcome": "failed", "exitCode": 7, "stderr": 'no \u00e9 "luck"\nat all\n', "message": "status 7"}


@pytest.fixture(scope="module", params=KINDS)
def shim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shim:
    """One build of the shim."""
    return build(request.param, tmp_path_factory.mktemp("shim"))


@pytest.fixture
def place(tmp_path: Path, shim: Shim) -> Place:
    """A folder with a shim in front of a plugin."""
    return Place(tmp_path, shim)


def check_fallback(place: Place, done: subprocess.CompletedProcess[bytes]) -> None:
    """Check that the plugin behind the shim has answered, once."""
    assert done.stdout == b"the plugin answers\n", done.stderr
    assert (done.returncode, done.stderr, place.runs) == (0, b"", 1)


def test_the_agents_answer_is_printed_as_it_is(place: Place) -> None:
    with serving(place.socket, lambda _: answered()) as server:
        done = place.run()
    assert json.loads(done.stdout) == response()
    assert (done.returncode, done.stderr, place.runs) == (0, b"", 0)
    assert [each["provider"] for each in server.requests] == ["provider"]
    assert server.requests[0]["image"] == IMAGE


def test_a_request_by_a_pipe_is_answered_also_on_a_terminal(place: Place) -> None:
    """Only where the request itself would be typed is the plugin run at once."""
    ours, theirs = pty.openpty()
    command = [*place.shim.runner, str(place.path)]
    environment = {"KEYFERRY_AGENT": str(place.socket)}
    with (
        serving(place.socket, lambda _: answered()),
        open(ours, "rb", buffering=0) as screen,
        open(theirs, "wb", buffering=0) as stdout,
    ):
        subprocess.run(command, input=request(), stdout=stdout, env=environment, check=True, timeout=60)
        shown = screen.read(65536)
    assert json.loads(shown) == response()
    assert place.runs == 0


def test_the_token_and_annotations_are_passed_on_as_they_are(place: Place) -> None:
    fields: dict[str, Any] = {
        "serviceAccountToken": "a.b.c",
        "serviceAccountAnnotations": {"k\u00e9y": 'v"\\', "e": ""},
    }
    with serving(place.socket, lambda _: answered()) as server:
        place.run(request(**fields))
    assert {name: server.requests[0][name] for name in fields} == fields


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_older_versions_are_answered_in_their_version(place: Place, version: str) -> None:
    api_version = f"credentialprovider.kubelet.k8s.io/{version}"
    with serving(place.socket, lambda _: answered(api_version=api_version)):
        done = place.run(request(apiVersion=api_version))
    assert json.loads(done.stdout)["apiVersion"] == api_version


def raw(body: bytes) -> bytes:
    """Return an answer with this body."""
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


GARBAGE: dict[str, Answer] = {
    "nothing": b"",
    "no HTTP": b"hello\r\n\r\n",
    "HTTP/1.0": http(answered()).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "no size": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "two sizes": http(answered()).replace(b"\r\n\r\n", b"\r\ncontent-length: 3\r\n\r\n", 1),
    "a size that is no number": http(answered()).replace(b"length: ", b"length: +"),
    "chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n{}",
    "a header without a name": http(answered()).replace(b"\r\n", b"\r\n: x\r\n", 1),
    "a header without a colon": http(answered()).replace(b"\r\n", b"\r\nx\r\n", 1),
    "a blank before the colon": http(answered()).replace(b"\r\n", b"\r\nx : y\r\n", 1),
    "a bare line break": http(answered()).replace(b"\r\n", b"\r\nx: y\nz\r\n", 1),
    "cut": http(answered())[:-1],
    "more than stated": http(answered()) + b"x",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 12_000,
    "a size too large": b"HTTP/1.1 200 OK\r\ncontent-length: 1048577\r\n\r\n" + b" " * 1048577,
    "no object": raw(b"[]"),
    "a string without end": raw(b'{"outcome": "noMatch}'),
    "more after the object": raw(b'{"outcome":"noMatch"}{}'),
    "a member twice": raw(b'{"outcome":"answered","outcome":"noMatch"}'),
    "no outcome": {"response": response()},
    "an unknown outcome": {**answered(), "outcome": "perhaps"},
    "no response": {"outcome": "answered"},
    "another version": answered(api_version="credentialprovider.kubelet.k8s.io/v2"),
    "another version of the protocol": {**answered(), "apiVersion": "agent.keyferry.dev/v2"},
    "no match in another version": {"apiVersion": "agent.keyferry.dev/v2", "outcome": "noMatch"},
    "a failure in another version": {**FAILED, "apiVersion": "agent.keyferry.dev/v2"},
    "another kind": {**answered(), "response": {**response(), "kind": "Secret"}},
    "too deep": raw(b'{"outcome":"noMatch","a":' + b"[" * 65 + b"]" * 65 + b"}"),
}
UNUSABLE: dict[str, Answer] = {
    **GARBAGE,
    # Only the agent's place lacks something, such as a library of the host.
    "a plugin that was not started": {"outcome": "notStarted", "message": "plugin 'provider': is missing"},
    "an unknown provider": (404, refusal("UnknownProvider")),
    "forbidden": (403, refusal("Forbidden")),
    "a bad request": (400, refusal("BadRequest")),
    "too many requests": (429, refusal("TooMany")),
    "an agent that stops": (503, refusal("Stopping")),
    "a fault": (500, refusal("X")),
}


@pytest.mark.parametrize("what", ["no HTTP", "cut", "a plugin that was not started", "forbidden"])
def test_what_cannot_be_used_falls_back(place: Place, what: str) -> None:
    with serving(place.socket, lambda _: UNUSABLE[what]):
        check_fallback(place, place.run())


@pytest.mark.parametrize("shim", ["sanitized"], indirect=True)
@pytest.mark.parametrize("what", UNUSABLE)
def test_in_c_whatever_cannot_be_used_falls_back(place: Place, what: str) -> None:
    with serving(place.socket, lambda _: UNUSABLE[what]):
        check_fallback(place, place.run())


@pytest.mark.parametrize("what", UNUSABLE)
def test_in_python_whatever_cannot_be_used_is_no_answer(tmp_path: Path, what: str) -> None:
    socket = tmp_path / "agent" / "agent.sock"
    with serving(socket, lambda _: UNUSABLE[what]):
        question = agent.encode_question("LookupRequest", {"image": IMAGE})
        reply = agent.ask_agent(str(socket), "/v1/lookup", question)
    assert isinstance(reply, agent.Fallback) or (
        read_answer(reply.status, reply.body, json.dumps(API_VERSION).encode()) is None
    )


def test_no_match_in_front_of_a_plugin_falls_back(place: Place) -> None:
    """The agent's config may be older than the kubelet's."""
    with serving(place.socket, lambda _: {"outcome": "noMatch"}):
        check_fallback(place, place.run())


@pytest.mark.parametrize("behind", ["", ".beside"])
def test_no_match_beside_plugins_is_an_empty_answer(tmp_path: Path, shim: Shim, behind: str) -> None:
    """Wide patterns must not make public pulls wait."""
    place = Place(tmp_path, shim, behind=behind)
    with serving(place.socket, lambda _: {"outcome": "noMatch"}):
        done = place.run()
    empty = {"cacheKeyType": "Image", "cacheDuration": "0s", "auth": {}}
    head = {"kind": "CredentialProviderResponse", "apiVersion": API_VERSION}
    assert json.loads(done.stdout) == {**head, **empty}
    assert (done.returncode, place.runs if behind else 0) == (0, 0)


def test_beside_plugins_the_fallback_is_its_own(tmp_path: Path, shim: Shim) -> None:
    place = Place(tmp_path, shim, behind=".beside")
    check_fallback(place, place.run())


def test_a_failed_plugin_is_not_run_again(place: Place) -> None:
    with serving(place.socket, lambda _: FAILED):
        done = place.run()
    assert (done.returncode, done.stdout, place.runs) == (7, b"", 0)
    assert done.stderr.decode() == FAILED["stderr"]


@in_both_languages
@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"exitCode": 0}, 1, 'no \u00e9 "luck"\nat all\n'),
        ({"exitCode": -9}, 1, 'no \u00e9 "luck"\nat all\n'),
        ({"exitCode": 256, "stderr": ""}, 1, "status 7\n"),
        ({"exitCode": None, "stderr": None}, 1, "status 7\n"),
        ({"exitCode": 255, "stderr": "\U0001f600\t\ud800"}, 255, "\U0001f600\t\ufffd"),
    ],
)
def test_a_failure_is_never_a_success(place: Place, fields: Request, status: int, said: str) -> None:
    """Whatever the agent says of the exit status; without standard error, its message is shown."""
    with serving(place.socket, lambda _: {**FAILED, **fields}):
        done = place.run()
    assert (done.returncode, done.stdout, done.stderr.decode()) == (status, b"", said)


def test_without_an_agent_the_plugin_gets_what_the_shim_got(place: Place) -> None:
    """Input, arguments and environment, byte for byte; and no signal is ignored that was not."""
    data = request(annotations="x" * 100_000)
    env = {"KEYFERRY_AGENT": str(place.socket), "ODD": "\udcff\udcfe\n ", "EMPTY": ""}
    done = place.run(data, "--flag", "two words", "", "\udcff", env=env)
    check_fallback(place, done)
    assert place.told("input") == data
    assert place.told("args") == b"--flag\ntwo words\n\n\xff\n"
    expected = "".join(f"{name}={value}\n" for name, value in env.items())
    assert sorted(place.told("environ").splitlines()) == sorted(os.fsencode(expected).splitlines())
    assert int(place.told("signals").split()[1], 16) & (1 << 12 | 1 << 24) == 0


def test_a_request_of_any_size_reaches_the_plugin(place: Place) -> None:
    """Also one that is too large for the agent, and one that is no request."""
    for data in (b"x" * 3_000_000, request(image="y" * 300_000), b"", b"{}", b"\0\xff"):
        assert place.run(data).stdout == b"the plugin answers\n"
        assert place.told("input") == data


def test_a_closed_standard_input_is_an_empty_one(place: Place) -> None:
    words = [*place.shim.runner, str(place.path)]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *words],
        env={"KEYFERRY_AGENT": "off"},
        capture_output=True,
        check=False,
    )
    check_fallback(place, done)
    assert place.told("input") == b""


@direct
def test_the_shim_is_replaced_not_forked(place: Place) -> None:
    """The plugin has the shim's process id: nobody holds its standard output open."""
    process = subprocess.Popen(
        [place.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"KEYFERRY_AGENT": "off"}
    )
    process.communicate(request())
    assert place.told("runs").split() == [str(process.pid).encode()]


@in_both_languages
@pytest.mark.parametrize("how", ["absent", "no folder", "refused", "a file", "a link", "off", "relative"])
def test_an_agent_that_cannot_be_reached_falls_back(place: Place, how: str) -> None:
    folder, path = place.socket.parent, place.socket
    env = {"KEYFERRY_AGENT": {"off": "off", "relative": "agent/agent.sock"}.get(how, str(path))}
    if how != "no folder":
        folder.mkdir(mode=0o750)
    if how == "refused":
        with bound(path):
            pass
    elif how == "a file":
        path.write_text("")
    elif how in ("a link", "off", "relative"):
        with serving(folder / "other.sock", lambda _: answered()) as server:
            path.symlink_to("other.sock")
            check_fallback(place, place.run(env=env))
        assert server.requests == []
        return
    check_fallback(place, place.run(env=env))


def connects_to_nothing(place: Place, setting: Callable[[], None]) -> None:
    """Check that a socket in a state that nobody may trust is sent nothing."""
    with serving(place.socket, lambda _: answered()) as server:
        setting()
        check_fallback(place, place.run())
    assert server.requests == []


@in_both_languages
@pytest.mark.parametrize("mode", [0o770, 0o777, 0o757, 0o1777])
def test_a_folder_that_others_can_write_is_not_trusted(place: Place, mode: int) -> None:
    connects_to_nothing(place, lambda: place.socket.parent.chmod(mode))


@parts.root
def test_a_folder_of_another_user_is_not_trusted(place: Place) -> None:
    connects_to_nothing(place, lambda: os.chown(place.socket.parent, 1234, -1))


@parts.root
def test_the_owner_of_the_link_to_the_socket_is_trusted_with_it(place: Place) -> None:
    """The installer names the user of an agent that is not root; what the environment names has no such owner."""
    link = place.path.with_name(f"{place.path.name}.agent")
    link.symlink_to(place.socket)
    with serving(place.socket, lambda _: answered()) as server:
        for owned in (place.socket, place.socket.parent):
            os.chown(owned, 1234, -1)
        place.run(env={})
        os.chown(link, 1235, -1, follow_symlinks=False)
        place.run(env={})
        assert (len(server.requests), place.runs) == (0, 2)
        os.chown(link, 1234, -1, follow_symlinks=False)
        place.run()
        assert (len(server.requests), place.runs) == (0, 3)
        done = place.run(env={})
    assert (json.loads(done.stdout), len(server.requests), place.runs) == (response(), 1, 3)


@parts.root
def test_a_socket_of_another_user_is_not_trusted(place: Place) -> None:
    connects_to_nothing(place, lambda: os.chown(place.socket, 1234, -1))


def test_the_c_shim_has_the_limits_of_the_client_in_python() -> None:
    """Seconds and bytes, the protocol and the usual place."""
    defined = dict(re.findall(r"^#define (\w+) (.+)$", SOURCE.read_text(), re.MULTILINE))
    numbers = {
        "CONNECT_MS": agent.CONNECT_SECONDS * 1000,
        "ANSWER_MS": agent.ANSWER_SECONDS * 1000,
        "MAX_REQUEST": agent.MAX_REQUEST_BYTES,
        "MAX_HEAD": MAX_HEAD_BYTES,
        "MAX_BODY": agent.MAX_BODY_BYTES,
        "MAX_SHIM": MAX_SHIM_BYTES,
    }
    for name, number in numbers.items():
        value, _, shift = defined[name].strip("()").partition("<<")
        assert int(value) << int(shift or 0) == number, name
    texts = {"PROTOCOL": agent.API_VERSION, "ROOT_SOCKET": agent.ROOT_SOCKET}
    assert {name: json.loads(defined[name]) for name in texts} == texts
    assert (agent.CONNECT_SECONDS, agent.ANSWER_SECONDS) == (0.2, 20.0)


def wait_for_plugin(place: Place, seconds: float) -> None:
    """Wait until the plugin behind the shim has run, and not longer than this."""
    until = time.monotonic() + seconds
    while not place.runs and time.monotonic() < until:
        time.sleep(0.05)


def test_a_full_queue_does_not_hold_the_shim(place: Place) -> None:
    """Nobody accepts: connecting has a limit of its own. A shim that waits longer gets an answer after 5 s."""
    place.socket.parent.mkdir(mode=0o750)
    waiting: list[socket.socket] = []
    server = AgentServer(place.socket, lambda _: answered())

    def accept_late(listener: socket.socket) -> None:
        wait_for_plugin(place, 5)
        for client in waiting:
            client.close()
        while not place.runs and not server.requests:
            server.serve(listener.accept()[0])

    with bound(place.socket, backlog=0) as listener:
        fill_queue(place, waiting)
        accepting = threading.Thread(target=accept_late, args=(listener,))
        accepting.start()
        done = place.run()
        accepting.join()
    check_fallback(place, done)


def fill_queue(place: Place, waiting: list[socket.socket]) -> None:
    """Connect until nobody else can."""
    folder = os.open(place.socket.parent, os.O_RDONLY)
    try:
        while True:
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            if waiting[-1].connect_ex(f"/proc/self/fd/{folder}/agent.sock"):
                return
    finally:
        os.close(folder)


@pytest.mark.parametrize("kind", ["python", "native"])
def test_a_silent_agent_is_left_after_its_time(tmp_path: Path, kind: str) -> None:
    """Shims whose limit is a second instead of twenty; one that waits longer gets an answer after 35 s."""
    place = Place(tmp_path, build(kind, tmp_path, answer_seconds=1))

    def answer(_: Request) -> Answer:
        wait_for_plugin(place, 35)
        return answered()

    with serving(place.socket, answer):
        check_fallback(place, place.run())


@pytest.mark.parametrize("shim", ["python", "native"], indirect=True)
def test_an_agent_has_some_seconds_for_its_answer(place: Place) -> None:
    """More than it has to accept the connection: it may have to run the plugin first."""

    def answer(_: Request) -> Answer:
        time.sleep(2 * agent.CONNECT_SECONDS)
        return answered()

    with serving(place.socket, answer):
        assert json.loads(place.run().stdout) == response()
    assert place.runs == 0


def test_an_answer_in_small_pieces_is_put_together(place: Place) -> None:
    data = http(answered())
    with serving(place.socket, lambda _: [data[at : at + 9] for at in range(0, len(data), 9)]):
        assert json.loads(place.run().stdout) == response()


def test_the_link_beside_the_shim_names_the_socket(place: Place) -> None:
    """KEYFERRY_AGENT goes before it."""
    (place.folder / "provider.agent").symlink_to(place.socket)
    with serving(place.socket, lambda _: answered()):
        assert json.loads(place.run(env={}).stdout) == response()
        assert json.loads(place.run(env={"KEYFERRY_AGENT": "auto"}).stdout) == response()
        check_fallback(place, place.run(env={"KEYFERRY_AGENT": "off"}))


def test_a_long_path_of_the_socket_is_no_problem(tmp_path: Path, shim: Shim) -> None:
    place = Place(tmp_path, shim)
    place.socket = tmp_path / ("long" * 40) / "agent.sock"
    with serving(place.socket, lambda _: answered()):
        assert json.loads(place.run().stdout) == response()


@in_both_languages
@pytest.mark.parametrize("name", ['a"b', "a\tb", os.fsdecode(b"a\xff")], ids=["quote", "control", "no text"])
def test_a_name_that_would_break_the_request_falls_back(tmp_path: Path, shim: Shim, name: str) -> None:
    place = Place(tmp_path, shim, name)
    with serving(place.socket, lambda _: answered()) as server:
        check_fallback(place, place.run())
    assert server.requests == []


@in_both_languages
@pytest.mark.parametrize(
    "how", ["none", "itself", "hard link", "link", "copy", "link to a copy", "folder", "dangling"]
)
def test_a_shim_never_executes_a_shim(tmp_path: Path, shim: Shim, how: str) -> None:
    place = Place(tmp_path, shim, behind="")
    real = place.folder / "provider.real"
    copy = write_executable(tmp_path / "copy", shim.program)
    if how in ("itself", "link"):
        real.symlink_to("provider" if how == "itself" else place.path)
    elif how == "hard link":
        real.hardlink_to(place.path)
    elif how == "copy":
        write_executable(real, shim.program)
    elif how == "link to a copy":
        real.symlink_to(copy)
    elif how == "folder":
        real.mkdir()
    elif how == "dangling":
        real.symlink_to("nowhere")
    done = place.run()
    assert (done.returncode, done.stdout) == (1, b"")
    expected = b"keyferry-shim: provider: the agent has no answer, and there is no plugin behind this shim\n"
    assert done.stderr == expected


@direct
def test_a_plugin_that_runs_the_shim_again_ends_the_circle(place: Place) -> None:
    assert place.behind is not None
    write_executable(place.behind, f'#!/bin/sh\nexec "{place.path}" "$@"\n')
    done = place.run()
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"keyferry-shim: provider: shims execute one another;")


def test_the_command_that_pip_installs_is_no_plugin_either(tmp_path: Path) -> None:
    command = write_executable(
        tmp_path / "keyferry-shim", f"#!{sys.executable}\nfrom keyferry.bridge.shim import main\nmain()\n"
    )
    done = subprocess.run(
        [str(command), "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.endswith(": the agent has no answer, and there is no plugin behind this shim\n")


def test_a_shim_called_by_a_link_has_the_links_name(tmp_path: Path, shim: Shim) -> None:
    """One shim can serve several providers."""
    place = Place(tmp_path, shim, name="shim", behind="")
    link = place.folder / "ecr"
    link.symlink_to("shim")
    place.behind = write_executable(place.folder / "ecr.real", "#!/bin/sh\necho ecr\n")
    with serving(place.socket, lambda _: answered()) as server:
        place.run(path=link)
    assert server.requests[0]["provider"] == "ecr"
    assert place.run(path=link).stdout == b"ecr\n"


@pytest.mark.parametrize(
    ("string", "text"),
    [
        (rb'"a\n\u00e9"', "a\n\u00e9"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\udbff\udfff"', "\U0010ffff"),
        (rb'"\udc00\udc00"', "\ufffd\ufffd"),
        (rb'"\ud800x"', "\ufffdx"),
        (rb'"\ud800\u0041"', "\ufffdA"),
        (b"1", ""),
    ],
)
def test_escapes_are_undone_and_halves_of_characters_replaced(string: bytes, text: str) -> None:
    assert unquote(string) == text.encode()


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"[]", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b'{,"a":1}', b'{"a" 1}'),
        *(b'{"a":}', b'{"a":1}{}', b'{"a":1} x', b'{"a":"\n"}', b'{"a":"x}', b'{"a":"\\"}', b'{"a":[}]}'),
        *(b'{"a":{]}}', b"{a:1}", b'{"a":1 "b":2}', b'{"a":1,"a":2}', b'{"b":{"c":"}}'),
        b'{"a":' + b"[" * 65 + b"]" * 65 + b"}",
    ],
)
def test_anything_else_is_no_object(text: bytes) -> None:
    assert read_members(text, b"a") is None


DOCUMENTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
        max_leaves=12,
    ),
    max_size=6,
)


@given(DOCUMENTS, st.sampled_from([None, 1]))
def test_every_member_of_every_object_is_found(document: dict[str, object], indent: int | None) -> None:
    text = json.dumps(document, indent=indent)
    names = [json.dumps(name)[1:-1].encode() for name in document]
    found = read_members(text.encode(), *names)
    assert found is not None
    assert {json.loads(b'"%s"' % name): json.loads(value) for name, value in found.items()} == document


def put_shim(node: Node) -> None:
    """Put a shim in front of the plugin."""
    path = node.bin_dir / "plugin"
    (node.bin_dir / "plugin.real").hardlink_to(path)
    (node.bin_dir / "plugin.agent").symlink_to(node.root / "none.sock")
    write_executable(path, python_shim())


@pytest.mark.parametrize("is_loaded_before", [False, True])
def test_a_lookup_does_not_execute_the_shim(node: Node, is_loaded_before: bool) -> None:
    """An agent that executed the shim would ask itself."""
    node.recording()
    providers = node.load() if is_loaded_before else None
    put_shim(node)
    # A shim that is executed fails, and with it the lookup.
    write_executable(node.bin_dir / "plugin", python_shim().replace(b"import sys", b"raise SystemExit(9)"))
    answer = (providers or node.load()).lookup(IMAGE)
    assert [credential.username for credential in answer.credentials] == ["user"]
    assert len(node.runs()) == 1
