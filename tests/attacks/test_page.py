"""Hostile neighbours of the agent's page: users without a link, web pages, texts that others write, slow clients."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from keyferry.agent.page.access import SECURITY_HEADERS
from support.agents import RunningAgent, counting_node, make_token, running_agent
from support.page import VIEWS, PageClient, connect, leave, log_in, make_link, page_host, shown_text
from support.parts import need, root
from support.plugins import (
    IMAGE,
    PLUGIN,
    REGISTRY,
    Node,
    print_answer,
    provider_entry,
    wait_until,
    write_config,
)

MANAGER, STRANGER = 12_003, 12_004
HEAD = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"
MANAGE = f"socketMode: '0666'\nmanage:\n- uids: [{MANAGER}]\n"
PASSWORD, USERNAME, PRINTED, LATER, VARIABLE, ARGUMENT = (
    "word-of-the-answer",
    "name-of-the-answer",
    "word-on-stderr",
    "word-on-the-next-line",
    "Xq7-vB2m-9Lr4-Tz8k",
    "Kd5-pW3n-6Hs1-Jf0c",
)
ATTACK = "<script>alert(1)</script>"
FETCH = """
import http.client, sys
host, cookie, path = sys.argv[1:]
connection = http.client.HTTPConnection(host, timeout=20)
connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
response = connection.getresponse()
sys.stdout.write(str(response.status) + " " + (response.getheader("set-cookie") or "").partition(";")[0])
"""
ASK_FOR_A_LINK = """
import json, socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(b"POST /v1/page HTTP/1.1\\r\\nconnection: close\\r\\n\\r\\n")
answer = b"".join(iter(lambda: client.recv(65536), b""))
document = json.loads(answer.partition(b"\\r\\n\\r\\n")[2])
print(document.get("url") or document["reason"])
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node in a folder that every user can enter, with a plugin that tells secrets in every way it can."""
    folder = Path(tempfile.mkdtemp(prefix="page-", dir="/tmp"))
    folder.chmod(0o755)
    made = Node(folder)
    answer = print_answer("Image", auth={REGISTRY: (USERNAME, PASSWORD)})
    made.shell(
        f"read -r request; case $request in *failing*) echo {PRINTED} $REGISTRY_PASSWORD >&2; "
        f"echo {LATER} >&2; exit 3;; *) {answer};; esac"
    )
    env = [{"name": "REGISTRY_PASSWORD", "value": VARIABLE}]
    accounts = {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "ServiceAccount",
        "requireServiceAccount": False,
    }
    arguments = ["--region", "eu-west-1", "--secret", ARGUMENT]
    write_config(made.config, [provider_entry(env=env, args=arguments, tokenAttributes=accounts)])
    (folder / "agent.yaml").write_text(HEAD + MANAGE)
    yield made
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def agent(node: Node) -> Iterator[RunningAgent]:
    """An agent with a page, which one more user may manage."""
    with running_agent(
        node, "--page", "127.0.0.1:0", "--agent-config", str(node.root / "agent.yaml")
    ) as running:
        yield running


@pytest.fixture(scope="module")
def client(agent: RunningAgent) -> PageClient:
    """A browser that has opened a link."""
    return log_in(agent)


@pytest.fixture(scope="module")
def stranger(agent: RunningAgent) -> PageClient:
    """A browser without a cookie."""
    return PageClient(page_host(agent))


def run_as(uid: int, script: str, *words: str) -> str:
    """Run a script of Python as another user; return what it prints."""
    as_user = [need("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    # The system's own interpreter, which every user can run.
    command = [*as_user, "/usr/bin/python3", "-I", "-c", script, *words]
    done = subprocess.run(command, capture_output=True, check=True, cwd="/", timeout=60, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("view", [*VIEWS, "/events?view=/", "/nothing", "//", "/login", "/login?key="])
def test_without_a_cookie_nothing_is_shown(stranger: PageClient, view: str) -> None:
    for cookie in ("", "keyferry-page=x", f"keyferry-page-{stranger.host.rpartition(':')[2]}=" + "A" * 43):
        reply = PageClient(stranger.host, cookie).ask(view)
        assert reply.status == (403 if view.startswith("/login") else 401)
        assert "keyferry agent page --socket /" in shown_text(reply.body)
        assert b"plugin" not in reply.body


def test_a_link_works_once_and_says_so(agent: RunningAgent, stranger: PageClient) -> None:
    link = make_link(agent)
    assert stranger.ask(link).status == 303
    again = stranger.ask(link)
    assert again.status == 403
    assert b"used before" in again.body
    assert "set-cookie" not in again.headers
    wrong = stranger.ask(link[:-1])
    assert (wrong.status, b"did not make this link" in wrong.body) == (403, True)


def test_the_cookie_is_for_the_browser_alone(agent: RunningAgent, stranger: PageClient) -> None:
    cookie = stranger.ask(make_link(agent)).headers["set-cookie"]
    parts = {part.strip() for part in cookie.split(";")[1:]}
    assert parts == {"Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict"}
    assert f"keyferry-page-{stranger.host.rpartition(':')[2]}=" in cookie


def test_the_cookie_of_another_agent_opens_nothing(client: PageClient, tmp_path: Path) -> None:
    other = Node(tmp_path)
    other.recording()
    with running_agent(other, "--page", "127.0.0.1:0") as second:
        host = page_host(second)
        value = client.cookie.partition("=")[2]
        stolen = PageClient(host, f"keyferry-page-{host.rpartition(':')[2]}={value}")
        assert stolen.ask("/").status == 401


def test_a_name_that_was_turned_to_this_address_gets_nothing(client: PageClient) -> None:
    """The browser sends a cookie to its name alone; even with one, the host is not ours."""
    port = client.host.rpartition(":")[2]
    for host in (
        f"evil.example:{port}",
        f"127.0.0.1.evil.example:{port}",
        "127.0.0.1",
        f"[::1]:{port}",
        "x" * 3000,
    ):
        for path in ("/", "/login", "/static/page.css", "/events"):
            reply = client.ask(path, Host=host, Origin=f"http://{host}")
            assert (reply.status, b"plugin" in reply.body) == (421, False)
            assert b"evil" not in reply.body


def test_requests_of_other_pages_are_refused(client: PageClient) -> None:
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{int(client.host.rpartition(':')[2]) - 1}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        assert client.ask("/", **headers).status == 403
        assert client.ask("/events", **headers).status == 403
    assert client.ask("/", Origin=f"http://{client.host}", Sec_Fetch_Site="same-origin").status == 200


def test_a_link_that_another_page_opens_is_not_spent(agent: RunningAgent, stranger: PageClient) -> None:
    link = make_link(agent)
    assert stranger.ask(link, Sec_Fetch_Site="cross-site").status == 403
    assert stranger.ask(link, Sec_Fetch_Site="none").status == 303


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_the_page_is_only_read(client: PageClient, method: str) -> None:
    target = client.host if method == "CONNECT" else "/"
    assert client.ask(target, method).status in (400, 405)


def test_the_protocol_of_the_socket_is_not_spoken_here(client: PageClient) -> None:
    for path in ("/v1/status", "/v1/lookup", "/v1/page", "/metrics", "/v1/handover"):
        assert client.ask(path).status == 404
        assert client.ask(path, "POST").status == 405


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../model.py",
            "..%2fmodel.py",
            "%2e%2e/model.py",
            "....//model.py",
            "/etc/passwd",
            "%2fetc%2fpasswd",
        ),
        *("page.css/", "page.css%00", "page.css\\..\\x", ".", "", "render.py", "../../../../etc/passwd"),
    ],
)
def test_no_file_is_reached_but_those_of_the_page(client: PageClient, name: str) -> None:
    reply = client.ask(f"/static/{name}")
    assert reply.status == 404
    assert b"import" not in reply.body
    assert b"root:" not in reply.body


class Elements(HTMLParser):
    """The elements of a document, and the attributes that could run code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.handlers: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what runs."""
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "object", "embed", "base"):
            self.scripts.append(str(given.get("src")))
        self.handlers += [name for name in given if name.startswith("on") or name == "style"]
        self.handlers += [str(link) for name, link in attrs if name in ("href", "src") and ":" in str(link)]


def test_texts_of_others_are_text_on_the_page(agent: RunningAgent, client: PageClient, node: Node) -> None:
    """Image names, accounts, annotations, plugin names, problems of a config, and what is asked for by its address."""
    good = node.config.read_text()
    token = make_token(time.time() + 600)
    account = {"namespace": ATTACK, "name": '"><img src=x onerror=alert(1)>', "uid": ATTACK}
    agent.look_up(
        IMAGE, serviceAccountToken=token, serviceAccount=account, serviceAccountAnnotations={ATTACK: ATTACK}
    )
    agent.look_up(f"{REGISTRY}/app:{'<b>'}")
    agent.look_up(IMAGE, provider=ATTACK)
    agent.ask("POST", "/v1/lookup", {"registry": ATTACK})
    entry = provider_entry(
        "<b>onload", matchImages=["registry.example/<script>alert(1)</script>", "a.example"]
    )
    node.shell("exit 1", "<b>onload")
    node.config.write_text(
        json.dumps(json.loads(good) | {"providers": [*json.loads(good)["providers"], entry]})
    )
    assert agent.ask("POST", "/v1/reload").status == 200
    agent.look_up("a.example/app")
    node.config.write_text(json.dumps({"apiVersion": ATTACK, "kind": ATTACK, ATTACK: 1}))
    agent.ask("POST", "/v1/reload")
    try:
        views = [client.text(view) for view in VIEWS]
        for place in ("image", "account"):
            quoted = f"/explain?image=a.example&{place}=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
            views.append(client.text(quoted))
        views += [
            client.ask(f"/{ATTACK}".replace(" ", "%20")).body.decode(),
            client.ask("/login?key=<b>").body.decode(),
        ]
        with client.follow("/") as events:
            views += next(events)[1].values()
    finally:
        node.config.write_text(good)
        assert agent.ask("POST", "/v1/reload").status == 200
    for text in ("&lt;script&gt;", "&lt;b&gt;onload"):
        assert any(text in view for view in views)
    for view in views:
        found = Elements(view)
        assert all(source.startswith("/static/") for source in found.scripts)
        assert found.handlers == []
        assert "<script>alert" not in view
        assert "<b>" not in view


def test_no_secret_is_on_any_view_or_in_any_event(agent: RunningAgent, client: PageClient) -> None:
    """Of an answer, of a token, of the environment, of arguments; nor what stands for one of them.

    Of what a plugin that failed printed there is the first line, with secrets masked, as in the status.
    """
    token = make_token(time.time() + 600)
    account = {"namespace": "ns", "name": "builder", "uid": "u"}
    agent.look_up(IMAGE)
    agent.look_up(
        IMAGE,
        serviceAccountToken=token,
        serviceAccount=account,
        serviceAccountAnnotations={"a": "note-word"},
    )
    agent.look_up(f"{REGISTRY}/failing")
    agent.look_up(f"{REGISTRY}/failing", provider=PLUGIN)
    views = [client.text(view) for view in (*VIEWS, f"/explain?image={REGISTRY}/failing")]
    with client.follow("/") as events:
        views += next(events)[1].values()
    everything = "\n".join(views)
    assert "exited with status 3" in everything
    assert "ns/builder" in everything
    assert f"{PRINTED} ********" in everything
    assert "<bdi>--region</bdi>" in everything
    assert "<bdi>REGISTRY_PASSWORD</bdi>" in everything
    assert f"{PRINTED} ********" in json.dumps(agent.status)
    config_hash = str(agent.status["config"]["hash"])
    for secret in (
        PASSWORD,
        USERNAME,
        LATER,
        VARIABLE,
        ARGUMENT,
        token,
        token.split(".")[2],
        "note-word",
        config_hash,
    ):
        assert secret not in everything
    assert client.cookie.partition("=")[2] not in everything + agent.log


@root
def test_another_user_gets_nothing_with_or_without_what_is_ours(
    agent: RunningAgent, client: PageClient
) -> None:
    """Neither by the port alone, nor with a cookie that a browser sent to another port of this machine."""
    assert run_as(STRANGER, FETCH, client.host, "", "/") == "401"
    assert run_as(STRANGER, FETCH, client.host, client.cookie, "/") == "401"
    assert run_as(STRANGER, FETCH, client.host, client.cookie, "/events?view=/") == "401"
    assert run_as(STRANGER, ASK_FOR_A_LINK, agent.socket) == "Forbidden"
    assert client.ask("/").status == 200


@root
def test_the_link_of_a_user_is_for_this_user_and_ends_with_its_right(agent: RunningAgent, node: Node) -> None:
    host = page_host(agent)
    link = run_as(MANAGER, ASK_FOR_A_LINK, agent.socket).removeprefix(f"http://{host}")
    assert run_as(STRANGER, FETCH, host, "", link) == "403"
    status, _, cookie = run_as(MANAGER, FETCH, host, "", link).partition(" ")
    assert status == "303"
    assert run_as(MANAGER, FETCH, host, cookie, "/") == "200"
    (node.root / "agent.yaml").write_text(HEAD + "socketMode: '0666'\n")
    try:
        assert agent.ask("POST", "/v1/reload").status == 200
        assert run_as(MANAGER, FETCH, host, cookie, "/") == "401"
    finally:
        (node.root / "agent.yaml").write_text(HEAD + MANAGE)
        assert agent.ask("POST", "/v1/reload").status == 200
    assert run_as(MANAGER, FETCH, host, cookie, "/") == "200"


def test_those_who_follow_are_bounded(client: PageClient) -> None:
    target = f"GET /events?view=/ HTTP/1.1\r\nhost: {client.host}\r\ncookie: {client.cookie}\r\n\r\n".encode()
    followers = [connect(client) for _ in range(33)]
    try:
        for each in followers:
            each.sendall(target)
            each.settimeout(20)
        firsts = [each.recv(12) for each in followers]
        assert sorted(firsts) == [b"HTTP/1.1 200"] * 32 + [b"HTTP/1.1 503"]
        assert client.ask("/events", "HEAD").status == 503
        leave(followers[firsts.index(b"HTTP/1.1 200")])
        assert client.ask("/events", "HEAD").status == 200
    finally:
        for each in followers:
            leave(each)
            each.close()


def test_slow_silent_and_many_clients_disturb_neither_the_page_nor_lookups(
    tmp_path: Path,
) -> None:
    """They are cut off when their time is over; more than there is room for take each other's place."""
    node = counting_node(tmp_path, PASSWORD)
    with running_agent(node, "--page", "127.0.0.1:0", step_seconds=1.0) as agent:
        client = log_in(agent)
        silent = [connect(client) for _ in range(300)]
        trickle, deaf = connect(client), connect(client)
        trickle.sendall(b"GET / HTTP/1.1\r\n")
        deaf.setblocking(False)
        ask = f"GET /settings HTTP/1.1\r\nhost: {client.host}\r\ncookie: {client.cookie}\r\n\r\n".encode()
        try:
            for _ in range(20_000):
                deaf.send(ask)
        except (BlockingIOError, ConnectionResetError, BrokenPipeError):
            pass
        assert client.ask("/").status == 200
        assert agent.look_up(IMAGE).status == 200
        wait_until(lambda: all(map(is_closed, (*silent, trickle))), "silent clients to be closed")
        for each in (*silent, trickle, deaf):
            each.close()


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nhost: HOST\r\nhost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nhost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\ncookie: " + b"a=b; " * 5000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /%00%ff%fe?%ff=%ff&image=%ff HTTP/1.1\r\nhost: HOST\r\n\r\n",
    ],
)
def test_odd_requests_are_refused(stranger: PageClient, sent: bytes) -> None:
    with connect(stranger) as connection:
        connection.sendall(sent.replace(b"HOST", stranger.host.encode()))
        assert connection.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 401", b"HTTP/1.1 421", b"HTTP/1.1 431")


def test_odd_addresses_are_no_error(client: PageClient) -> None:
    """With a cookie, so that they are looked at."""
    for path in (
        "/%00%ff%fe?%ff=%ff",
        "/explain?image=%ff%00",
        "/providers/%2e%2e%2f",
        "/answers/-1",
        "/decisions/x",
    ):
        assert client.ask(path).status in (200, 404)
    with pytest.raises(http.client.InvalidURL):
        client.ask("/a b")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nhost: HOST\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: HOST\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: HOST\r\ncontent-length: 1\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nhost: HOST\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nhost: HOST\r\nx: " + b"y" * 17_000 + b"\r\n\r\n", 431),
    ],
)
def test_what_is_refused_before_it_is_understood_has_the_headers_of_every_reply(
    stranger: PageClient, sent: bytes, status: int
) -> None:
    """A browser can be made to send it; the page takes no body at all."""
    with connect(stranger) as connection:
        connection.sendall(sent.replace(b"HOST", stranger.host.encode()))
        found = b"".join(iter(lambda: connection.recv(65536), b""))
    assert found.startswith(b"HTTP/1.1 %d " % status)
    assert SECURITY_HEADERS in found
