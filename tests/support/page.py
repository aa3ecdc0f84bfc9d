"""A client of the agent's page that does what a browser does, and what a browser would not do."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import unescape
from http.client import HTTPConnection, HTTPResponse

from support.agents import Agent, Reply
from support.plugins import IMAGE, PATIENCE_SECONDS

# Every kind of view, with an image and a service account to explain.
VIEWS = (
    *("/", "/providers", "/providers/plugin", "/answers", "/decisions", "/reloads", "/callers", "/settings"),
    *("/explain", f"/explain?image={IMAGE}", f"/explain?image={IMAGE}&account=ns/builder"),
    "/explain?image=elsewhere.example/app",
)


class PageClient:
    """Speaks to the page at an address, with a cookie if it has one."""

    def __init__(self, host: str, cookie: str = "") -> None:
        self.host = host
        self.cookie = cookie

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        """Send one request; the names of headers have an underscore for each hyphen."""
        connection = HTTPConnection(self.host, timeout=PATIENCE_SECONDS)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            given = {"Host": self.host} | ({"Cookie": self.cookie} if self.cookie else {})
            given |= {name.replace("_", "-"): value for name, value in headers.items()}
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def text(self, path: str) -> str:
        """Return a view, which is there."""
        reply = self.ask(path)
        assert reply.status == 200, (path, reply.status)
        return reply.body.decode()

    @contextmanager
    def follow(self, view: str = "/") -> Iterator[Iterator[tuple[str, dict[str, str]]]]:
        """Yield the events of a stream: their names and data. When it ends, the page has forgotten this client."""
        connection = HTTPConnection(self.host, timeout=PATIENCE_SECONDS)
        connection.connect()
        client = connection.sock
        try:
            target = "/events?view=" + view.replace("?", "%3F").replace("&", "%26").replace("=", "%3D")
            connection.request("GET", target, headers={"Cookie": self.cookie})
            response = connection.getresponse()
            assert (response.status, response.headers["content-type"]) == (200, "text/event-stream")
            with response:
                yield _events(response)
                if not response.isclosed():
                    leave(client)
        finally:
            connection.close()


def leave(client: socket.socket) -> None:
    """Say that no more is sent, as a browser that closes a tab does, and wait until the page has closed as well."""
    with suppress(OSError):  # the page was quicker
        client.shutdown(socket.SHUT_WR)
    until = time.monotonic() + PATIENCE_SECONDS
    with suppress(ConnectionError):
        while client.recv(65536):
            assert time.monotonic() < until, "the page keeps the stream of a client that has gone"


def _events(response: HTTPResponse) -> Iterator[tuple[str, dict[str, str]]]:
    name = ""
    while line := response.readline():
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


def shown_text(html: bytes) -> str:
    """Return the text of a document, without its elements."""
    return unescape(re.sub(r"<[^>]*>", "", html.decode()))


def page_host(agent: Agent) -> str:
    """Return the address of an agent's page, without a slash."""
    return str(agent.status["page"]).removeprefix("http://").rstrip("/")


def make_link(agent: Agent) -> str:
    """Return the path of a new link."""
    url = str(agent.ask("POST", "/v1/page").document["url"])
    return url.removeprefix(f"http://{page_host(agent)}")


def log_in(agent: Agent) -> PageClient:
    """Return a client that has opened a link."""
    client = PageClient(page_host(agent))
    opened = client.ask(make_link(agent))
    assert (opened.status, opened.headers["location"]) == (303, "/")
    client.cookie = opened.headers["set-cookie"].partition(";")[0]
    return client


def connect(client: PageClient) -> socket.socket:
    """Return a bare connection."""
    host, _, port = client.host.rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_SECONDS)
