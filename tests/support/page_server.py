"""Serve the views of a model on loopback, with the headers and the event stream of the agent's page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from keyferry.page.model import PageModel
from keyferry.page.render import RenderedView, render_notice, render_view, static_file
from support.page_models import explanation

__all__ = ["POLICY", "PageServer", "serving"]

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class PageServer(ThreadingHTTPServer):
    """A server whose model can be replaced; whoever listens is told."""

    daemon_threads = True

    def __init__(self, model: PageModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._model = model
        self.changed = threading.Condition()
        self.is_stopping = False
        self.is_locked = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a page that is closed does not read its reply."""

    @property
    def url(self) -> str:
        """The address of the overview, without a final slash."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def model(self) -> PageModel:
        """What is shown."""
        return self._model

    @model.setter
    def model(self, model: PageModel) -> None:
        with self.changed:
            self._model = model
            self.changed.notify_all()

    def lock(self) -> None:
        """End all streams, and refuse every view from now on, as for a cookie that is no longer good."""
        with self.changed:
            self.is_locked = True
            self.changed.notify_all()

    def say_gone(self) -> None:
        """Tell whoever listens that the agent stops."""
        with self.changed:
            self.is_stopping = True
            self.changed.notify_all()

    def wait(self, shown: PageModel) -> None:
        """Wait until there is another model than the one shown, or for a second."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_stopping or self.is_locked or self._model is not shown, 1)

    def view(self, target: str) -> RenderedView | None:
        """Return the view at a path with its query."""
        address = urlsplit(target)
        query = dict(parse_qsl(address.query))
        is_asked = address.path == "/explain" and "image" in query
        explained = explanation(query["image"], query.get("account", "")) if is_asked else None
        return render_view(self._model, unquote(address.path), query, explained=explained)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if self.server.is_stopping:  # on a connection that is kept alive
            self.close_connection = True
            return
        if self.server.is_locked and not path.startswith("/static/"):
            html = render_notice("You need a link", "Type this on the node:", "keyferry agent page")
            self._reply(401, html.encode(), "text/html; charset=utf-8")
            return
        if path == "/events":
            self._stream(dict(parse_qsl(urlsplit(self.path).query))["view"])
            return
        file = static_file(path.removeprefix("/static/")) if path.startswith("/static/") else None
        if file is not None:
            self._reply(200, *file)
            return
        view = self.server.view(self.path)
        html = (
            view.html if view else render_notice("Not found", "There is no such view.", "keyferry agent page")
        )
        self._reply(200 if view else 404, html.encode(), "text/html; charset=utf-8")

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self._headers(kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _headers(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")

    def _stream(self, target: str) -> None:
        self.send_response(200)
        self._headers("text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        sent: dict[str, str] = {}
        shown: PageModel | None = None
        try:
            self.wfile.write(b"retry: 200\n\n")
            while not self.server.is_stopping and not self.server.is_locked:
                is_new, shown = self.server.model is not shown, self.server.model
                view = self.server.view(target) if is_new else None
                sections = view.sections if view else {}
                changed = {name: html for name, html in sections.items() if sent.get(name) != html}
                sent |= changed
                if changed:
                    self._send("sections", changed)
                else:
                    self.wfile.write(b": still here\n\n")
                self.server.wait(shown)
            if self.server.is_stopping:
                self._send("gone", {})
        except OSError:
            return

    def _send(self, name: str, value: object) -> None:
        self.wfile.write(f"event: {name}\ndata: {json.dumps(value)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(model: PageModel) -> Iterator[PageServer]:
    """Serve *model* until the end of the block."""
    with PageServer(model) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.say_gone()
            server.shutdown()
            thread.join()
