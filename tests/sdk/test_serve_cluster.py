"""A cluster plugin on the SDK as a process, with and without a person at a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from support.plugins import PATIENCE_SECONDS
from support.sdk_plugins import CLUSTER_GROUP, TOKEN, cluster_plugin, exec_info, python, run_source

ASK = 'return ExecResponse(token=ask(request, "Token: ", is_secret=True))'
ASK_TWO = """\
name = ask(request, "Name: ")
return ExecResponse(token=name + "-" + ask(request, "Password: ", is_secret=True))"""


@dataclass(frozen=True)
class Session:
    """What a run at a terminal gave: its answer, what came by standard error, and what the screen showed."""

    status: int
    stdout: bytes
    stderr: bytes
    screen: bytes
    has_echo: bool


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_answer_is_in_the_version_asked_for(version: str) -> None:
    """Both versions are spoken, byte for byte."""
    ran = run_source(cluster_plugin(), env=exec_info(version))
    assert (ran.status, ran.stderr) == (0, "")
    assert (
        ran.stdout
        == (
            f'{{"kind":"ExecCredential","apiVersion":"{CLUSTER_GROUP}/{version}","spec":{{"interactive":false}},'
            '"status":{"expirationTimestamp":"2033-05-18T03:33:20Z","token":"the-token"}}\n'
        ).encode()
    )


@pytest.mark.parametrize("stray", ["print('stray')", "os.system('echo stray')", "tell('stray')"])
def test_stray_output_ends_up_on_standard_error(stray: str) -> None:
    """Only the answer reaches standard output."""
    ran = run_source(cluster_plugin(f"{stray}\n{TOKEN}"), env=exec_info())
    assert ran.document["status"] == {"expirationTimestamp": "2033-05-18T03:33:20Z", "token": "the-token"}
    assert ran.stderr == "stray\n"


def test_the_cluster_is_told_if_the_client_tells_it() -> None:
    """Server, authority and the plugin's own config are the client's."""
    cluster = {
        "server": "https://c.example:6443",
        "tls-server-name": "other.example",
        "certificate-authority-data": "cGVt",
        "proxy-url": "http://proxy.example:3128",
        "config": {"audience": "a"},
    }
    body = """\
c = request.cluster
import json
tell(json.dumps([c.server, c.tls_server_name, c.certificate_authority_data.decode(), c.proxy_url, c.config]))
return ExecResponse(token="t")"""
    ran = run_source(cluster_plugin(body), env=exec_info(cluster=cluster))
    assert json.loads(ran.stderr) == [
        "https://c.example:6443",
        "other.example",
        "pem",
        "http://proxy.example:3128",
        '{"audience": "a"}',
    ]


def test_nobody_is_asked_where_the_client_says_so() -> None:
    """The message says what is needed and how to run it; the plugin does not wait."""
    ran = run_source(cluster_plugin(ASK), stdin=b"typed\n", env=exec_info(interactive=False))
    ran.failed_with("Token is needed, and the user cannot be asked", "interactiveMode")


@pytest.mark.parametrize(
    ("stdin", "words"),
    [(b"", "ended before an answer was typed"), (b"x" * 5000 + b"\n", "longer than 4094 bytes")],
    ids=["nothing", "too-much"],
)
def test_an_answer_that_does_not_come_is_an_error(stdin: bytes, words: str) -> None:
    """Neither an end nor an endless line is taken for a token."""
    run_source(cluster_plugin(ASK), stdin=stdin, env=exec_info(interactive=True)).failed_with(words)


def test_two_questions_get_a_line_each_from_a_pipe() -> None:
    """The first question does not swallow the answer to the second; Windows' line ends are none of it."""
    ran = run_source(cluster_plugin(ASK_TWO), stdin=b"jo\r\nword", env=exec_info(interactive=True))
    assert ran.document["status"] == {"token": "jo-word"}


def at_terminal(
    source: str,
    dialogue: Callable[[int, subprocess.Popen[bytes]], bytes],
    env: Mapping[str, str] = exec_info(interactive=True),
) -> Session:
    """Run a plugin whose standard input is a terminal; *dialogue* plays the person, and gives the screen."""
    leader, follower = pty.openpty()
    try:
        with subprocess.Popen(
            python(source), stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=env, start_new_session=True,
        ) as process:  # fmt: skip
            screen = dialogue(leader, process)
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        has_echo = bool(termios.tcgetattr(leader)[3] & termios.ECHO)
    finally:
        os.close(leader)
        os.close(follower)
    return Session(process.returncode, stdout, stderr, screen, has_echo)


def answering(*lines: bytes, number: int = 0) -> Callable[[int, subprocess.Popen[bytes]], bytes]:
    """Return the dialogue of a person who types these at the prompt for a token; then a signal of that *number*."""

    def dialogue(leader: int, process: subprocess.Popen[bytes]) -> bytes:
        read_until(process, b"Token: ")
        wait_for_echo(leader, is_on=False)
        for line in lines:
            os.write(leader, line)
        if number:
            process.send_signal(number)
        return b""

    return dialogue


def read_until(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Wait for a prompt on standard error."""
    assert process.stderr is not None
    found = b""
    while text not in found:
        byte = os.read(process.stderr.fileno(), 1)
        assert byte, found
        found += byte


def screen_of(leader: int) -> bytes:
    """What a terminal shows by now."""
    shown = b""
    while select.select([leader], [], [], 0.2)[0]:
        shown += os.read(leader, 65536)
    return shown


def wait_for_echo(leader: int, *, is_on: bool) -> None:
    """Wait until the terminal shows, or does not show, what is typed: the prompt may come a moment before that."""
    for _ in range(2000):
        if bool(termios.tcgetattr(leader)[3] & termios.ECHO) == is_on:
            return
        select.select([], [], [], 0.01)
    raise AssertionError("the echo did not change")


def type_two(leader: int, process: subprocess.Popen[bytes]) -> bytes:
    """Type a name, and a password."""
    read_until(process, b"Name: ")
    os.write(leader, b"jo\n")
    read_until(process, b"Password: ")
    wait_for_echo(leader, is_on=False)
    os.write(leader, b"s3cret\n")
    process.wait(PATIENCE_SECONDS)
    return screen_of(leader)


def test_a_secret_is_not_shown_while_it_is_typed() -> None:
    """The name is echoed by the terminal, the password is not; both prompts are on standard error."""
    session = at_terminal(cluster_plugin(ASK_TWO), type_two)
    assert json.loads(session.stdout)["status"] == {"token": "jo-s3cret"}
    assert b"jo" in session.screen
    assert b"s3cret" not in session.screen
    assert session.has_echo


@pytest.mark.parametrize(
    ("dialogue", "status", "words"),
    [
        # The end of input, typed, is no empty token.
        pytest.param(answering(b"\x04"), 1, b"standard input ended before an answer was typed", id="Ctrl-D"),
        pytest.param(answering(number=signal.SIGINT), 130, b"plugin: interrupted\n", id="interrupt"),
        # A terminal keeps 4095 bytes of a line and says nothing; half a token would be a riddle.
        pytest.param(
            answering(*[b"x" * 100] * 50, b"\n"), 1, b"longer than 4094 bytes", id="cut by the terminal"
        ),
    ],
)
def test_what_is_no_answer_is_an_error_and_leaves_a_terminal_that_shows_what_is_typed(
    dialogue: Callable[[int, subprocess.Popen[bytes]], bytes], status: int, words: bytes
) -> None:
    session = at_terminal(cluster_plugin(ASK), dialogue)
    assert (session.status, session.stdout) == (status, b"")
    assert words in session.stderr
    assert b"in the plugin itself" not in session.stderr
    assert session.has_echo


def test_a_terminal_that_goes_away_ends_the_question() -> None:
    """A closed window is an error with a message, not a bug of the plugin."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        python(cluster_plugin(ASK)), stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=exec_info(interactive=True), start_new_session=True,
    ) as process:  # fmt: skip
        read_until(process, b"Token: ")
        wait_for_echo(leader, is_on=False)
        os.close(follower)
        os.close(leader)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, stdout) == (1, b"")
    assert b"in the plugin itself" not in stderr
    assert b"standard input ended" in stderr


def test_a_person_who_runs_the_plugin_by_hand_can_be_asked() -> None:
    """Without KUBERNETES_EXEC_INFO a terminal on standard input is enough."""
    session = at_terminal(cluster_plugin(ASK), answering(b"typed\n"), env={})
    assert json.loads(session.stdout)["status"] == {"token": "typed"}


@pytest.mark.parametrize("body", ["tell('x')", 'ask(request, "Q: ")'], ids=["tell", "ask"])
def test_without_standard_error_nothing_is_told_and_nothing_breaks(body: str) -> None:
    """A program without standard error can still answer."""
    script = f"import os; os.close(2); exec({cluster_plugin(f'{body}{chr(10)}{TOKEN}')!r})"
    done = subprocess.run(
        python(script), input=b"line\n", env=exec_info(interactive=True), stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"]["token"] == "the-token"
