"""The page of the agent's protocol: its examples run against a real agent, and its tables are those of the code."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry._net import agent as client
from keyferry.agent import connection, lookups, usage
from keyferry.agent.service import AgentService
from keyferry.agent.turns import MOST_TURNS, MOST_WAITING
from support.agents import RunningAgent, running_agent
from support.parts import need
from support.plugins import Node, provider_entry, write_config

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "agent-protocol.md").read_text(encoding="utf-8")
SOCKET = "/run/keyferry/agent.sock"
PROVIDERS = {"acme": "registry.example", "broken": "broken.example"}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """An agent with the two providers of the page, one of which fails, and a page for browsers."""
    node = Node(tmp_path_factory.mktemp("node"))
    node.recording(name="acme", auth={"registry.example": ("robot", "pass-word")})
    node.shell("echo 'the login has expired' >&2; exit 1", name="broken")
    entries = [provider_entry(name, matchImages=[host]) for name, host in PROVIDERS.items()]
    write_config(node.config, entries)
    with running_agent(node, "--page", "127.0.0.1:0") as running:
        yield running


def examples() -> list[tuple[str, str]]:
    """Every command of the page, and the output that it shows."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = text.splitlines(keepends=True)
            last = next(at for at, line in enumerate(lines) if not line.endswith("\\\n"))
            found.append(("".join(lines[: last + 1]), "".join(lines[last + 1 :])))
    return found


def test_the_examples_of_the_page_are_true(agent: RunningAgent, tmp_path: Path) -> None:
    """One after the other, in the order of the page, by curl; what ``...`` stands for is any text."""
    for program in ("curl", "jq"):
        need(program)
    told = examples()
    assert len(told) >= len(routes())
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


def routes() -> set[str]:
    """The routes of the service, which its constructor lists."""
    source = inspect.getsource(AgentService)
    return {f"{method} {path}" for method, path in re.findall(r'\(b"(\w+)", b"([^"]+)"\):', source)}


def test_every_route_is_on_the_page() -> None:
    """With a row of the table, and a section."""
    assert set(re.findall(r"^\| \[`(\w+ /[^`]+)`\]", PAGE, re.MULTILINE)) == routes()
    headings = " ".join(re.findall(r"^## (.*)$", PAGE, re.MULTILINE))
    assert set(re.findall(r"`(\w+ /[^`]+)`", headings)) == routes()


def test_every_refusal_is_on_the_page() -> None:
    """Every status and reason that the agent's modules have for the socket."""
    folder = Path(connection.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    made = set(re.findall(r'reply_status\(\s*(\d+), "(\w+)"', source))
    made |= {(status, "BadRequest") for status in re.findall(r"self\._refuse\((\d+),", source)}
    rows = re.findall(r"^\| ([\d, ]+) \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert {(status, reason) for column, reason in rows for status in column.split(", ")} == made


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE))
    assert rows["head of a request"] == f"{connection.MOST_HEAD_BYTES >> 10} KiB"
    assert rows["body of a request"] == f"{connection.MOST_BODY_BYTES >> 10} KiB"
    step = rows["time for a head, for a body, and to read an answer"]
    assert step == f"{connection.STEP_SECONDS:g} s each"
    assert rows["time between two requests"] == f"{connection.IDLE_SECONDS:g} s"
    assert rows["name of an image or a registry"] == f"{client.MAX_NAME_CHARACTERS} characters"
    evictions = f"{usage._BURST} at once, then one in {usage._PER_EVICTION_SECONDS:g} s"
    assert rows["evictions of one user"] == evictions
    turns = f"{MOST_TURNS // 2} at once; {MOST_WAITING} more wait"
    assert rows["lookups of one user that need a plugin run"] == turns
    waits = f"{client.CONNECT_SECONDS:g} s for a connection and {client.ANSWER_SECONDS:g} s for an answer"
    assert f"wait {waits}, and take at most {client.MOST_BODY_BYTES >> 20} MiB" in PAGE


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
    agent: RunningAgent, kind: str, questions: list[dict[str, str]]
) -> None:
    """All of them, in questions with and without a config."""
    config = {"configHash": agent.status["config"]["hash"], "binDir": str(agent.node.bin_dir)}
    found: set[str] = set()
    for question in questions:
        reply = agent.ask("POST", "/v1/lookup", question | config)
        assert (reply.status, reply.document["kind"]) == (200, kind)
        found |= reply.document.keys()
    assert fields_of(f"field of a `{kind}`") == found - {"apiVersion", "kind"}


def test_the_fields_of_the_status_are_on_the_page(agent: RunningAgent) -> None:
    section = PAGE.partition("## `GET /v1/status`")[2]
    assert fields_of("field", section) == agent.status.keys() - {"apiVersion", "kind"}


def fields_of(head: str, page: str = PAGE) -> set[str]:
    """The names in the first column of a table."""
    rows = page.partition(f"| {head} | what |\n|---|---|\n")[2].partition("\n\n")[0]
    assert rows
    return {name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_the_questions_fields_are_those_that_are_read() -> None:
    """What the page names is read, and what is read is on the page."""
    read = set(re.findall(r'_texts?\(document, "(\w+)"\)', inspect.getsource(lookups))) | {"image"}
    assert fields_of("field of the request") == read
