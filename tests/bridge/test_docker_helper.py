"""``docker-credential-keyferry`` by docker's protocol, byte for byte, through the agent and without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyferry
from keyferry.bridge.docker_helper import main
from support.agent_here import agent_here
from support.agent_server import Answer, Request, refusal, serving, telling
from support.commands import call_in_process
from support.plugins import Node, write_config

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs Unix sockets and scripts")
HOST = "registry.example"
NOT_FOUND = (1, b"credentials not found in native keychain\n")
SCRIPT = "from keyferry.bridge.docker_helper import main; main()"
NAME = "docker-credential-keyferry"
# As in a pod.
NO_CONFIG = {"KEYFERRY_HOST_ROOT": "/nowhere", "KEYFERRY_BIN_DIR": ""}


class Helper:
    """The helper on a node, which has its config in the usual place, and the agent's socket."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.socket = node.root / "agent" / "agent.sock"
        self.said = ""
        self.usual = node.root / "host"
        config = self.usual / "etc" / "eks" / "image-credential-provider" / "config.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.symlink_to(node.config)

    def __call__(self, *words: str, stdin: str = "", **env: str) -> tuple[int, bytes]:
        """Run it; return its status and standard output."""
        places = {
            "KEYFERRY_PROC": str(self.node.root),
            "KEYFERRY_HOST_ROOT": str(self.usual),
            "KEYFERRY_BIN_DIR": str(self.node.bin_dir),
        }
        env = {**places, "KEYFERRY_AGENT": str(self.socket), **env}
        done = call_in_process(main, [NAME, *words], stdin=os.fsencode(stdin), env=env)
        self.said = done.stderr
        return done.returncode, done.stdout.encode()


@pytest.fixture
def helper(node: Node) -> Helper:
    """A node whose one provider is for one registry."""
    node.recording()
    node.load()
    return Helper(node)


def login(url: str, username: str = "user", secret: str = "pass") -> tuple[int, bytes]:
    return 0, f'{{"ServerURL":"{url}","Username":"{username}","Secret":"{secret}"}}\n'.encode()


@pytest.mark.parametrize(
    "url",
    [
        HOST,  # docker, podman, skopeo, buildah
        f"https://{HOST}",  # some configs of docker
        f"https://{HOST}/v2/",  # oras
        f"{HOST}:443",  # nerdctl
        f"{HOST}/team/app",  # crane with a credsStore, first
    ],
)
def test_the_librarys_answer(helper: Helper, url: str) -> None:
    """The URL comes back as it was asked; line breaks around it are not part of it."""
    assert helper("get", stdin=url) == login(url)
    assert helper("get", stdin=f"{url}\n") == login(url)
    assert helper.said == ""


def test_crane_asks_for_the_repository_and_then_for_the_host(node: Node) -> None:
    """Not found has to be said in the exact words, or crane stops."""
    node.provider(matchImages=[f"{HOST}/team"])
    node.recording()
    node.load()
    helper = Helper(node)
    assert helper("get", stdin=f"{HOST}/other/app") == NOT_FOUND
    assert helper("get", stdin=f"{HOST}/team/app") == login(f"{HOST}/team/app")
    assert helper("get", stdin=HOST) == login(HOST)


@pytest.mark.parametrize(
    "url", ["https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io"]
)
def test_docker_hub_by_all_its_names(node: Node, url: str) -> None:
    node.provider(matchImages=["docker.io"])
    node.recording(auth={"docker.io": ("user", "pass")})
    node.load()
    assert Helper(node)("get", stdin=url) == login(url)


@pytest.mark.parametrize("url", ["other.example", "u:p@registry.example", "a b", "ftp://registry.example"])
def test_not_found_is_said_in_the_exact_words(helper: Helper, url: str) -> None:
    assert helper("get", stdin=url) == NOT_FOUND
    assert helper.node.runs() == []


def test_without_a_config_nothing_is_found(helper: Helper) -> None:
    """Some tools run every helper at every command; the advice is for the helper."""
    for nowhere in ({"KEYFERRY_CONFIG": "/nowhere"}, NO_CONFIG):
        assert helper("list", **nowhere) == (0, b"{}\n")
        assert helper("get", stdin=HOST, **nowhere) == NOT_FOUND
    advice = "set KEYFERRY_CONFIG and KEYFERRY_BIN_DIR, or KEYFERRY_AGENT to the socket of a node agent; "
    assert f"no provider config found: {advice}" in helper.said


def test_an_agent_that_is_named_and_does_not_answer_is_told(helper: Helper) -> None:
    said = f"keyferry: KEYFERRY_AGENT: the agent at '{helper.socket}' cannot be reached: no such file or directory"
    assert helper("get", stdin=HOST, **NO_CONFIG) == NOT_FOUND
    assert helper.said.startswith(f"{said}; no provider config found: ")
    assert helper("list", **NO_CONFIG) == (0, b"{}\n")
    assert helper.said.splitlines() == [said]
    for unnamed in ("", "off", "auto"):
        assert helper("list", KEYFERRY_AGENT=unnamed, **NO_CONFIG) == (0, b"{}\n")
        assert helper.said == ""


def test_a_failed_plugin_is_an_error_with_its_reason(helper: Helper) -> None:
    helper.node.shell("echo 'no role' >&2; exit 3")
    status, said = helper("get", stdin=HOST)
    assert status == 1
    assert said.startswith(b"docker-credential-keyferry: ")
    assert b"no role" in said


@pytest.fixture
def divided(node: Node) -> Helper:
    """A node whose providers have different logins for paths of one registry."""
    for name, password in (("one", "first"), ("two", "second")):
        node.provider(name, matchImages=[f"{HOST}/{name}"])
        node.recording(name=name, auth={HOST: ("user", password)})
    node.load()
    return Helper(node)


def test_logins_that_depend_on_the_path_are_not_guessed(divided: Helper) -> None:
    assert divided("get", stdin=HOST) == NOT_FOUND
    assert f"({HOST}/one, {HOST}/two); set KEYFERRY_IMAGE to the image" in divided.said
    assert divided.said.count("\n") == 1


def test_the_image_decides_if_it_is_known(divided: Helper) -> None:
    assert divided("get", stdin=HOST, KEYFERRY_IMAGE=f"{HOST}/two/app:v1") == login(HOST, secret="second")
    assert divided("get", stdin=f"{HOST}/one/app") == login(f"{HOST}/one/app", secret="first")
    assert divided("get", stdin=HOST, KEYFERRY_IMAGE="other.example/two/app:v1") == NOT_FOUND


def test_what_is_longer_than_any_name_is_refused_before_it_is_parsed(divided: Helper) -> None:
    """A question finds nothing, as docker's tools expect; the user's own image is named as the cause."""
    assert divided("get", stdin=f"{HOST}/one/{'a' * 1024}") == NOT_FOUND
    status, text = divided("get", stdin=HOST, KEYFERRY_IMAGE=f"{HOST}/two/{'a' * 100_000}")
    assert status == 1
    assert b"KEYFERRY_IMAGE is longer than 1024 characters" in text
    assert len(text) < 200


def test_the_user_name_of_identity_tokens_is_not_given(helper: Helper) -> None:
    helper.node.recording(auth={HOST: ("<token>", "pass")})
    assert helper("get", stdin=HOST) == NOT_FOUND


PATTERNS = [HOST, f"{HOST}/x", "*.io", "docker.io", "reg.io:5000"]
LISTED = b'{"registry.example":"","https://index.docker.io/v1/":"","reg.io:5000":""}\n'


def test_list_names_exact_hosts_and_runs_nothing(node: Node) -> None:
    node.provider(matchImages=PATTERNS)
    node.recording()
    node.load()
    assert Helper(node)("list") == (0, LISTED)
    assert node.runs() == []


def test_store_and_erase_succeed_for_what_is_served(helper: Helper) -> None:
    """Nothing is stored: the next login comes from the plugin again."""
    document = {"ServerURL": HOST, "Username": "x", "Secret": "hidden-word"}
    assert helper("store", stdin=json.dumps(document)) == (0, b"")
    assert helper("erase", stdin=f"https://{HOST}/v2/") == (0, b"")
    assert helper("get", stdin=HOST) == login(HOST)
    assert helper.node.runs() == [f"{HOST}/keyferry"]


def test_store_and_erase_refuse_what_is_not_served(helper: Helper) -> None:
    document = {"ServerURL": "other.example", "Username": "x", "Secret": "hidden-word"}
    for words, stdin in (("store", json.dumps(document)), ("erase", "other.example"), ("erase", "a b")):
        status, said = helper(words, stdin=stdin)
        assert status == 1
        assert b"no credential provider of this node is for this registry" in said
        assert b"hidden-word" not in said
        assert b"not implemented" not in said
    assert helper("store", stdin="{") == (1, b"no credentials server URL\n")


def test_version_usage_and_mistakes(helper: Helper) -> None:
    version = f"{NAME} (keyferry) v{keyferry.__version__}\n".encode()
    usage = f"Usage: {NAME} <store|get|erase|list|version>\n".encode()
    assert helper("version") == (0, version)
    assert helper("--version") == (0, version)
    assert helper("--help") == (0, usage)
    assert helper() == (1, usage)
    assert helper("get", "x") == (1, usage)
    assert helper("steal") == (1, f"{NAME}: unknown action: steal\n".encode())
    assert helper("get") == (1, b"no credentials server URL\n")
    assert helper("erase") == (1, b"no credentials server URL\n")


def from_agent(kind: str = "RegistryResponse", minutes: float = 60, **more: Any) -> dict[str, object]:
    """Return an answer of the agent."""
    until = datetime.now(UTC) + timedelta(minutes=minutes)
    found = {
        "username": "agent",
        "password": "secret",
        "key": HOST,
        "source": {"kind": "provider", "name": "p"},
    }
    return {
        "kind": kind,
        "credentials": [found],
        "failures": [],
        "expiresAt": f"{until:%Y-%m-%dT%H:%M:%SZ}",
        **more,
    }


def test_the_agents_answer(helper: Helper) -> None:
    with serving(helper.socket, lambda _: from_agent()) as server:
        assert helper("get", stdin=f"https://{HOST}/") == login(f"https://{HOST}/", "agent", "secret")
    assert server.requests == [
        {"apiVersion": "agent.keyferry.dev/v1", "kind": "LookupRequest", "registry": HOST}
    ]
    assert helper.node.runs() == []


def test_the_agent_is_asked_for_the_image_if_there_is_one(helper: Helper) -> None:
    def answer(request: Request) -> Answer:
        return from_agent("LookupResponse") if "image" in request else (400, refusal("BadRequest"))

    with serving(helper.socket, answer) as server:
        assert helper("get", stdin=f"{HOST}/team/app") == login(f"{HOST}/team/app", "agent", "secret")
        assert helper("get", stdin=HOST, KEYFERRY_IMAGE=f"{HOST}/a:v1") == login(HOST, "agent", "secret")
    assert [each["image"] for each in server.requests] == [f"{HOST}/team/app", f"{HOST}/a:v1"]


def test_the_agent_says_what_it_does_not_have(helper: Helper) -> None:
    with serving(helper.socket, lambda _: from_agent(credentials=[])):
        assert helper("get", stdin=HOST) == NOT_FOUND
    several = from_agent(outcome="ambiguous", credentials=[], candidates=["a/b", "a/c"])
    with serving(helper.socket, lambda _: several):
        assert helper("get", stdin=HOST) == NOT_FOUND
    assert "(a/b, a/c); set KEYFERRY_IMAGE" in helper.said


UNUSABLE: dict[str, Answer] = {
    "an older agent": (400, refusal("BadRequest")),
    "forbidden": (403, refusal("Forbidden")),
    "stopping": (503, refusal("Stopping")),
    "garbage": b"hello",
    "no JSON": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{",
    "no object": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
    "another kind": from_agent("LookupResponse"),
    "another version of the protocol": {**from_agent(), "apiVersion": "agent.keyferry.dev/v2"},
    "an unknown outcome": from_agent(outcome="perhaps"),
    "an unknown outcome without a login": from_agent(outcome="perhaps", credentials=[]),
    "failed": from_agent(credentials=[], failures=[{"provider": "p"}]),
    "soon expired": from_agent(minutes=4.5),
    "no time": from_agent(expiresAt="soon"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_without_a_usable_answer_the_library_is_used(helper: Helper, what: str) -> None:
    """A builder keeps an answer for almost five minutes, so one with less life left is not given to it."""
    with serving(helper.socket, lambda _: UNUSABLE[what]):
        assert helper("get", stdin=HOST) == login(HOST)
    assert len(helper.node.runs()) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (from_agent(credentials=[], failures=[{"provider": "p", "message": "no role"}]), "no role"),
        (from_agent(credentials=[], failures=[{"provider": "p"}]), "a plugin failed in the node agent"),
        (from_agent(minutes=1), f"the node agent's login for {HOST} ends in less than 290 s, "),
    ],
    ids=["failed", "failed, without a message", "soon expired"],
)
def test_without_a_config_the_agents_reason_is_told(helper: Helper, answer: Answer, said: str) -> None:
    with serving(helper.socket, lambda _: answer):
        status, shown = helper("get", stdin=HOST, **NO_CONFIG)
    assert (status, shown.decode().startswith(f"docker-credential-keyferry: {said}")) == (1, True)


PORT = "port.example:443"


@pytest.mark.parametrize("has_agent", [True, False], ids=["agent", "no agent"])
@pytest.mark.parametrize("has_config", [True, False], ids=["named config", "usual config"])
@pytest.mark.parametrize("pattern", ["port.example", PORT])
def test_a_default_port_is_found_with_and_without_it(
    node: Node, pattern: str, *, has_config: bool, has_agent: bool
) -> None:
    """By the agent with one run, however often it is asked."""
    node.provider(matchImages=[pattern])
    node.recording(auth={pattern: ("user", "pass")})
    node.load()
    helper, named = Helper(node), {"KEYFERRY_CONFIG": str(node.config)} if has_config else {}
    with agent_here(node) if has_agent else nullcontext() as agent:
        place = "off" if agent is None else agent.socket
        for url in (PORT, PORT, f"https://{PORT}/v2/", f"{PORT}/team/app"):
            assert helper("get", stdin=url, KEYFERRY_AGENT=place, **named) == login(url)
    assert len(node.runs()) == (1 if has_agent else 4)


@pytest.mark.parametrize("has_agent", [True, False], ids=["agent", "no agent"])
def test_the_spelling_that_was_asked_comes_first(node: Node, *, has_agent: bool) -> None:
    """As in the kubelet, a pattern with a port is for images that have it."""
    for name, host in (("one", "port.example"), ("two", PORT)):
        node.provider(name, matchImages=[host])
        node.recording(name=name, auth={host: ("user", name)})
    node.load()
    with agent_here(node) as agent:
        place = {"KEYFERRY_AGENT": agent.socket if has_agent else "off"}
        helper = Helper(node)
        assert helper("get", stdin=PORT, **place) == login(PORT, secret="two")
        assert helper("get", stdin="port.example", **place) == login("port.example", secret="one")


def test_a_spelling_that_is_refused_does_not_end_the_search(helper: Helper) -> None:
    """A rule of the agent may name the registry without the port that a tool adds."""

    def answer(request: Request) -> Answer:
        return from_agent() if request["registry"] == HOST else (403, refusal("Forbidden"))

    with serving(helper.socket, answer):
        assert helper("get", stdin=f"{HOST}:443") == login(f"{HOST}:443", "agent", "secret")
    none = from_agent(outcome="none", credentials=[])
    with serving(
        helper.socket, lambda request: none if request["registry"] == HOST else (403, refusal("Forbidden"))
    ):
        assert helper("get", stdin=f"{HOST}:443") == login(f"{HOST}:443")


def test_an_agent_that_does_not_answer_is_asked_once(helper: Helper) -> None:
    with serving(helper.socket, lambda _: b"hello") as server:
        assert helper("get", stdin=f"{HOST}:443") == login(f"{HOST}:443")
    assert len(server.requests) == 1


def config_for(node: Node, host: str) -> dict[str, str]:
    """Write a config of its own for a registry that the node's config does not have; return how it is named."""
    path = node.root / "own.json"
    entry = {**node.entries[0], "matchImages": [host]}
    write_config(path, [entry])
    return {"KEYFERRY_CONFIG": str(path)}


@pytest.mark.parametrize("suffix", ["", "/team/app"], ids=["registry", "repository"])
def test_a_config_that_is_named_counts_and_not_the_agents(node: Node, suffix: str) -> None:
    node.provider(matchImages=[HOST])
    node.recording(auth={"*.example": ("user", "pass")})
    node.load()
    helper = Helper(node)
    own = config_for(node, "mine.example")
    with agent_here(node) as agent:
        for place in (agent.socket, "off"):
            env = {**own, "KEYFERRY_AGENT": place}
            assert helper("get", stdin=f"mine.example{suffix}", **env) == login(f"mine.example{suffix}")
            assert helper("get", stdin=f"{HOST}{suffix}", **env) == NOT_FOUND
    assert [image.partition("/")[0] for image in node.runs()] == ["mine.example"] * 2


def test_a_named_config_that_is_not_there_has_no_answer_of_the_agent(helper: Helper) -> None:
    with agent_here(helper.node) as agent:
        env = {"KEYFERRY_CONFIG": "/nowhere", "KEYFERRY_AGENT": agent.socket}
        for url in (HOST, f"{HOST}/team/app"):
            assert helper("get", stdin=url, **env) == NOT_FOUND
        assert helper("list", **env) == (0, b"{}\n")
    assert helper.node.runs() == []


def named(helper: Helper, agent_socket: str) -> Mapping[str, str]:
    return {"KEYFERRY_CONFIG": str(helper.node.config), "KEYFERRY_AGENT": agent_socket}


def test_with_a_named_config_logins_that_depend_on_the_path_are_not_guessed(divided: Helper) -> None:
    with agent_here(divided.node) as agent:
        for _ in range(2):
            assert divided("get", stdin=HOST, **named(divided, agent.socket)) == NOT_FOUND
            assert f"({HOST}/one, {HOST}/two); set KEYFERRY_IMAGE to the image" in divided.said
    assert [len(divided.node.runs(name)) for name in ("one", "two")] == [1, 1]


def test_with_a_named_config_a_login_that_ends_soon_is_not_given(node: Node) -> None:
    node.recording(duration="4m")
    node.load()
    helper = Helper(node)
    with agent_here(node) as agent:
        assert helper("get", stdin=HOST, **named(helper, agent.socket)) == login(HOST)
    assert len(node.runs()) == 2


def test_a_pod_without_a_config_lists_what_the_agent_serves(node: Node) -> None:
    """As a node with its config does: exact hosts, and no plugin is run."""
    node.provider(matchImages=PATTERNS)
    node.recording()
    node.load()
    helper = Helper(node)
    with agent_here(node) as agent:
        assert helper("list", KEYFERRY_AGENT=agent.socket, **NO_CONFIG) == (0, LISTED)
    assert node.runs() == []
    assert helper("list", KEYFERRY_AGENT=agent.socket, **NO_CONFIG) == (0, b"{}\n")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"registries": [HOST]}, id="another kind"),
        pytest.param({"kind": "RegistryList", "registries": HOST}, id="no list"),
        pytest.param({"kind": "RegistryList"}, id="nothing"),
        pytest.param(
            {"kind": "RegistryList", "apiVersion": "v2", "registries": [HOST]}, id="another version"
        ),
        pytest.param({"kind": "RegistryList", "registries": [7, None, [HOST]]}, id="no hosts"),
    ],
)
def test_a_list_that_is_not_understood_is_empty(helper: Helper, answer: Mapping[str, object]) -> None:
    with telling(helper.socket, answer):
        assert helper("list", **NO_CONFIG) == (0, b"{}\n")


def test_a_pod_without_a_config_has_the_agents_login_and_stores_nothing(helper: Helper) -> None:
    document = json.dumps({"ServerURL": HOST, "Username": "x", "Secret": "hidden-word"})
    with agent_here(helper.node) as agent:
        place = {"KEYFERRY_AGENT": agent.socket, **NO_CONFIG}
        assert helper("get", stdin=HOST, **place) == login(HOST)
        assert helper("store", stdin=document, **place) == (0, b"")
        assert helper("erase", stdin=HOST, **place) == (0, b"")
        status, said = helper("erase", stdin="other.example", **place)
    assert (status, b"no credential provider of this node" in said) == (1, True)


@pytest.mark.parametrize("verb", ["get", "version"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", ">/dev/full", "<&- >&- 2>&-"])
def test_closed_streams_are_one_line_and_no_traceback(verb: str, closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", SCRIPT, verb],
        env={**os.environ, **NO_CONFIG, "KEYFERRY_AGENT": "off"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    if ">" in closed:
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == ("2>" not in closed), done.stderr


def test_a_note_for_people_is_no_part_of_the_answer_where_standard_error_is_closed(helper: Helper) -> None:
    assert helper("get", stdin=HOST, **NO_CONFIG) == NOT_FOUND
    assert "no provider config found" in helper.said
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", sys.executable, "-c", SCRIPT, "get"],
        env={**os.environ, **NO_CONFIG, "KEYFERRY_AGENT": str(helper.socket)},
        input=HOST.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == NOT_FOUND
