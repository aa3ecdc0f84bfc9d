"""A real OpenID Connect server, and a user who submits the forms of its pages."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPMessage
from http.cookiejar import CookieJar
from pathlib import Path
from typing import IO
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from support.fake_cloud import Authority
from support.parts import missing, need_part

MODULES = Path(__file__).parents[2] / ".cache" / "parts" / "oidc" / "node_modules"
PROGRAM = Path(__file__).with_name("oidc_server") / "server.mjs"
MAX_PAGES = 10


@dataclass(frozen=True)
class OidcServer:
    """A running server: its issuer URL, and the certificate authority of its certificate."""

    issuer: str
    authority: Authority

    def visit(self, url: str, user: str) -> str:
        """Act as the user: open a page, log in and approve until no form is left; return the last URL.

        A redirect to another server is not followed: its URL is returned.
        """
        context = ssl.create_default_context(cafile=str(self.authority.bundle))
        abroad = _StopAbroad(self.issuer)
        opener = build_opener(HTTPCookieProcessor(CookieJar()), HTTPSHandler(context=context), abroad)
        body: bytes | None = None
        for _ in range(MAX_PAGES):
            with opener.open(url, body) as page:
                form, url = _Form(), page.url
                form.feed(page.read().decode())
            if abroad.reached or form.action is None:
                return abroad.reached or url
            url = urljoin(url, form.action)
            body = urlencode(form.filled_in(user)).encode()
        raise AssertionError("the pages do not end")


class _StopAbroad(HTTPRedirectHandler):
    """A handler that follows redirects on one server, and records the first one to another server."""

    def __init__(self, home: str) -> None:
        self._home = home
        self.reached = ""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """Continue only on the same server."""
        if newurl.startswith(f"{self._home}/"):
            return super().redirect_request(req, fp, code, msg, headers, newurl)
        self.reached = newurl
        return Request(f"{self._home}/.well-known/openid-configuration")


class _Form(HTMLParser):
    """The first form of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self._fields: dict[str, str] = {}
        self._is_done = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a form's address and fields."""
        given = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = given.get("action") or ""
        elif (
            tag in ("input", "button") and self.action is not None and not self._is_done and given.get("name")
        ):
            self._fields[str(given["name"])] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        """Record the end of the form."""
        self._is_done = self._is_done or tag == "form"

    def filled_in(self, user: str) -> dict[str, str]:
        """Return the fields as the user submits them: logged in with any password, and never aborting."""
        login = {"login": user, "password": "any"} if "login" in self._fields else {}
        return {name: value for name, value in {**self._fields, **login}.items() if name != "abort"}


@contextmanager
def running(authority: Authority) -> Iterator[OidcServer]:
    """Yield the server for the length of a block; skip, or fail in CI, if its parts are not installed."""
    node = need_part("node/bin/node")
    if not (MODULES / "oidc-provider").is_dir():
        missing("npm's oidc-provider is not installed: run make parts")
    words = [node, str(PROGRAM), str(MODULES), str(authority.certificate("127.0.0.1"))]
    quiet = {"PATH": os.environ["PATH"], "NODE_NO_WARNINGS": "1"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=quiet, text=True
    ) as server:
        try:
            yield OidcServer(_issuer(server), authority)
        finally:
            server.kill()


def _issuer(server: subprocess.Popen[str]) -> str:
    """Return the URL that the server prints when it listens; earlier output is ignored."""
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("issuer "):
            return line.split()[1]
    raise AssertionError(f"the OpenID Connect server ended with status {server.wait()}")
