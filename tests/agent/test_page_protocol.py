"""The agent's protocol on its page: the examples run against a real agent, which keeps what its tables say."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry._net import agent as client
from keyferry.agent.access import MAX_RUNS, MAX_WAITING
from keyferry.agent.connection import IDLE_SECONDS, STEP_SECONDS
from support.agent_here import agent_here
from support.agents import Agent, counting_node
from support.parts import need
from support.plugins import PATIENCE_SECONDS, Node, provider_entry, write_config

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "agent-reference.md").read_text(encoding="utf-8")
SOCKET = "/run/keyferry/agent.sock"
ROUTES = sorted(set(re.findall(r"^\| \[`(\w+ /[^`]+)`\]", PAGE, re.MULTILINE)))
PROVIDERS = {"acme": "registry.example", "broken": "broken.example"}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent with the two providers of the page, one of which fails, and a page for browsers."""
    node = Node(tmp_path_factory.mktemp("node"))
    node.recording(name="acme", auth={"registry.example": ("robot", "pass-word")})
    node.shell("echo 'the login has expired' >&2; exit 1", name="broken")
    entries = [provider_entry(name, matchImages=[host]) for name, host in PROVIDERS.items()]
    write_config(node.config, entries)
    with agent_here(node, "--page", "127.0.0.1:0") as running:
        yield running


def fields_of(head: str, page: str = PAGE) -> set[str]:
    """The names in the first column of a table."""
    rows = page.partition(f"| {head} | what |\n|---|---|\n")[2].partition("\n\n")[0]
    assert rows
    return {name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def examples() -> list[tuple[str, str]]:
    """Every command of the page, and the output that it shows."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = text.splitlines(keepends=True)
            last = next(at for at, line in enumerate(lines) if not line.endswith("\\\n"))
            found.append(("".join(lines[: last + 1]), "".join(lines[last + 1 :])))
    return found


def test_the_examples_of_the_page_are_true(agent: Agent, tmp_path: Path) -> None:
    """One after the other, in the order of the page, by curl; what ``...`` stands for is any text."""
    for program in ("curl", "jq"):
        need(program)
    told = examples()
    assert len(told) >= len(ROUTES)
    for command, shown in told:
        assert f"--unix-socket {SOCKET} " in command
        done = subprocess.run(
            ["sh", "-c", command.replace(SOCKET, agent.socket)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        pattern = ".*?".join(map(re.escape, shown.rstrip("\n").split("...")))
        output = done.stdout.replace("\r\n", "\n").rstrip("\n")
        assert re.fullmatch(pattern, output, re.DOTALL), f"{command}\n{done.stdout}{done.stderr}"


def test_every_route_has_a_section() -> None:
    headings = " ".join(re.findall(r"^### (.*)$", PAGE, re.MULTILINE))
    assert set(re.findall(r"`(\w+ /[^`]+)`", headings)) == set(ROUTES)


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_is_served(agent: Agent, route: str) -> None:
    """With its method, and no other."""
    method, path = route.split()
    for query in ("", "?verbose"):
        assert agent.ask(method, f"{path}{query}").status in (200, 400)
    assert agent.ask("PATCH", path).status == 405


REFUSED = {
    "no name": ("POST", "/v1/lookup", {"image": "Team/App"}, 400),
    "another version": ("POST", "/v1/lookup", {"apiVersion": "agent.keyferry.dev/v9"}, 400),
    "no path": ("GET", "/v1/nothing", None, 404),
    "no provider": ("POST", "/v1/lookup", {"image": "registry.example/app", "provider": "other"}, 404),
    "another method": ("GET", "/v1/lookup", None, 405),
    "another config": (
        "POST",
        "/v1/lookup",
        {"image": "registry.example/app", "configHash": "sha256:0"},
        409,
    ),
}


@pytest.mark.parametrize(("method", "path", "question", "status"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_on_the_page(
    agent: Agent, method: str, path: str, question: object, status: int
) -> None:
    reply = agent.ask(method, path, question)
    assert (reply.status, reply.document["kind"]) == (status, "Status")
    assert (str(status), reply.document["reason"]) in refusals()


def refusals() -> set[tuple[str, str]]:
    """The statuses of the page, each with its reason."""
    rows = re.findall(r"^\| ([\d, ]+) \| `(\w+)` \|", PAGE, re.MULTILINE)
    return {(status, reason) for column, reason in rows for status in column.split(", ")}


def limit(name: str) -> str:
    """The value of a row of the page's limits."""
    rows: dict[str, str] = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE))
    return rows[name]


def first_number(text: str) -> int:
    return int(text.split(maxsplit=1)[0])


def status_of(agent: Agent, request: bytes) -> int:
    """The status with which the agent answers these bytes; a refusal is on the page."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.connect(agent.socket)
        client.sendall(request)
        status = client.recv(4096).split()[1].decode()
        assert status == "200" or (status, "BadRequest") in refusals()
        return int(status)


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 431)])
def test_a_head_may_be_as_long_as_the_page_says(agent: Agent, more: int, status: int) -> None:
    before, after = b"GET /v1/health HTTP/1.1\r\nx: ", b"\r\n\r\n"
    filling = (first_number(limit("head of a request")) << 10) - len(before + after) + more
    assert status_of(agent, before + b"y" * filling + after) == status


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
def test_a_body_may_be_as_long_as_the_page_says(agent: Agent, more: int, status: int) -> None:
    length = (first_number(limit("body of a request")) << 10) + more
    head = b"POST /v1/lookup HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % length
    body = b'{"image": "registry.example/app"}'.ljust(length) if status == 200 else b""
    assert status_of(agent, head + body) == status


@pytest.mark.parametrize("field", ["image", "registry"])
def test_a_name_may_be_as_long_as_the_page_says(agent: Agent, field: str) -> None:
    """A longer one is refused for its length, a shorter one at most for what it is."""
    most = first_number(limit("name of an image or a registry"))
    longest, longer = (
        agent.ask("POST", "/v1/lookup", {field: "registry.example/app".ljust(length, "a")}).document
        for length in (most, most + 1)
    )
    said = f"{field}: expected at most {most} characters"
    assert (longer["reason"], longer["message"]) == ("BadRequest", said)
    assert longest.get("message") != said


def test_evictions_are_limited_as_the_page_says(tmp_path: Path) -> None:
    """The burst is granted; of three bursts, one eviction is refused, for no longer than one of them takes."""
    found = re.fullmatch(r"(\d+) at once, then one in (\d+) s", limit("evictions of one user"))
    assert found is not None
    burst, seconds = map(int, found.groups())
    wrong = {"image": "registry.example/app", "username": "user", "password": "another"}
    with agent_here(counting_node(tmp_path, "pass-word")) as running:
        replies = [running.ask("POST", "/v1/evict", wrong) for _ in range(3 * burst)]
    assert {reply.status for reply in replies[:burst]} == {200}
    refused = next(reply for reply in replies if reply.status != 200)
    assert (str(refused.status), refused.document["reason"]) in refusals()
    assert 1 <= int(refused.headers["retry-after"]) <= seconds


def test_what_is_waited_for_is_on_the_page() -> None:
    """Limits that take long to reach."""
    step = limit("time for a head, for a body, and to read an answer")
    assert step == f"{STEP_SECONDS:g} s each"
    assert limit("time between two requests") == f"{IDLE_SECONDS:g} s"
    runs = f"{MAX_RUNS // 2} at once; {MAX_WAITING} more wait"
    assert limit("lookups of one user that need a plugin run") == runs
    waits = f"{client.CONNECT_SECONDS:g} s for a connection and {client.ANSWER_SECONDS:g} s for an answer"
    assert f"wait {waits}, and take at most {client.MAX_BODY_BYTES >> 20} MiB" in PAGE


@pytest.mark.parametrize(
    ("kind", "questions"),
    [
        ("LookupResponse", [{"image": "registry.example/app"}, {"image": "broken.example/app"}]),
        (
            "ProviderResponse",
            [
                {"image": "registry.example/app", "provider": "acme"},
                {"image": "broken.example/app", "provider": "broken"},
                {"image": "elsewhere.example/app", "provider": "acme"},
            ],
        ),
        ("RegistryResponse", [{"registry": "registry.example"}, {"registry": "broken.example"}]),
    ],
)
def test_the_fields_of_an_answer_are_on_the_page(
    agent: Agent, kind: str, questions: list[dict[str, str]]
) -> None:
    """All of them, in questions with and without a config."""
    config = {"configHash": agent.status["config"]["hash"], "binDir": str(agent.node.bin_dir)}
    found: set[str] = set()
    for question in questions:
        reply = agent.ask("POST", "/v1/lookup", question | config)
        assert (reply.status, reply.document["kind"]) == (200, kind)
        found |= reply.document.keys()
    assert fields_of(f"field of a `{kind}`") == found - {"apiVersion", "kind"}


def test_the_fields_of_the_status_are_on_the_page(agent: Agent) -> None:
    section = PAGE.partition("## `GET /v1/status`")[2]
    assert fields_of("field", section) == agent.status.keys() - {"apiVersion", "kind"}


@pytest.mark.parametrize("field", sorted(fields_of("field of the request")))
def test_the_fields_of_a_question_are_read(agent: Agent, field: str) -> None:
    """One that the page names is refused if it is a number; any other is ignored."""
    image = {} if field == "registry" else {"image": "registry.example/app"}
    reply = agent.ask("POST", "/v1/lookup", image | {field: 7})
    assert (reply.status, reply.document["message"].split(":")[0]) == (400, field)
    assert agent.ask("POST", "/v1/lookup", {"image": "registry.example/app", f"{field}s": 7}).status == 200
