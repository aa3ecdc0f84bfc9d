"""Agents, shims and clients of different ages work together; the older ones are a build that is kept in the tree."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import kept
from support.agent_server import Answer, answered, serving
from support.agents import RunningAgent, make_token, running_agent
from support.parts import need
from support.plugins import IMAGE, PLUGIN, REGISTRY, Node, provider_entry, write_config, write_executable
from support.shims import Place, request

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
on_x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the kept shim is for x86-64"
)
kinds = pytest.mark.parametrize("kind", ["python", pytest.param("native", marks=on_x86)])
TOKENS = {"serviceAccountTokenAudience": "registry", "cacheType": "Token", "requireServiceAccount": True}
HELPER = "from keyferry.bridge.docker.helper import main; main()"
LATER = "agent.keyferry.dev/v2"


@dataclass
class Pair:
    """An agent of one age, and the age of who asks it."""

    agent: RunningAgent
    age: str


@pytest.fixture(scope="module", params=kept.AGES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A kept agent for clients of today, and today's agent for kept clients."""
    node = Node(tmp_path_factory.mktemp("node"))
    node.recording()
    node.shell('cat > /dev/null; echo "no luck" >&2; exit 7', name="broken")
    node.recording(name="tenants", auth={"tenant.example": ("tenant", "pass")})
    entries: dict[str, dict[str, object]] = {
        "broken": {"matchImages": ["broken.example"]},
        "tenants": {"matchImages": ["tenant.example"], "tokenAttributes": TOKENS},
    }
    more = [provider_entry(name=name, **fields) for name, fields in entries.items()]
    write_config(node.config, [provider_entry(), *more])
    with running_agent(node, environ=kept.environ_of(request.param)) as agent:
        yield Pair(agent, kept.AGES[1 - kept.AGES.index(request.param)])


def test_the_kept_files_are_those_of_their_note() -> None:
    """And they are small; with the compiler of the note, the shim is what its source gives."""
    for name, digest in kept.NOTE["sha256"].items():
        data = (kept.FOLDER / name).read_bytes()
        assert (name, hashlib.sha256(data).hexdigest()) == (name, digest)
        assert len(data) < 1_500_000
    assert len(kept.NOTE["commit"]) == 40
    shown = subprocess.run([need("musl-gcc"), "--version"], capture_output=True, text=True, check=True).stdout
    if shown.partition("\n")[0] == kept.NOTE["compiler"]:
        from tools.keep_release import build_shim

        source = zipfile.ZipFile(kept.SOURCES).read("native/shim.c")
        assert build_shim(source) == kept.NATIVE_SHIM.read_bytes()


@kinds
def test_a_shim_and_an_agent_of_different_ages(pair: Pair, kind: str, tmp_path: Path) -> None:
    """Answers, failures, tokens, and the fallback where there is no match or no such provider."""
    shim = kept.shim_of(pair.age, kind, tmp_path)
    place = Place(tmp_path, shim, PLUGIN)
    env = {"KEYFERRY_AGENT": pair.agent.socket}
    done = place.run(request(IMAGE), env=env)
    document = json.loads(done.stdout)
    assert document["auth"] == {REGISTRY: {"username": "user", "password": "pass"}}
    assert (document["cacheDuration"], place.runs) == ("0s", 0)
    assert place.run(request("elsewhere.example/app"), env=env).stdout == b"the plugin answers\n"
    failing = Place(tmp_path, shim, "broken").run(request("broken.example/app"), env=env)
    assert (failing.returncode, failing.stdout, failing.stderr.rstrip()) == (7, b"", b"no luck")
    token = make_token(time.time() + 600, f"{pair.age}{kind}")
    tenant = Place(tmp_path, shim, "tenants")
    done = tenant.run(request("tenant.example/app", serviceAccountToken=token), env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["auth"]["tenant.example"]["username"] == "tenant"
    unknown = Place(tmp_path, shim, "unknown")
    assert unknown.run(request(IMAGE), env=env).stdout == b"the plugin answers\n"
    beside = Place(tmp_path, shim, "broken-beside", behind=".beside")
    assert beside.run(request(IMAGE), env=env).stdout == b"the plugin answers\n"


@pytest.mark.parametrize("asked", [REGISTRY, IMAGE])
def test_the_docker_helper_and_an_agent_of_different_ages(pair: Pair, asked: str) -> None:
    """A registry's login, and that of an image; without a config, it can be the agent's alone."""
    environ = os.environ | {"KEYFERRY_AGENT": pair.agent.socket, "KEYFERRY_HOST_ROOT": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", HELPER, "get"],
        input=asked.encode(),
        env=environ | kept.environ_of(pair.age),
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout) == {"ServerURL": asked, "Username": "user", "Secret": "pass"}, done.stderr


@pytest.mark.parametrize("command", ["status", "reload"])
def test_commands_and_an_agent_of_different_ages(pair: Pair, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "keyferry", "agent", command, "--socket", pair.agent.socket],
        env=os.environ | kept.environ_of(pair.age),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("first", kept.AGES)
def test_an_upgrade_and_its_way_back(tmp_path: Path, first: str) -> None:
    """A new process takes the place of one of another age; clients that are connected keep their agent."""
    node = Node(tmp_path)
    node.recording()
    write_config(node.config, [provider_entry()])
    second = kept.AGES[1 - kept.AGES.index(first)]
    with running_agent(node, environ=kept.environ_of(first)) as before:
        before.look_up(IMAGE)
        with running_agent(node, environ=kept.environ_of(second)) as after:
            assert after.look_up(IMAGE).document["credentials"][0]["username"] == "user"
            before.process.send_signal(signal.SIGTERM)
            assert before.process.wait(20) == 0
            assert after.look_up(IMAGE).status == 200


@kinds
@pytest.mark.parametrize("age", kept.AGES)
def test_a_plugin_that_the_agent_cannot_start_is_run_by_a_shim_of_any_age(
    age: str, kind: str, tmp_path: Path
) -> None:
    """The agent's place lacks the interpreter; the plugin behind the shim is run, once."""
    (tmp_path / "node").mkdir()
    node = Node(tmp_path / "node")
    write_executable(node.bin_dir / PLUGIN, "#!/nonexistent/loader\n")
    write_config(node.config, [provider_entry()])
    place = Place(tmp_path, kept.shim_of(age, kind, tmp_path), PLUGIN)
    with running_agent(node) as agent:
        done = place.run(request(IMAGE), env={"KEYFERRY_AGENT": agent.socket})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"the plugin answers\n", b"")
    assert place.runs == 1


UNKNOWN: dict[str, Answer] = {
    "an outcome": {**answered(), "outcome": "perhaps"},
    "a version of the response": answered(api_version="credentialprovider.kubelet.k8s.io/v2"),
    "a path": (404, {"apiVersion": LATER, "kind": "Status", "reason": "Gone", "message": "no"}),
    "a status": (299, answered()),
}


@kinds
@pytest.mark.parametrize("what", UNKNOWN)
def test_what_a_kept_shim_does_not_know_falls_back(kind: str, what: str, tmp_path: Path) -> None:
    place = Place(tmp_path, kept.shim_of("kept", kind, tmp_path))
    with serving(place.socket, lambda _: UNKNOWN[what]):
        assert place.run().stdout == b"the plugin answers\n"


@kinds
def test_fields_that_a_kept_shim_does_not_know_are_ignored(kind: str, tmp_path: Path) -> None:
    place = Place(tmp_path, kept.shim_of("kept", kind, tmp_path))
    more = {"later": [{"a": 1}], "retryAfterSeconds": 7}
    with serving(place.socket, lambda _: {**answered(), **more}):
        assert json.loads(place.run().stdout)["auth"]
    assert place.runs == 0


def test_what_an_agent_does_not_know_is_refused_or_ignored(pair: Pair) -> None:
    """An unknown path is 404 and an unknown method 405, upon which clients do the work themselves."""
    assert pair.agent.ask("POST", "/v2/lookup", {"image": IMAGE}).status == 404
    assert pair.agent.ask("PATCH", "/v1/lookup", {"image": IMAGE}).status == 405
    assert pair.agent.look_up(IMAGE, later=[1], kinder={}).document["credentials"]
