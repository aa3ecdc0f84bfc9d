"""Hostile neighbours of the agent: users without rights, forged tokens, clients that are slow, silent or endless."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry.agent.access import MAX_RUNS, MAX_WAITING
from keyferry.agent.connection import STEP_SECONDS
from keyferry.agent.management import AgentUnavailableError, ask_for_document
from support.agents import RunningAgent, make_token, running_agent
from support.commands import run_keyferry
from support.parts import need, root
from support.plugins import IMAGE, PLUGIN, REGISTRY, Node, provider_entry, wait_until, write_config
from support.shims import Place, build, request

ALLOWED, STRANGER, NOBODY = 12_001, 12_002, 65_534
GROUP = 12_050
HEAD = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"
RULES = f"""\
socketMode: '0666'
access:
- uids: [{ALLOWED}]
  registries: [{REGISTRY}]
- gids: [{GROUP}, {NOBODY}]
  registries: [group.example]
"""
EVERYTHING = (
    ("POST", "/v1/lookup"),
    ("POST", "/v1/evict"),
    ("GET", "/v1/status"),
    ("GET", "/v1/registries"),
    ("POST", "/v1/reload"),
    ("POST", "/v1/handover"),
    ("GET", "/metrics"),
    ("GET", "/v1/metrics"),
)
CLIENT = """
import json, socket, sys
path, method, target, body = sys.argv[1:]
client = socket.socket(socket.AF_UNIX)
try:
    client.connect(path)
except PermissionError:
    sys.exit("cannot connect")
data = body.encode()
head = f"{method} {target} HTTP/1.1\\r\\nconnection: close\\r\\ntraceparent: trace-of-a-stranger\\r\\n"
head += f"content-length: {len(data)}\\r\\n\\r\\n"
client.sendall(head.encode() + data)
answer = b""
while piece := client.recv(65536):
    answer += piece
sys.stdout.buffer.write(answer)
"""


@pytest.fixture
def node() -> Iterator[Node]:
    """A node in a folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="agent-", dir="/tmp"))
    folder.chmod(0o755)
    made = Node(folder)
    auth = {REGISTRY: ("user", "own-word"), "group.example": ("user", "other-word")}
    made.recording("Global", auth=auth)
    write_config(made.config, [provider_entry(matchImages=[REGISTRY, "group.example"])])
    (folder / "agent.yaml").write_text(HEAD + RULES)
    yield made
    shutil.rmtree(folder)


@pytest.fixture
def agent(node: Node) -> Iterator[RunningAgent]:
    """An agent with rules for some users."""
    with running_agent(node, "--agent-config", str(node.root / "agent.yaml")) as running:
        yield running


def ask_as(
    agent: RunningAgent, uid: int, method: str, target: str, document: object = None, *, groups: str = ""
) -> tuple[int, str]:
    """Ask as another user; return the status and the body, or 0 if the socket cannot be reached."""
    as_user = [need("setpriv"), f"--reuid={uid}", f"--regid={uid}"]
    as_user += [f"--groups={groups}"] if groups else ["--clear-groups"]
    body = "" if document is None else json.dumps(document)
    # The system's own interpreter, which every user can run.
    command = [*as_user, "/usr/bin/python3", "-I", "-c", CLIENT, agent.socket, method, target, body]
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", timeout=60)
    if b"cannot connect" in done.stderr:
        return 0, ""
    assert done.returncode == 0, done.stderr
    head, _, rest = done.stdout.decode().partition("\r\n\r\n")
    return int(head.split()[1]), rest


@root
def test_a_user_whom_no_rule_names_gets_nothing(agent: RunningAgent) -> None:
    """Neither credentials nor a look at who has them; that the agent lives is no secret."""
    agent.look_up(IMAGE)
    question = {"image": IMAGE, "username": "user", "password": "own-word"}
    for method, target in EVERYTHING:
        status, body = ask_as(agent, STRANGER, method, target, question)
        assert (target, status) == (target, 403)
        assert "word" not in body
        assert json.loads(body)["reason"] == "Forbidden"
    assert ask_as(agent, STRANGER, "GET", "/v1/health")[0] == 200
    line, *_ = [each for each in agent.log.splitlines() if f"refused uid={STRANGER}" in each]
    assert " id=2 " in line
    assert "traceparent=trace-of-a-stranger" in line


@root
def test_a_user_gets_its_own_registry_and_no_other(agent: RunningAgent) -> None:
    """Also not through a provider whose one response has credentials for both."""
    status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"image": IMAGE})
    assert (status, "own-word" in body, "other-word" in body) == (200, True, False)
    for provider in ("", PLUGIN):
        other = {"image": "group.example/app", "provider": provider}
        assert ask_as(agent, ALLOWED, "POST", "/v1/lookup", other)[0] == 403
    mine = {"image": IMAGE, "provider": PLUGIN}
    for _ in range(2):  # from a run, then from the cache
        status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", mine)
        assert (status, "own-word" in body, "other-word" in body) == (200, True, False)
    assert "other-word" in agent.look_up(IMAGE, provider=PLUGIN).body.decode()
    for method, target in EVERYTHING[2:]:
        expected = 200 if target == "/v1/registries" else 403
        assert (target, ask_as(agent, ALLOWED, method, target, mine)[0]) == (target, expected)


@root
def test_a_registry_as_a_whole_needs_the_right_to_all_of_its_images(agent: RunningAgent) -> None:
    """The same as for its images; a registry that no provider serves tells nothing either."""
    status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"registry": REGISTRY})
    assert (status, "own-word" in body, "other-word" in body) == (200, True, False)
    for host in ("group.example", "elsewhere.example"):
        assert ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"registry": host})[0] == 403
    # A guess at the config tells a stranger nothing.
    for config in ({}, {"configHash": "sha256:0", "binDir": "/"}):
        assert ask_as(agent, STRANGER, "POST", "/v1/lookup", {"registry": REGISTRY, **config})[0] == 403


@root
def test_a_right_to_one_path_is_none_to_the_registrys_password(node: Node) -> None:
    """Providers match the registry and a path of it; a rule for that path is for nothing else."""
    patterns = [REGISTRY, f"{REGISTRY}/team"]
    write_config(node.config, [provider_entry(matchImages=patterns)])
    rules = RULES.replace(f"registries: [{REGISTRY}]", f"registries: [{REGISTRY}/team]")
    (node.root / "agent.yaml").write_text(HEAD + rules)
    with running_agent(node, "--agent-config", str(node.root / "agent.yaml")) as agent:
        status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"image": IMAGE})
        assert (status, "own-word" in body) == (200, True)
        status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"registry": REGISTRY})
        assert (status, "own-word" in body) == (403, False)
        assert listed_as(agent, ALLOWED) == []


def listed_as(agent: RunningAgent, uid: int, groups: str = "") -> list[str]:
    status, body = ask_as(agent, uid, "GET", "/v1/registries", groups=groups)
    assert status == 200, body
    found: list[str] = json.loads(body)["registries"]
    return found


@root
def test_a_user_is_told_of_its_own_registries_alone(agent: RunningAgent) -> None:
    assert listed_as(agent, ALLOWED) == [REGISTRY]
    assert listed_as(agent, STRANGER, groups=str(GROUP)) == ["group.example"]
    assert agent.ask("GET", "/v1/registries").document["registries"] == [REGISTRY, "group.example"]


@root
def test_the_cache_is_handed_over_to_the_agents_own_user_alone(node: Node) -> None:
    """Not to another one, even if it may manage the agent."""
    manage = f"manage:\n- uids: [{ALLOWED}]\n"
    (node.root / "agent.yaml").write_text(HEAD + RULES + manage)
    with running_agent(node, "--agent-config", str(node.root / "agent.yaml")) as agent:
        agent.look_up(IMAGE)
        assert ask_as(agent, ALLOWED, "GET", "/v1/status")[0] == 200
        status, body = ask_as(agent, ALLOWED, "POST", "/v1/handover")
        assert (status, "word" in body) == (403, False)
        assert "own-word" in agent.ask("POST", "/v1/handover").body.decode()


@root
@pytest.mark.parametrize(
    "image",
    [
        "registry.example.evil.example/app",
        "registry.example@group.example/app",
        "REGISTRY.example/app",
        "group.example/registry.example/app",
        "registry.example:5000/app",
        "group.example/app:registry.example",
        "app",
    ],
)
def test_a_name_that_only_looks_like_an_allowed_registry_is_refused(agent: RunningAgent, image: str) -> None:
    status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"image": image})
    assert status in (400, 403)
    assert "word" not in body


@root
def test_groups_count_and_the_overflow_user_does_not(agent: RunningAgent) -> None:
    """A supplementary group is enough; a user of a foreign namespace has no rights by the group that it shows."""
    question = {"image": "group.example/app"}
    assert ask_as(agent, STRANGER, "POST", "/v1/lookup", question, groups=str(GROUP))[0] == 200
    assert ask_as(agent, STRANGER, "POST", "/v1/lookup", question)[0] == 403
    assert ask_as(agent, NOBODY, "POST", "/v1/lookup", question, groups=str(GROUP))[0] == 403


@root
def test_the_socket_is_closed_to_others_by_default(node: Node) -> None:
    with running_agent(node) as agent:
        assert ask_as(agent, STRANGER, "GET", "/v1/health") == (0, "")


@root
def test_a_right_ends_with_its_rule(agent: RunningAgent) -> None:
    """A caller that was allowed a moment ago is refused after a reload, also on what is cached."""
    assert ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"image": IMAGE})[0] == 200
    (agent.node.root / "agent.yaml").write_text(HEAD + "socketMode: '0666'\n")
    assert agent.ask("POST", "/v1/reload").status == 200
    assert ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"image": IMAGE})[0] == 403


@root
def test_a_forged_token_never_gets_another_accounts_answer(node: Node) -> None:
    """Every byte counts: the same claims with another signature, or the token without its last character."""
    attributes = {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "ServiceAccount",
        "requireServiceAccount": True,
    }
    write_config(node.config, [provider_entry(tokenAttributes=attributes)])
    real = make_token(time.time() + 600, "real")
    # The registry's own check: this token, to the byte.
    node.shell(
        f"read -r request; case $request in *'\"{real}\"'*) {answer('secret-word')};; *) exit 1;; esac"
    )
    account = {"namespace": "ns", "name": "builder", "uid": "u"}
    with running_agent(node, "--agent-config", str(node.root / "agent.yaml")) as agent:
        mine = {"image": IMAGE, "serviceAccountToken": real, "serviceAccount": account}
        assert "secret-word" in agent.ask("POST", "/v1/lookup", mine).body.decode()
        for forged in (make_token(time.time() + 600, "fake"), real[:-3], real.replace(".", ".a", 1)):
            for provider in ("", PLUGIN):
                asked = mine | {"serviceAccountToken": forged, "provider": provider}
                status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", asked)
                assert (status, "plugin" in body, "secret-word" in body) == (200, True, False)
        without = {"image": IMAGE, "serviceAccount": account}
        status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", without)
        assert (status, "secret-word" in body) == (200, False)
        # The real one is cached all the while, for whoever has it.
        status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", mine)
        assert (status, "secret-word" in body, '"cache"' in body) == (200, True, True)
        for text in (agent.log, json.dumps(agent.status)):
            assert real not in text
            assert "secret-word" not in text


FLOOD = """
import json, select, socket, sys
path, image, *tokens = sys.argv[1:]
statuses = {}
clients = []
for token in tokens:
    client = socket.socket(socket.AF_UNIX); client.connect(path)
    body = json.dumps({"image": image, "serviceAccountToken": token}).encode()
    client.sendall(b"POST /v1/lookup HTTP/1.1\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
    clients.append(client)
print("all", flush=True)
while select.select([sys.stdin], [], [], 0)[0] == []:
    for client in select.select(clients, [], [], 0.1)[0]:
        head = client.recv(65536)
        status = head.split(b" ", 2)[1].decode()
        statuses[status] = statuses.get(status, 0) + (1 if status != "503" or b"retry-after: " in head else 1000)
        clients.remove(client)
print(json.dumps(statuses), flush=True)
"""


@root
def test_a_flood_of_forged_tokens_delays_nobody_else(node: Node) -> None:
    """One user's lookups wait for each other; beyond a number they are refused, so that their clients do the work."""
    attributes = {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "ServiceAccount",
        "requireServiceAccount": True,
    }
    hanging = provider_entry(tokenAttributes=attributes)
    write_config(node.config, [hanging, provider_entry("quick", matchImages=["group.example"])])
    # Until the test lets go: whoever waits for one of these runs is not answered.
    node.shell(
        'echo run >>"$HERE/hanging"; while [ -d "$HERE" -a ! -e "$HERE/go" ]; do sleep 0.1; done; exit 1'
    )
    node.recording("Image", name="quick", auth={"group.example": ("user", "other-word")})
    tokens = [make_token(time.time() + 600, jti=str(number)) for number in range(400)]
    with running_agent(node, "--agent-config", str(node.root / "agent.yaml")) as agent:
        as_user = [need("setpriv"), f"--reuid={ALLOWED}", f"--regid={ALLOWED}", "--clear-groups"]
        flood = subprocess.Popen(
            [*as_user, "/usr/bin/python3", "-I", "-c", FLOOD, agent.socket, IMAGE, *tokens],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
        )
        assert flood.stdout is not None
        assert flood.stdout.readline() == b"all\n"
        runs = node.file("hanging")
        wait_until(lambda: runs.exists() and len(runs.read_text().split()) == MAX_RUNS // 2, "the runs")
        for number in range(20):
            found = agent.look_up(f"group.example/app{number}").document
            assert found["sources"] == {"quick": "run"}
        asked = {"image": "group.example/more"}
        assert ask_as(agent, STRANGER, "POST", "/v1/lookup", asked, groups=str(GROUP))[0] == 200
        assert len(runs.read_text().split()) == MAX_RUNS // 2
        statuses = json.loads(flood.communicate(b"end")[0])
        assert statuses == {"503": len(tokens) - MAX_RUNS // 2 - MAX_WAITING}
        node.file("go").touch()


def answer(word: str) -> str:
    """Return the shell command of an answer with this password."""
    document = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "cacheDuration": "10m",
        "auth": {REGISTRY: {"username": "u", "password": word}},
    }
    return f"echo '{json.dumps(document)}'"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_the_agent_does_not_listen_where_others_can_write(node: Node, mode: int) -> None:
    folder = node.root / "open"
    folder.mkdir()
    folder.chmod(mode)
    done = run_keyferry(
        *("agent", "run", "--socket", str(folder / "agent.sock")),
        *("--config", str(node.config), "--bin-dir", str(node.bin_dir)),
    )
    assert done.returncode == 3
    assert "other users can write this folder" in done.stderr
    assert not (folder / "agent.sock").exists()


@root
def test_nothing_is_sent_to_a_socket_of_another_user(node: Node) -> None:
    """A successor takes over a cache from its own user alone: whoever listens instead could plant credentials."""
    folder = node.root / "theirs"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    path = folder / "agent.sock"
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True)\n"
        "c, _ = s.accept(); c.settimeout(5); print(len(c.recv(100)))"
    )
    command = [need("setpriv"), f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    listening = subprocess.Popen(
        [*command, "/usr/bin/python3", "-I", "-c", script, str(path)], stdout=subprocess.PIPE, cwd="/"
    )
    assert listening.stdout is not None
    listening.stdout.readline()
    with pytest.raises(AgentUnavailableError, match="another user"):
        ask_for_document(str(path), "POST", "/v1/handover", only_uid=0)
    assert listening.communicate(timeout=20)[0] == b"0\n"


PREDECESSOR = """
import os, socket, sys
path, uid, body = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o666)
os.setresuid(uid, uid, uid)
listener.listen(8)
print("listening", flush=True)
while True:
    client, _ = listener.accept()
    client.settimeout(5)
    if client.recv(100000):
        head = f"HTTP/1.1 200 OK\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n"
        client.sendall(head.encode() + body)
    client.close()
"""


@root
@pytest.mark.parametrize("uid", [0, STRANGER])
def test_a_successor_takes_nothing_from_another_users_process(node: Node, uid: int) -> None:
    """Whoever listens in the agent's place could plant credentials in the cache of the next one."""
    with running_agent(node) as agent:
        agent.look_up(IMAGE)
        cached = agent.ask("POST", "/v1/handover").body.decode().replace("own-word", "planted-word")
    Path(agent.socket).unlink()
    listening = subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", PREDECESSOR, agent.socket, str(uid), cached], stdout=subprocess.PIPE
    )
    try:
        assert listening.stdout is not None
        assert listening.stdout.readline() == b"listening\n"
        with running_agent(node) as successor:
            found = successor.look_up(IMAGE).body.decode()
        assert ("planted-word" in found, "own-word" in found) == (uid == 0, uid != 0)
    finally:
        listening.kill()
        listening.communicate()


LISTENER = """
import select, socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen(64)
print("listening", flush=True)
got = 0
while listener in select.select([listener, sys.stdin], [], [])[0]:
    client, _ = listener.accept(); client.settimeout(5); got += len(client.recv(100000)); client.close()
print(got)
"""


@root
@pytest.mark.parametrize("whose", ["folder", "socket"])
def test_clients_send_nothing_to_a_socket_that_another_user_put_there(node: Node, whose: str) -> None:
    """Shims and docker's helper do the work themselves: neither a token nor an image's name gets out."""
    folder = node.root / "theirs"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    path = folder / "agent.sock"
    as_user = [need("setpriv"), f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    listening = subprocess.Popen(
        [*as_user, "/usr/bin/python3", "-I", "-c", LISTENER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
    )
    assert listening.stdout is not None
    assert listening.stdout.readline() == b"listening\n"
    if whose == "socket":
        os.chown(folder, 0, 0)
    folder.chmod(0o755)
    environ = {"KEYFERRY_AGENT": str(path)}
    question = request(IMAGE, serviceAccountToken=make_token(time.time() + 600))
    for kind in ("python", "native"):
        (node.root / kind).mkdir()
        place = Place(node.root / kind, build(kind, node.root / kind), PLUGIN)
        assert place.run(question, env=environ).stdout == b"the plugin answers\n"
    helper = [sys.executable, "-c", "from keyferry.bridge.docker_helper import main; main()", "get"]
    own = {"KEYFERRY_CONFIG": str(node.config), "KEYFERRY_BIN_DIR": str(node.bin_dir)}
    done = subprocess.run(
        helper, input=IMAGE.encode(), env=os.environ | environ | own, capture_output=True, check=False
    )
    assert json.loads(done.stdout)["Secret"] == "own-word"
    assert listening.communicate(timeout=30)[0] == b"0\n"


@root
def test_root_of_a_pod_is_root_of_the_node_and_the_page_says_so(agent: RunningAgent) -> None:
    """Through a mounted folder, in namespaces of its own for mounts, processes and the network: not defended."""
    script = f"""
mkdir /mnt/keyferry 2>/dev/null; mount -t tmpfs none /mnt && mkdir /mnt/agent
mount --bind {os.path.dirname(agent.socket)} /mnt/agent && exec "$@"
"""
    client = ["/usr/bin/python3", "-I", "-c", CLIENT, "/mnt/agent/agent.sock", "GET", "/v1/status", ""]
    pod = [need("unshare"), "--mount", "--pid", "--fork", "--net", "sh", "-c", script, "sh", *client]
    done = subprocess.run(pod, capture_output=True, check=True)
    assert done.stdout.startswith(b"HTTP/1.1 200 ")
    page = (Path(__file__).parents[2] / "docs" / "agent.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if "root in a pod that mounts the socket's folder" in line]
    assert "Not defended" in row


@root
@pytest.mark.parametrize("becomes", ["a pipe", "a socket", "a folder", "a loop", "nothing", "endless"])
def test_a_config_that_becomes_something_else_is_refused_and_the_old_one_stays(
    agent: RunningAgent, becomes: str
) -> None:
    """No reload waits for it without end, requests are answered meanwhile, and the next config is loaded."""
    node = agent.node
    good = node.config.read_text()
    node.config.unlink()
    if becomes == "a pipe":
        os.mkfifo(node.config)
    elif becomes == "a socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(node.config))
    elif becomes == "a folder":
        node.config.mkdir()
    elif becomes == "a loop":
        node.config.symlink_to(node.config.name)
    elif becomes == "endless":
        node.config.symlink_to("/dev/zero")
    assert agent.ask("POST", "/v1/reload").status == 422
    assert agent.look_up(IMAGE).status == 200
    assert agent.status["reload"]["applied"] is False
    if node.config.is_dir() and not node.config.is_symlink():
        node.config.rmdir()
    else:
        node.config.unlink(missing_ok=True)
    node.config.write_text(good)
    assert agent.ask("POST", "/v1/reload").status == 200


def test_a_thousand_clients_with_half_a_request_shut_nobody_out(agent: RunningAgent) -> None:
    script = (
        "import resource, socket, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (2_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "kept = []\n"
        "parts = b'POST /v1/lookup HTTP/1.1\\r\\ncontent-length: 9\\r\\n\\r\\n{', b'GET /v1/st', b''\n"
        "for number in range(1_000):\n"
        "    client = socket.socket(socket.AF_UNIX); client.connect(sys.argv[1]); kept.append(client)\n"
        "    try:\n"
        "        client.sendall(parts[number % 3])\n"
        "    except OSError:\n"
        "        pass\n"
        "print('all', flush=True)\n"
        "sys.stdin.read()\n"
    )
    silent = subprocess.Popen(
        [sys.executable, "-c", script, agent.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert silent.stdout is not None
    assert silent.stdout.readline() == b"all\n"
    for _ in range(50):
        assert agent.look_up(IMAGE).status == 200
    connections = agent.status["connections"]
    assert connections["open"] <= connections["most"] // 2
    silent.communicate()


def connect(agent: RunningAgent) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(agent.socket)
    return client


def read_all(client: socket.socket) -> bytes:
    """Read until the agent closes the connection."""
    data = b""
    try:
        while piece := client.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    client.close()
    return data


def test_slow_and_silent_clients_are_cut_off(node: Node) -> None:
    """Ten seconds for a head, a body and reading a reply, here one; whoever sends now and then gets no more."""
    assert STEP_SECONDS <= 10
    with running_agent(node, step_seconds=1.0) as agent:
        silent, trickle, half, empty = connect(agent), connect(agent), connect(agent), connect(agent)
        half.sendall(b"POST /v1/lookup HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
        deaf = connect(agent)
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                deaf.send(b"GET /v1/status HTTP/1.1\r\n\r\n")
        trickle.sendall(b"GET /v1/health HTTP/1.1\r\n")
        opened = {silent, trickle, half, empty}

        def are_cut_off() -> bool:
            time.sleep(0.2)  # so seldom that what is sent stays far below the size of a head
            with contextlib.suppress(OSError):
                empty.send(b"\r\n")
                trickle.send(b"x: y\r\n")
            opened.difference_update([each for each in opened if is_closed(each)])
            return not opened

        wait_until(are_cut_off, "slow clients to be cut off")
        wait_until(lambda: agent.status["connections"]["open"] == 1, "the deaf client to be dropped")
        for each in (silent, trickle, half, empty, deaf):
            each.close()


def is_closed(client: socket.socket) -> bool:
    """Whether the agent has closed a connection."""
    client.setblocking(False)
    try:
        return not client.recv(1024)
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 10_000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 17_000 + b"\r\n\r\nGET / HTTP/1.1\r\n\r\n", 431),
        (b"GET /v1/health HTTP/1.0\r\n\r\n", 400),
        (b"GET /v1/health HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", 400),
        (b"GET /v1/health\r\n\r\n", 400),
        (b"POST /v1/lookup HTTP/1.1\r\ncontent-length: 262145\r\n\r\n", 413),
        (b"POST /v1/lookup HTTP/1.1\r\ncontent-length: 262145 \r\n\r\n", 413),
        (b"POST /v1/lookup HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n", 400),
        (b"POST /v1/lookup HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /v1/lookup HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET /v1/health HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", 400),
        (b"GET /v1/health HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (b"GET /v1/../v1/status HTTP/1.1\r\nconnection: close\r\n\r\n", 404),
        (b"GET /v1/%73tatus HTTP/1.1\r\nconnection: close\r\n\r\n", 404),
        (b"GET http://other/v1/status HTTP/1.1\r\nconnection: close\r\n\r\n", 404),
    ],
)
def test_malformed_and_endless_requests_are_refused(agent: RunningAgent, sent: bytes, status: int) -> None:
    """And the agent goes on."""
    client = connect(agent)
    try:
        client.sendall(sent)
    except BrokenPipeError:
        pass
    found = read_all(client)
    # A client that is still sending when it is refused may see a reset in place of the reply.
    assert found.startswith(b"HTTP/1.1 %d " % status) or (not found and len(sent) > 60_000)
    assert agent.look_up(IMAGE).status == 200


def test_an_endless_body_in_chunks_is_refused(agent: RunningAgent) -> None:
    client = connect(agent)
    client.sendall(b"POST /v1/lookup HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
    sent = 0
    try:
        while sent < 50_000_000:
            client.sendall(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            sent += 10_000
    except OSError:
        pass
    client.close()
    assert sent < 5_000_000
    assert agent.look_up(IMAGE).status == 200


def test_requests_on_one_connection_are_answered_in_order(node: Node) -> None:
    """Also if the first one has to wait for a plugin, and the others do not."""
    node.recording("Global", before="sleep 0.5")
    with running_agent(node) as agent:
        client = connect(agent)
        body = json.dumps({"image": IMAGE}).encode()
        first = b"POST /v1/lookup HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        client.sendall(first + b"GET /v1/health HTTP/1.1\r\n\r\n" * 30)
        client.sendall(b"GET /v1/ready HTTP/1.1\r\nconnection: close\r\n\r\n")
        found = read_all(client)
        kinds = [part.split(b'"')[0] for part in found.split(b'dev/v1","kind":"')[1:]]
        assert kinds == [b"LookupResponse", *[b"Health"] * 31]


def test_ten_thousand_idle_connections_shut_nobody_out(agent: RunningAgent) -> None:
    """New clients take the place of silent ones, in bounded memory."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert hard >= 11_000
    script = (
        "import resource, socket, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (11_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "kept = []\n"
        "for _ in range(10_000):\n"
        "    client = socket.socket(socket.AF_UNIX); client.connect(sys.argv[1]); kept.append(client)\n"
        "print('all', flush=True)\n"
        "sys.stdin.read()\n"
    )
    idle = subprocess.Popen(
        [sys.executable, "-c", script, agent.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    served = 0
    while served < 50:
        assert agent.look_up(IMAGE).status == 200
        served += 1
    assert idle.stdout is not None
    assert idle.stdout.readline() == b"all\n"
    assert agent.look_up(IMAGE).status == 200
    connections = agent.status["connections"]
    assert connections["open"] <= connections["most"] // 2
    assert connections["displaced"] > 9000
    idle.communicate()
    memory = Path(f"/proc/{agent.process.pid}/smaps_rollup").read_text()
    used = int(next(line for line in memory.splitlines() if line.startswith("Pss:")).split()[1])
    assert used < 60 * 1024


def test_what_a_client_sends_cannot_forge_a_line_of_the_log(node: Node) -> None:
    with running_agent(node, "--log-level", "debug") as agent:
        client = connect(agent)
        client.sendall(
            b"GET /v1/\x1b[2Jhealth HTTP/1.1\r\ntraceparent: a\x1b]0;x b=c\r\nconnection: close\r\n\r\n"
        )
        read_all(client)
        assert agent.ask("GET", "/v1/health").status == 200
        assert "\x1b" not in agent.log


BURST = """
import socket, sys
request = f"GET {sys.argv[2]} HTTP/1.1\\r\\n\\r\\n".encode()
clients = [socket.socket(socket.AF_UNIX) for _ in range(30)]
for client in clients:
    client.connect(sys.argv[1])
    client.sendall(request * (60_000 // len(request)))
"""
DEAF = """
import socket, sys, time
clients = [socket.socket(socket.AF_UNIX) for _ in range(8)]
for client in clients:
    client.connect(sys.argv[1])
    client.setblocking(False)
# So many that the kernel does not take all replies, and few at a time: an agent may refuse more at once.
for _ in range(100):
    for client in clients:
        try:
            client.send(b"GET /v1/health HTTP/1.1\\r\\n\\r\\n" * 50)
        except OSError:
            pass
    time.sleep(0.01)
print("all", flush=True)
sys.stdin.read()
"""


def run_as(uid: int, script: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a script as another user."""
    as_user = [need("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    # The system's own interpreter, which every user can run.
    command = [*as_user, "/usr/bin/python3", "-I", "-c", script, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")


@root
@pytest.mark.parametrize("path", ["/v1/status", "/v1/other"])
def test_a_burst_of_a_user_who_leaves_costs_one_request_of_each_connection(
    agent: RunningAgent, path: str
) -> None:
    """Not the thousands that have arrived; and the log has no lines beside its own."""
    # It is busy until they have left.
    agent.process.send_signal(signal.SIGSTOP)
    burst = run_as(STRANGER, BURST, agent.socket, path)
    burst.communicate(timeout=60)
    agent.process.send_signal(signal.SIGCONT)
    assert burst.returncode == 0
    assert agent.look_up(IMAGE).status == 200
    [requests] = [each["requests"] for each in agent.status["callers"] if each["uid"] == STRANGER]
    assert 0 < requests <= 30
    assert "socket.send()" not in agent.log


@root
def test_the_body_of_a_user_whom_no_rule_names_is_not_waited_for(agent: RunningAgent) -> None:
    """Nor a body in chunks; what needs no right is answered without it."""
    script = """
import socket, sys
for head in (
    b"POST /v1/lookup HTTP/1.1\\r\\ncontent-length: 250000\\r\\n\\r\\n",
    b"POST /v1/lookup HTTP/1.1\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n",
    b"GET /v1/health HTTP/1.1\\r\\ncontent-length: 9\\r\\nexpect: 100-continue\\r\\n\\r\\n",
    b"POST /v1/other HTTP/1.1\\r\\nconnection: close\\r\\n\\r\\n",
):
    client = socket.socket(socket.AF_UNIX); client.settimeout(5); client.connect(sys.argv[1])
    client.sendall(head)
    print(b"".join(iter(lambda: client.recv(65536), b"")).split()[1].decode())
"""
    assert run_as(STRANGER, script, agent.socket).communicate(timeout=60)[0].split() == [
        b"403",
        b"403",
        b"200",
        b"403",
    ]
    assert "may not use the agent: no rule names it" in agent.log


@root
def test_two_users_who_do_not_read_their_replies_shut_nobody_out(node: Node) -> None:
    (node.root / "agent.yaml").write_text(HEAD + RULES + "connections: 16\n")
    with running_agent(node, "--agent-config", str(node.root / "agent.yaml")) as agent:
        floods = [run_as(uid, DEAF, agent.socket) for uid in (STRANGER, STRANGER + 1)]
        for each in floods:
            assert each.stdout is not None
            assert each.stdout.readline() == b"all\n"
        for _ in range(20):
            assert agent.look_up(IMAGE).status == 200
        assert agent.status["connections"]["displaced"] > 0
        for each in floods:
            each.communicate()


def test_names_that_are_longer_than_any_are_refused_and_not_quoted(agent: RunningAgent) -> None:
    """Of what is refused for another reason, 255 characters."""
    for name in ("a" * 250_000, "a/" * 125_000, "a." * 600 + "example/app"):
        reply = agent.look_up(name)
        assert (reply.status, reply.document["message"]) == (400, "image: expected at most 1024 characters")
        assert agent.ask("POST", "/v1/lookup", {"registry": name}).status == 400
    assert len(agent.log) < 10_000


@root
def test_a_long_name_is_cut_where_it_is_quoted(agent: RunningAgent) -> None:
    host = "a." * 300 + "example"
    status, body = ask_as(agent, ALLOWED, "POST", "/v1/lookup", {"image": f"{host}/app"})
    assert status == 403
    for text in (body, agent.log):
        assert host[:252] + "..." in text
        assert host[:253] not in text
