"""The agent's log has its own lines alone, tells of plugins that fail, and who looks at the agent counts as nobody."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import resource
import socket
import time
from pathlib import Path

import pytest

from keyferry.agent.log import AgentLog, LogLevel, loop_error_logger, take_asyncio_log
from support.agent_here import agent_here
from support.agents import Agent
from support.commands import run_in_process
from support.page import log_in
from support.plugins import IMAGE, PLUGIN, REGISTRY, Node, provider_entry, write_config

SECRET = "hunter2-word"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    made.recording()
    made.shell(f'echo "denied: password={SECRET}" >&2; exit 1', "failing")
    failing = provider_entry("failing", matchImages=["failing.example"])
    write_config(made.config, [provider_entry(), failing])
    return made


def events(agent: Agent) -> list[dict[str, object]]:
    """Return the whole log; every line of it is JSON."""
    return [json.loads(line) for line in agent.log.splitlines()]


def test_a_client_that_leaves_early_writes_no_line_of_asyncio(node: Node) -> None:
    with agent_here(node, "--log-format", "json") as agent:
        before = len(events(agent))
        for _ in range(10):
            client = socket.socket(socket.AF_UNIX)
            client.connect(agent.socket)
            client.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n" * 500)
            client.close()
        agent.look_up(IMAGE)
        agent.stop()
        assert {str(each["event"]) for each in events(agent)[before:]} == {"stopping", "stopped"}


@pytest.mark.parametrize(
    "question",
    [
        pytest.param({"image": "failing.example/app"}, id="image"),
        pytest.param({"image": "failing.example/app", "provider": "failing"}, id="provider"),
        pytest.param({"registry": "failing.example"}, id="registry"),
    ],
)
def test_a_plugin_that_fails_is_in_the_log(node: Node, question: dict[str, object]) -> None:
    """Whatever was asked, with what the plugin said; not a line for each of many failures."""
    with agent_here(node, "--log-format", "json") as agent:
        for _ in range(10):
            assert agent.ask("POST", "/v1/lookup", question, traceparent="its-trace").status == 200
        found, *more = [each for each in events(agent) if each["event"] == "a provider failed"]
        assert len(more) < 9
        assert (found["level"], found["provider"], found["id"]) == ("warning", "failing", 1)
        assert found["traceparent"] == "its-trace"
        assert str(found["image"]).startswith("failing.example")
        assert "exited with status 1; stderr: denied: password=" in str(found["error"])
        assert SECRET not in agent.log


def test_who_looks_at_the_agent_does_not_count(node: Node) -> None:
    """Neither as a caller nor in the metrics; 'agent status --watch' and a page look every second."""
    with agent_here(node, "--page", "127.0.0.1:0") as agent:
        agent.look_up(IMAGE)
        opened = log_in(agent)
        before = agent.status["callers"]
        for _ in range(3):
            assert run_in_process("agent", "status", "--socket", agent.socket).returncode == 0
            agent.ask("GET", "/v1/metrics")
            agent.ask("GET", "/v1/health")
            opened.text("/callers")
        with opened.follow("/callers") as followed:
            next(followed)
        assert agent.status["callers"] == before
        # The lookup, and the two requests for a link's address and for the link.
        counted = agent.ask("GET", "/v1/metrics").body.decode()
        assert 'keyferry_agent_requests_total{status="200"} 2.0\n' in counted
        assert before[0]["requests"] == 2


SECRETS = ("argument-word", "bare-word-7", "dXNlcjpwYXNz", "url-word")
ARGUMENTS = [
    *(
        "--pwd",
        SECRETS[1],
        f"--auth=jo:{SECRETS[1]}",
        "--password",
        SECRETS[1],
        f"--token={SECRETS[0]}",
        "--region",
        "eu-west-1",
    ),
    f"https://user:{SECRETS[3]}@auth.example/login",
    f"eyJhbGciOiJub25lIn0.{SECRETS[2]}.c2lnbmF0dXJl",
]


def test_no_secret_of_a_plugins_arguments_is_shown(tmp_path: Path) -> None:
    """Not by the status, not by a failure that quotes it, not on the page, not in the log."""
    node = Node(tmp_path)
    node.shell('echo "no such user: $2, $6" >&2; exit 1')
    write_config(
        node.config, [provider_entry(args=ARGUMENTS, matchImages=[f"user:{SECRETS[3]}@x.io", REGISTRY])]
    )
    with agent_here(node, "--page", "127.0.0.1:0", "--log-level", "debug") as agent:
        told = [agent.look_up(IMAGE).body.decode(), agent.look_up(IMAGE, provider=PLUGIN).body.decode()]
        plugin = agent.status["providers"][0]["plugin"]
        assert plugin["args"][6:8] == ["--region", "eu-west-1"]
        told.append(agent.ask("GET", "/v1/status").body.decode())
        told.append(agent.ask("GET", "/v1/metrics").body.decode())
        status = ("agent", "status", "--socket", agent.socket, "-o")
        told += [run_in_process(*status, output).stdout for output in ("table", "json", "yaml")]
        opened = log_in(agent)
        told += [opened.text(view) for view in ("/", f"/providers/{PLUGIN}", f"/explain?image={IMAGE}")]
        places = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
        told.append(run_in_process("agent", "config", *places, "-o", "json").stdout)
        told.append(agent.log)
    assert "no such user" in told[0]
    for secret in SECRETS:
        assert [text for text in told if secret in text] == []


def logged(*contexts: dict[str, object]) -> list[str]:
    stream = io.StringIO()
    write = loop_error_logger(AgentLog(stream=stream))
    loop = asyncio.new_event_loop()
    try:
        for context in contexts:
            write(loop, context)
    finally:
        loop.close()
    return [line.partition(" ")[2] for line in stream.getvalue().splitlines()]


def raised(error: Exception) -> dict[str, object]:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - whatever is given
        return {"message": "made-up-secret", "exception": caught}


@pytest.mark.parametrize("is_json", [False, True])
def test_what_others_have_named_moves_no_cursor_and_forges_no_line(*, is_json: bool) -> None:
    stream = io.StringIO()
    name = "a\x1b[2Jb\rc\nd\u202ee\x9bf"
    AgentLog(is_json=is_json, stream=stream).write(LogLevel.INFO, f"ready {name}", socket=name, path=[name])
    [line] = stream.getvalue().splitlines()
    assert line.isprintable()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the log sees; its one item can be changed."""
    held = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: held[0])
    return held


def test_of_many_events_in_a_second_the_first_and_the_last_are_written(now: list[float]) -> None:
    """With the number of those between; other events are not held back."""
    stream = io.StringIO()
    log = AgentLog(stream=stream)

    def lines() -> list[str]:
        return [line.partition(" ")[2] for line in stream.getvalue().splitlines()]

    for number in range(5):
        log.write_seldom(LogLevel.WARNING, "a", "a failed", number=number)
    log.write_seldom(LogLevel.WARNING, "b", "b failed")
    log.sweep()
    assert lines() == ["warning a failed number=0", "warning b failed"]
    now[0] += 1
    log.sweep()
    assert lines()[2:] == ["warning a failed number=4 left_out=3"]
    log.write_seldom(LogLevel.WARNING, "a", "a failed", number=5)
    now[0] += 1
    log.write_seldom(LogLevel.WARNING, "a", "a failed", number=6)
    assert lines()[3:] == ["warning a failed number=6 left_out=1"]
    log.write_seldom(LogLevel.WARNING, "a", "a failed", number=7)
    log.sweep(is_last=True)
    log.sweep(is_last=True)
    assert lines()[4:] == ["warning a failed number=7"]


def test_what_asyncio_logs_is_in_this_log_and_format() -> None:
    """Without its values, and not once for every write."""
    stream, logger = io.StringIO(), logging.getLogger("asyncio")
    before = logger.handlers, logger.propagate
    try:
        take_asyncio_log(AgentLog(is_json=True, stream=stream))
        for _ in range(1000):
            logger.warning("%s raised exception", "secret-word")
        logger.info("nothing of interest")
    finally:
        logger.handlers, logger.propagate = before
    [event] = map(json.loads, stream.getvalue().splitlines())
    assert (event["level"], event["event"], event["message"]) == (
        *("warning", "asyncio"),
        "%s raised exception",
    )
    assert event["place"].startswith("test_log.py:")


def test_descriptors_that_run_out_are_one_line() -> None:
    """With the limit, if it is the agent's own."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    own = [raised(OSError(errno.EMFILE, "Too many open files"))] * 50
    reached, wait = "warning no descriptor is free: the limit of this", "is reached; clients wait"
    assert logged(*own, raised(OSError(errno.ENFILE, "Too many open files in system"))) == [
        f"{reached} process {wait} limit={limit}",
        f"{reached} machine {wait}",
    ]


@pytest.mark.parametrize("error", [ValueError("made-up-secret"), OSError(errno.EIO, "made-up-secret")])
def test_another_error_is_one_line_with_its_class_and_place(error: Exception) -> None:
    (line,) = logged(raised(error), raised(error))
    assert line.startswith(f"error unexpected error error={type(error).__name__} place=test_log.py:")


def test_a_context_without_an_error_is_one_line() -> None:
    assert logged({"message": "made-up-secret"}) == ["error unexpected error"]
