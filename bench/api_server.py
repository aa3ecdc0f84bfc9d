"""A TLS server that requires a bearer token, for the cluster benchmarks; below ``/clusters/N`` it has N pods.

It prints its port and answers until its standard input is closed.
"""

from __future__ import annotations

import argparse
import os
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.pod_pages import answer

_BODY = (
    b'{"major":"1","minor":"36","gitVersion":"v1.36.0","gitCommit":"0","gitTreeState":"clean",'
    b'"buildDate":"2026-01-01T00:00:00Z","goVersion":"go1.26","compiler":"gc","platform":"linux/amd64"}'
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    token = ""

    def do_GET(self) -> None:
        status, body = answer(self.path) or (200, _BODY)
        if self.headers.get("Authorization") != f"Bearer {self.token}":
            status, body = 401, b'{"kind":"Status","code":401}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("certificate", "key", "token"):
        parser.add_argument(name)
    args = parser.parse_args()
    _Handler.token = args.token
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.certificate, args.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
